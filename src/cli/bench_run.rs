//! A load's threads, warm-up, measured time and report.
#![allow(clippy::disallowed_methods)] // a load's own threads and clock

use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::args::BenchLoadArgs;
use super::bench_meter::{self, Meter};
use super::bench_plan::{self, LanePlan, Led};
use super::bench_report::Report;
use super::client_error::ClientError;
use super::cluster::{Cluster, Topic};

/// Runs one thread for each worker until the time is over, the bytes are moved, or all workers have ended.
pub fn run<W>(name: &str, load: &BenchLoadArgs, warmup_seconds: f64, meter: &Meter, workers: Vec<W>) -> Report
where
    W: FnOnce() -> Histogram<u64> + Send,
{
    let mut start = meter.snapshot(&load.server_pid);
    meter.set_timing(warmup_seconds <= 0.0);
    thread::scope(|scope| {
        let threads: Vec<_> = workers.into_iter().map(|work| scope.spawn(work)).collect();
        let ended = || threads.iter().all(|thread| thread.is_finished());
        let wait = |seconds: f64, bytes_max: Option<u64>| {
            let deadline = Instant::now() + Duration::from_secs_f64(seconds);
            let moved = || bytes_max.is_some_and(|max| meter.record_bytes() >= max);
            while Instant::now() < deadline && !ended() && !moved() {
                thread::sleep(LOOK_PAUSE.min(deadline.saturating_duration_since(Instant::now())));
            }
        };
        if warmup_seconds > 0.0 {
            wait(warmup_seconds, None);
            start = meter.snapshot(&load.server_pid);
            meter.set_timing(true);
        }
        let bytes_end = load.bytes_max.map(|max| start.record_bytes + max);
        wait(load.seconds, bytes_end);
        let end = meter.snapshot(&load.server_pid);
        meter.set_timing(false);
        let server_rss_mib = bench_meter::resident_mib(&load.server_pid);
        meter.stop();
        let mut latencies = bench_meter::latencies();
        for thread in threads {
            match thread.join() {
                // All histograms have the same bounds, so that adding cannot fail.
                Ok(recorded) => latencies += recorded,
                Err(_) => meter.count_error(|| "a thread of the load ended in a panic".to_owned()),
            }
        }
        let (errors, _) = meter.errors();
        let name = load.name.as_deref().unwrap_or(name);
        Report::of(name, &start, &end, &latencies, server_rss_mib, errors)
    })
}

/// Prints the report; an error where anything went wrong meanwhile.
pub fn finish(report: &Report, load: &BenchLoadArgs, meter: &Meter) -> Result<(), ClientError> {
    report.print(load.connect.output);
    match meter.errors() {
        (0, _) => Ok(()),
        (count, first) => Err(ClientError::Errors { count, first: first.unwrap_or("unknown").to_owned() }),
    }
}

/// Who leads the partitions that a load uses.
pub fn leaders(topic: &Topic, partitions_wanted: Option<u32>) -> Result<Vec<Led>, ClientError> {
    let partitions = topic.partitions.len();
    if let Some(wanted) = partitions_wanted.filter(|wanted| *wanted as usize > partitions) {
        return Err(ClientError::Partitions { topic: topic.name.clone(), partitions, wanted });
    }
    let used = partitions_wanted.map_or(partitions, |wanted| wanted as usize);
    let led = topic.partitions.iter().take(used).map(|partition| {
        if partition.leader_id < 0 {
            return Err(ClientError::NoLeader { topic: topic.name.clone(), partition: partition.index });
        }
        Ok(Led { partition: partition.index, leader_id: partition.leader_id })
    });
    led.collect()
}

/// Asks again who leads what, until somebody does or `limit` is over, and moves connections there.
pub fn follow_leaders(
    load: &BenchLoadArgs,
    lanes: &[LanePlan],
    meter: &Meter,
    limit: Duration,
) -> Result<(Cluster, Vec<LanePlan>), ClientError> {
    let deadline = Instant::now() + limit;
    loop {
        // Also the pause after an error, so that a server that refuses everything is not asked in a busy loop.
        thread::sleep(FOLLOW_PAUSE);
        let asked = Cluster::connect(&load.connect.bootstrap, limit).and_then(|mut cluster| {
            let topic = cluster.topic(&load.topic)?;
            let led = leaders(&topic, load.partitions)?;
            Ok((cluster, bench_plan::follow(lanes, &led)))
        });
        match asked {
            Ok(followed) => return Ok(followed),
            Err(error) if Instant::now() >= deadline || meter.is_stopped() => return Err(error),
            Err(_) => {}
        }
    }
}

/// Says where more connections were opened than asked for.
pub fn note_connections(load: &BenchLoadArgs, lanes: usize) {
    if lanes > load.connections as usize {
        eprintln!("{lanes} connections instead of {}: one to each leader.", load.connections);
    }
}

const LOOK_PAUSE: Duration = Duration::from_millis(2);
const FOLLOW_PAUSE: Duration = Duration::from_millis(100);
