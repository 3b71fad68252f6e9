//! Opening partitions on a simulated disk: what a crash leaves, and what must not be cut.
#![cfg(feature = "sim")]

use std::cell::RefCell;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use alluvium::log::error::RecoveryError;
use alluvium::log::layout::{offset_index_path, segment_path, time_index_path};
use alluvium::log::leader_epochs::LeaderEpochs;
use alluvium::log::lookup::LookupStep;
use alluvium::log::partition_log::{LogConfig, PartitionLog};
use alluvium::log::plan::{Append, IndexKind, ReadBound, SegmentId};
use alluvium::log::recovery::{RecoveredLog, RecoveryOptions, create_partition, open_partition};
use alluvium::log::segment_files::{roll_files, write_epochs};
use alluvium::record::batch::batch_len_bytes;
use alluvium::record::builder::BatchBuilder;
use alluvium::record::check::CheckedBatch;
use alluvium::record::offset::{LeaderEpoch, Offset, ProducerId, TopicId};
use alluvium::ring::buffer::Buffer;
use alluvium::ring::io::{Io, OpenHow};
use alluvium::ring::sim::machine::Machine;
use alluvium::ring::sim::options::{Crash, Faults, SimOptions};
use alluvium::ring::sim::world::Sim;

/// Kafka's default of producer.id.expiration.ms.
const PRODUCER_EXPIRATION_MS: i64 = 86_400_000;

const TOPIC: TopicId = TopicId(*b"the id of topic ");

pub(crate) struct Disk {
    sim: Sim,
    pub(crate) machine: Machine,
    io: Io,
}

impl Disk {
    fn new() -> Self {
        Self::with_seed(1)
    }

    pub(crate) fn with_seed(seed: u64) -> Self {
        let sim = Sim::new(SimOptions::calm(seed));
        let machine = sim.machine();
        let io = machine.core(0);
        let disk = Self { sim, machine, io };
        disk.run(|io| async move {
            io.create_dir(Path::new("/data")).await.expect("an empty disk");
            // As a machine has it that has run for a while.
            io.sync_dir(Path::new("/")).await.expect("a good disk");
        });
        disk
    }

    pub(crate) fn run<T: 'static, F: Future<Output = T> + 'static>(&self, job: impl FnOnce(Io) -> F) -> T {
        let slot: Rc<RefCell<Option<T>>> = Rc::default();
        let (result, future) = (slot.clone(), job(self.io.clone()));
        self.io.spawn(async move { *result.borrow_mut() = Some(future.await) });
        let done = self.sim.run_until(|| slot.borrow().is_some(), 60_000_000_000);
        assert!(done.is_ok(), "the job did not end: {done:?}");
        let value = slot.borrow_mut().take();
        value.expect("it ended")
    }

    pub(crate) fn open(&self, options: RecoveryOptions) -> Result<RecoveredLog, RecoveryError> {
        self.run(move |io| async move { open_partition(&io, &folder(), &options).await })
    }

    fn bytes(&self, path: &Path) -> Vec<u8> {
        self.machine.peek(path).unwrap_or_else(|| panic!("{} is not there", path.display()))
    }
}

pub(crate) fn folder() -> PathBuf {
    PathBuf::from("/data/a-topic-0")
}

pub(crate) fn unclean(recovery_point: i64) -> RecoveryOptions {
    RecoveryOptions {
        recovery_point: Offset(recovery_point),
        clean: false,
        log_start: Offset::ZERO,
        topic_id: Some(TOPIC),
        index_interval_bytes: 200,
        producer_expiration_ms: PRODUCER_EXPIRATION_MS,
        remote: None,
    }
}

fn clean(recovery_point: i64) -> RecoveryOptions {
    RecoveryOptions { clean: true, ..unclean(recovery_point) }
}

/// `count` batches of two records in segments of about 1000 bytes, epoch 2, then 5 from the middle on; all written,
/// indexes too.
pub(crate) fn seed(disk: &Disk, count: usize) -> Vec<SegmentId> {
    disk.run(move |io| async move {
        let recovered =
            create_partition(&io, &folder(), TOPIC, 200, PRODUCER_EXPIRATION_MS).await.expect("a new folder");
        let config = LogConfig { segment_bytes: 1000, index_interval_bytes: 200, ..LogConfig::default() };
        let mut log = PartitionLog::new(recovered, config, LeaderEpoch(2));
        for number in 0..count {
            if number == count / 2 {
                log.raise_leader_epoch(LeaderEpoch(5));
            }
            let mut builder = BatchBuilder::new().producer(ProducerId(7), 0, 2 * number as i32);
            builder.add(1_000 + number as i64, Some(b"key"), Some(&[number as u8; 30]));
            builder.add(1_000 + number as i64, None, None);
            let mut bytes = builder.build().expect("uncompressed");
            let checked = CheckedBatch::from_header(&alluvium::record::batch::parse_header(&bytes).expect("built"));
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
        }
        for write in log.take_all_index_writes() {
            let path = match write.kind {
                IndexKind::Offset => offset_index_path(&folder(), write.segment),
                IndexKind::Time => time_index_path(&folder(), write.segment),
                IndexKind::Transaction => continue,
            };
            let index = io.open(&path, OpenHow::ReadWriteOrCreate).await.expect("room");
            index.write_at(Buffer::from_vec(write.bytes), write.position_bytes).await.0.expect("room");
        }
        let text = log.take_epoch_checkpoint().expect("two epochs");
        write_epochs(&io, &folder(), text).await.expect("room");
        log.segments().iter().map(|segment| segment.id()).collect()
    })
}

/// Reads all batches back, and says with which offsets they begin.
fn read_all(disk: &Disk, recovered: RecoveredLog) -> Vec<i64> {
    let config = LogConfig { segment_bytes: 1000, index_interval_bytes: 200, ..LogConfig::default() };
    let log = PartitionLog::new(recovered, config, LeaderEpoch(9));
    let end = log.offsets().high_watermark;
    let mut bases = Vec::new();
    let mut at = log.offsets().log_start;
    while at < end {
        let mut lookup = log.plan_read(at, 1, true, ReadBound::HighWatermark).expect("in range");
        let plan = loop {
            let (path, position, len) = match lookup.step() {
                LookupStep::Done(plan) => break plan,
                LookupStep::Empty => panic!("nothing at {at} below {end}"),
                LookupStep::NeedIndex { segment, position_bytes, len_bytes } => {
                    (offset_index_path(&folder(), segment), position_bytes as usize, len_bytes as usize)
                }
                LookupStep::NeedLog { segment, position_bytes, len_bytes } => {
                    (segment_path(&folder(), segment), position_bytes as usize, len_bytes as usize)
                }
            };
            let bytes = disk.bytes(&path);
            lookup.feed(&bytes[position..position + len]).expect("a log");
        };
        let bytes = disk.bytes(&segment_path(&folder(), plan.segment));
        let header = alluvium::record::batch::parse_header(&bytes[plan.position_bytes as usize..]).expect("a batch");
        bases.push(header.base_offset.0);
        at = header.last_offset().plus(1);
    }
    bases
}

/// C067: offsets may have gaps (compaction leaves them): a read inside one gives the next batch, and the log ends behind
/// the last.
#[test]
fn c067_gaps_between_batches_break_no_reading() {
    for is_clean in [true, false] {
        let disk = Disk::new();
        disk.run(|io| async move {
            drop(create_partition(&io, &folder(), TOPIC, 200, PRODUCER_EXPIRATION_MS).await.expect("a new folder"));
            let mut log = Vec::new();
            for base in [0, 5, 9] {
                let mut builder = BatchBuilder::new();
                builder.add(1_000, None, Some(b"value"));
                let mut bytes = builder.build().expect("uncompressed");
                alluvium::record::batch::stamp(&mut bytes, Offset(base), LeaderEpoch(2));
                log.extend(bytes);
            }
            let path = segment_path(&folder(), SegmentId(Offset::ZERO));
            let file = io.open(&path, OpenHow::ReadWrite).await.expect("there");
            file.write_at(Buffer::from_vec(log), 0).await.0.expect("room");
        });
        let recovered = disk.open(if is_clean { clean(10) } else { unclean(0) }).expect("whole batches");
        assert_eq!(recovered.log_end, Offset(10), "clean {is_clean}");
        assert_eq!(read_all(&disk, recovered), [0, 5, 9], "clean {is_clean}");
    }
}

fn all_of(count: usize) -> Vec<i64> {
    (0..count as i64).map(|number| 2 * number).collect()
}

#[test]
fn a_clean_stop_opens_as_it_was() {
    let disk = Disk::new();
    let segments = seed(&disk, 30);
    assert!(segments.len() > 3);
    let before: Vec<Vec<u8>> = segments.iter().map(|id| disk.bytes(&offset_index_path(&folder(), *id))).collect();
    let recovered = disk.open(clean(60)).expect("nothing is wrong");
    assert_eq!(recovered.log_end, Offset(60));
    assert_eq!((recovered.report.indexes_rebuilt, recovered.report.cut_bytes), (0, 0));
    assert_eq!(recovered.epochs.to_text(), "0\n2\n2 0\n5 30\n");
    let kept: Vec<(i64, i32)> = recovered
        .producers
        .states
        .iter()
        .filter_map(|(id, state)| Some((id.0, state.batches().last()?.last_sequence)))
        .collect();
    assert_eq!(kept, [(7, 59)]);
    assert_eq!(read_all(&disk, recovered), all_of(30));
    let after: Vec<Vec<u8>> = segments.iter().map(|id| disk.bytes(&offset_index_path(&folder(), *id))).collect();
    assert_eq!(before, after);
    // The same without trust in anything: all is scanned, nothing is cut, the indexes come out the same.
    let recovered = disk.open(unclean(0)).expect("nothing is wrong");
    assert_eq!(recovered.log_end, Offset(60));
    assert_eq!(read_all(&disk, recovered), all_of(30));
    let after: Vec<Vec<u8>> = segments.iter().map(|id| disk.bytes(&offset_index_path(&folder(), *id))).collect();
    assert_eq!(before, after);
}

/// C050: the last batch is short; and the same in an earlier segment, which takes the later ones with it.
#[test]
fn c050_a_torn_tail_is_cut_at_the_last_whole_batch() {
    for torn in [0, 1] {
        let disk = Disk::new();
        let segments = seed(&disk, 30);
        let id = segments[segments.len() - 1 - torn];
        let path = segment_path(&folder(), id);
        disk.machine.damage(&path, |bytes| {
            let len = bytes.len() - 10;
            bytes.truncate(len);
        });
        let recovered = disk.open(unclean(id.0.0)).expect("a torn tail is no damage");
        let end = recovered.log_end;
        assert!(end > id.0, "{torn}: whole batches stay");
        assert!(end < segments.get(segments.len() - torn).map_or(Offset(60), |next| next.0), "{torn}: {end}");
        assert_eq!(recovered.segments.len(), segments.len() - torn);
        assert_eq!(read_all(&disk, recovered), all_of(end.0 as usize / 2), "{torn}");
        for gone in &segments[segments.len() - torn..] {
            assert!(disk.machine.peek(segment_path(&folder(), *gone)).is_none());
        }
        let again = disk.open(unclean(end.0)).expect("whole now");
        assert_eq!((again.log_end, again.report.cut_bytes), (end, 0), "{torn}");
    }
}

/// A power cut may take the last batches of a segment whole and spare the next segment: no gap is served, and what was
/// written behind the lost batches goes with them.
#[test]
fn a_segment_that_lost_whole_batches_takes_the_later_ones_with_it() {
    let disk = Disk::new();
    let segments = seed(&disk, 30);
    let (short, next) = (segments[segments.len() - 2], segments[segments.len() - 1]);
    let path = segment_path(&folder(), short);
    disk.machine.damage(&path, |bytes| {
        let (mut at, mut last) = (0, 0);
        while at < bytes.len() {
            last = at;
            at += batch_len_bytes(&bytes[at..]).expect("whole batches") as usize;
        }
        bytes.truncate(last);
    });
    let before = disk.bytes(&path);
    let durable = disk.open(unclean(next.0.0 - 1));
    assert!(
        matches!(durable, Err(RecoveryError::Damaged { .. })),
        "below the recovery point nothing is cut: {durable:?}"
    );
    assert_eq!(disk.bytes(&path), before);
    let recovered = disk.open(unclean(short.0.0)).expect("a lost tail is no damage");
    let end = recovered.log_end;
    assert!(short.0 < end && end < next.0, "{end}");
    assert_eq!(read_all(&disk, recovered), all_of(end.0 as usize / 2));
    assert!(disk.machine.peek(segment_path(&folder(), next)).is_none());
}

/// What is none of a log's files stays as it is, whatever it looks like, and is named.
#[test]
fn unknown_files_are_left_alone_and_reported() {
    for is_clean in [true, false] {
        let disk = Disk::new();
        seed(&disk, 30);
        let names = ["1234.log", "00000000000000000000.log.bak", "notes.txt"];
        disk.run(move |io| async move {
            for name in names {
                let file = io.open(&folder().join(name), OpenHow::ReadWriteOrCreate).await.expect("room");
                file.write_at(Buffer::from_vec(b"not a log".to_vec()), 0).await.0.expect("room");
            }
        });
        let known = if is_clean { clean(60) } else { unclean(0) };
        for opening in 0..2 {
            let recovered = disk.open(known.clone()).expect("nothing is wrong");
            let mut found = recovered.report.unknown_files.clone();
            found.sort();
            assert_eq!(
                found,
                ["00000000000000000000.log.bak", "1234.log", "notes.txt"],
                "clean {is_clean}, opening {opening}"
            );
            assert_eq!(read_all(&disk, recovered), all_of(30), "clean {is_clean}, opening {opening}");
        }
        for name in names {
            assert_eq!(disk.bytes(&folder().join(name)), b"not a log", "{name}, clean {is_clean}");
        }
    }
}

/// Rule 7: what was durable once is never cut; the partition goes offline.
#[test]
fn damage_below_the_recovery_point_cuts_nothing() {
    for fault in 0..3 {
        let disk = Disk::new();
        let segments = seed(&disk, 30);
        let last = segments[segments.len() - 1];
        let path = segment_path(&folder(), last);
        let changed = disk.machine.damage(&path, |bytes| match fault {
            // In the last batch: what lies before the last entry of the index, below the recovery point, is not read.
            0 => {
                let at = bytes.len() - 10;
                bytes[at] ^= 1;
            }
            1 => bytes.truncate(150),
            _ => bytes.clear(),
        });
        assert!(changed, "fault {fault}");
        let before = disk.bytes(&path);
        let error = disk.open(unclean(60)).expect_err("durable bytes are gone");
        assert!(matches!(&error, RecoveryError::Damaged { recovery_point: Offset(60), .. }), "fault {fault}: {error}");
        assert_eq!(disk.bytes(&path), before, "fault {fault}");
    }
    let disk = Disk::new();
    seed(&disk, 30);
    disk.run(|io| async move {
        for entry in io.read_dir(&folder()).await.expect("there") {
            if entry.name.ends_with(".log") {
                io.remove_file(&folder().join(entry.name)).await.expect("there");
            }
        }
    });
    assert!(matches!(disk.open(unclean(60)), Err(RecoveryError::Damaged { .. })), "all segments are gone");
}

/// C055, C057, C209: an index is only a help.
#[test]
fn c055_c057_c209_bad_indexes_are_made_anew() {
    type Fault = (&'static str, fn(&mut Vec<u8>));
    let faults: [Fault; 5] = [
        ("empty", |bytes| bytes.clear()),
        ("odd length", |bytes| bytes.push(1)),
        ("ahead of the log", |bytes| bytes.extend([0, 0, 0, 99, 0, 0, 99, 99])),
        ("zeros at the end", |bytes| bytes.resize(4096, 0)),
        ("all zeros", |bytes| bytes.iter_mut().for_each(|byte| *byte = 0)),
    ];
    for (name, fault) in faults {
        for at in [0, 2, 3] {
            let disk = Disk::new();
            let segments = seed(&disk, 24);
            let path = offset_index_path(&folder(), segments[at.min(segments.len() - 1)]);
            let right = disk.bytes(&path);
            disk.machine.damage(&path, fault);
            let recovered = disk.open(unclean(0)).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(disk.bytes(&path), right, "{name} in segment {at}");
            assert_eq!(read_all(&disk, recovered), all_of(24), "{name} in segment {at}");

            // Where the segment is trusted, reading is right all the same.
            disk.machine.damage(&path, fault);
            let recovered = disk.open(clean(48)).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(read_all(&disk, recovered), all_of(24), "{name} in trusted segment {at}");
        }
    }
    // A missing one.
    let disk = Disk::new();
    let segments = seed(&disk, 24);
    let path = offset_index_path(&folder(), segments[1]);
    let (right, gone) = (disk.bytes(&path), path.clone());
    disk.run(move |io| async move { io.remove_file(&gone).await.expect("there") });
    disk.open(clean(48)).expect("made anew");
    assert_eq!(disk.bytes(&path), right);
}

#[test]
fn epochs_are_repaired_from_the_log() {
    for text in [None, Some("garbage"), Some("0\n3\n2 0\n5 24\n8 100\n"), Some("0\n1\n2 0\n"), Some("0\n0\n")] {
        let disk = Disk::new();
        seed(&disk, 24);
        let path = folder().join("leader-epoch-checkpoint");
        let job_path = path.clone();
        disk.run(move |io| async move {
            match text {
                None => io.remove_file(&job_path).await.expect("there"),
                Some(text) => write_epochs(&io, &folder(), text.to_owned()).await.expect("room"),
            }
        });
        let recovered = disk.open(unclean(0)).expect("the log has them");
        assert_eq!(recovered.epochs.to_text(), "0\n2\n2 0\n5 24\n", "{text:?}");
        let on_disk = String::from_utf8(disk.bytes(&path)).expect("text");
        assert_eq!(LeaderEpochs::parse(&on_disk), Some(recovered.epochs), "{text:?}");
    }
}

#[test]
fn the_folder_of_another_topic_is_not_opened() {
    let disk = Disk::new();
    seed(&disk, 2);
    let other = RecoveryOptions { topic_id: Some(TopicId([1; 16])), ..unclean(0) };
    assert!(matches!(disk.open(other), Err(RecoveryError::WrongTopic { found: TOPIC, .. })));
    assert_eq!(disk.open(RecoveryOptions { topic_id: None, ..unclean(0) }).expect("it says its own").topic_id, TOPIC);
}

#[test]
fn a_log_start_inside_a_segment_is_where_the_log_begins() {
    for is_clean in [true, false] {
        let disk = Disk::new();
        let segments = seed(&disk, 24);
        let start = segments[2].base_offset().get() + 2;
        let options = RecoveryOptions { log_start: Offset(start), ..if is_clean { clean(48) } else { unclean(0) } };
        let recovered = disk.open(options.clone()).expect("all is there");
        assert_eq!(recovered.log_start, Offset(start), "clean {is_clean}");
        assert_eq!(recovered.segments.len(), segments.len() - 2, "clean {is_clean}: what is below goes");
        assert!(recovered.leftovers.iter().any(|name| name == "00000000000000000000.log"), "{:?}", recovered.leftovers);
        let at_start = if start < 24 { format!("0\n2\n2 {start}\n5 24\n") } else { format!("0\n1\n5 {start}\n") };
        assert_eq!(recovered.epochs.to_text(), at_start, "clean {is_clean}");
        let wanted: Vec<i64> = all_of(24).into_iter().filter(|base| *base >= start).collect();
        assert_eq!(read_all(&disk, recovered), wanted, "clean {is_clean}");
    }
}

/// A crash came while segments were renamed, and kept any part of that: the log goes on from its start.
#[test]
fn a_hole_below_the_log_start_says_nothing_of_what_follows() {
    for recovery_point in [0, 60, 96] {
        for gone in [vec![1], vec![0, 2], vec![2]] {
            let disk = Disk::new();
            let segments = seed(&disk, 48);
            for at in &gone {
                let path = segment_path(&folder(), segments[*at]);
                disk.run(move |io| async move { io.remove_file(&path).await.expect("there") });
            }
            let start = segments[3].base_offset();
            let options = RecoveryOptions { log_start: start, ..unclean(recovery_point) };
            let recovered = disk.open(options).unwrap_or_else(|error| panic!("{gone:?} {recovery_point}: {error}"));
            let wanted: Vec<i64> = all_of(48).into_iter().filter(|base| *base >= start.get()).collect();
            assert_eq!(read_all(&disk, recovered), wanted, "{gone:?} {recovery_point}");
        }
    }
}

/// All was deleted, and the crash took the end of it too: offsets that were given once are not given again.
#[test]
fn a_log_start_beyond_the_end_is_where_the_log_goes_on() {
    for (recovery_point, start) in [(0, 49), (0, 1000), (60, 1000), (48, 48)] {
        let disk = Disk::new();
        seed(&disk, 24);
        let options = RecoveryOptions { log_start: Offset(start), ..unclean(recovery_point) };
        for turn in 0..2 {
            let recovered = disk.open(options.clone()).unwrap_or_else(|error| panic!("{start}: {error}"));
            assert_eq!((recovered.log_start, recovered.log_end), (Offset(start), Offset(start)), "opening {turn}");
            assert_eq!(read_all(&disk, recovered), [0; 0], "opening {turn}");
        }
    }
    let disk = Disk::new();
    seed(&disk, 24);
    let lost = RecoveryOptions { log_start: Offset(50), ..unclean(60) };
    assert!(matches!(disk.open(lost), Err(RecoveryError::Damaged { .. })), "records from 50 on were durable once");
}

/// A sync failed, and the server was killed: the page cache has what the disk has not, and counts it as clean.
#[test]
fn what_is_opened_after_a_failed_sync_is_on_the_disk() {
    let disk = Disk::new();
    let segments = seed(&disk, 24);
    disk.sim.set_faults(Faults { sync_error_per_million: 1_000_000, ..Faults::default() });
    for segment in segments {
        let path = segment_path(&folder(), segment);
        let synced = disk
            .run(move |io| async move { io.open(&path, OpenHow::ReadWrite).await.expect("there").sync_data().await });
        assert!(synced.is_err(), "the disk is broken");
    }
    disk.sim.set_faults(Faults::default());
    let recovered = disk.open(unclean(0)).expect("the page cache has all");
    assert_eq!(recovered.log_end, Offset(48));
    let Disk { sim, machine, .. } = disk;
    machine.crash(Crash::PowerCut);
    let io = machine.core(0);
    let disk = Disk { sim, machine, io };
    let recovered = disk.open(unclean(48)).expect("what was opened once is there");
    assert_eq!(read_all(&disk, recovered), all_of(24));
}

/// A compaction that a crash has cut off at each of its steps: all of it counts, or nothing.
#[test]
fn a_compaction_that_was_cut_off_is_ended_or_forgotten() {
    let name = |segment: SegmentId, extension: &str| folder().join(format!("{:020}.{extension}", segment.0.0));
    // What is made (as the two first segments in one), what is taken away, and whether the outcome counts.
    type Case = (&'static str, &'static [(usize, &'static str)], &'static [(usize, &'static str)], bool);
    let cases: [Case; 7] = [
        ("being written", &[(0, "log.cleaned"), (0, "index.cleaned")], &[], false),
        ("complete", &[(0, "log.swap")], &[], true),
        ("with an index", &[(0, "log.swap"), (0, "index.swap")], &[], true),
        ("old ones half set aside", &[(0, "log.swap")], &[(0, "log"), (0, "index"), (1, "timeindex")], true),
        ("old ones set aside", &[(0, "log.swap")], &[(0, "log"), (1, "log"), (1, "index")], true),
        ("the first of several not renamed", &[(0, "log.cleaned"), (1, "log.swap")], &[], false),
        ("its index not renamed", &[(0, "index.cleaned"), (0, "log.swap")], &[], false),
    ];
    for (what, made, removed, counts) in cases {
        for clean in [false, true] {
            let context = format!("{what}, clean: {clean}");
            let disk = Disk::new();
            let segments = seed(&disk, 40);
            let both =
                [disk.bytes(&segment_path(&folder(), segments[0])), disk.bytes(&segment_path(&folder(), segments[1]))]
                    .concat();
            let files: Vec<(PathBuf, Vec<u8>)> = made
                .iter()
                .map(|(at, extension)| {
                    let bytes = if extension.starts_with("log") { both.clone() } else { Vec::new() };
                    (name(segments[*at], extension), bytes)
                })
                .collect();
            let gone: Vec<PathBuf> = removed.iter().map(|(at, extension)| name(segments[*at], extension)).collect();
            disk.run(move |io| async move {
                for (path, bytes) in files {
                    let file = io.open(&path, OpenHow::CreateNew).await.expect("room");
                    if !bytes.is_empty() {
                        file.write_at(Buffer::from_vec(bytes), 0).await.0.expect("room");
                    }
                    file.sync_data().await.expect("room");
                }
                for path in gone {
                    io.remove_file(&path).await.expect("it is there");
                }
                io.sync_dir(&folder()).await.expect("a folder");
            });
            let end = if clean { self::clean(80) } else { unclean(80) };
            let log = disk.open(end).unwrap_or_else(|error| panic!("{context}: {error}"));
            let ids: Vec<SegmentId> = log.segments.iter().map(alluvium::log::segment::Segment::id).collect();
            assert_eq!(ids.contains(&segments[1]), !counts, "{context}: {ids:?}");
            assert_eq!((log.log_end, ids[0]), (Offset(80), segments[0]), "{context}");
            let first = disk.bytes(&segment_path(&folder(), segments[0]));
            assert_eq!(first.len() == both.len(), counts, "{context}");
            let left = disk.run(|io| async move { io.read_dir(&folder()).await.expect("a folder") });
            let odd: Vec<_> =
                left.iter().filter(|entry| entry.name.ends_with("swap") || entry.name.ends_with("cleaned")).collect();
            assert!(odd.is_empty(), "{context}: {odd:?}");
            // And once more: what was ended stays so.
            let again = disk.open(self::clean(80)).unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(again.segments.len(), ids.len(), "{context}");
        }
    }
}
