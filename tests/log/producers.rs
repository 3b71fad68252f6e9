//! Producers across restarts: what snapshots and replay say is what memory said.
#![cfg(feature = "sim")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use alluvium::log::layout::{offset_index_path, producer_snapshot_path, segment_path, time_index_path};
use alluvium::log::partition_log::{LogConfig, PartitionLog};
use alluvium::log::plan::{Append, IndexKind, SegmentId};
use alluvium::log::producer_state::{BATCHES_KEPT, ProducerStates};
use alluvium::log::recovery::{RecoveredLog, RecoveryOptions, create_partition, open_partition};
use alluvium::log::segment_files::{cut_files, remove_producer_snapshot, roll_files, write_producer_snapshot};
use alluvium::record::batch::parse_header;
use alluvium::record::builder::BatchBuilder;
use alluvium::record::check::CheckedBatch;
use alluvium::record::offset::{LeaderEpoch, Offset, ProducerId, TopicId};
use alluvium::ring::buffer::Buffer;
use alluvium::ring::io::{Io, OpenHow};
use alluvium::ring::sim::machine::Machine;
use alluvium::ring::sim::options::SimOptions;
use alluvium::ring::sim::random::Random;
use alluvium::ring::sim::world::Sim;

const TOPIC: TopicId = TopicId(*b"the id of topic ");
/// Long enough that nothing of these tests expires.
const NEVER_MS: i64 = i64::MAX / 2;

struct Disk {
    sim: Sim,
    machine: Machine,
    io: Io,
}

impl Disk {
    fn new() -> Self {
        let sim = Sim::new(SimOptions::calm(1));
        let machine = sim.machine();
        let io = machine.core(0);
        let disk = Self { sim, machine, io };
        disk.run(|io| async move { io.create_dir(Path::new("/data")).await.expect("an empty disk") });
        disk
    }

    fn run<T: 'static, F: Future<Output = T> + 'static>(&self, job: impl FnOnce(Io) -> F) -> T {
        let slot: Rc<RefCell<Option<T>>> = Rc::default();
        let (result, future) = (slot.clone(), job(self.io.clone()));
        self.io.spawn(async move { *result.borrow_mut() = Some(future.await) });
        let done = self.sim.run_until(|| slot.borrow().is_some(), 60_000_000_000);
        assert!(done.is_ok(), "the job did not end: {done:?}");
        let value = slot.borrow_mut().take();
        value.expect("it ended")
    }

    fn open(&self, options: RecoveryOptions) -> RecoveredLog {
        self.run(move |io| async move { open_partition(&io, &folder(), &options).await.expect("nothing is damaged") })
    }

    fn put(&self, path: PathBuf, bytes: Vec<u8>) {
        self.run(move |io| async move {
            let file = io.open(&path, OpenHow::CreateOrTruncate).await.expect("room");
            file.write_at(Buffer::from_vec(bytes), 0).await.0.expect("room");
        });
    }

    fn snapshots(&self) -> Vec<i64> {
        self.run(|io| async move {
            let entries = io.read_dir(&folder()).await.expect("there");
            entries.iter().filter_map(|entry| entry.name.strip_suffix(".snapshot")?.parse().ok()).collect()
        })
    }
}

fn folder() -> PathBuf {
    PathBuf::from("/data/a-topic-0")
}

fn options(recovery_point: i64, clean: bool) -> RecoveryOptions {
    RecoveryOptions {
        recovery_point: Offset(recovery_point),
        clean,
        log_start: Offset::ZERO,
        topic_id: Some(TOPIC),
        index_interval_bytes: 200,
        producer_expiration_ms: NEVER_MS,
        remote: None,
    }
}

fn config() -> LogConfig {
    LogConfig { segment_bytes: 2000, index_interval_bytes: 200, ..LogConfig::default() }
}

/// Of each producer: its epoch, and first sequence, last sequence and last offset of its batches.
type Known = BTreeMap<i64, (i16, Vec<(i32, i32, i64)>)>;

fn known(states: &ProducerStates) -> Known {
    let batches = |state: &alluvium::log::producer_state::ProducerState| {
        state.batches().iter().map(|kept| (kept.first_sequence, kept.last_sequence, kept.last_offset.0)).collect()
    };
    states.iter().map(|(id, state)| (id.0, (state.epoch, batches(state)))).collect()
}

/// A batch that the log has.
#[derive(Clone, Copy)]
struct Written {
    producer_id: i64,
    epoch: i16,
    first_sequence: i32,
    base_offset: i64,
    last_offset: i64,
    segment: SegmentId,
    end_bytes: u64,
}

/// What somebody who has read all of the log knows.
fn model(batches: &[Written]) -> Known {
    let mut known = Known::new();
    for batch in batches {
        let (epoch, kept) = known.entry(batch.producer_id).or_insert((batch.epoch, Vec::new()));
        if *epoch != batch.epoch {
            *epoch = batch.epoch;
            kept.clear();
        }
        if kept.len() == BATCHES_KEPT {
            kept.remove(0);
        }
        let count = (batch.last_offset - batch.base_offset) as i32;
        kept.push((batch.first_sequence, batch.first_sequence + count, batch.last_offset));
    }
    known
}

/// Appends of a random producer; some of them fail, with all that was planned behind them.
async fn append_some(io: &Io, log: &mut PartitionLog, batches: &mut Vec<Written>, random: &Random) {
    for _ in 0..random.between(1, 40) {
        let producer_id = random.below(4) as i64;
        let last = batches.iter().rev().find(|batch| batch.producer_id == producer_id);
        let (epoch, first_sequence) = match last {
            Some(last) if random.below(15) > 0 => {
                (last.epoch, last.first_sequence + (last.last_offset - last.base_offset) as i32 + 1)
            }
            Some(last) => (last.epoch + 1, 0),
            // Nobody knows it: it may begin anywhere, and begins there again where that fails.
            None => (0, 10 * producer_id as i32),
        };
        let mut builder = BatchBuilder::new().producer(ProducerId(producer_id), epoch, first_sequence);
        for number in 0..random.between(1, 4) {
            builder.add(number as i64, None, Some(&vec![7; random.below(150) as usize]));
        }
        let mut bytes = builder.build().expect("uncompressed");
        let checked = CheckedBatch::from_header(&parse_header(&bytes).expect("built"));
        let plan = loop {
            match log.plan_append(&checked, 0).expect("it follows") {
                Append::Plan(plan) => break plan,
                Append::Roll(roll) => {
                    roll_files(io, &folder(), &roll).await.expect("room");
                    assert!(log.rolled(&roll));
                }
                Append::Duplicate { .. } => panic!("no duplicate was sent"),
            }
        };
        if random.below(12) == 0 {
            let cut = log.fail_append(&plan).expect("it was under way");
            cut_files(io, &folder(), &cut).await.expect("a good disk");
            log.truncated(&cut);
            continue;
        }
        plan.stamp(&mut bytes);
        let file = io.open(&segment_path(&folder(), plan.segment), OpenHow::ReadWrite).await.expect("there");
        file.write_at(Buffer::from_vec(bytes), plan.position_bytes).await.0.expect("room");
        log.commit_append(&plan);
        batches.push(Written {
            producer_id,
            epoch,
            first_sequence,
            base_offset: plan.base_offset.0,
            last_offset: plan.last_offset.0,
            segment: plan.segment,
            end_bytes: plan.position_bytes + u64::from(plan.len_bytes),
        });
        if random.below(10) == 0 {
            log.snapshot_producers();
        }
        if random.below(3) == 0 {
            write_snapshots(io, log).await;
        }
    }
}

async fn write_snapshots(io: &Io, log: &mut PartitionLog) {
    while let Some(write) = log.next_producer_snapshot() {
        write_producer_snapshot(io, &folder(), write).await.expect("room");
    }
    for offset in log.take_stale_producer_snapshots() {
        remove_producer_snapshot(io, &folder(), offset).await.expect("a good disk");
    }
}

/// Stops cleanly: indexes and a snapshot at the end, as the shard does.
async fn stop(io: &Io, log: &mut PartitionLog) {
    log.snapshot_producers();
    write_snapshots(io, log).await;
    for write in log.take_all_index_writes() {
        let path = match write.kind {
            IndexKind::Offset => offset_index_path(&folder(), write.segment),
            IndexKind::Time => time_index_path(&folder(), write.segment),
            IndexKind::Transaction => continue,
        };
        let index = io.open(&path, OpenHow::ReadWriteOrCreate).await.expect("room");
        index.write_at(Buffer::from_vec(write.bytes), write.position_bytes).await.0.expect("room");
    }
}

/// Cuts the log as a crash may, and damages a snapshot; says below which offset nothing was touched.
fn crash(disk: &Disk, batches: &mut Vec<Written>, random: &Random) -> i64 {
    let lost = random.index(6).min(batches.len());
    batches.truncate(batches.len() - lost);
    let end = batches.last().map_or(0, |batch| batch.last_offset + 1);
    let torn_bytes = random.below(40);
    let (segment, end_bytes) = batches.last().map_or((SegmentId(Offset(0)), 0), |last| (last.segment, last.end_bytes));
    let later: Vec<SegmentId> = disk.run(|io| async move {
        let entries = io.read_dir(&folder()).await.expect("there");
        let bases = entries.iter().filter_map(|entry| entry.name.strip_suffix(".log")?.parse().ok());
        bases.map(|base| SegmentId(Offset(base))).filter(|id| *id > segment).collect()
    });
    for id in later {
        disk.machine.damage(segment_path(&folder(), id), |bytes| bytes.clear());
    }
    if lost > 0 {
        disk.machine.damage(segment_path(&folder(), segment), |bytes| {
            let torn = bytes.len().min((end_bytes + torn_bytes) as usize);
            bytes.truncate(torn);
        });
    }
    for offset in disk.snapshots() {
        let kind = random.below(8);
        let at = random.index(60);
        disk.machine.damage(producer_snapshot_path(&folder(), Offset(offset)), |bytes| match kind {
            0 => bytes.clear(),
            1 => bytes.iter_mut().for_each(|byte| *byte = 0),
            2 => bytes.truncate(at),
            3 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 4),
            _ => {}
        });
    }
    end
}

/// Where all records are deleted, what they said of producers is said by a snapshot at the end, also where those of the rolls
/// were lost: segments may go only when there is one.
#[test]
fn a_log_whose_records_are_all_deleted_has_a_snapshot_of_its_producers() {
    for seed in 0..20 {
        let random = Random::new(seed);
        let disk = Disk::new();
        let recovered = disk.run(|io| async move {
            create_partition(&io, &folder(), TOPIC, 200, NEVER_MS).await.expect("a new folder")
        });
        let batches = disk.run(move |io| async move {
            let mut batches = Vec::new();
            let mut log = PartitionLog::new(recovered, config(), LeaderEpoch(3));
            append_some(&io, &mut log, &mut batches, &random).await;
            batches
        });
        for offset in disk.snapshots() {
            disk.machine.damage(producer_snapshot_path(&folder(), Offset(offset)), |bytes| bytes.clear());
        }
        let mut log = PartitionLog::new(disk.open(options(0, false)), config(), LeaderEpoch(4));
        // The start has written that of the last segment again.
        let newest = log.segments().last().map(|segment| segment.id().0).filter(|base| *base > Offset(0));
        assert_eq!((known(log.producers()), log.newest_producer_snapshot()), (model(&batches), newest), "seed {seed}");
        let end = log.offsets().log_end;
        assert_eq!(log.advance_log_start(end), Ok(end > Offset(0)), "seed {seed}");
        log.snapshot_producers();
        let taken = log.next_producer_snapshot().map(|write| write.offset);
        assert_eq!(taken, (!batches.is_empty()).then_some(end), "seed {seed}");
    }
}

/// Random appends, rolls, failed appends, snapshots, clean stops and crashes: what is known after each start is what a
/// reader of the whole log would know.
#[test]
fn snapshots_and_replay_say_what_memory_said() {
    let mut with_snapshots = 0;
    for seed in 0..60 {
        let random = Random::new(seed);
        let disk = Disk::new();
        let mut recovered = disk.run(|io| async move {
            create_partition(&io, &folder(), TOPIC, 200, NEVER_MS).await.expect("a new folder")
        });
        let mut batches: Vec<Written> = Vec::new();
        for start in 0..6 {
            let context = format!("seed {seed}, start {start}");
            let is_clean = random.below(2) == 0;
            let (all, random_of_job) = (std::mem::take(&mut batches), Random::new(random.next_u64()));
            let (log, all) = disk.run(move |io| async move {
                let mut all = all;
                let mut log = PartitionLog::new(recovered, config(), LeaderEpoch(3 + start));
                append_some(&io, &mut log, &mut all, &random_of_job).await;
                if is_clean {
                    stop(&io, &mut log).await;
                }
                (log, all)
            });
            batches = all;
            assert_eq!(known(log.producers()), model(&batches), "{context}: in memory");
            let end = batches.last().map_or(0, |batch| batch.last_offset + 1);
            recovered = if is_clean {
                let reopened = disk.open(options(end, true));
                assert_eq!(reopened.producers.replayed_bytes, 0, "{context}: the snapshot at the end says all");
                reopened
            } else {
                let kept = crash(&disk, &mut batches, &random);
                let recovery_point = random.below(kept as u64 + 1) as i64;
                let at_batch = batches.iter().map(|batch| batch.base_offset).filter(|base| *base <= recovery_point);
                disk.open(options(at_batch.max().unwrap_or(0), false))
            };
            let end = batches.last().map_or(0, |batch| batch.last_offset + 1);
            assert_eq!(recovered.log_end, Offset(end), "{context}, clean {is_clean}");
            assert_eq!(known(&recovered.producers.states), model(&batches), "{context}, clean {is_clean}");
            let on_disk: Vec<i64> = recovered.producers.snapshots.iter().map(|offset| offset.0).collect();
            assert_eq!(disk.snapshots(), on_disk, "{context}: strays are removed");
            assert!(on_disk.iter().all(|offset| *offset <= end), "{context}: {on_disk:?} beyond {end}");
            with_snapshots += usize::from(!on_disk.is_empty());
        }
    }
    assert!(with_snapshots > 100, "snapshots were found at {with_snapshots} starts only");
}

/// The snapshots of segments that a crash has taken, any of them, are there again after a start: each segment may come to be
/// the first one of the local log. A log that is opened with one of them alone knows what it says.
#[test]
fn a_start_writes_the_lost_snapshots_of_segments_again() {
    for seed in 0..40 {
        let random = Random::new(seed);
        let disk = Disk::new();
        let random_of_job = Random::new(seed + 1_000);
        let (bases, batches) = disk.run(|io| async move {
            let mut batches = Vec::new();
            let recovered = create_partition(&io, &folder(), TOPIC, 200, NEVER_MS).await.expect("a new folder");
            let mut log = PartitionLog::new(recovered, config(), LeaderEpoch(3));
            for _ in 0..4 {
                append_some(&io, &mut log, &mut batches, &random_of_job).await;
                write_snapshots(&io, &mut log).await;
            }
            let bases = log.segments().iter().skip(1).map(|segment| segment.id().0);
            (bases.collect::<Vec<Offset>>(), batches)
        });
        // All from one on, and a torn one; none between segments is left to tell what they did.
        let from = random.index(bases.len() + 1);
        let torn = bases.get(from).copied();
        for offset in disk.snapshots().into_iter().map(Offset) {
            let path = producer_snapshot_path(&folder(), offset);
            if Some(offset) == torn {
                disk.machine.damage(&path, |bytes| bytes.truncate(9));
            } else if !bases.contains(&offset) || torn.is_some_and(|torn| offset > torn) {
                disk.run(move |io| async move { io.remove_file(&path).await.expect("there") });
            }
        }
        let recovered = disk.open(options(0, false));
        assert!(bases.iter().all(|base| recovered.producers.snapshots.contains(base)), "seed {seed}, from {from}");
        assert_eq!(disk.snapshots().len(), bases.len(), "seed {seed}, from {from}");
        let Some(one) = bases.get(random.index(bases.len().max(1))).copied() else { continue };
        for other in bases.iter().copied().filter(|base| *base != one) {
            let path = producer_snapshot_path(&folder(), other);
            disk.run(move |io| async move { io.remove_file(&path).await.expect("there") });
        }
        let recovered = disk.open(options(0, false));
        assert_eq!(known(&recovered.producers.states), model(&batches), "seed {seed}, from {from}: by that at {one}");
    }
}

/// A folder of a real Kafka: its snapshot, and without it a replay of its log, say the same.
#[test]
fn kafkas_snapshot_says_what_kafkas_log_says() {
    let log = include_bytes!("../golden/log/golden-log-0/00000000000000000000.log");
    let snapshot = include_bytes!("../golden/log/golden-log-0/00000000000000000090.snapshot");
    let disk = Disk::new();
    disk.run(|io| async move { io.create_dir(&folder()).await.expect("room") });
    disk.put(segment_path(&folder(), SegmentId(Offset(0))), log.to_vec());
    let replayed = disk.open(options(0, false));
    assert_eq!(replayed.log_end, Offset(90));
    disk.put(producer_snapshot_path(&folder(), Offset(90)), snapshot.to_vec());
    let loaded = disk.open(options(90, true));
    assert_eq!((loaded.producers.replayed_bytes, loaded.producers.snapshots_refused), (0, 0));
    assert_eq!(known(&loaded.producers.states).len(), 6);
    assert_eq!(known(&loaded.producers.states), known(&replayed.producers.states));
    // Those who wrote years ago are forgotten.
    let expired = disk.open(RecoveryOptions { producer_expiration_ms: -(1 << 50), ..options(90, true) });
    assert!(expired.producers.states.is_empty());
}
