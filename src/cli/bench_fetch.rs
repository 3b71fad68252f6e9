//! `alluvium bench fetch`: read partitions from their start, over one thread a connection.
//!
//! Threads that block cost least here: one system call drops a whole answer in the kernel, and a thread sleeps in it until
//! all of the answer has come.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // a load's own sockets, files and clock

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::net::RecvFlags;

use super::args::BenchFetchArgs;
use super::bench_meter::{self, Meter};
use super::bench_plan::{self, LanePlan};
use super::bench_run;
use super::client_error::{self, ClientError};
use super::cluster::Cluster;
use super::connection::{self, Connection};
use super::fetch_answer::FetchHead;
use super::produce_lane;
use super::topic_admin::{self, EARLIEST, OffsetAnswer};
use super::topics;
use crate::record::batch::{self, CRC_COVERS_FROM, HEADER_BYTES};
use crate::wire::api_keys::ApiKey;
use crate::wire::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};

/// Runs the load and prints its report.
pub fn run(args: &BenchFetchArgs) -> Result<(), ClientError> {
    let load = &args.load;
    let (mut cluster, limit) = topics::connect(&load.connect)?;
    let topic = cluster.topic(&load.topic)?;
    let led = bench_run::leaders(&topic, load.partitions)?;
    let plans = bench_plan::plan(&led, load.connections as usize);
    bench_run::note_connections(load, plans.len());
    let earliest = topic_admin::offsets(&mut cluster, &topic, EARLIEST)?;
    let starts: Vec<_> = topic
        .partitions
        .iter()
        .map(|partition| match earliest.get(&partition.index) {
            Some(OffsetAnswer::Offset(offset)) => *offset,
            _ => 0,
        })
        .collect();
    let seen: Vec<_> = starts.iter().map(|&start| AtomicI64::new(start)).collect();
    let meter = Meter::default();
    let mut workers = Vec::with_capacity(plans.len());
    for plan in plans {
        let lane = FetchLane::open(args, &cluster, &plan, limit)?;
        let worker = Worker {
            args,
            limit,
            meter: &meter,
            starts: &starts,
            seen: &seen,
            lanes: vec![lane],
            plans: vec![plan],
            latencies: bench_meter::latencies(),
        };
        workers.push(move || worker.run());
    }
    // One pass over the partitions has no warm-up: what is read before it would be missing afterwards.
    let warmup_seconds = if args.again { load.warmup_seconds } else { 0.0 };
    let report = bench_run::run("fetch", load, warmup_seconds, &meter, workers);
    check_expected(args, &seen)?;
    bench_run::finish(&report, load, &meter)
}

/// One thread: a connection, or several after its partitions' leaders have parted.
struct Worker<'a> {
    args: &'a BenchFetchArgs,
    limit: Duration,
    meter: &'a Meter,
    starts: &'a [i64],
    /// For each partition, the offset up to which any thread has read.
    seen: &'a [AtomicI64],
    plans: Vec<LanePlan>,
    lanes: Vec<FetchLane>,
    latencies: Histogram<u64>,
}

struct FetchLane {
    stream: TcpStream,
    version: i16,
    correlation_id: i32,
    cursors: Vec<Cursor>,
    request: Vec<u8>,
    received: Vec<u8>,
    /// Whether batches of one answer differ, so that their sizes cannot be told from the first one.
    uneven: bool,
}

/// Where a lane stands in a partition.
struct Cursor {
    partition: i32,
    offset: Option<i64>,
    done: bool,
}

/// Why a lane cannot go on.
enum FetchEnd {
    Broken(io::Error),
    IllFormed,
    LeaderMoved,
}

/// What one answer brought.
struct Fetched {
    head: FetchHead,
    next_offset: i64,
}

impl Worker<'_> {
    fn run(mut self) -> Histogram<u64> {
        while let Err(end) = self.drive() {
            if self.meter.is_stopped() {
                break;
            }
            match end {
                FetchEnd::Broken(error) => self.meter.count_error(|| format!("fetch: the connection broke: {error}")),
                FetchEnd::IllFormed => self.meter.count_error(|| "fetch: an answer cannot be read".to_owned()),
                FetchEnd::LeaderMoved => {}
            }
            if let Err(error) = self.reopen() {
                self.meter.count_error(|| error.to_string());
                break;
            }
        }
        self.latencies
    }

    /// Reads the partitions in turn until all are read, or the time is over.
    fn drive(&mut self) -> Result<(), FetchEnd> {
        let mut pending = true;
        while pending && !self.meter.is_stopped() {
            pending = false;
            for lane in &mut self.lanes {
                for index in 0..lane.cursors.len() {
                    let Some((partition, start)) =
                        lane.cursors.get(index).filter(|cursor| !cursor.done).map(|cursor| {
                            let start = usize::try_from(cursor.partition).ok().and_then(|index| self.starts.get(index));
                            (cursor.partition, start.copied().unwrap_or(0))
                        })
                    else {
                        continue;
                    };
                    if self.meter.is_stopped() {
                        return Ok(());
                    }
                    let offset = lane.cursors.get(index).and_then(|cursor| cursor.offset).unwrap_or(start);
                    let since = Instant::now();
                    let fetched = lane.fetch(self.args, partition, offset, self.meter)?;
                    if self.meter.is_timing() {
                        bench_meter::record(&mut self.latencies, since.elapsed());
                    }
                    self.meter.count(fetched.head.records_bytes as u64);
                    let code = fetched.head.error_code;
                    if code != 0 {
                        self.meter.count_error(|| {
                            let refusal = client_error::refusal(code, None);
                            format!("fetch of partition {partition} at offset {offset}: {refusal}")
                        });
                        if produce_lane::is_leader_moved(code) {
                            return Err(FetchEnd::LeaderMoved);
                        }
                    }
                    let seen = usize::try_from(partition).ok().and_then(|index| self.seen.get(index));
                    if let Some(seen) = seen {
                        seen.fetch_max(fetched.next_offset, Relaxed);
                    }
                    let Some(cursor) = lane.cursors.get_mut(index) else {
                        continue;
                    };
                    cursor.offset = Some(fetched.next_offset);
                    if code != 0 || fetched.next_offset >= fetched.head.high_watermark {
                        cursor.offset = None;
                        cursor.done = !self.args.again;
                    }
                    pending |= !cursor.done;
                }
                pending |= lane.cursors.iter().any(|cursor| !cursor.done);
            }
        }
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), ClientError> {
        let cursors: Vec<_> = self.lanes.drain(..).flat_map(|lane| lane.cursors).collect();
        let (cluster, plans) = bench_run::follow_leaders(&self.args.load, &self.plans, self.meter, REOPEN_LIMIT)?;
        for plan in &plans {
            let mut lane = FetchLane::open(self.args, &cluster, plan, self.limit)?;
            for cursor in &mut lane.cursors {
                if let Some(before) = cursors.iter().find(|before| before.partition == cursor.partition) {
                    cursor.offset = before.offset;
                    cursor.done = before.done;
                }
            }
            self.lanes.push(lane);
        }
        self.plans = plans;
        Ok(())
    }
}

impl FetchLane {
    fn open(args: &BenchFetchArgs, cluster: &Cluster, plan: &LanePlan, limit: Duration) -> Result<Self, ClientError> {
        let address = cluster.broker_address(plan.broker_id).ok_or_else(|| ClientError::NoLeader {
            topic: args.load.topic.clone(),
            partition: plan.partitions.first().copied().unwrap_or(-1),
        })?;
        let connection = Connection::connect(address, limit)?;
        let version = connection.version(ApiKey::Fetch, FETCH_VERSION_MAX)?;
        let cursor = |&partition: &i32| Cursor { partition, offset: None, done: false };
        Ok(Self {
            stream: connection.into_stream(),
            version,
            correlation_id: 0,
            cursors: plan.partitions.iter().map(cursor).collect(),
            request: Vec::new(),
            // Only its start is ever written to unless records are looked at: dropped bytes need addresses, not memory.
            received: vec![0; RECEIVE_BYTES],
            uneven: false,
        })
    }

    fn fetch(
        &mut self,
        args: &BenchFetchArgs,
        partition: i32,
        offset: i64,
        meter: &Meter,
    ) -> Result<Fetched, FetchEnd> {
        self.ask(args, partition, offset)?;
        let (head, mut have) = self.read_head()?;
        if head.frame_bytes < head.records_start + head.records_bytes {
            return Err(FetchEnd::IllFormed);
        }
        let mut next_offset = offset;
        if args.verify || self.uneven {
            if self.received.len() < head.frame_bytes {
                self.received.resize(head.frame_bytes, 0);
            }
            let rest = self.received.get_mut(have..head.frame_bytes).ok_or(FetchEnd::IllFormed)?;
            self.stream.read_exact(rest).map_err(FetchEnd::Broken)?;
            let records = self.received.get(head.records_start..head.records_start + head.records_bytes);
            next_offset = walk(records.ok_or(FetchEnd::IllFormed)?, offset, args.verify, |problem| {
                meter.count_error(|| format!("partition {partition}: {problem}"));
            });
        } else {
            let first_end = head.records_start + HEADER_BYTES;
            if head.records_bytes >= HEADER_BYTES {
                have = self.read_until(have, first_end)?;
                let first = self.received.get(head.records_start..first_end).and_then(FirstBatch::read);
                let first = first.ok_or(FetchEnd::IllFormed)?;
                next_offset = first.next_offset(head.records_bytes);
                // A load's batches are all alike; where they are not, from now on each is looked at.
                if first.base_offset > offset || first.base_offset + first.record_count <= offset {
                    self.uneven = true;
                    next_offset = offset.max(first.base_offset);
                }
            }
            self.drop_bytes(head.frame_bytes.saturating_sub(have))?;
        }
        Ok(Fetched { head, next_offset })
    }

    fn ask(&mut self, args: &BenchFetchArgs, partition: i32, offset: i64) -> Result<(), FetchEnd> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let bytes_max = args.max_bytes as i32;
        let request = FetchRequest {
            max_wait_ms: args.max_wait_ms as i32,
            min_bytes: args.min_bytes as i32,
            max_bytes: bytes_max,
            session_epoch: -1,
            topics: vec![FetchTopic {
                topic: &args.load.topic,
                partitions: vec![FetchPartition {
                    partition,
                    fetch_offset: offset,
                    partition_max_bytes: bytes_max,
                    ..FetchPartition::default()
                }],
                ..FetchTopic::default()
            }],
            ..FetchRequest::default()
        };
        self.request.clear();
        let version = self.version;
        connection::encode_request(&mut self.request, ApiKey::Fetch, version, self.correlation_id, |out| {
            request.encode(out, version)
        })
        .map_err(|_| FetchEnd::IllFormed)?;
        self.stream.write_all(&self.request).map_err(FetchEnd::Broken)
    }

    /// Reads until the head of the answer is there; returns how many bytes of the frame have been read with it.
    fn read_head(&mut self) -> Result<(FetchHead, usize), FetchEnd> {
        let mut have = 0;
        loop {
            let place = self.received.get_mut(have..HEAD_BYTES_MAX).filter(|place| !place.is_empty());
            let place = place.ok_or(FetchEnd::IllFormed)?;
            match self.stream.read(place) {
                Ok(0) => return Err(FetchEnd::Broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => have += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(FetchEnd::Broken(error)),
            }
            let received = self.received.get(..have).unwrap_or_default();
            match FetchHead::parse(received, self.version) {
                Ok(Some(head)) if head.correlation_id == self.correlation_id => return Ok((head, have)),
                Ok(None) => {}
                Ok(Some(_)) | Err(_) => return Err(FetchEnd::IllFormed),
            }
        }
    }

    fn read_until(&mut self, have: usize, end: usize) -> Result<usize, FetchEnd> {
        if have >= end {
            return Ok(have);
        }
        let place = self.received.get_mut(have..end).ok_or(FetchEnd::IllFormed)?;
        self.stream.read_exact(place).map_err(FetchEnd::Broken)?;
        Ok(end)
    }

    /// Drops bytes in the kernel, where they are, instead of copying them here.
    fn drop_bytes(&mut self, mut bytes: usize) -> Result<(), FetchEnd> {
        while bytes > 0 {
            let length = bytes.min(self.received.len());
            let place = self.received.get_mut(..length).unwrap_or_default();
            match rustix::net::recv(&self.stream, place, RecvFlags::TRUNC | RecvFlags::WAITALL) {
                Ok((_, 0)) => return Err(FetchEnd::Broken(io::ErrorKind::UnexpectedEof.into())),
                Ok((_, dropped)) => bytes = bytes.saturating_sub(dropped),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(FetchEnd::Broken(error.into())),
            }
        }
        Ok(())
    }
}

/// What the header of an answer's first batch says about offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FirstBatch {
    base_offset: i64,
    batch_bytes: usize,
    record_count: i64,
    crc: u32,
}

impl FirstBatch {
    fn read(bytes: &[u8]) -> Option<Self> {
        let header = batch::parse_header(bytes.get(..HEADER_BYTES)?).ok()?;
        Some(Self {
            base_offset: header.base_offset.0,
            batch_bytes: header.len_bytes as usize,
            record_count: i64::from(header.last_offset_delta) + 1,
            crc: header.crc,
        })
    }

    /// Where to go on, if all batches are like the first one; the last may be cut off and does not count.
    fn next_offset(&self, records_bytes: usize) -> i64 {
        let whole = (records_bytes / self.batch_bytes.max(1)) as i64;
        self.base_offset + whole * self.record_count
    }
}

/// Goes through whole batches; returns where to go on. `problem` hears of each thing that is wrong.
fn walk(records: &[u8], offset: i64, verify: bool, mut problem: impl FnMut(String)) -> i64 {
    let mut next_offset = offset;
    let mut rest = records;
    let mut is_first = true;
    while let Some(first) = FirstBatch::read(rest) {
        let Some((bytes, after)) = rest.split_at_checked(first.batch_bytes) else {
            break;
        };
        let base_offset = first.base_offset;
        if verify {
            if first.crc != batch::crc32c(bytes.get(CRC_COVERS_FROM..).unwrap_or_default()) {
                problem(format!("the CRC of the batch at offset {base_offset} is wrong"));
            }
            // The first batch may begin before the offset asked for.
            let expected = if is_first { base_offset <= next_offset } else { base_offset == next_offset };
            if !expected {
                problem(format!("a batch at offset {base_offset} where {next_offset} was expected"));
            }
        }
        next_offset = base_offset + first.record_count;
        is_first = false;
        rest = after;
    }
    next_offset
}

/// Compares what was read with what a produce load has seen acknowledged.
fn check_expected(args: &BenchFetchArgs, seen: &[AtomicI64]) -> Result<(), ClientError> {
    let Some(path) = &args.expect_file else {
        return Ok(());
    };
    let text =
        fs::read_to_string(path).map_err(|source| ClientError::File { path: path.display().to_string(), source })?;
    let (mut partitions, mut missing, mut first) = (0, 0, None);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(Ok(partition)), Some(Ok(acknowledged))) =
            (words.next().map(str::parse::<usize>), words.next().map(str::parse::<i64>))
        else {
            continue;
        };
        partitions += 1;
        let next_offset = seen.get(partition).map_or(0, |seen| seen.load(Relaxed));
        if acknowledged >= next_offset {
            missing += 1;
            first.get_or_insert_with(|| {
                format!("partition {partition} acknowledged offset {acknowledged}, read up to {}", next_offset - 1)
            });
        }
    }
    match first {
        None => Ok(()),
        Some(first) => Err(ClientError::Missing { missing, partitions, first }),
    }
}

/// By name: version 13 goes by topic ids, which changes nothing that is measured.
const FETCH_VERSION_MAX: i16 = 12;
/// The head, and the first batch's header after it; a topic name has 249 characters at most.
const HEAD_BYTES_MAX: usize = 1024;
const RECEIVE_BYTES: usize = 1 << 20;
/// How long a load waits for a server that has gone.
const REOPEN_LIMIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench_batch::PrebuiltBatch;
    use crate::record::compression::Compression;

    fn batches(count: i64) -> (Vec<u8>, i64) {
        let batch = PrebuiltBatch::build(500, 100, Compression::None, 0, 1).expect("no compressor");
        let mut bytes = Vec::new();
        for index in 0..count {
            let start = bytes.len();
            bytes.extend_from_slice(&batch.bytes);
            let base_offset = 100 + index * i64::from(batch.record_count);
            bytes[start..start + 8].copy_from_slice(&base_offset.to_be_bytes());
        }
        (bytes, batch.record_count.into())
    }

    #[test]
    fn offsets_go_on_after_the_last_whole_batch() {
        let (bytes, record_count) = batches(3);
        let size = bytes.len() / 3;
        for (length, whole) in [(3 * size, 3), (3 * size - 1, 2), (size + 70, 1), (size, 1)] {
            let expected = 100 + whole * record_count;
            let walked = walk(&bytes[..length], 100, true, |problem| panic!("{length}: {problem}"));
            assert_eq!(walked, expected, "{length}");
            let first = FirstBatch::read(&bytes[..HEADER_BYTES]).expect("header");
            assert_eq!(first.next_offset(length), expected, "{length}");
        }
    }

    #[test]
    fn damage_is_found() {
        let (whole, record_count) = batches(3);
        let size = whole.len() / 3;
        let mut flipped = whole.clone();
        flipped[size + 200] ^= 1;
        let mut gap = whole.clone();
        gap[2 * size + 7] += 1;
        for (bytes, offset, hint) in [
            (&flipped, 100, "CRC of the batch at offset"),
            (&gap, 100, "was expected"),
            (&whole, 99, "at offset 100 where 99"),
        ] {
            let mut problems = Vec::new();
            walk(bytes, offset, true, |problem| problems.push(problem));
            assert_eq!(problems.len(), 1, "{hint}: {problems:?}");
            assert!(problems[0].contains(hint), "{hint}: {problems:?}");
        }
        // A fetch may begin inside a batch.
        walk(&whole, 100 + record_count - 1, true, |problem| panic!("{problem}"));
    }
}
