//! `alluvium consume`: records out of a topic, printed or checked, and the counts of what was read.
#![allow(clippy::disallowed_methods)] // a command's own threads and clock

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use super::client_error::{self, ClientError};
use super::cluster::{Cluster, Topic};
use super::consume_args::{ConsumeArgs, Isolation};
use super::consume_report;
use super::fetch_loop::{self, Arrival, FetchPlan, Fetched};
use super::interrupt;
use super::offset_place::OffsetPlace;
use super::partition_reader::PartitionReader;
use super::record_format::{Placed, RecordPrinter};
use super::topic_admin::{self, EARLIEST, LATEST, OffsetAnswer};
use crate::wire::api_keys::ApiKey;
use crate::wire::error_code::ErrorCode;

/// Why `alluvium consume` ends with exit code 1.
#[derive(Debug, thiserror::Error)]
pub enum ConsumeError {
    /// The server, or the way to it.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A partition that is not there.
    #[error("partition {partition} is not there: topic {topic} has {partitions}")]
    NoPartition {
        /// Which.
        partition: i32,
        /// Of this topic.
        topic: String,
        /// How many it has.
        partitions: usize,
    },
    /// An offset that is not there.
    #[error("partition {partition} has no offset {offset}: it has {first} to {after}, the latter still to be written")]
    OutOfRange {
        /// Which partition.
        partition: i32,
        /// As asked.
        offset: i64,
        /// The first there is.
        first: i64,
        /// The one after the last.
        after: i64,
    },
    /// A partition answers with an error.
    #[error("partition {partition}: {refusal}")]
    Refused {
        /// Which partition.
        partition: i32,
        /// What the server says.
        refusal: String,
    },
    /// Records that are not what was written.
    #[error("partition {partition}: {problem}; --verify reads on and lists all that is wrong")]
    Damaged {
        /// Which partition.
        partition: i32,
        /// What is wrong.
        problem: String,
    },
    /// What `--verify` found.
    #[error("{problems} problems in {partitions} partitions; the first: {first}")]
    Problems {
        /// How many.
        problems: u64,
        /// In how many partitions.
        partitions: usize,
        /// Where and what.
        first: String,
    },
    /// Standard output refused a record.
    #[error("standard output: {0}")]
    Output(io::Error),
}

/// Reads as the flags say, until there is nothing more to be read or somebody says stop.
pub fn run(args: &ConsumeArgs) -> Result<(), ConsumeError> {
    let began = Instant::now();
    let stop = interrupt::watch();
    let limit = Duration::from_secs(args.connect.timeout_seconds.into());
    let mut cluster = Cluster::connect(&args.connect.bootstrap, limit)?;
    let readers = begin(args, &mut cluster)?;
    let mut consumer = Consumer {
        args,
        limit,
        readers,
        printer: (!args.verify).then(|| RecordPrinter::new(args)),
        left: args.count.unwrap_or(u64::MAX),
        stop,
        out: BufWriter::with_capacity(OUT_BYTES, io::stdout().lock()),
    };
    let done = consumer.read(cluster);
    let flushed = consumer.out.flush().map_err(ConsumeError::Output);
    drop(consumer.out);
    // A reader that has gone (`| head`) has what it wanted.
    let done = match done.and(flushed) {
        Err(ConsumeError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    };
    consume_report::print(args, &consumer.readers, began.elapsed());
    done?;
    if args.verify { verdict(&consumer.readers) } else { Ok(()) }
}

/// A reader for each partition wanted, at the place wanted.
fn begin(args: &ConsumeArgs, cluster: &mut Cluster) -> Result<BTreeMap<i32, PartitionReader>, ConsumeError> {
    let mut topic = cluster.topic(&args.topic)?;
    for &partition in &args.partition {
        if !topic.partitions.iter().any(|there| there.index == partition) {
            let partitions = topic.partitions.len();
            return Err(ConsumeError::NoPartition { partition, topic: topic.name, partitions });
        }
    }
    topic.partitions.retain(|there| args.partition.is_empty() || args.partition.contains(&there.index));
    let level = args.isolation.level();
    let starts = resolve(cluster, &topic, args.offset, level)?;
    let until = match args.until {
        None if args.exit_at_end || (args.verify && !args.follow) => Some(OffsetPlace::Latest),
        until => until,
    };
    let ends = until.map(|until| resolve(cluster, &topic, until, level)).transpose()?.unwrap_or_default();
    if let (OffsetPlace::Offset(offset), Some(OffsetPlace::Latest)) = (args.offset, until)
        && ends.values().all(|after| offset > *after)
        && let Some((&partition, &after)) = ends.iter().next()
    {
        // Nobody would ask the server for it, and it would pass for an empty range. Where others have it, it is one.
        let first = resolve(cluster, &topic, OffsetPlace::Earliest, level)?.get(&partition).copied().unwrap_or(0);
        return Err(ConsumeError::OutOfRange { partition, offset, first, after });
    }
    let holes_are_normal = args.verify
        && topic_admin::overridden_configs(cluster, &args.topic).unwrap_or_default().iter().any(|(key, value)| {
            key == "cleanup.policy" && value.as_deref().is_some_and(|value| value.contains("compact"))
        });
    let read_committed = args.isolation == Isolation::ReadCommitted;
    let readers = starts.into_iter().map(|(partition, start)| {
        let end = ends.get(&partition).copied();
        (partition, PartitionReader::new(start, end, holes_are_normal, read_committed))
    });
    Ok(readers.collect())
}

/// The offset of a place in each partition.
fn resolve(
    cluster: &mut Cluster,
    topic: &Topic,
    place: OffsetPlace,
    isolation_level: i8,
) -> Result<BTreeMap<i32, i64>, ConsumeError> {
    let mut ask = |timestamp: i64| -> Result<BTreeMap<i32, i64>, ConsumeError> {
        let mut offsets = BTreeMap::new();
        for (partition, answer) in topic_admin::isolated_offsets(cluster, topic, timestamp, isolation_level)? {
            match answer {
                OffsetAnswer::Offset(offset) => offsets.insert(partition, offset),
                OffsetAnswer::Error(code) => {
                    let refusal = format!("ListOffsets: {}", client_error::refusal(code, None));
                    return Err(ConsumeError::Refused { partition, refusal });
                }
            };
        }
        match topic.partitions.iter().find(|partition| !offsets.contains_key(&partition.index)) {
            Some(missing) => Err(ClientError::NoLeader { topic: topic.name.clone(), partition: missing.index }.into()),
            None => Ok(offsets),
        }
    };
    Ok(match place {
        OffsetPlace::Earliest => ask(EARLIEST)?,
        OffsetPlace::Latest => ask(LATEST)?,
        OffsetPlace::Offset(offset) => topic.partitions.iter().map(|there| (there.index, offset)).collect(),
        OffsetPlace::FromEnd(count) => {
            let first = ask(EARLIEST)?;
            let mut offsets = ask(LATEST)?;
            for (partition, offset) in &mut offsets {
                let least = first.get(partition).copied().unwrap_or(0);
                *offset = offset.saturating_sub(count).max(least);
            }
            offsets
        }
        OffsetPlace::Time(time_ms) => {
            let mut offsets = ask(time_ms)?;
            // No record is as late: all that may still come is.
            if offsets.values().any(|offset| *offset < 0) {
                let latest = ask(LATEST)?;
                for (partition, offset) in offsets.iter_mut().filter(|(_, offset)| **offset < 0) {
                    *offset = latest.get(partition).copied().unwrap_or(0);
                }
            }
            offsets
        }
    })
}

struct Consumer<'a> {
    args: &'a ConsumeArgs,
    limit: Duration,
    readers: BTreeMap<i32, PartitionReader>,
    printer: Option<RecordPrinter>,
    left: u64,
    stop: Arc<AtomicBool>,
    out: BufWriter<io::StdoutLock<'static>>,
}

/// Why a round of fetching is over.
enum RoundEnd {
    Finished,
    /// Leaders have moved, or a broker is gone: look again.
    Again(ConsumeError),
}

impl Consumer<'_> {
    fn read(&mut self, mut cluster: Cluster) -> Result<(), ConsumeError> {
        let mut progress_at = Instant::now();
        let mut before = self.position();
        loop {
            let reason = match self.round(&mut cluster)? {
                RoundEnd::Finished => return Ok(()),
                RoundEnd::Again(reason) => reason,
            };
            self.out.flush().map_err(ConsumeError::Output)?;
            let position = self.position();
            if position != before {
                (before, progress_at) = (position, Instant::now());
            } else if progress_at.elapsed() >= self.limit {
                return Err(reason);
            }
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            thread::sleep(RETRY_PAUSE);
            if let Ok(again) = Cluster::connect(&self.args.connect.bootstrap, self.limit) {
                cluster = again;
            }
        }
    }

    /// Threads for the leaders as they are now; what they bring, until something changes.
    fn round(&mut self, cluster: &mut Cluster) -> Result<RoundEnd, ConsumeError> {
        if self.left == 0 || self.readers.values().all(PartitionReader::is_done) {
            return Ok(RoundEnd::Finished);
        }
        let topic = match cluster.topic(&self.args.topic) {
            Ok(topic) => topic,
            Err(error) => return again_or_fail(error.into()),
        };
        let ended = Arc::new(AtomicBool::new(false));
        let (sender, arrivals) = mpsc::sync_channel(ARRIVALS_MAX);
        let plans = match self.plans(cluster, &topic) {
            Ok(plans) => plans,
            Err(error) => return again_or_fail(error),
        };
        for plan in plans {
            let (sender, ended) = (sender.clone(), Arc::clone(&ended));
            thread::spawn(move || fetch_loop::run(plan, &sender, &ended));
        }
        drop(sender);
        let end = self.take_arrivals(&arrivals);
        // Threads see it within their long poll, or when they hand on what nobody takes.
        ended.store(true, Ordering::Relaxed);
        end
    }

    fn plans(&self, cluster: &Cluster, topic: &Topic) -> Result<Vec<FetchPlan>, ConsumeError> {
        let mut plans: BTreeMap<i32, FetchPlan> = BTreeMap::new();
        for (&partition, reader) in self.readers.iter().filter(|(_, reader)| !reader.is_done()) {
            let leader =
                topic.partitions.iter().find(|there| there.index == partition).map_or(-1, |there| there.leader_id);
            let Some(address) = cluster.broker_address(leader) else {
                return Err(ClientError::NoLeader { topic: topic.name.clone(), partition }.into());
            };
            let plan = plans.entry(leader).or_insert_with(|| FetchPlan {
                address: address.clone(),
                topic: topic.name.clone(),
                partitions: Vec::new(),
                bytes_max: i32::try_from(self.args.max_bytes).unwrap_or(i32::MAX),
                isolation_level: self.args.isolation.level(),
                answer_limit: self.limit,
            });
            plan.partitions.push((partition, reader.next_offset(), reader.end_offset()));
        }
        Ok(plans.into_values().collect())
    }

    fn take_arrivals(&mut self, arrivals: &Receiver<Arrival>) -> Result<RoundEnd, ConsumeError> {
        loop {
            if self.stop.load(Ordering::Relaxed) || self.left == 0 {
                return Ok(RoundEnd::Finished);
            }
            let arrival = match arrivals.try_recv() {
                Ok(arrival) => Ok(arrival),
                Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) => {
                    // Nothing more for now: whoever reads along sees what there is.
                    self.out.flush().map_err(ConsumeError::Output)?;
                    arrivals.recv_timeout(LOOK_PAUSE)
                }
            };
            match arrival {
                Ok(Arrival::Fetched(fetched)) if fetched.error_code == 0 => self.take(&fetched)?,
                Ok(Arrival::Fetched(fetched)) => return self.refused(&fetched),
                Ok(Arrival::Lost(error)) => return again_or_fail(error.into()),
                Err(RecvTimeoutError::Timeout) => {}
                // Every thread has brought all it was to bring.
                Err(RecvTimeoutError::Disconnected) => return Ok(RoundEnd::Finished),
            }
        }
    }

    fn take(&mut self, fetched: &Fetched) -> Result<(), ConsumeError> {
        let partition = fetched.partition;
        let Some(reader) = self.readers.get_mut(&partition) else {
            return Ok(());
        };
        let (left, out, printer, topic) = (&mut self.left, &mut self.out, &self.printer, &self.args.topic);
        let mut printed = Ok(());
        reader.take(fetched, |header, offset, record| {
            let log_append_time = header.attributes.is_log_append_time();
            let timestamp_ms = if log_append_time {
                header.max_timestamp.0
            } else {
                header.base_timestamp.0.wrapping_add(record.timestamp_delta_ms)
            };
            if let Some(printer) = printer {
                let placed = Placed { topic, partition, offset, timestamp_ms, log_append_time, record };
                printed = printer.print(&placed, out);
            }
            *left = left.saturating_sub(1);
            *left > 0 && printed.is_ok()
        });
        printed.map_err(ConsumeError::Output)?;
        match reader.counts.problems.first() {
            Some(problem) if !self.args.verify => Err(ConsumeError::Damaged { partition, problem: problem.clone() }),
            _ => Ok(()),
        }
    }

    fn refused(&self, fetched: &Fetched) -> Result<RoundEnd, ConsumeError> {
        let partition = fetched.partition;
        let error = ErrorCode::from_code(fetched.error_code);
        if error == Some(ErrorCode::OffsetOutOfRange) {
            let offset = self.readers.get(&partition).map_or(-1, PartitionReader::next_offset);
            let (first, after) = self.range_of(partition).unwrap_or((-1, -1));
            return Err(ConsumeError::OutOfRange { partition, offset, first, after });
        }
        let refusal = client_error::refusal(fetched.error_code, None);
        let refused = ConsumeError::Refused { partition, refusal };
        match error.is_some_and(ErrorCode::is_retriable) {
            true => Ok(RoundEnd::Again(refused)),
            false => Err(refused),
        }
    }

    fn range_of(&self, partition: i32) -> Option<(i64, i64)> {
        let mut cluster = Cluster::connect(&self.args.connect.bootstrap, self.limit).ok()?;
        let mut topic = cluster.topic(&self.args.topic).ok()?;
        topic.partitions.retain(|there| there.index == partition);
        let mut ask = |place| resolve(&mut cluster, &topic, place, 0).ok()?.get(&partition).copied();
        Some((ask(OffsetPlace::Earliest)?, ask(OffsetPlace::Latest)?))
    }

    /// Something that changes with every batch read.
    fn position(&self) -> i64 {
        self.readers.values().fold(0, |sum, reader| sum.wrapping_add(reader.next_offset()))
    }
}

fn again_or_fail(error: ConsumeError) -> Result<RoundEnd, ConsumeError> {
    let again = match &error {
        ConsumeError::Client(ClientError::Refusal { api, code, .. }) => {
            *api != ApiKey::Metadata.name() && ErrorCode::from_code(*code).is_some_and(ErrorCode::is_retriable)
        }
        ConsumeError::Client(
            ClientError::Refused { .. }
            | ClientError::Unreachable { .. }
            | ClientError::Closed { .. }
            | ClientError::TimedOut { .. }
            | ClientError::Broken { .. }
            | ClientError::NoLeader { .. },
        ) => true,
        _ => false,
    };
    if again { Ok(RoundEnd::Again(error)) } else { Err(error) }
}

fn verdict(readers: &BTreeMap<i32, PartitionReader>) -> Result<(), ConsumeError> {
    let problems = readers.values().map(|reader| reader.counts.problem_count).sum();
    let partitions = readers.values().filter(|reader| reader.counts.problem_count > 0).count();
    let first = readers.iter().find_map(|(partition, reader)| {
        reader.counts.problems.first().map(|problem| format!("partition {partition}: {problem}"))
    });
    match first {
        Some(first) => Err(ConsumeError::Problems { problems, partitions, first }),
        None => Ok(()),
    }
}

const OUT_BYTES: usize = 256 << 10;
/// Answers that wait to be printed; then fetching waits too.
const ARRIVALS_MAX: usize = 2;
const LOOK_PAUSE: Duration = Duration::from_millis(100);
const RETRY_PAUSE: Duration = Duration::from_millis(200);
