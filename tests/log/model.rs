//! A partition log against a plain list: appends that end in any order, failures, rolls, reads.

use std::collections::BTreeMap;

use alluvium::log::error::{AppendError, ReadError};
use alluvium::log::leader_epochs::LeaderEpochs;
use alluvium::log::lookup::LookupStep;
use alluvium::log::partition_log::{LogConfig, PartitionLog};
use alluvium::log::plan::{Append, AppendPlan, Committed, IndexKind, ReadBound, SegmentId};
use alluvium::log::producer_recovery::RecoveredProducers;
use alluvium::log::recovery::{RecoveredLog, RecoveryReport};
use alluvium::record::batch::parse_header;
use alluvium::record::builder::BatchBuilder;
use alluvium::record::check::{CheckedBatch, check_for_append};
use alluvium::record::offset::{LeaderEpoch, Offset, ProducerId, TopicId};
use alluvium::record::record_tally::AppendLimits;

/// xorshift64*: the same run for the same seed.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }
}

fn empty_log(config: LogConfig) -> PartitionLog {
    let recovered = RecoveredLog {
        leftovers: Vec::new(),
        log_start: Offset::ZERO,
        log_end: Offset::ZERO,
        segments: Vec::new(),
        epochs: LeaderEpochs::default(),
        epochs_unwritten: false,
        producers: RecoveredProducers::default(),
        topic_id: TopicId::ZERO,
        report: RecoveryReport::default(),
    };
    PartitionLog::new(recovered, config, LeaderEpoch(4))
}

fn batch(records: usize, value_bytes: usize, producer: Option<(i64, i32)>) -> (Vec<u8>, CheckedBatch) {
    let mut builder = BatchBuilder::new();
    if let Some((id, sequence)) = producer {
        builder = builder.producer(ProducerId(id), 0, sequence);
    }
    for number in 0..records {
        builder.add(1_000 + number as i64, None, Some(&vec![number as u8; value_bytes]));
    }
    let bytes = builder.build().expect("uncompressed");
    let limits = AppendLimits {
        max_message_bytes: u32::MAX,
        segment_bytes: u32::MAX,
        compact: false,
        log_append_time: false,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: i64::MAX,
        now_ms: 0,
        codec: None,
        record_bytes_max: i32::MAX as u32,
    };
    let checked = check_for_append(&bytes, &limits).expect("a good batch");
    (bytes, checked)
}

/// What is on the disk, and what should be.
struct World {
    log: PartitionLog,
    logs: BTreeMap<SegmentId, Vec<u8>>,
    indexes: BTreeMap<SegmentId, Vec<u8>>,
    time_indexes: BTreeMap<SegmentId, Vec<u8>>,
    /// How often indexes were taken.
    takes: u32,
    /// Plans on their way, with their bytes and the sequence to take back.
    in_flight: Vec<(AppendPlan, Vec<u8>)>,
    /// Batches that are planned or written, by base offset: last offset and bytes.
    batches: BTreeMap<i64, (i64, Vec<u8>)>,
    sequences: BTreeMap<i64, i32>,
}

impl World {
    fn new(config: LogConfig) -> Self {
        let log = empty_log(config);
        let first = log.active_segment();
        Self {
            log,
            logs: [(first, Vec::new())].into(),
            indexes: BTreeMap::new(),
            time_indexes: BTreeMap::new(),
            takes: 0,
            in_flight: Vec::new(),
            batches: BTreeMap::new(),
            sequences: BTreeMap::new(),
        }
    }

    fn append(&mut self, records: usize, value_bytes: usize, producer: Option<i64>) {
        let sequence = producer.map(|id| (id, self.sequences.get(&id).copied().unwrap_or(0)));
        let (mut bytes, checked) = batch(records, value_bytes, sequence);
        loop {
            match self.log.plan_append(&checked, 77).expect("a batch that fits") {
                Append::Roll(roll) => {
                    assert!(self.log.rolled(&roll));
                    assert!(self.logs.insert(roll.segment, Vec::new()).is_none(), "{roll:?} was there");
                }
                Append::Duplicate { .. } => panic!("no duplicate was sent"),
                Append::Plan(plan) => {
                    plan.stamp(&mut bytes);
                    assert_eq!(self.batches.insert(plan.base_offset.0, (plan.last_offset.0, bytes.clone())), None);
                    if let Some((id, sequence)) = sequence {
                        self.sequences.insert(id, sequence + records as i32);
                    }
                    self.in_flight.push((plan, bytes));
                    return;
                }
            }
        }
    }

    fn write(&mut self, plan: &AppendPlan, bytes: &[u8]) {
        let log = self.logs.get_mut(&plan.segment).expect("the segment is there");
        let at = plan.position_bytes as usize;
        let len = log.len().max(at + bytes.len());
        log.resize(len, 0);
        log[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn commit(&mut self, at: usize) {
        let (plan, bytes) = self.in_flight.remove(at);
        self.write(&plan, &bytes);
        assert!(matches!(self.log.commit_append(&plan), Committed::Written { .. }));
        // Nothing is written before a hole.
        let hole = self.in_flight.iter().map(|(plan, _)| plan.base_offset).min();
        assert_eq!(self.log.offsets().written, hole.unwrap_or(self.log.offsets().log_end));
        self.take_indexes(false);
    }

    fn take_indexes(&mut self, all: bool) {
        let mut writes = if all { self.log.take_all_index_writes() } else { self.log.take_index_writes() };
        // Now and then the disk refuses from one of them on.
        self.takes += 1;
        let refused = match self.takes % 3 {
            0 if !all => writes.split_off(writes.len() / 2),
            _ => Vec::new(),
        };
        for write in writes {
            self.log.index_written(&write);
            let index = match write.kind {
                IndexKind::Offset => self.indexes.entry(write.segment).or_default(),
                IndexKind::Time => self.time_indexes.entry(write.segment).or_default(),
                IndexKind::Transaction => unreachable!("nothing is aborted"),
            };
            assert!(write.bytes.is_empty() || index.len() as u64 == write.position_bytes, "indexes grow at their end");
            index.extend(write.bytes);
        }
        self.log.indexes_not_written(&refused);
    }

    fn fail(&mut self, at: usize) {
        let failed = self.in_flight[at].0.clone();
        let cut = self.log.fail_append(&failed).expect("it was on its way");
        assert_eq!(
            (cut.segment, cut.position_bytes, cut.end),
            (failed.segment, failed.position_bytes, failed.base_offset)
        );
        let (checked, first) = (batch(1, 1, None).1, self.log.active_segment());
        assert_eq!(self.log.plan_append(&checked, 0), Err(AppendError::Truncating));
        assert_eq!(first, cut.segment);
        // Later ones have failed too; some were written all the same.
        let (kept, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.in_flight).into_iter().partition(|(plan, _)| plan.id < failed.id);
        self.in_flight = kept;
        for (plan, bytes) in gone {
            self.write(&plan, &bytes);
            assert_eq!(self.log.commit_append(&plan), Committed::Failed);
            assert_eq!(self.log.fail_append(&plan), None);
        }
        self.batches.retain(|base, _| *base < cut.end.0);
        for segment in &cut.remove {
            assert!(self.logs.remove(segment).is_some());
        }
        self.logs.get_mut(&cut.segment).expect("there").truncate(cut.position_bytes as usize);
        self.log.truncated(&cut);
        // Producers go on from the last sequence that is left.
        self.sequences.clear();
        for (_, bytes) in self.batches.values() {
            let header = parse_header(bytes).expect("our own");
            if header.producer_id.is_some() {
                self.sequences.insert(header.producer_id.0, header.last_sequence() + 1);
            }
        }
    }

    /// Reads, and holds the answer against the list. Says how many steps it took.
    fn read(&mut self, from: i64, max_bytes: u32, min_one_batch: bool, bound: ReadBound, seed: u64) -> usize {
        let what = format!("seed {seed}: read {from} max {max_bytes} min {min_one_batch} {bound:?}");
        let end = match bound {
            ReadBound::Written => self.log.offsets().written.0,
            _ => self.log.offsets().high_watermark.0,
        };
        let mut lookup = match self.log.plan_read(Offset(from), max_bytes, min_one_batch, bound) {
            Ok(lookup) => lookup,
            Err(ReadError::OutOfRange { .. }) => {
                assert!(from < 0 || from > self.log.offsets().written.0, "{what}");
                return 0;
            }
            Err(error) => panic!("{what}: {error}"),
        };
        // As much of what follows as an answer can hold.
        let mut expected = Vec::new();
        for (_, (last, bytes)) in self.batches.range(from.saturating_sub(100).min(end)..end) {
            if *last >= from && expected.len() <= max_bytes as usize {
                expected.extend_from_slice(bytes);
            }
        }
        let first_bytes = parse_header(&expected).map_or(0, |header| header.len_bytes);
        let mut steps = 0;
        let plan = loop {
            let (bytes, position, len) = match lookup.step() {
                LookupStep::Done(plan) => break Some(plan),
                LookupStep::Empty => break None,
                LookupStep::NeedIndex { segment, position_bytes, len_bytes } => {
                    (&self.indexes[&segment], position_bytes as usize, len_bytes as usize)
                }
                LookupStep::NeedLog { segment, position_bytes, len_bytes } => {
                    (&self.logs[&segment], position_bytes as usize, len_bytes as usize)
                }
            };
            steps += 1;
            assert!(position + len <= bytes.len(), "{what}: asks for bytes that are not there");
            lookup.feed(&bytes[position..position + len]).unwrap_or_else(|error| panic!("{what}: {error}"));
        };
        match plan {
            None => {
                let fits = first_bytes > 0 && (min_one_batch || first_bytes <= max_bytes);
                assert!(!fits, "{what}: nothing, though {first_bytes} bytes are there");
            }
            Some(plan) => {
                let at = plan.position_bytes as usize;
                let got = &self.logs[&plan.segment][at..at + plan.len_bytes as usize];
                assert!(expected.starts_with(got), "{what}: other bytes than written, {plan:?}");
                assert!(plan.len_bytes >= first_bytes, "{what}: the first batch is cut, {plan:?}");
                let allowed = if min_one_batch { max_bytes.max(first_bytes) } else { max_bytes };
                assert!(plan.len_bytes <= allowed, "{what}: too long, {plan:?}");
                // What counts for the least bytes of a fetch: all up to the end, where that is in the same segment.
                let there = self.batches.range(..end).filter(|(_, (last, _))| *last >= from);
                let there_bytes: usize = there.map(|(_, (_, bytes))| bytes.len()).sum();
                let in_segment_bytes = self.logs[&plan.segment].len() - at;
                match self.log.is_on_older_segment(Offset(from), bound) {
                    true => assert!(in_segment_bytes < there_bytes, "{what}: is not behind, {plan:?}"),
                    false => assert_eq!(self.log.bytes_to_end(&plan, bound), there_bytes as u64, "{what}: {plan:?}"),
                }
                if let Some(hint) = plan.next_hint {
                    self.log.read_hint(hint);
                }
            }
        }
        steps
    }
}

fn small() -> LogConfig {
    LogConfig {
        segment_bytes: 20_000,
        index_interval_bytes: 300,
        segment_index_bytes: 10 << 20,
        ..LogConfig::default()
    }
}

#[test]
fn any_order_of_completions_and_failures_reads_back_as_a_list() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut world = World::new(small());
        for _ in 0..250 {
            match random.below(20) {
                0..=7 => {
                    let producer = (random.below(2) == 0).then(|| random.below(3) as i64);
                    let value_bytes = if random.below(10) == 0 { 3000 } else { random.below(120) };
                    world.append(1 + random.below(5), value_bytes, producer);
                }
                8..=12 if !world.in_flight.is_empty() => {
                    let at = random.below(world.in_flight.len());
                    world.commit(at);
                }
                13 if !world.in_flight.is_empty() && random.below(3) == 0 => {
                    let at = random.below(world.in_flight.len());
                    world.fail(at);
                }
                14 => {
                    let before = world.log.offsets();
                    let moved = match world.log.sync_target() {
                        Some(sync) => {
                            assert_eq!(sync.end, before.written, "seed {seed}");
                            world.log.durable(sync.end)
                        }
                        None => false,
                    };
                    assert_eq!(moved, before.durable < before.written, "seed {seed}");
                    assert_eq!(world.log.offsets().high_watermark, before.written, "seed {seed}");
                }
                _ => {
                    let from = random.below(world.log.offsets().log_end.0 as usize + 2) as i64 - 1;
                    let bound = if random.below(2) == 0 { ReadBound::HighWatermark } else { ReadBound::Written };
                    let max_bytes = [0, 1, 100, 2000, 50_000][random.below(5)];
                    world.read(from, max_bytes, random.below(2) == 0, bound, seed);
                }
            }
        }
        while !world.in_flight.is_empty() {
            let at = random.below(world.in_flight.len());
            world.commit(at);
        }
        world.take_indexes(true);
        assert!(world.log.segments().iter().all(|segment| segment.size_bytes() <= 20_000), "seed {seed}");
        for from in 0..world.log.offsets().written.0 {
            world.read(from, 2000, true, ReadBound::Written, seed);
        }
        for segment in world.log.segments() {
            let bytes = world.indexes.get(&segment.id()).map_or(0, Vec::len);
            assert_eq!(bytes, segment.index().entry_count() as usize * 8, "seed {seed}");
            let bytes = world.time_indexes.get(&segment.id()).map_or(0, Vec::len);
            assert_eq!(bytes, segment.time_index().entry_count() as usize * 12, "seed {seed}");
        }
    }
}

#[test]
fn a_reader_that_goes_on_needs_no_step_and_a_jump_few() {
    let config = LogConfig { segment_bytes: 8 << 20, index_interval_bytes: 4096, ..small() };
    let mut world = World::new(config);
    let mut random = Random::new(5);
    for _ in 0..6000 {
        let value_bytes = if random.below(3) == 0 { 6000 } else { 300 };
        world.append(1 + random.below(4), value_bytes, None);
        world.commit(0);
    }
    let end = world.log.offsets().written;
    assert!(world.log.durable(end));
    let mut steps = BTreeMap::<usize, usize>::new();
    for _ in 0..2000 {
        let from = random.below(end.0 as usize) as i64;
        *steps.entry(world.read(from, 65_536, true, ReadBound::HighWatermark, 5)).or_default() += 1;
    }
    println!("steps of jumps: {steps:?}");
    assert!(steps.keys().all(|count| *count <= 3), "steps: {steps:?}");

    // A consumer that keeps up: each read goes on where the last one ended.
    let mut at = end.0;
    for _ in 0..200 {
        for _ in 0..=random.below(4) {
            world.append(1 + random.below(3), random.below(9000), None);
            world.commit(0);
        }
        let end = world.log.offsets().written;
        world.log.durable(end);
        assert_eq!(world.read(at, 1 << 20, true, ReadBound::HighWatermark, 5), 0, "a read at the tail from {at}");
        at = end.0;
    }
}

/// C063: roll when size > segment.bytes - incoming; an exact fit stays.
#[test]
fn c063_a_full_segment_rolls_and_an_exact_fit_stays() {
    let (_, checked) = batch(1, 100, None);
    let len_bytes = checked.len_bytes;
    for (segment_bytes, fit) in [(3 * len_bytes, 3), (3 * len_bytes - 1, 2), (len_bytes, 1)] {
        let mut world = World::new(LogConfig { segment_bytes, ..small() });
        for _ in 0..fit + 1 {
            world.append(1, 100, None);
        }
        let sizes: Vec<u64> = world.log.segments().iter().map(|segment| segment.size_bytes()).collect();
        assert_eq!(sizes, [u64::from(fit * len_bytes), u64::from(len_bytes)], "segment.bytes {segment_bytes}");
    }
    let log = &mut empty_log(LogConfig { segment_bytes: len_bytes - 1, ..small() });
    assert!(matches!(log.plan_append(&checked, 0), Err(AppendError::LargerThanSegment { .. })));
}

#[test]
fn producers_are_judged_as_kafka_does() {
    // C110 and C112, against planned state: nothing is committed here.
    let mut log = empty_log(LogConfig::default());
    let mut send = |epoch: i16, sequence: i32| {
        let mut builder = BatchBuilder::new().producer(ProducerId(9), epoch, sequence);
        builder.add(1, None, None);
        let bytes = builder.build().expect("uncompressed");
        let checked = CheckedBatch::from_header(&parse_header(&bytes).expect("built"));
        match log.plan_append(&checked, 0) {
            Ok(Append::Plan(plan)) => Ok((plan.base_offset.0, false)),
            Ok(Append::Duplicate { base_offset, last_offset, .. }) => {
                assert_eq!(base_offset, last_offset);
                Ok((base_offset.0, true))
            }
            Ok(Append::Roll(roll)) => panic!("{roll:?}"),
            Err(AppendError::OutOfOrderSequence { .. }) => Err(45),
            Err(AppendError::InvalidProducerEpoch { .. }) => Err(47),
            Err(error) => panic!("{error}"),
        }
    };
    for sequence in 0..7 {
        assert_eq!(send(0, sequence), Ok((i64::from(sequence), false)));
    }
    assert_eq!(send(0, 6), Ok((6, true)), "the last one again");
    assert_eq!(send(0, 2), Ok((2, true)), "the fifth from the end again");
    assert_eq!(send(0, 1), Err(45), "older ones are forgotten");
    assert_eq!(send(0, 8), Err(45), "a gap");
    assert_eq!(send(1, 3), Err(45), "a new epoch begins at 0");
    assert_eq!(send(1, 0), Ok((7, false)));
    assert_eq!(send(0, 7), Err(47), "an old epoch");
    assert_eq!(send(0, 6), Err(47), "an old epoch's batch again");
    assert_eq!(send(1, 1), Ok((8, false)));

    let mut fresh = empty_log(LogConfig::default());
    let mut builder = BatchBuilder::new().producer(ProducerId(9), 4, i32::MAX);
    builder.add(1, None, None);
    let bytes = builder.build().expect("uncompressed");
    let mut checked = CheckedBatch::from_header(&parse_header(&bytes).expect("built"));
    assert!(matches!(fresh.plan_append(&checked, 0), Ok(Append::Plan(_))), "an unknown producer may begin anywhere");
    checked.base_sequence = 0;
    assert!(matches!(fresh.plan_append(&checked, 0), Ok(Append::Plan(_))), "sequences wrap to 0");
}
