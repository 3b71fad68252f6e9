//! What the client of HDFS does by itself: the measure of what the server reads through it.
//!
//! `cargo bench --features hdfs --bench hdfs_stream -- URL read FILE...` reads files one after the other as a stream and
//! prints MB/s and CPU; `... first FILE...` prints how long the first 64 KiB of each take with a client made anew (cold) and
//! then again with one that has asked before (warm). `scripts/compare-hdfs` runs it beside the server.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "measures from outside of the server")]

use std::env;
use std::fs;
use std::time::Instant;

use futures_lite::StreamExt as _;
use hdfs_native::{Client, ClientBuilder};

fn main() {
    let mut words = env::args().skip(1).filter(|word| word != "--bench");
    // Cargo runs each bench without words as well.
    let (Some(url), Some(what)) = (words.next(), words.next()) else {
        return println!("usage: hdfs_stream URL read|first FILE...");
    };
    let files: Vec<String> = words.collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        match what.as_str() {
            "read" => read(&connect(&url), &files).await,
            "first" => first(&url, &files).await,
            _ => println!("{what}: neither read nor first"),
        }
    });
}

fn connect(url: &str) -> Client {
    ClientBuilder::new().with_url(url).build().expect("a URL of HDFS")
}

async fn read(client: &Client, files: &[String]) {
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let mut bytes = 0;
    for path in files {
        let reader = client.read(path).await.expect("it is there");
        let mut stream = Box::pin(reader.read_range_stream(0, reader.file_length()));
        while let Some(piece) = stream.next().await {
            bytes += piece.expect("it can be read").len();
        }
    }
    let (wall, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let gb = bytes as f64 / 1e9;
    println!("{{\"mb_per_s\": {:.1}, \"cpu_s_per_gb\": {:.3}}}", gb * 1e3 / wall, cpu / gb);
}

async fn first(url: &str, files: &[String]) {
    let (mut cold_ms, mut warm_ms) = (Vec::new(), Vec::new());
    for path in files {
        let began = Instant::now();
        let client = connect(url);
        let reader = client.read(path).await.expect("it is there");
        reader.read_range(0, FIRST_BYTES.min(reader.file_length())).await.expect("it can be read");
        cold_ms.push(began.elapsed().as_secs_f64() * 1e3);
        let began = Instant::now();
        reader.read_range(0, FIRST_BYTES.min(reader.file_length())).await.expect("it can be read");
        warm_ms.push(began.elapsed().as_secs_f64() * 1e3);
    }
    println!("{{\"cold_ms\": {:.2}, \"warm_ms\": {:.2}}}", median(&mut cold_ms), median(&mut warm_ms));
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// User and system time of this process.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("it runs");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name in brackets").split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / TICKS_PER_SECOND
}

const FIRST_BYTES: usize = 64 << 10;
/// `USER_HZ` of Linux on all that we run on.
const TICKS_PER_SECOND: f64 = 100.0;
