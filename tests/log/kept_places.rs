//! Places for lookups by time that an earlier run has kept: what of them counts, and that none of it misleads.
#![cfg(feature = "sim")]

use alluvium::log::core_places::{CorePlaces, FIRST_BYTES, SegmentPlaces};
use alluvium::log::layout::segment_path;
use alluvium::log::partition_log::{LogConfig, PartitionLog};
use alluvium::log::partition_places::PlacesKept;
use alluvium::log::plan::SegmentId;
use alluvium::record::batch::crc32c;
use alluvium::record::offset::{LeaderEpoch, Offset, PartitionId};
use alluvium::ring::sim::random::Random;

use crate::times::{By, Disk, TOPIC, append_values, check, folder, look, mixed, plain, write, write_values};

const ID: PartitionId = PartitionId { topic_id: TOPIC, partition: 0 };

fn journal(kept: &[SegmentPlaces]) -> Vec<u8> {
    let mut file = FIRST_BYTES.to_vec();
    kept.iter().for_each(|segment| segment.encode(ID, LeaderEpoch(2), &mut file));
    file
}

fn parse(file: Vec<u8>) -> Vec<SegmentPlaces> {
    let mut core = CorePlaces::default();
    assert!(core.add_file(file), "it is whole");
    core.take(ID)
}

/// The log, opened again after a clean stop with the places that this one has, through the bytes of their file.
pub(crate) fn opened_with_places(disk: &Disk, log: PartitionLog, config: LogConfig) -> PartitionLog {
    let end = log.offsets().log_end;
    let kept = log.places_to_keep(end, PlacesKept::default()).0;
    let noted = log.segment_places();
    drop(log);
    let mut log = disk.open(true, end.0, config);
    log.restore_places(parse(journal(&kept)), true);
    assert_eq!(log.segment_places(), noted, "all are taken over");
    log
}

/// What was kept of a segment that has changed since is not taken over after a clean stop; and a place where no such batch
/// begins, should one be taken all the same, leads to the indexes.
#[test]
fn places_of_another_segment_are_not_believed() {
    let config = LogConfig { segment_bytes: 3 << 20, ..LogConfig::default() };
    let batches: Vec<Vec<i64>> = (0..120).map(|number| vec![10_000 + 10 * number]).collect();
    let disk = Disk::new();
    let log = write(&disk, config, batches.clone(), 30_000, true);
    let kept = log.segment_places();
    let end = log.offsets().log_end.0;
    drop(log);
    let mut log = disk.open(true, end, config);
    let noted = log.segment_places();
    for change in 0..5 {
        let mut wrong = kept.clone();
        for segment in &mut wrong {
            let shape = segment.shape.as_mut().expect("all is durable");
            match change {
                0 => shape.size_bytes += 1,
                1 => shape.max_timestamp.0 += 1,
                2 => shape.index_entries += 1,
                3 => shape.time_index_entries += 1,
                _ => segment.shape = None,
            }
        }
        log.restore_places(wrong, true);
        assert_eq!(log.segment_places(), noted, "change {change}");
    }
    // The bytes of a place: before (8), relative offset (4), position (4); all are moved by one.
    for field in [8, 12] {
        let mut wrong = journal(&kept[..1]);
        for place in 1..=kept[0].places.as_slice().len() {
            let at = wrong.len() - 16 * place + field;
            wrong[at + 3] ^= 1;
        }
        let crc = crc32c(&wrong[FIRST_BYTES.len() + 8..]).to_be_bytes();
        wrong[FIRST_BYTES.len() + 4..FIRST_BYTES.len() + 8].copy_from_slice(&crc);
        log.restore_places(parse(wrong), true);
        assert_ne!(log.segment_places(), noted, "they were taken");
        check(&disk, &log, &batches, &format!("wrong at {field}"));
    }
}

/// Times that mostly rise, and values of up to 30,000 bytes.
fn drawn(random: &Random, count: usize, number: &mut i64) -> Vec<(Vec<i64>, Vec<u8>)> {
    let batch = |_| {
        *number += 1;
        let time = |_| 5_000 + 7 * *number + random.below(40) as i64;
        ((0..2).map(time).collect(), vec![7; random.between(1_000, 30_000) as usize])
    };
    (0..count).map(batch).collect()
}

/// One read of a log finds a batch after a crash as well: by what was kept below the recovery point, and by what the start
/// has noted behind it, wherever that point lies.
#[test]
fn after_a_crash_a_lookup_by_places_reads_once() {
    let config = LogConfig { segment_bytes: 3 << 20, ..LogConfig::default() };
    for seed in 0..6_u64 {
        let random = Random::new(seed);
        let disk = Disk::new();
        let batches = drawn(&random, 400, &mut 0);
        let times: Vec<Vec<i64>> = batches.iter().map(|(times, _)| times.clone()).collect();
        let log = write_values(&disk, config, batches, seed % 2 == 0);
        let bases: Vec<i64> = log.segments().iter().map(|segment| segment.base_offset().0).collect();
        let points =
            [0, 2, bases[1], bases[1] + 2, bases[2] - 2, bases[2] + 60, *bases.last().expect("some"), 796, 800];
        for point in points {
            let context = format!("seed {seed}, recovery point {point}");
            let kept = parse(journal(&log.places_to_keep(Offset(point), PlacesKept::default()).0));
            // Each start mends what the crash has left: a log of its own.
            let disk = disk.copy();
            let mut log = disk.open(false, point, config);
            log.restore_places(kept, false);
            for target in times.iter().flatten().copied().step_by(3) {
                let (found, reads) = look(&disk, &log, target, By::Places);
                assert_eq!(found, plain(&times, target), "{context}: {target}");
                assert!(reads <= 1, "{context}: {reads} reads for {target}");
            }
        }
    }
}

/// Kills and power cuts, one after the other, each of which takes what lies behind the recovery point, or some of it; and
/// other batches come in its place. What was kept, by whichever of the runs, misleads no lookup.
#[test]
fn what_was_kept_is_right_whatever_crashes_take_behind_it() {
    let config = LogConfig { segment_bytes: 2 << 20, ..LogConfig::default() };
    for seed in 0..12_u64 {
        let random = Random::new(seed);
        let disk = Disk::new();
        let mut number = 0;
        let mut batches = drawn(&random, 120, &mut number);
        let mut log = write_values(&disk, config, batches.clone(), false);
        let (mut file, mut point) = (FIRST_BYTES.to_vec(), 0);
        for crash in 0..5 {
            let context = format!("seed {seed}, crash {crash}");
            // Some runs end before they have kept anything.
            if random.below(3) > 0 {
                point = 2 * random.between(point as u64 / 2, batches.len() as u64) as i64;
                let has = if random.coin() { PlacesKept::default() } else { log.places_kept() };
                let (due, has) = log.places_to_keep(Offset(point), has);
                due.iter().for_each(|segment| segment.encode(ID, LeaderEpoch(crash), &mut file));
                log.set_places_kept(has);
            }
            let left = random.between(point as u64 / 2, batches.len() as u64) as usize;
            cut(&disk, &log, left);
            batches.truncate(left);
            drop(log);
            log = disk.open(false, point, config);
            assert_eq!(log.offsets().log_end.0, 2 * left as i64, "{context}");
            log.restore_places(parse(file.clone()), false);
            let more = drawn(&random, random.index(150), &mut number);
            batches.extend(more.iter().cloned());
            log = append_values(&disk, log, more, false);
            let times: Vec<Vec<i64>> = batches.iter().map(|(times, _)| times.clone()).collect();
            for target in times.iter().flatten().map(|at| at + mixed(seed, *at) % 3 - 1) {
                let (found, _) = look(&disk, &log, target, By::Places);
                assert_eq!(found, plain(&times, target), "{context}: {target}");
            }
        }
    }
}

/// Cuts the log behind its first `left` batches, of two records each.
fn cut(disk: &Disk, log: &PartitionLog, left: usize) {
    let end = Offset(2 * left as i64);
    for (at, segment) in log.segments().iter().enumerate() {
        let next_base = log.segments().get(at + 1).map_or(log.offsets().log_end, |next| next.base_offset());
        if next_base > end {
            disk.machine.damage(segment_path(&folder(), SegmentId(segment.base_offset())), |bytes| {
                let mut at = 0;
                while at < bytes.len() && segment.base_offset() < end {
                    let header = alluvium::record::batch::parse_header(&bytes[at..]).expect("a log");
                    if header.base_offset >= end {
                        break;
                    }
                    at += header.len_bytes as usize;
                }
                bytes.truncate(at);
            });
        }
    }
}
