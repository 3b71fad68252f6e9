//! What changes the catalog, and its bytes; FORMAT.md draws them.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use crate::control::id::{ClusterId, CoreIndex, DirectoryId};
use crate::control::placement::Move;
use crate::control::topic::{ConfigOverrides, Partition, Topic};
use crate::record::offset::TopicId;

/// One change. A record that was planned always applies to the catalog it was planned on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogRecord {
    /// The cluster's id, once.
    ClusterCreated {
        /// The id.
        cluster_id: ClusterId,
    },
    /// A start of the server: every partition's leader epoch goes up by one.
    ServerStarted {
        /// Its cores, ascending.
        cores: Vec<CoreIndex>,
        /// Its data directories, in the operator's order.
        directories: Vec<DirectoryId>,
        /// Partitions that get another core, because the cores are others than before.
        moves: Vec<Move>,
    },
    /// A topic with its partitions.
    TopicCreated {
        /// All of it.
        topic: Arc<Topic>,
    },
    /// A topic is gone.
    TopicDeleted {
        /// Which.
        topic_id: TopicId,
    },
    /// A topic's settings, in place of those it had.
    TopicConfigsSet {
        /// Which topic.
        topic_id: TopicId,
        /// All its settings.
        configs: ConfigOverrides,
    },
    /// More partitions, numbered on from those there are.
    PartitionsCreated {
        /// Of which topic.
        topic_id: TopicId,
        /// The new ones.
        partitions: Vec<Partition>,
    },
    /// A partition was moved by hand.
    PartitionMoved {
        /// Which, and where to.
        moved: Move,
        /// Its epoch from now on.
        leader_epoch: i32,
    },
    /// A block of producer ids belongs to a core.
    ProducerIdsAllocated {
        /// The core.
        core: CoreIndex,
        /// The first id of the block.
        first: i64,
        /// How many.
        count: u32,
    },
    /// The state that an image begins with; its topics follow as [`CatalogRecord::TopicCreated`].
    ImageStarted {
        /// The catalog's version before the records of the image that follow.
        version: u64,
        /// The first producer id that no core has.
        next_producer_id: i64,
        /// The cores of the last start.
        cores: Vec<CoreIndex>,
        /// The directories of the last start.
        directories: Vec<DirectoryId>,
    },
}

/// Bytes that are no record. Behind a good CRC it means a writer's fault, not the disk's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordBytesError {
    /// A field runs past the frame.
    #[error("a field runs past the end of its frame")]
    Short,
    /// A kind that this version does not know.
    #[error("record kind {kind} is unknown")]
    Kind {
        /// The byte.
        kind: u8,
    },
    /// A field has a value that it cannot have.
    #[error("the field {field} has an impossible value")]
    Value {
        /// The field.
        field: &'static str,
    },
}

impl CatalogRecord {
    /// Appends the record's bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::ClusterCreated { cluster_id } => {
                bytes.push(1);
                bytes.extend(cluster_id.0);
            }
            Self::ServerStarted { cores, directories, moves } => {
                bytes.push(2);
                put_machine(bytes, cores, directories);
                put_count(bytes, moves.len());
                moves.iter().for_each(|moved| put_move(bytes, moved));
            }
            Self::TopicCreated { topic } => {
                bytes.push(3);
                bytes.extend(topic.id.0);
                put_string(bytes, &topic.name);
                bytes.extend(topic.created_ms.to_be_bytes());
                put_configs(bytes, &topic.configs);
                put_partitions(bytes, &topic.partitions);
            }
            Self::TopicDeleted { topic_id } => {
                bytes.push(4);
                bytes.extend(topic_id.0);
            }
            Self::TopicConfigsSet { topic_id, configs } => {
                bytes.push(5);
                bytes.extend(topic_id.0);
                put_configs(bytes, configs);
            }
            Self::PartitionsCreated { topic_id, partitions } => {
                bytes.push(6);
                bytes.extend(topic_id.0);
                put_partitions(bytes, partitions);
            }
            Self::PartitionMoved { moved, leader_epoch } => {
                bytes.push(7);
                put_move(bytes, moved);
                bytes.extend(leader_epoch.to_be_bytes());
            }
            Self::ProducerIdsAllocated { core, first, count } => {
                bytes.push(8);
                bytes.extend(core.index().to_be_bytes());
                bytes.extend(first.to_be_bytes());
                bytes.extend(count.to_be_bytes());
            }
            Self::ImageStarted { version, next_producer_id, cores, directories } => {
                bytes.push(9);
                bytes.extend(version.to_be_bytes());
                bytes.extend(next_producer_id.to_be_bytes());
                put_machine(bytes, cores, directories);
            }
        }
    }

    /// Reads one record off the front of `bytes`.
    ///
    /// # Errors
    /// Where the bytes are none; `bytes` is then anywhere.
    pub fn decode(bytes: &mut &[u8]) -> Result<Self, RecordBytesError> {
        let [kind] = take(bytes)?;
        Ok(match kind {
            1 => Self::ClusterCreated { cluster_id: ClusterId(take(bytes)?) },
            2 => {
                let (cores, directories) = take_machine(bytes)?;
                Self::ServerStarted { cores, directories, moves: take_list(bytes, take_move)? }
            }
            3 => {
                let id = TopicId(take(bytes)?);
                let name = take_string(bytes)?.into();
                let created_ms = i64::from_be_bytes(take(bytes)?);
                let configs = take_configs(bytes)?;
                let partitions = take_list(bytes, take_partition)?;
                Self::TopicCreated { topic: Arc::new(Topic { name, id, created_ms, partitions, configs }) }
            }
            4 => Self::TopicDeleted { topic_id: TopicId(take(bytes)?) },
            5 => Self::TopicConfigsSet { topic_id: TopicId(take(bytes)?), configs: take_configs(bytes)? },
            6 => Self::PartitionsCreated {
                topic_id: TopicId(take(bytes)?),
                partitions: take_list(bytes, take_partition)?,
            },
            7 => Self::PartitionMoved { moved: take_move(bytes)?, leader_epoch: i32::from_be_bytes(take(bytes)?) },
            8 => Self::ProducerIdsAllocated {
                core: take_core(bytes)?,
                first: i64::from_be_bytes(take(bytes)?),
                count: u32::from_be_bytes(take(bytes)?),
            },
            9 => {
                let version = u64::from_be_bytes(take(bytes)?);
                let next_producer_id = i64::from_be_bytes(take(bytes)?);
                let (cores, directories) = take_machine(bytes)?;
                Self::ImageStarted { version, next_producer_id, cores, directories }
            }
            kind => return Err(RecordBytesError::Kind { kind }),
        })
    }
}

fn put_count(bytes: &mut Vec<u8>, count: usize) {
    let count = u32::try_from(count).expect("a plan is far smaller than 2^32 elements");
    bytes.extend(count.to_be_bytes());
}

fn put_string(bytes: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).expect("names and values are checked to be shorter when planned");
    bytes.extend(length.to_be_bytes());
    bytes.extend(text.as_bytes());
}

fn put_configs(bytes: &mut Vec<u8>, configs: &ConfigOverrides) {
    put_count(bytes, configs.len());
    for (key, value) in configs {
        put_string(bytes, key);
        put_string(bytes, value);
    }
}

fn put_machine(bytes: &mut Vec<u8>, cores: &[CoreIndex], directories: &[DirectoryId]) {
    put_count(bytes, cores.len());
    cores.iter().for_each(|core| bytes.extend(core.index().to_be_bytes()));
    put_count(bytes, directories.len());
    directories.iter().for_each(|directory| bytes.extend(directory.0));
}

fn put_move(bytes: &mut Vec<u8>, moved: &Move) {
    bytes.extend(moved.topic_id.0);
    bytes.extend(moved.partition.to_be_bytes());
    bytes.extend(moved.core.index().to_be_bytes());
}

fn put_partitions(bytes: &mut Vec<u8>, partitions: &[Partition]) {
    put_count(bytes, partitions.len());
    for partition in partitions {
        bytes.extend(partition.core.index().to_be_bytes());
        bytes.extend(partition.directory.0);
        bytes.extend(partition.leader_epoch.to_be_bytes());
        bytes.push(u8::from(partition.placed_by_hand));
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], RecordBytesError> {
    let (field, rest) = bytes.split_first_chunk::<N>().ok_or(RecordBytesError::Short)?;
    *bytes = rest;
    Ok(*field)
}

fn take_string(bytes: &mut &[u8]) -> Result<String, RecordBytesError> {
    let length = usize::from(u16::from_be_bytes(take(bytes)?));
    let (text, rest) = bytes.split_at_checked(length).ok_or(RecordBytesError::Short)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).map_err(|_| RecordBytesError::Value { field: "string" })
}

/// Reads a list; a count larger than the bytes can hold ends at their end, nothing is reserved for it.
fn take_list<T>(
    bytes: &mut &[u8],
    element: impl Fn(&mut &[u8]) -> Result<T, RecordBytesError>,
) -> Result<Vec<T>, RecordBytesError> {
    let count = u32::from_be_bytes(take(bytes)?);
    (0..count).map(|_| element(bytes)).collect()
}

fn take_configs(bytes: &mut &[u8]) -> Result<ConfigOverrides, RecordBytesError> {
    let pairs = take_list(bytes, |bytes| Ok((take_string(bytes)?, take_string(bytes)?)))?;
    let count = pairs.len();
    let configs: BTreeMap<String, String> = pairs.into_iter().collect();
    if configs.len() == count { Ok(configs) } else { Err(RecordBytesError::Value { field: "configs" }) }
}

fn take_machine(bytes: &mut &[u8]) -> Result<(Vec<CoreIndex>, Vec<DirectoryId>), RecordBytesError> {
    let cores = take_list(bytes, take_core)?;
    let directories = take_list(bytes, |bytes| Ok(DirectoryId(take(bytes)?)))?;
    Ok((cores, directories))
}

fn take_core(bytes: &mut &[u8]) -> Result<CoreIndex, RecordBytesError> {
    CoreIndex::new(u16::from_be_bytes(take(bytes)?)).ok_or(RecordBytesError::Value { field: "core" })
}

fn take_move(bytes: &mut &[u8]) -> Result<Move, RecordBytesError> {
    let topic_id = TopicId(take(bytes)?);
    let partition = i32::from_be_bytes(take(bytes)?);
    Ok(Move { topic_id, partition, core: take_core(bytes)? })
}

fn take_partition(bytes: &mut &[u8]) -> Result<Partition, RecordBytesError> {
    let core = take_core(bytes)?;
    let directory = DirectoryId(take(bytes)?);
    let leader_epoch = i32::from_be_bytes(take(bytes)?);
    let placed_by_hand = match take(bytes)? {
        [0] => false,
        [1] => true,
        _ => {
            return Err(RecordBytesError::Value { field: "partition flags" });
        }
    };
    if leader_epoch < 0 {
        return Err(RecordBytesError::Value { field: "leader epoch" });
    }
    Ok(Partition { core, directory, leader_epoch, placed_by_hand })
}

#[cfg(test)]
mod tests {
    use super::{CatalogRecord, RecordBytesError};
    use crate::record::offset::TopicId;

    #[test]
    fn bytes_that_are_no_record_are_named() {
        let mut deleted = Vec::new();
        CatalogRecord::TopicDeleted { topic_id: TopicId([3; 16]) }.encode(&mut deleted);
        let huge_list = [&[2u8][..], &[0xff; 4]].concat();
        let bad_core = [&[8u8][..], &1000u16.to_be_bytes(), &[0; 12]].concat();
        let cases: [(&[u8], Result<CatalogRecord, RecordBytesError>); 6] = [
            (&deleted, Ok(CatalogRecord::TopicDeleted { topic_id: TopicId([3; 16]) })),
            (&deleted[..16], Err(RecordBytesError::Short)),
            (&[], Err(RecordBytesError::Short)),
            (&[77], Err(RecordBytesError::Kind { kind: 77 })),
            (&huge_list, Err(RecordBytesError::Short)),
            (&bad_core, Err(RecordBytesError::Value { field: "core" })),
        ];
        for (mut bytes, expected) in cases {
            assert_eq!(CatalogRecord::decode(&mut bytes), expected);
        }
    }
}
