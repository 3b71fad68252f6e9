//! What a load counts while it runs, and what the kernel says about processes.
#![allow(clippy::disallowed_methods)] // reads the clock and /proc; a load has no ring

use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Counters that the load's threads add to, and the two switches that they watch.
#[derive(Debug, Default)]
pub struct Meter {
    record_bytes: AtomicU64,
    requests: AtomicU64,
    errors: AtomicU64,
    first_error: OnceLock<String>,
    timing: AtomicBool,
    stop: AtomicBool,
}

/// Counters and processor times at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// When.
    pub at: Instant,
    /// Bytes of record batches acknowledged or read.
    pub record_bytes: u64,
    /// Requests answered.
    pub requests: u64,
    /// Processor seconds of the server's processes; `None` where none was named or one is gone.
    pub server_cpu_seconds: Option<f64>,
    /// Processor seconds of this process.
    pub client_cpu_seconds: f64,
}

impl Meter {
    /// One request is done, with so many bytes of records.
    pub fn count(&self, record_bytes: u64) {
        self.record_bytes.fetch_add(record_bytes, Relaxed);
        self.requests.fetch_add(1, Relaxed);
    }

    /// Something went wrong; the first text is kept.
    pub fn count_error(&self, text: impl FnOnce() -> String) {
        self.errors.fetch_add(1, Relaxed);
        self.first_error.get_or_init(text);
    }

    /// How many errors so far, and what the first one was.
    pub fn errors(&self) -> (u64, Option<&str>) {
        let first = self.first_error.get().map(String::as_str);
        (self.errors.load(Relaxed), first)
    }

    /// Record bytes so far.
    pub fn record_bytes(&self) -> u64 {
        self.record_bytes.load(Relaxed)
    }

    /// Whether latencies count now.
    pub fn is_timing(&self) -> bool {
        self.timing.load(Relaxed)
    }

    /// Turns the recording of latencies on or off.
    pub fn set_timing(&self, on: bool) {
        self.timing.store(on, Relaxed);
    }

    /// Whether the threads are to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Asks the threads to end.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Reads counters and processor times.
    pub fn snapshot(&self, server_pids: &[u32]) -> Snapshot {
        let server = server_pids.iter().map(|pid| cpu_seconds(&pid.to_string()));
        Snapshot {
            at: Instant::now(),
            record_bytes: self.record_bytes.load(Relaxed),
            requests: self.requests.load(Relaxed),
            server_cpu_seconds: if server_pids.is_empty() { None } else { server.sum() },
            client_cpu_seconds: cpu_seconds("self").unwrap_or(0.0),
        }
    }
}

/// An empty histogram of latencies in nanoseconds, three digits exact, up to an hour.
pub fn latencies() -> Histogram<u64> {
    // The bounds are in range by construction; were they not, a histogram that grows does as well.
    Histogram::new_with_bounds(1_000, HOUR_NS, 3)
        .unwrap_or_else(|_| Histogram::new(3).unwrap_or_else(|_| unreachable!()))
}

/// Records a latency.
pub fn record(latencies: &mut Histogram<u64>, latency: Duration) {
    let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
    latencies.saturating_record(ns.max(1));
}

/// Memory in use by the processes together, in MiB; `None` where none is named or one is gone.
pub fn resident_mib(pids: &[u32]) -> Option<f64> {
    if pids.is_empty() {
        return None;
    }
    let one = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        Some(resident_kib(&status)? as f64 / 1024.0)
    };
    pids.iter().map(one).sum()
}

/// Processor seconds of a process in user and kernel mode: all its threads, ended ones and io_uring workers included.
fn cpu_seconds(pid: &str) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks = cpu_ticks(&stat)?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// `utime` and `stime` of a line of /proc/PID/stat. The command's name in parentheses may hold anything, also `)`.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

fn resident_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

const HOUR_NS: u64 = 3_600_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_whatever_the_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 250 125 0 0 20 0 9 0";
        for name in ["alluvium", "a) b", "x (y) ) z"] {
            let stat = format!("42 ({name}) {rest}");
            assert_eq!(cpu_ticks(&stat), Some(375), "{name}");
        }
        assert_eq!(cpu_ticks("42 (a) S 1 2"), None);
        assert!(cpu_seconds("self").is_some());
    }

    #[test]
    fn memory_is_read() {
        assert_eq!(resident_kib("VmHWM:\t 9 kB\nVmRSS:\t  2048 kB\n"), Some(2048));
        assert!(resident_mib(&[std::process::id()]).is_some_and(|mib| mib > 0.1));
        assert_eq!(resident_mib(&[]), None);
    }

    #[test]
    fn latencies_keep_three_digits() {
        let mut recorded = latencies();
        for ms in 1..=1000 {
            record(&mut recorded, Duration::from_millis(ms));
        }
        record(&mut recorded, Duration::from_secs(7200));
        for (quantile, ms) in [(0.5, 501.0), (0.99, 991.0)] {
            let ns = recorded.value_at_quantile(quantile) as f64;
            assert!((ns / 1e6 - ms).abs() < ms / 500.0, "{quantile}: {ns}");
        }
        // What lies beyond the range counts as its end, and is not lost.
        assert!(recorded.max() >= HOUR_NS);
        assert_eq!(recorded.len(), 1001);
    }

    #[test]
    fn only_the_first_error_is_kept() {
        let meter = Meter::default();
        for text in ["one", "two"] {
            meter.count_error(|| text.to_owned());
        }
        assert_eq!(meter.errors(), (2, Some("one")));
    }
}
