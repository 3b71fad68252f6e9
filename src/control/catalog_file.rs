//! The catalog's file: frames, replay, image; FORMAT.md draws it.

use crc_fast::{CrcAlgorithm, Digest};
use thiserror::Error;

use crate::control::catalog::Catalog;
use crate::control::catalog_error::RecordMismatch;
use crate::control::catalog_record::{CatalogRecord, RecordBytesError};

/// What a file held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The state after its last whole frame.
    pub catalog: Catalog,
    /// Where the next frame goes. 0: the file has no header yet, write [`image`] as a new file.
    pub valid_bytes: u64,
    /// What lies behind that, a torn tail: truncate the file to `valid_bytes`, and sync, before appending.
    pub torn_bytes: u64,
}

/// A file that cannot be used; nothing of it may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CatalogFileError {
    /// The first bytes are another program's.
    #[error("this is no catalog of alluvium's: its first bytes are others")]
    NotOurs,
    /// A newer server wrote it.
    #[error(
        "this catalog has format version {version}, newer than {FORMAT_VERSION}, the highest that this server reads"
    )]
    Newer {
        /// The version.
        version: u32,
    },
    /// A frame (or the header) before the end is damaged.
    #[error("the catalog is damaged at byte {position}: what was written there is not what is read")]
    Damaged {
        /// Where the frame begins.
        position: u64,
    },
    /// A frame is whole but has no records that this server writes.
    #[error("the catalog's frame at byte {position} cannot be read: {source}")]
    Records {
        /// Where the frame begins.
        position: u64,
        /// Why.
        source: RecordBytesError,
    },
    /// A frame is whole but changes what is not there.
    #[error("the catalog's frame at byte {position} does not fit what comes before it: {source}")]
    Mismatch {
        /// Where the frame begins.
        position: u64,
        /// Why.
        source: RecordMismatch,
    },
}

/// The one version there is.
pub const FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"ALVCTLOG";
const HEADER_BYTES: usize = 24;
const HEADER_CRC_AT: usize = 20;
const FRAME_HEADER_BYTES: usize = 16;
/// A smaller file is never worth an image: it replays in milliseconds.
const COMPACTION_BYTES_MIN: u64 = 1 << 20;
/// An image is written when the file has grown to this many times of it.
const COMPACTION_RATIO: u64 = 4;

const _: () = assert!(HEADER_CRC_AT + size_of::<u32>() == HEADER_BYTES);
const _: () = assert!(MAGIC.len() + size_of::<u32>() + size_of::<u64>() == HEADER_CRC_AT);
const _: () = assert!(2 * size_of::<u32>() + size_of::<u64>() == FRAME_HEADER_BYTES);

/// Appends the frame that `records`, planned on `catalog`, are written as.
pub fn encode_frame(catalog: &Catalog, records: &[CatalogRecord], bytes: &mut Vec<u8>) {
    put_frame(catalog.next_frame(), records, bytes);
}

/// The whole catalog as a new file: write it under another name, sync, rename, sync the directory.
#[must_use]
pub fn image(catalog: &Catalog) -> Vec<u8> {
    let mut frame = Vec::new();
    // The number of the frame before the next one, so that the next fits behind the image too.
    put_frame(catalog.next_frame() - 1, &catalog.image_records(), &mut frame);
    let mut bytes = header(frame.len() as u64).to_vec();
    bytes.append(&mut frame);
    bytes
}

/// True where a file of `file_bytes` has grown well past what an image would take.
#[must_use]
pub fn wants_compaction(catalog: &Catalog, file_bytes: u64) -> bool {
    if file_bytes <= COMPACTION_BYTES_MIN {
        return false;
    }
    let snapshot = catalog.snapshot();
    let mut bytes = 0;
    for topic in snapshot.topics() {
        let configs: usize = topic.configs.iter().map(|(key, value)| key.len() + value.len() + 4).sum();
        bytes += 32 + topic.name.len() + configs + topic.partitions.len() * 23;
    }
    file_bytes / COMPACTION_RATIO > bytes as u64
}

/// Reads a whole file.
///
/// # Errors
/// A file that is not ours, newer, or damaged anywhere but in a torn tail.
pub fn replay(bytes: &[u8]) -> Result<Replayed, CatalogFileError> {
    let mut catalog = Catalog::new();
    let Some(image_bytes) = check_header(bytes)? else {
        return Ok(Replayed { catalog, valid_bytes: 0, torn_bytes: bytes.len() as u64 });
    };
    let damaged = |position: usize| CatalogFileError::Damaged { position: position as u64 };
    let image_end = usize::try_from(image_bytes).ok().and_then(|image| image.checked_add(HEADER_BYTES));
    let image_end = image_end.filter(|end| *end <= bytes.len()).ok_or(damaged(HEADER_BYTES))?;
    let mut position = HEADER_BYTES;
    let mut expected = None;
    while position < bytes.len() {
        let Some(frame) = frame_at(bytes, position) else {
            if position < image_end || whole_frame_behind(bytes, position, expected.unwrap_or(0)) {
                return Err(damaged(position));
            }
            break;
        };
        let end = position + FRAME_HEADER_BYTES + frame.records.len();
        let is_next = expected.is_none_or(|number| frame.number == number);
        let straddles = position < image_end && end > image_end;
        if !is_next || straddles {
            return Err(damaged(position));
        }
        let at = position as u64;
        let records =
            decode_records(frame.records).map_err(|source| CatalogFileError::Records { position: at, source })?;
        catalog = catalog.with_next_frame(frame.number);
        catalog.apply(&records).map_err(|source| CatalogFileError::Mismatch { position: at, source })?;
        expected = Some(catalog.next_frame());
        position = end;
    }
    Ok(Replayed { catalog, valid_bytes: position as u64, torn_bytes: (bytes.len() - position) as u64 })
}

/// The length of the image; `None` where the header itself was being written.
fn check_header(bytes: &[u8]) -> Result<Option<u64>, CatalogFileError> {
    if bytes.len() < HEADER_BYTES {
        let fresh = header(0);
        return if fresh.starts_with(bytes) { Ok(None) } else { Err(CatalogFileError::NotOurs) };
    }
    let mut fields = bytes;
    let magic: [u8; 8] = take_field(&mut fields);
    let version = u32::from_be_bytes(take_field(&mut fields));
    let image_bytes = u64::from_be_bytes(take_field(&mut fields));
    let crc = u32::from_be_bytes(take_field(&mut fields));
    if magic != MAGIC {
        return Err(CatalogFileError::NotOurs);
    }
    // Before the CRC: a newer header may be laid out in another way.
    if version > FORMAT_VERSION {
        return Err(CatalogFileError::Newer { version });
    }
    if version != FORMAT_VERSION || crc != crc_of(&[bytes.get(..HEADER_CRC_AT).unwrap_or_default()]) {
        return Err(CatalogFileError::Damaged { position: 0 });
    }
    Ok(Some(image_bytes))
}

fn header(image_bytes: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend(MAGIC);
    bytes.extend(FORMAT_VERSION.to_be_bytes());
    bytes.extend(image_bytes.to_be_bytes());
    let crc = crc_of(&[&bytes]);
    bytes.extend(crc.to_be_bytes());
    bytes.try_into().expect("the fields fill the header")
}

fn put_frame(number: u64, records: &[CatalogRecord], bytes: &mut Vec<u8>) {
    let mut body = Vec::new();
    records.iter().for_each(|record| record.encode(&mut body));
    let length = u32::try_from(body.len()).expect("a catalog is far smaller than 4 GiB").to_be_bytes();
    let number = number.to_be_bytes();
    let crc = crc_of(&[&length, &number, &body]);
    bytes.extend(length);
    bytes.extend(crc.to_be_bytes());
    bytes.extend(number);
    bytes.append(&mut body);
}

struct Frame<'a> {
    number: u64,
    records: &'a [u8],
}

/// The frame that begins at `position`, where there is a whole one with a good CRC.
fn frame_at(bytes: &[u8], position: usize) -> Option<Frame<'_>> {
    let (length, rest) = bytes.get(position..)?.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let records = rest.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    let whole = u32::from_be_bytes(*crc) == crc_of(&[length, number, records]);
    whole.then_some(Frame { number: u64::from_be_bytes(*number), records })
}

/// True where what is bad at `position` cannot be a torn tail, since a later frame was written.
fn whole_frame_behind(bytes: &[u8], position: usize, number: u64) -> bool {
    let numbered = |at: usize| {
        let field = bytes.get(at + 8..)?.first_chunk::<8>()?;
        (u64::from_be_bytes(*field) > number).then_some(at)
    };
    (position + 1..bytes.len()).filter_map(numbered).any(|at| frame_at(bytes, at).is_some())
}

fn decode_records(mut bytes: &[u8]) -> Result<Vec<CatalogRecord>, RecordBytesError> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        records.push(CatalogRecord::decode(&mut bytes)?);
    }
    Ok(records)
}

/// The next field of the header, whose length was checked; zeros would follow a shorter one.
fn take_field<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let Some((field, rest)) = bytes.split_first_chunk::<N>() else {
        return [0; N];
    };
    *bytes = rest;
    *field
}

fn crc_of(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    u32::try_from(digest.finalize()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{CatalogFileError, encode_frame, header, image, replay, wants_compaction};
    use crate::control::broker_config::BrokerConfig;
    use crate::control::catalog::{Catalog, Command, NewTopic, Rules};
    use crate::control::id::{ClusterId, CoreIndex, DirectoryId};
    use crate::control::placement::Move;
    use crate::control::topic_config::ConfigChange;
    use crate::record::offset::TopicId;

    /// A small generator of pseudo-random numbers; one seed gives one run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % limit
        }

        fn id(&mut self) -> [u8; 16] {
            let mut id = [0; 16];
            id.iter_mut().for_each(|byte| *byte = self.below(256) as u8);
            id
        }
    }

    fn random_command(random: &mut Random, catalog: &Catalog) -> Command {
        let snapshot = catalog.snapshot();
        let count = snapshot.topics().len() as u64;
        let topic = (count > 0).then(|| snapshot.topics().nth(random.below(count) as usize).expect("there").clone());
        let start = Command::StartServer {
            cluster_id: ClusterId(random.id()),
            cores: CoreIndex::first(1 + random.below(4) as u16),
            directories: vec![DirectoryId([1; 16]), DirectoryId([2; 16])],
        };
        if snapshot.cores().is_empty() {
            return start;
        }
        let topic_id = topic.as_ref().map_or(TopicId([9; 16]), |topic| topic.id);
        match random.below(10) {
            0 => start,
            1 => Command::DeleteTopic { topic_id },
            2 => Command::AlterTopicConfigs {
                topic_id,
                changes: vec![ConfigChange::Set {
                    name: "retention.ms".into(),
                    value: Some(random.below(99).to_string()),
                }],
            },
            3 => {
                let count = topic.map_or(0, |topic| topic.partitions.len() as i32) + random.below(4) as i32;
                Command::CreatePartitions { topic_id, count, assignments: None, seed: random.below(9) }
            }
            4 => {
                let core = CoreIndex::new(random.below(4) as u16).expect("in range");
                Command::MovePartition { moved: Move { topic_id, partition: random.below(3) as i32, core } }
            }
            5 => Command::AllocateProducerIds { core: CoreIndex::first(1)[0] },
            _ => Command::CreateTopic(NewTopic {
                name: format!("t{}{}", ['.', '_', '-'][random.below(3) as usize], random.below(20)),
                topic_id: TopicId(random.id()),
                partition_count: random.below(6) as i32 - 1,
                replication_factor: -1,
                assignments: if random.below(4) == 0 { vec![(0, vec![1000])] } else { Vec::new() },
                configs: vec![("segment.ms".into(), Some("1000".into()))],
                created_ms: 5,
                seed: random.below(99),
            }),
        }
    }

    /// A file of `commands` random commands, with the end of each frame and the state there.
    fn random_file(seed: u64, commands: usize) -> (Vec<u8>, Vec<(usize, Catalog)>) {
        let config = BrokerConfig::default();
        let rules = Rules { config: &config, node_id: 1, clamp_replication: false, failed_directories: &[] };
        let mut random = Random(seed);
        let mut catalog = Catalog::new();
        let mut bytes = if seed.is_multiple_of(2) { header(0).to_vec() } else { image(&catalog) };
        let mut states = vec![(bytes.len(), catalog.clone())];
        for number in 0..commands {
            let command = random_command(&mut random, &catalog);
            let Ok(records) = catalog.plan(&command, &rules) else {
                continue;
            };
            let epochs_before = catalog.snapshot();
            encode_frame(&catalog, &records, &mut bytes);
            catalog.apply(&records).unwrap_or_else(|error| panic!("seed {seed} command {number} {command:?}: {error}"));
            for topic in epochs_before.topics() {
                let Some(after) = catalog.snapshot().topic_by_id(topic.id).cloned() else {
                    continue;
                };
                for (before, after) in topic.partitions.iter().zip(&after.partitions) {
                    assert!(
                        after.leader_epoch >= before.leader_epoch,
                        "seed {seed} command {number}: an epoch went back"
                    );
                    let moved = after.core != before.core;
                    assert!(
                        !moved || after.leader_epoch > before.leader_epoch,
                        "seed {seed} command {number}: no new epoch"
                    );
                }
            }
            states.push((bytes.len(), catalog.clone()));
        }
        (bytes, states)
    }

    #[test]
    fn replay_gives_the_state_back() {
        for seed in 0..200 {
            let (mut bytes, states) = random_file(seed, 40);
            let last = &states.last().expect("one at least").1;
            let replayed = replay(&bytes).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!((&replayed.catalog, replayed.torn_bytes), (last, 0), "seed {seed}");
            let compacted = replay(&image(last)).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(&compacted.catalog, last, "seed {seed}: the image");
            bytes.push(0);
            assert_eq!(replay(&bytes).map(|replayed| replayed.torn_bytes), Ok(1), "seed {seed}");
        }
    }

    #[test]
    fn every_truncation_replays_to_a_prefix() {
        for seed in 0..10 {
            let (bytes, states) = random_file(seed, 25);
            for length in 0..=bytes.len() {
                let expected = states.iter().rev().find(|(end, _)| *end <= length);
                match (replay(&bytes[..length]), expected) {
                    (Ok(replayed), Some((end, state))) => {
                        assert_eq!(&replayed.catalog, state, "seed {seed} length {length}");
                        assert_eq!(replayed.valid_bytes, *end as u64, "seed {seed} length {length}");
                    }
                    // Inside the image, which was whole before the file had its name, or inside the header.
                    (Err(CatalogFileError::Damaged { .. } | CatalogFileError::NotOurs), None) => {
                        assert_eq!(seed % 2, 1, "seed {seed}")
                    }
                    (Ok(replayed), None) => assert_eq!((replayed.valid_bytes, replayed.catalog), (0, Catalog::new())),
                    (answer, _) => panic!("seed {seed} length {length}: {answer:?}"),
                }
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_found_or_is_a_torn_tail() {
        for seed in 0..6 {
            let (bytes, states) = random_file(seed, 15);
            let last_frame = states[states.len() - 2].0;
            for position in 0..bytes.len() {
                let mut flipped = bytes.clone();
                flipped[position] ^= 1 << (position % 8);
                match replay(&flipped) {
                    Err(_) if position < last_frame => {}
                    Ok(replayed) if position >= last_frame => {
                        assert_eq!(replayed.valid_bytes, last_frame as u64, "seed {seed} position {position}");
                        assert_eq!(replayed.catalog, states[states.len() - 2].1, "seed {seed} position {position}");
                    }
                    answer => panic!("seed {seed} position {position}: {answer:?}"),
                }
            }
        }
    }

    #[test]
    fn other_files_are_refused() {
        let mut newer = header(0);
        newer[11] = 2;
        let image_of_nothing = image(&Catalog::new());
        let cases: [(&[u8], CatalogFileError); 4] = [
            (b"#!/bin/sh\necho not a catalog at all\n", CatalogFileError::NotOurs),
            (b"short", CatalogFileError::NotOurs),
            (&newer, CatalogFileError::Newer { version: 2 }),
            (&image_of_nothing[..30], CatalogFileError::Damaged { position: 24 }),
        ];
        for (bytes, error) in cases {
            assert_eq!(replay(bytes), Err(error));
        }
        assert!(!wants_compaction(&Catalog::new(), 1 << 20));
        assert!(wants_compaction(&Catalog::new(), (1 << 20) + 1));
    }
}
