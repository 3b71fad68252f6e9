//! What the client of HDFS does by itself: the measure of what the server reads and writes through it.
//!
//! `cargo bench --features hdfs --bench hdfs_stream -- URL read FILE...` reads files one after the other as a stream and
//! prints MB/s and CPU; `... first FILE...` prints how long the first 64 KiB of each take with a client made anew (cold) and
//! then again with one that has asked before (warm); `... many FILE...` does that of the last file, then of all others at once;
//! `... write FOLDER REPLICATION LOCAL...` writes local files, four at once
//! as the server does, in one block each. `scripts/compare-hdfs` runs it beside the server.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "measures from outside of the server")]

use std::env;
use std::fs;
use std::io::Read as _;
use std::time::Instant;

use futures_lite::StreamExt as _;
use hdfs_native::{Client, ClientBuilder, WriteOptions};

fn main() {
    let mut words = env::args().skip(1).filter(|word| word != "--bench");
    // Cargo runs each bench without words as well.
    let (Some(url), Some(what)) = (words.next(), words.next()) else {
        return println!("usage: hdfs_stream URL read|first|many|write FILE...");
    };
    let files: Vec<String> = words.collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        match what.as_str() {
            "read" => read(&connect(&url), &files).await,
            "first" => first(&url, &files).await,
            "many" => many(&connect(&url), &files).await,
            "write" => write(&connect(&url), &files).await,
            _ => println!("{what}: none of read, first, many and write"),
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

/// Opens a file and reads its first bytes.
async fn open_and_read(client: Client, path: String) {
    let reader = client.read(&path).await.expect("it is there");
    reader.read_range(0, FIRST_BYTES.min(reader.file_length())).await.expect("it can be read");
}

async fn many(client: &Client, files: &[String]) {
    let Some((one, others)) = files.split_last() else { return println!("many FILE...") };
    let began = Instant::now();
    open_and_read(client.clone(), one.clone()).await;
    let one_ms = began.elapsed().as_secs_f64() * 1e3;
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let reads = others.iter().map(|path| tokio::spawn(open_and_read(client.clone(), path.clone())));
    for read in reads.collect::<Vec<_>>() {
        read.await.expect("no panic");
    }
    let all_ms = began.elapsed().as_secs_f64() * 1e3;
    let cpu_ms = (cpu_seconds() - cpu) * 1e3;
    println!("{{\"one_ms\": {one_ms:.2}, \"all_ms\": {all_ms:.2}, \"cpu_ms\": {cpu_ms:.0}}}");
}

async fn write(client: &Client, words: &[String]) {
    let [folder, replication, files @ ..] = words else { return println!("write FOLDER REPLICATION LOCAL...") };
    let replication: u32 = replication.parse().expect("a number");
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let writers = (0..WRITERS).map(|first| {
        let files: Vec<String> = files.iter().skip(first).step_by(WRITERS).cloned().collect();
        let (client, folder) = (client.clone(), folder.clone());
        tokio::spawn(async move {
            let mut bytes = 0;
            for path in files {
                let mut local = fs::File::open(&path).expect("it is there");
                let len_bytes = local.metadata().expect("it is open").len();
                let how = WriteOptions::default()
                    .block_size(len_bytes.next_multiple_of(512).max(1 << 20))
                    .replication(replication);
                let name = path.rsplit('/').next().unwrap_or(&path);
                let mut writer = client.create(&format!("{folder}/{name}"), how).await.expect("it is new");
                loop {
                    let mut piece = vec![0; PIECE_BYTES];
                    let read = local.read(&mut piece).expect("it can be read");
                    piece.truncate(read);
                    if read == 0 {
                        break;
                    }
                    bytes += read;
                    writer.write_bytes(piece.into()).await.expect("it can be written");
                }
                writer.close().await.expect("it is whole");
            }
            bytes
        })
    });
    let mut bytes = 0;
    for writer in writers.collect::<Vec<_>>() {
        bytes += writer.await.expect("no panic");
    }
    let (wall, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let gib = bytes as f64 / f64::from(1 << 30);
    println!("{{\"mb_per_s\": {:.1}, \"cpu_s_per_gib\": {:.3}}}", bytes as f64 / 1e6 / wall, cpu / gib);
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

const WRITERS: usize = 4;
const PIECE_BYTES: usize = 256 << 10;
const FIRST_BYTES: usize = 64 << 10;
/// `USER_HZ` of Linux on all that we run on.
const TICKS_PER_SECOND: f64 = 100.0;
