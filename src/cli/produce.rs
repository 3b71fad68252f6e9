//! `alluvium produce`: lines in, records out, and a report of what was acknowledged.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // a command's own files, threads and clock

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use super::args::{Acks, OutputFormat};
use super::interrupt;
use super::output;
use super::produce_args::ProduceArgs;
use super::producer::{Producer, ProducerError, ProducerOptions, Written};
use super::record_input::RecordInput;

/// Why `alluvium produce` ends with exit code 1. What the report says was acknowledged stays so.
#[derive(Debug, thiserror::Error)]
pub enum ProduceError {
    /// The server, or the way to it.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// The input cannot be read.
    #[error("{name}: {source}")]
    Input {
        /// Its name.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// A line that is no record.
    #[error("line {line}: {reason}; all lines before it are written")]
    Line {
        /// From 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// SIGINT or SIGTERM.
    #[error("interrupted; what was read before is written")]
    Interrupted,
    /// Flags that contradict each other.
    #[error("--idempotent needs --acks all: without all acknowledgements the server cannot tell what is missing")]
    IdempotentNeedsAll,
}

/// Reads lines until the input ends, and writes them.
pub fn run(args: &ProduceArgs) -> Result<(), ProduceError> {
    let idempotent = match (args.idempotent, args.acks) {
        (Some(true), Acks::None | Acks::Leader) => return Err(ProduceError::IdempotentNeedsAll),
        (wanted, acks) => wanted.unwrap_or(acks == Acks::All),
    };
    let began = Instant::now();
    let lines = open_input(args)?;
    let stop = interrupt::watch();
    let options = ProducerOptions {
        bootstrap: args.connect.bootstrap.clone(),
        answer_limit: Duration::from_secs(args.connect.timeout_seconds.into()),
        delivery_limit: Duration::from_secs(args.delivery_seconds.into()),
        topic: args.topic.clone(),
        acks: args.acks.code(),
        idempotent,
        compression: args.compression.codec(),
        batch_bytes: args.batch_bytes as usize,
    };
    let seed = RandomState::new().hash_one(0);
    let mut producer = Producer::connect(options, seed)?;
    let done =
        pump(&RecordInput::new(args), &lines, &mut producer, Duration::from_millis(args.linger_ms.into()), &stop);
    // Whatever went wrong with the input, what was read before is written; not so where the server refuses.
    let flushed = match &done {
        Err(ProduceError::Producer(_)) => Ok(()),
        _ => producer.send_all().map_err(ProduceError::Producer),
    };
    report(args, &producer, began.elapsed());
    flushed.and(done)
}

/// Some lines of the input with the number of the first, or why it cannot be read.
type Lines = io::Result<(u64, Vec<Vec<u8>>)>;

fn open_input(args: &ProduceArgs) -> Result<Receiver<Lines>, ProduceError> {
    let input: Box<dyn Read + Send> = match &args.file {
        None => Box::new(io::stdin()),
        Some(path) => {
            let name = path.display().to_string();
            Box::new(File::open(path).map_err(|source| ProduceError::Input { name, source })?)
        }
    };
    let (chunks, lines) = mpsc::sync_channel(CHUNKS_MAX);
    // It may wait for a terminal for ever, and ends with the process.
    thread::spawn(move || read_lines(BufReader::with_capacity(CHUNK_BYTES, input), &chunks));
    Ok(lines)
}

/// Hands lines on in chunks: as many as have arrived, so that a slow input is not held back and a fast one costs little.
fn read_lines(mut input: BufReader<Box<dyn Read + Send>>, chunks: &SyncSender<Lines>) {
    let mut number = 1;
    let mut chunk = Vec::new();
    let mut chunk_bytes = 0;
    loop {
        let mut line = Vec::new();
        let read = Read::by_ref(&mut input).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        let ended = match read {
            Ok(0) => true,
            Ok(_) if line.last() == Some(&b'\n') => {
                line.pop();
                false
            }
            Ok(read) if read as u64 == LINE_BYTES_MAX => {
                let what = format!("line {} is longer than 256 MiB", number + chunk.len() as u64);
                let _ = chunks.send(Err(io::Error::new(io::ErrorKind::InvalidData, what)));
                return;
            }
            // The last line may lack its end.
            Ok(_) => false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let _ = chunks.send(Err(error));
                return;
            }
        };
        if !ended {
            chunk_bytes += line.len();
            chunk.push(line);
        }
        // What is buffered can be had without waiting for whoever writes the input.
        let waits = ended || chunk_bytes >= CHUNK_BYTES || !input.buffer().contains(&b'\n');
        if waits && !chunk.is_empty() {
            let count = chunk.len() as u64;
            if chunks.send(Ok((number, std::mem::take(&mut chunk)))).is_err() {
                return;
            }
            number += count;
            chunk_bytes = 0;
        }
        if ended {
            return;
        }
    }
}

fn pump(
    input: &RecordInput,
    lines: &Receiver<Lines>,
    producer: &mut Producer,
    linger: Duration,
    stop: &Arc<AtomicBool>,
) -> Result<(), ProduceError> {
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(ProduceError::Interrupted);
        }
        let wait = if producer.has_open() { linger } else { LOOK_PAUSE };
        match lines.recv_timeout(wait) {
            Ok(Ok((first, chunk))) => {
                let now_ms = now_ms();
                for (number, line) in (first..).zip(chunk) {
                    let read = input.read(&line).map_err(|reason| ProduceError::Line { line: number, reason })?;
                    match read.map(|record| producer.add(&record, now_ms)) {
                        None | Some(Ok(())) => {}
                        Some(Err(error @ ProducerError::NoPartition { .. })) => {
                            return Err(ProduceError::Line { line: number, reason: error.to_string() });
                        }
                        Some(Err(error)) => return Err(error.into()),
                    }
                }
            }
            Ok(Err(source)) => return Err(ProduceError::Input { name: "input".to_owned(), source }),
            Err(RecvTimeoutError::Timeout) => producer.send_all()?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

fn report(args: &ProduceArgs, producer: &Producer, took: Duration) {
    let mut total = Written::default();
    for written in producer.written().values() {
        total.records += written.records;
        total.bytes += written.bytes;
        total.batch_bytes += written.batch_bytes;
    }
    let partitions = producer.written().len();
    if args.connect.output == OutputFormat::Json {
        let rows: Vec<_> = producer
            .written()
            .iter()
            .map(|(partition, written)| {
                json!({
                    "partition": partition,
                    "records": written.records,
                    "bytes": written.bytes,
                    "batch_bytes": written.batch_bytes,
                    "first_offset": written.first_offset,
                    "last_offset": written.last_offset,
                })
            })
            .collect();
        let report = json!({
            "topic": args.topic,
            "records": total.records,
            "bytes": total.bytes,
            "batch_bytes": total.batch_bytes,
            "seconds": took.as_secs_f64(),
            "producer_id": producer.producer_id(),
            "retries": producer.retry_count(),
            "partitions": rows,
        });
        eprintln!("{report}");
        return;
    }
    let verb = if args.acks == Acks::None { "Sent" } else { "Wrote" };
    eprintln!(
        "{verb} {} records, {} bytes, to {partitions} partitions of {} in {:.3} s; {} retries.",
        total.records,
        total.bytes,
        args.topic,
        took.as_secs_f64(),
        producer.retry_count()
    );
    let offset = |offset: Option<i64>| offset.map_or_else(|| "-".to_owned(), |offset| offset.to_string());
    let rows = producer.written().iter().map(|(partition, written)| {
        vec![
            partition.to_string(),
            written.records.to_string(),
            written.bytes.to_string(),
            offset(written.first_offset),
            offset(written.last_offset),
        ]
    });
    let header = ["partition", "records", "bytes", "first offset", "last offset"];
    let table = output::table(&header, &[0, 1, 2, 3, 4], rows);
    for line in table.lines() {
        eprintln!("{}", line.trim_end());
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Lines are handed on in pieces of about this size.
const CHUNK_BYTES: usize = 256 << 10;
/// Pieces that wait to be written; then the input waits too.
const CHUNKS_MAX: usize = 4;
const LINE_BYTES_MAX: u64 = 256 << 20;
const LOOK_PAUSE: Duration = Duration::from_millis(100);
