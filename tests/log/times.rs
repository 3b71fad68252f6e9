//! Lookups by time against a plain list, on logs that were just written, stopped, or left by a crash.
#![cfg(feature = "sim")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use alluvium::log::layout::{offset_index_path, segment_path, time_index_path};
use alluvium::log::lookup::LookupStep;
use alluvium::log::partition_log::{LogConfig, PartitionLog};
use alluvium::log::plan::{Append, IndexKind, IndexWrite, ReadBound, SegmentId};
use alluvium::log::recovery::{RecoveryOptions, create_partition, open_partition};
use alluvium::log::segment_files::roll_files;
use alluvium::log::time_lookup::TimeStep;
use alluvium::record::batch::{HEADER_BYTES, parse_header, stamp};
use alluvium::record::builder::BatchBuilder;
use alluvium::record::check::CheckedBatch;
use alluvium::record::offset::{LeaderEpoch, Offset, TimestampMs, TopicId};
use alluvium::record::record_walk::RecordWalk;
use alluvium::ring::buffer::Buffer;
use alluvium::ring::io::{Io, OpenHow};
use alluvium::ring::sim::machine::Machine;
use alluvium::ring::sim::options::SimOptions;
use alluvium::ring::sim::world::Sim;
use proptest::prelude::*;

use crate::kept_places::opened_with_places;

pub(crate) const TOPIC: TopicId = TopicId(*b"the id of topic ");

pub(crate) struct Disk {
    sim: Sim,
    pub(crate) machine: Machine,
    io: Io,
    files: RefCell<BTreeMap<PathBuf, Vec<u8>>>,
}

impl Disk {
    pub(crate) fn new() -> Self {
        let sim = Sim::new(SimOptions::calm(1));
        let machine = sim.machine();
        let io = machine.core(0);
        let disk = Self { sim, machine, io, files: RefCell::default() };
        disk.run(|io| async move { io.create_dir(Path::new("/data")).await.expect("an empty disk") });
        disk
    }

    fn run<T: 'static, F: Future<Output = T> + 'static>(&self, job: impl FnOnce(Io) -> F) -> T {
        let slot: Rc<RefCell<Option<T>>> = Rc::default();
        let (result, future) = (slot.clone(), job(self.io.clone()));
        self.io.spawn(async move { *result.borrow_mut() = Some(future.await) });
        let done = self.sim.run_until(|| slot.borrow().is_some(), 600_000_000_000);
        assert!(done.is_ok(), "the job did not end: {done:?}");
        let value = slot.borrow_mut().take();
        value.expect("it ended")
    }

    /// Another disk with the same folder.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        let entries = self.run(|io| async move { io.read_dir(&folder()).await.expect("there") });
        copy.run(|io| async move { io.create_dir(&folder()).await.expect("a new disk") });
        for entry in entries {
            let path = folder().join(&entry.name);
            let bytes = self.machine.peek(&path).expect("listed");
            copy.run(move |io| async move {
                let file = io.open(&path, OpenHow::CreateNew).await.expect("room");
                file.write_at(Buffer::from_vec(bytes), 0).await.0.expect("room");
            });
        }
        copy
    }

    /// The file's bytes; kept, since a lookup changes none.
    fn read(&self, path: &Path, position: usize, len: usize) -> Vec<u8> {
        let mut files = self.files.borrow_mut();
        let bytes = files
            .entry(path.to_owned())
            .or_insert_with(|| self.machine.peek(path).unwrap_or_else(|| panic!("{} is not there", path.display())));
        bytes[position..bytes.len().min(position + len)].to_vec()
    }

    pub(crate) fn open(&self, clean: bool, recovery_point: i64, config: LogConfig) -> PartitionLog {
        self.files.borrow_mut().clear();
        let options = RecoveryOptions {
            recovery_point: Offset(recovery_point),
            clean,
            log_start: Offset::ZERO,
            topic_id: Some(TOPIC),
            index_interval_bytes: config.index_interval_bytes,
            producer_expiration_ms: 86_400_000,
            remote: None,
        };
        let opened = self.run(move |io| async move { open_partition(&io, &folder(), &options).await });
        PartitionLog::new(opened.expect("it was written well"), config, LeaderEpoch(3))
    }
}

pub(crate) fn folder() -> PathBuf {
    PathBuf::from("/data/a-topic-0")
}

async fn write_indexes(io: &Io, log: &mut PartitionLog, writes: Vec<IndexWrite>) {
    for write in writes {
        let path = match write.kind {
            IndexKind::Offset => offset_index_path(&folder(), write.segment),
            IndexKind::Time => time_index_path(&folder(), write.segment),
            IndexKind::Transaction => continue,
        };
        let index = io.open(&path, OpenHow::ReadWriteOrCreate).await.expect("room");
        index.write_at(Buffer::from_vec(write.bytes.clone()), write.position_bytes).await.0.expect("room");
        log.index_written(&write);
    }
}

/// Writes one batch for each list of timestamps; `padding` is the length of each value. A clean stop writes all of the
/// indexes; a crash leaves what was due.
pub(crate) fn write(
    disk: &Disk,
    config: LogConfig,
    batches: Vec<Vec<i64>>,
    padding: usize,
    clean: bool,
) -> PartitionLog {
    let value = vec![7; padding];
    write_values(disk, config, batches.into_iter().map(|timestamps| (timestamps, value.clone())).collect(), clean)
}

/// The same, each batch with its own value.
pub(crate) fn write_values(
    disk: &Disk,
    config: LogConfig,
    batches: Vec<(Vec<i64>, Vec<u8>)>,
    clean: bool,
) -> PartitionLog {
    let log = disk.run(move |io| async move {
        let interval = config.index_interval_bytes;
        let recovered = create_partition(&io, &folder(), TOPIC, interval, 86_400_000).await.expect("a new folder");
        PartitionLog::new(recovered, config, LeaderEpoch(2))
    });
    append_values(disk, log, batches, clean)
}

/// The same, to a log that is there.
pub(crate) fn append_values(
    disk: &Disk,
    mut log: PartitionLog,
    batches: Vec<(Vec<i64>, Vec<u8>)>,
    clean: bool,
) -> PartitionLog {
    disk.files.borrow_mut().clear();
    disk.run(move |io| async move {
        for (timestamps, value) in batches {
            let mut builder = BatchBuilder::new();
            for timestamp in timestamps {
                builder.add(timestamp, None, Some(&value));
            }
            let mut bytes = builder.build().expect("uncompressed");
            let checked = CheckedBatch::from_header(&parse_header(&bytes).expect("built"));
            let plan = loop {
                match log.plan_append(&checked, 0).expect("it fits") {
                    Append::Plan(plan) => break plan,
                    Append::Roll(roll) => {
                        roll_files(&io, &folder(), &roll).await.expect("room");
                        assert!(log.rolled(&roll));
                    }
                    Append::Duplicate { .. } => panic!("no duplicate was sent"),
                }
            };
            plan.stamp(&mut bytes);
            let file = io.open(&segment_path(&folder(), plan.segment), OpenHow::ReadWrite).await.expect("there");
            file.write_at(Buffer::from_vec(bytes), plan.position_bytes).await.0.expect("room");
            log.commit_append(&plan);
            let writes = log.take_index_writes();
            write_indexes(&io, &mut log, writes).await;
        }
        let end = log.offsets().written;
        let _ = log.durable(end);
        assert_eq!(log.offsets().high_watermark, end);
        if clean {
            let writes = log.take_all_index_writes();
            write_indexes(&io, &mut log, writes).await;
        }
        log
    })
}

/// Pages of files that were read: a read counts where it touches one that was not there yet.
#[derive(Default)]
struct Reads {
    pages: BTreeSet<(PathBuf, usize)>,
    count: usize,
    /// The piece of a log that was read last is held, as by the core.
    held: Option<(PathBuf, usize, Vec<u8>)>,
}

impl Reads {
    fn read(&mut self, disk: &Disk, path: PathBuf, position: u64, len: u32) -> Vec<u8> {
        let (position, len) = (position as usize, len as usize);
        let mut cold = false;
        for page in position / 4096..=(position + len - 1) / 4096 {
            cold |= self.pages.insert((path.clone(), page));
        }
        self.count += usize::from(cold);
        disk.read(&path, position, len)
    }

    /// Of a log: from what is held, where that has `enough`.
    fn read_log(&mut self, disk: &Disk, path: PathBuf, position: u64, len: u32, enough: usize) -> Vec<u8> {
        if let Some((held, begins, bytes)) = &self.held
            && *held == path
            && let Some(at) = (position as usize).checked_sub(*begins)
            && bytes.len() >= at + enough
        {
            return bytes[at..].to_vec();
        }
        let bytes = self.read(disk, path.clone(), position, len);
        self.held = Some((path, position as usize, bytes.clone()));
        bytes
    }
}

/// What a lookup begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// Places in memory, where there are any.
    Places,
    Indexes,
}

/// The first record with a time at or above `target`, and how many cold reads that took.
pub(crate) fn look(disk: &Disk, log: &PartitionLog, target: i64, by: By) -> (Option<(i64, i64)>, usize) {
    let lookup = log.plan_time_lookup(TimestampMs(target), ReadBound::HighWatermark);
    let mut lookup = if by == By::Indexes { lookup.by_indexes() } else { lookup };
    let mut reads = Reads::default();
    for _ in 0..10_000 {
        let bytes = match log.step_time_lookup(&mut lookup).expect("a log") {
            TimeStep::Nothing => return (None, reads.count),
            TimeStep::NeedTimeIndex { segment, position_bytes, len_bytes } => {
                reads.read(disk, time_index_path(&folder(), segment), position_bytes, len_bytes)
            }
            TimeStep::NeedIndex { segment, position_bytes, len_bytes } => {
                reads.read(disk, offset_index_path(&folder(), segment), position_bytes, len_bytes)
            }
            TimeStep::NeedLog { segment, position_bytes, len_bytes } => {
                reads.read_log(disk, segment_path(&folder(), segment), position_bytes, len_bytes, HEADER_BYTES)
            }
            TimeStep::Batch(found) => {
                let path = segment_path(&folder(), found.segment);
                let len_bytes = found.header.len_bytes;
                let mut batch = reads.read_log(disk, path, found.position_bytes, len_bytes, len_bytes as usize);
                batch.truncate(len_bytes as usize);
                let (header, walk) = RecordWalk::new(&batch).expect("uncompressed");
                let mut records = walk.map(|record| {
                    let record = record.expect("whole");
                    let offset = header.base_offset.0 + i64::from(record.offset_delta);
                    (offset, header.base_timestamp.0 + record.timestamp_delta_ms)
                });
                let hit = records.find(|(offset, timestamp)| *timestamp >= target && *offset >= found.from.0);
                if hit.is_some() {
                    return (hit, reads.count);
                }
                lookup.go_on();
                continue;
            }
        };
        lookup.feed(&bytes).expect("a log");
    }
    panic!("the lookup of {target} does not end");
}

/// The same from a plain list.
pub(crate) fn plain(batches: &[Vec<i64>], target: i64) -> Option<(i64, i64)> {
    (0..).zip(batches.iter().flatten().copied()).find(|(_, timestamp)| *timestamp >= target)
}

fn small() -> LogConfig {
    LogConfig { segment_bytes: 1500, index_interval_bytes: 100, ..LogConfig::default() }
}

pub(crate) fn check(disk: &Disk, log: &PartitionLog, batches: &[Vec<i64>], what: &str) {
    let mut targets: BTreeSet<i64> = batches.iter().flatten().flat_map(|at| [at - 1, *at, at + 1]).collect();
    targets.extend([0, i64::MAX]);
    for target in targets.into_iter().filter(|target| *target >= 0) {
        for by in [By::Places, By::Indexes] {
            let found = look(disk, log, target, by).0;
            assert_eq!(found, plain(batches, target), "{what}: the first at or after {target}, by {by:?}");
        }
    }
    let max = batches.iter().flatten().copied().max().filter(|max| *max >= 0);
    let known = log.max_timestamp(ReadBound::HighWatermark).map(|(timestamp, _)| timestamp.0);
    assert_eq!(known, max, "{what}: the largest time");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Rising, repeated, falling and missing times, in one segment and in many, in all that opening may come to.
    #[test]
    fn a_lookup_by_time_is_that_of_a_plain_list(
        batches in proptest::collection::vec(
            (0_i64..40, proptest::collection::vec(-3_i64..6, 1..4)),
            0..80,
        ),
        step in prop_oneof![Just(0_i64), Just(1), Just(-1), Just(7)],
        recovered_below in 0_usize..80,
    ) {
        let batches: Vec<Vec<i64>> = (0..)
            .zip(&batches)
            .map(|(number, (at, deltas))| deltas.iter().map(|delta| (number * step + at + delta).max(-1)).collect())
            .collect();
        for clean in [true, false] {
            let disk = Disk::new();
            let log = write(&disk, small(), batches.clone(), 30, clean);
            check(&disk, &log, &batches, "as written");
            let right: Vec<(SegmentId, Option<(TimestampMs, Offset)>)> =
                log.segments().iter().map(|segment| (segment.id(), segment.max_timestamp())).collect();
            let below = batches.iter().take(recovered_below).map(Vec::len).sum::<usize>() as i64;
            let end = log.offsets().log_end.0;
            drop(log);
            // A crash leaves the recovery point behind somewhere, not above what its indexes are complete for.
            let log = disk.open(clean, if clean { end } else { below.min(end) }, small());
            let what = format!("opened, clean {clean}, recovery point {below} of {end}");
            let found: Vec<_> = log.segments().iter().map(|segment| (segment.id(), segment.max_timestamp())).collect();
            prop_assert_eq!(&found, &right, "{}", what);
            check(&disk, &log, &batches, &what);
        }
    }
}

/// C001: between two times the later record; past the last, none.
#[test]
fn c001_between_two_times_the_later_record_is_found() {
    let batches: Vec<Vec<i64>> = [2, 4, 6, 8].into_iter().map(|at| vec![at]).collect();
    let disk = Disk::new();
    let log = write(&disk, small(), batches, 30, true);
    let found: Vec<i64> = [2, 3, 4, 5, 7, 8, 9]
        .into_iter()
        .map(|at| look(&disk, &log, at, By::Indexes).0.map_or(-1, |(offset, _)| offset))
        .collect();
    assert_eq!(found, [0, 1, 1, 2, 3, 3, -1]);
}

/// C057, C209: an index is derived; whatever it says, the log decides once it is seen to be wrong.
#[test]
fn c057_c209_bad_time_indexes_are_made_anew() {
    type Fault = (&'static str, fn(&mut Vec<u8>));
    let faults: [Fault; 8] = [
        ("empty", |bytes| bytes.clear()),
        ("short", |bytes| bytes.truncate(12)),
        ("odd length", |bytes| bytes.push(1)),
        ("ahead of the log", |bytes| bytes.extend([0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 99, 99])),
        ("zeros at the end", |bytes| bytes.resize(4092, 0)),
        ("all zeros", |bytes| bytes.iter_mut().for_each(|byte| *byte = 0)),
        ("last time before the first", |bytes| {
            let at = bytes.len() - 12;
            bytes[at..at + 8].fill(0);
        }),
        ("an offset that goes back", |bytes| {
            let at = bytes.len() - 4;
            bytes[at..].fill(0);
        }),
    ];
    let batches: Vec<Vec<i64>> = (0..60).map(|number| vec![1_000 + 10 * number, 1_003 + 10 * number]).collect();
    for (name, fault) in faults {
        for clean in [false, true] {
            // What a clean stop left whole may be short and still make sense: nothing shows that.
            if clean && name == "short" {
                continue;
            }
            for at in [0, 2, usize::MAX] {
                let disk = Disk::new();
                let log = write(&disk, small(), batches.clone(), 30, true);
                let segments: Vec<SegmentId> = log.segments().iter().map(|segment| segment.id()).collect();
                let path = time_index_path(&folder(), segments[at.min(segments.len() - 1)]);
                let right = disk.machine.peek(&path).expect("there");
                assert!(right.len() > 24, "{} bytes", right.len());
                assert!(disk.machine.damage(&path, fault), "{name}");
                let what = format!("{name} in segment {at}, clean {clean}");
                let log = disk.open(clean, if clean { 120 } else { 0 }, small());
                assert_eq!(disk.machine.peek(&path).as_ref(), Some(&right), "{what}");
                check(&disk, &log, &batches, &what);
            }
        }
    }
}

/// C055: files that are missing are made again, also those of an empty segment.
#[test]
fn c055_missing_indexes_are_made_again() {
    for count in [0, 60] {
        let batches: Vec<Vec<i64>> = (0..count).map(|number| vec![1_000 + 10 * number]).collect();
        let disk = Disk::new();
        let log = write(&disk, small(), batches.clone(), 30, true);
        let segments: Vec<SegmentId> = log.segments().iter().map(|segment| segment.id()).collect();
        let paths: Vec<PathBuf> = segments
            .iter()
            .flat_map(|id| [offset_index_path(&folder(), *id), time_index_path(&folder(), *id)])
            .collect();
        let right: Vec<Option<Vec<u8>>> = paths.iter().map(|path| disk.machine.peek(path)).collect();
        let doomed = paths.clone();
        disk.run(move |io| async move {
            for path in doomed {
                io.remove_file(&path).await.expect("there");
            }
        });
        let log = disk.open(true, count, small());
        let made: Vec<Option<Vec<u8>>> = paths.iter().map(|path| disk.machine.peek(path)).collect();
        assert_eq!(made, right, "{count} batches");
        check(&disk, &log, &batches, &format!("{count} batches"));
    }
}

/// C065: rolls by time lie between `segment.ms` less the jitter and `segment.ms`, another for each partition.
#[test]
fn c065_rolls_by_time_are_spread_by_the_jitter() {
    let config = LogConfig { segment_ms: 1_000, segment_jitter_ms: 500, ..LogConfig::default() };
    let mut spread = BTreeSet::new();
    for seed in 0..50 {
        let disk = Disk::new();
        let recovered = disk.run(|io| async move {
            create_partition(&io, &folder(), TOPIC, 4096, 86_400_000).await.expect("a new folder")
        });
        let mut log = PartitionLog::new(recovered, config, LeaderEpoch(2)).with_roll_seed(seed * 7919);
        let mut rolled_at = None;
        for at in 0..=1_001 {
            let mut builder = BatchBuilder::new();
            builder.add(5_000 + at, None, None);
            let bytes = builder.build().expect("uncompressed");
            match log.plan_append(&CheckedBatch::from_header(&parse_header(&bytes).expect("built")), 0) {
                Ok(Append::Plan(_)) => {}
                Ok(Append::Roll(_)) => {
                    rolled_at = Some(at);
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        let rolled_at = rolled_at.expect("it rolls at the latest when segment.ms is over");
        assert!((502..=1_001).contains(&rolled_at), "partition {seed} rolls after {rolled_at} ms");
        spread.insert(rolled_at);
    }
    assert!(spread.len() > 30, "{spread:?}");
}

/// A cold lookup in a log of 1,000 segments, after a clean stop.
#[test]
fn a_cold_lookup_in_a_thousand_segments_takes_few_reads() {
    let config = LogConfig { segment_bytes: 20_000, index_interval_bytes: 400, ..LogConfig::default() };
    let disk = Disk::new();
    let batches: Vec<Vec<i64>> = (0..20_000).map(|number| vec![10_000 + 10 * number, 10_004 + 10 * number]).collect();
    drop(write(&disk, config, batches.clone(), 450, true));
    let log = disk.open(true, 40_000, config);
    assert!(log.segments().len() >= 1_000, "{} segments", log.segments().len());
    let mut by_offset = BTreeMap::<usize, usize>::new();
    let mut by_time = [BTreeMap::<usize, usize>::new(), BTreeMap::new()];
    for number in (0..20_000_i64).step_by(37) {
        let target = 10_000 + 10 * number - number % 7;
        for (by, counts) in [By::Places, By::Indexes].into_iter().zip(&mut by_time) {
            let (found, reads) = look(&disk, &log, target, by);
            assert_eq!(found, plain(&batches, target), "{target}");
            *counts.entry(reads).or_default() += 1;
        }

        let mut lookup = log.plan_read(Offset(2 * number), 1, true, ReadBound::HighWatermark).expect("in range");
        let mut reads = Reads::default();
        loop {
            let (path, position_bytes, len_bytes) = match lookup.step() {
                LookupStep::Done(_) => break,
                LookupStep::Empty => panic!("nothing at {number}"),
                LookupStep::NeedIndex { segment, position_bytes, len_bytes } => {
                    (offset_index_path(&folder(), segment), position_bytes, len_bytes)
                }
                LookupStep::NeedLog { segment, position_bytes, len_bytes } => {
                    (segment_path(&folder(), segment), position_bytes, len_bytes)
                }
            };
            let bytes = reads.read(&disk, path, position_bytes, len_bytes);
            lookup.feed(&bytes).expect("a log");
        }
        *by_offset.entry(reads.count).or_default() += 1;
    }
    println!("cold reads by offset: {by_offset:?}; by time, by places and by indexes: {by_time:?}");
    assert!(by_offset.keys().all(|reads| *reads <= 2), "by offset: {by_offset:?}");
    assert!(by_time[0].keys().all(|reads| *reads == 1), "by time: {by_time:?}");
    assert!(by_time[1].keys().all(|reads| *reads <= 3), "by time, by indexes: {by_time:?}");
}

/// A number that looks like any.
pub(crate) fn mixed(seed: u64, number: i64) -> i64 {
    let bits = (seed ^ number.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (bits ^ (bits >> 32)).cast_signed() & 0xffff
}

/// Segments with some places each: times that rise, stay, fall, and are missing now and then; as written, opened with what
/// a clean stop kept, after a crash that had the tail scanned. One read of a log finds the batch.
#[test]
fn a_lookup_by_places_reads_once_and_is_that_of_a_plain_list() {
    for seed in 0..4_u64 {
        let config = LogConfig { segment_bytes: 3 << 20, ..LogConfig::default() };
        let steps = [7, 0, -1, 3][seed as usize];
        let batches: Vec<(Vec<i64>, Vec<u8>)> = (0..240)
            .map(|number| {
                let noise = |at| if seed == 1 && number % 3 == 0 { -1 } else { mixed(seed, 2 * number + at) % 40 };
                let at = |delta: i64| if delta < 0 { -1 } else { 5_000 + steps * number + delta };
                let value_bytes = 1_000 + mixed(seed + 99, number) as usize % 30_000;
                (vec![at(noise(0)), at(noise(1))], vec![7; value_bytes])
            })
            .collect();
        let times: Vec<Vec<i64>> = batches.iter().map(|(times, _)| times.clone()).collect();
        let targets: Vec<i64> =
            times.iter().flatten().step_by(5).flat_map(|at| [*at, at + 1]).chain([0, i64::MAX]).collect();
        let sound = |disk: &Disk, log: &PartitionLog, what: &str| {
            for target in targets.iter().copied().filter(|target| *target >= 0) {
                for by in [By::Places, By::Indexes] {
                    let (found, reads) = look(disk, log, target, by);
                    assert_eq!(found, plain(&times, target), "seed {seed}, {what}: {target} by {by:?}");
                    assert!(by == By::Indexes || reads <= 1, "seed {seed}, {what}: {reads} reads for {target}");
                }
            }
        };
        for clean in [true, false] {
            let disk = Disk::new();
            let log = write_values(&disk, config, batches.clone(), clean);
            let places: usize = log.segment_places().iter().map(|segment| segment.places.as_slice().len()).sum();
            assert!(log.segments().len() > 1 && places > 5, "seed {seed}: {places} places");
            sound(&disk, &log, "as written");
            if clean {
                let log = opened_with_places(&disk, log, config);
                sound(&disk, &log, "after a clean stop");
            } else {
                drop(log);
                let log = disk.open(false, 0, config);
                assert!(!log.segment_places().is_empty(), "seed {seed}: a scan notes places");
                sound(&disk, &log, "after a crash");
            }
        }
    }
}

/// Values that hold whole batches, with the offsets and times that the log's own batches have there, chained on to the
/// batch behind the value: whatever is looked for, a batch counts only where headers led to it from a place that is known.
#[test]
fn a_value_that_holds_batches_is_a_value() {
    let config = LogConfig { segment_bytes: 3 << 20, ..LogConfig::default() };
    let times: Vec<Vec<i64>> = (0..150).map(|number| vec![10_000 + 10 * number]).collect();
    let batches = (0..150_i64).map(|number| {
        let mut value = Vec::new();
        // The batches before this one again, and itself; each holds an earlier time than the true one, so that to take one
        // of them for true would be seen.
        for fake in number.saturating_sub(40)..=number {
            let mut builder = BatchBuilder::new();
            builder.add(10_000 + 10 * fake - 3, None, Some(&[9; 400]));
            builder.add(10_000 + 10 * fake, None, Some(&[9; 400]));
            let mut batch = builder.build().expect("uncompressed");
            stamp(&mut batch, Offset(fake - 1), LeaderEpoch(2));
            value.extend_from_slice(&batch);
        }
        (vec![10_000 + 10 * number], value)
    });
    let disk = Disk::new();
    let log = write_values(&disk, config, batches.collect(), true);
    check(&disk, &log, &times, "as written");
    let log = opened_with_places(&disk, log, config);
    check(&disk, &log, &times, "opened");
}
