//! What a load measured, as a table or as JSON.

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::args::OutputFormat;
use super::bench_meter::Snapshot;
use super::output;

/// One row. A figure that was not measured is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What the row is called.
    pub name: String,
    /// How long was measured.
    pub seconds: f64,
    /// Bytes of record batches, in 10^6 a second.
    pub mb_per_s: f64,
    /// Requests answered a second.
    pub requests_per_s: f64,
    /// Half of the requests took no longer.
    pub p50_ms: Option<f64>,
    /// 99 of 100 took no longer.
    pub p99_ms: Option<f64>,
    /// 999 of 1000 took no longer.
    pub p999_ms: Option<f64>,
    /// The slowest.
    pub max_ms: Option<f64>,
    /// Processor seconds of the server for 10^9 bytes.
    pub server_cpu_s_per_gb: Option<f64>,
    /// Processor microseconds of the server for one request.
    pub server_cpu_us_per_request: Option<f64>,
    /// How many processors the server kept busy.
    pub server_cores: Option<f64>,
    /// Processor seconds of the load itself for 10^9 bytes.
    pub client_cpu_s_per_gb: Option<f64>,
    /// The server's resident memory at the end.
    pub server_rss_mib: Option<f64>,
    /// Requests that failed, connections that broke.
    pub errors: u64,
}

impl Report {
    /// Takes the differences between the start and the end of the measured time.
    pub fn of(
        name: &str,
        start: &Snapshot,
        end: &Snapshot,
        latencies: &Histogram<u64>,
        server_rss_mib: Option<f64>,
        errors: u64,
    ) -> Self {
        let seconds = (end.at - start.at).as_secs_f64();
        let bytes = end.record_bytes.saturating_sub(start.record_bytes) as f64;
        let requests = end.requests.saturating_sub(start.requests) as f64;
        let server = match (start.server_cpu_seconds, end.server_cpu_seconds) {
            (Some(start), Some(end)) => Some(end - start),
            _ => None,
        };
        let client = end.client_cpu_seconds - start.client_cpu_seconds;
        let ms = |ns: u64| (!latencies.is_empty()).then(|| ns as f64 / 1e6);
        Self {
            name: name.to_owned(),
            seconds,
            mb_per_s: ratio(bytes / 1e6, seconds).unwrap_or(0.0),
            requests_per_s: ratio(requests, seconds).unwrap_or(0.0),
            p50_ms: ms(latencies.value_at_quantile(0.5)),
            p99_ms: ms(latencies.value_at_quantile(0.99)),
            p999_ms: ms(latencies.value_at_quantile(0.999)),
            max_ms: ms(latencies.max()),
            server_cpu_s_per_gb: server.and_then(|cpu| ratio(cpu, bytes / 1e9)),
            server_cpu_us_per_request: server.and_then(|cpu| ratio(cpu * 1e6, requests)),
            server_cores: server.and_then(|cpu| ratio(cpu, seconds)),
            client_cpu_s_per_gb: ratio(client, bytes / 1e9),
            server_rss_mib,
            errors,
        }
    }

    /// Writes the row to standard output.
    pub fn print(&self, format: OutputFormat) {
        match format {
            OutputFormat::Json => output::print_json(&self.to_json()),
            OutputFormat::Table => {
                let columns = self.columns();
                let header: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
                let row: Vec<_> = columns.iter().map(|(_, text)| text.clone()).collect();
                let right: Vec<_> = (1..header.len()).collect();
                output::print_table(&output::table(&header, &right, [row]));
            }
        }
    }

    /// The row as one JSON object; what was not measured is null.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "seconds": rounded(self.seconds),
            "mb_per_s": rounded(self.mb_per_s),
            "requests_per_s": rounded(self.requests_per_s),
            "p50_ms": self.p50_ms.map(rounded),
            "p99_ms": self.p99_ms.map(rounded),
            "p999_ms": self.p999_ms.map(rounded),
            "max_ms": self.max_ms.map(rounded),
            "server_cpu_s_per_gb": self.server_cpu_s_per_gb.map(rounded),
            "server_cpu_us_per_request": self.server_cpu_us_per_request.map(rounded),
            "server_cores": self.server_cores.map(rounded),
            "client_cpu_s_per_gb": self.client_cpu_s_per_gb.map(rounded),
            "server_rss_mib": self.server_rss_mib.map(rounded),
            "errors": self.errors,
        })
    }

    fn columns(&self) -> Vec<(&'static str, String)> {
        let fixed = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        vec![
            ("NAME", self.name.clone()),
            ("SECONDS", fixed(Some(self.seconds), 1)),
            ("MB/S", fixed(Some(self.mb_per_s), 1)),
            ("REQUESTS/S", fixed(Some(self.requests_per_s), 0)),
            ("P50 MS", fixed(self.p50_ms, 3)),
            ("P99 MS", fixed(self.p99_ms, 3)),
            ("P99.9 MS", fixed(self.p999_ms, 3)),
            ("MAX MS", fixed(self.max_ms, 1)),
            ("SERVER S/GB", fixed(self.server_cpu_s_per_gb, 3)),
            ("US/REQUEST", fixed(self.server_cpu_us_per_request, 1)),
            ("CORES", fixed(self.server_cores, 2)),
            ("CLIENT S/GB", fixed(self.client_cpu_s_per_gb, 3)),
            ("RSS MIB", fixed(self.server_rss_mib, 0)),
            ("ERRORS", self.errors.to_string()),
        ]
    }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// Microseconds and thousandths are as far as any of this is exact.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::cli::bench_meter;

    #[test]
    fn figures_are_differences() {
        let at = Instant::now();
        let start = Snapshot {
            at,
            record_bytes: 1_000_000_000,
            requests: 10,
            server_cpu_seconds: Some(5.0),
            client_cpu_seconds: 1.0,
        };
        let end = Snapshot {
            at: at + Duration::from_secs(4),
            record_bytes: 3_000_000_000,
            requests: 2010,
            server_cpu_seconds: Some(8.0),
            client_cpu_seconds: 1.5,
        };
        let mut latencies = bench_meter::latencies();
        bench_meter::record(&mut latencies, Duration::from_millis(2));
        let json = Report::of("row", &start, &end, &latencies, Some(40.25), 3).to_json();
        let expected = [
            ("seconds", 4.0),
            ("mb_per_s", 500.0),
            ("requests_per_s", 500.0),
            ("server_cpu_s_per_gb", 1.5),
            ("server_cpu_us_per_request", 1500.0),
            ("server_cores", 0.75),
            ("client_cpu_s_per_gb", 0.25),
            ("server_rss_mib", 40.25),
            ("errors", 3.0),
        ];
        for (key, value) in expected {
            assert_eq!(json[key].as_f64(), Some(value), "{key}");
        }
        assert!((json["p50_ms"].as_f64().unwrap_or(0.0) - 2.0).abs() < 0.01);

        // Nothing done, no answers, no server named: no figure is made up.
        let silent = Snapshot { server_cpu_seconds: None, ..start };
        let json = Report::of("row", &silent, &silent, &bench_meter::latencies(), None, 0).to_json();
        for key in ["p50_ms", "max_ms", "server_cpu_s_per_gb", "client_cpu_s_per_gb"] {
            assert!(json[key].is_null(), "{key}");
        }
        assert_eq!(json["mb_per_s"].as_f64(), Some(0.0));
    }
}
