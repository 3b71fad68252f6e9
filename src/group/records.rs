//! The records of `__consumer_offsets`: made, and read back.
//!
//! A key begins with its record's type, a value with its version; then comes the message by Kafka's descriptor.

use std::rc::Rc;

use crate::group::classic_group::ClassicGroup;
use crate::group::classic_member::ClassicMember;
use crate::group::consumer_records::{self, ConsumerRecord};
use crate::group::request::Protocol;
use crate::group::stored_offsets::StoredOffset;
use crate::record::coordination::{CoordinatorRecord, ReplayError};
use crate::wire::messages::group_metadata_key::GroupMetadataKey;
use crate::wire::messages::group_metadata_value::{GroupMetadataValue, MemberMetadata};
use crate::wire::messages::offset_commit_key::OffsetCommitKey;
use crate::wire::messages::offset_commit_value::OffsetCommitValue;
use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// A record, as it is understood.
#[derive(Debug)]
pub enum GroupRecord {
    /// An offset was committed, or taken back.
    Offset {
        /// Of this group,
        group_id: String,
        /// this topic,
        topic: String,
        /// and this partition.
        partition: i32,
        /// `None`: taken back.
        value: Option<StoredOffset>,
    },
    /// A classic group has this generation and these members, or is no more.
    Classic {
        /// The group.
        group_id: String,
        /// `None`: no more.
        value: Option<Box<ClassicGroup>>,
    },
    /// A part of a group of the consumer protocol.
    Consumer {
        /// The group.
        group_id: String,
        /// The part.
        record: ConsumerRecord,
    },
}

/// Reads a record.
///
/// # Errors
/// What makes no sense, or is of a newer server.
pub fn decode(key: &[u8], value: Option<&[u8]>) -> Result<GroupRecord, ReplayError> {
    let mut key = Reader::new(key);
    let kind = key.int16("type").map_err(corrupt)?;
    match kind {
        LEGACY_OFFSET_COMMIT | OffsetCommitKey::API_KEY => {
            let key = OffsetCommitKey::decode(&mut key, 0).map_err(corrupt)?;
            let value = value.map(decode_offset).transpose()?;
            Ok(GroupRecord::Offset {
                group_id: key.group.to_owned(),
                topic: key.topic.to_owned(),
                partition: key.partition,
                value,
            })
        }
        GroupMetadataKey::API_KEY => {
            let key = GroupMetadataKey::decode(&mut key, 0).map_err(corrupt)?;
            let value = value.map(|value| decode_group(key.group, value)).transpose()?;
            Ok(GroupRecord::Classic { group_id: key.group.to_owned(), value: value.map(Box::new) })
        }
        kind if consumer_records::is_of_consumers(kind) => {
            let (group_id, record) = consumer_records::decode(kind, &mut key, value)?;
            Ok(GroupRecord::Consumer { group_id, record })
        }
        unknown => Err(ReplayError::UnknownType(unknown)),
    }
}

fn corrupt(error: DecodeError) -> ReplayError {
    ReplayError::Corrupt(error.to_string())
}

fn decode_offset(value: &[u8]) -> Result<StoredOffset, ReplayError> {
    let mut reader = Reader::new(value);
    let version = reader.int16("version").map_err(corrupt)?;
    let value = OffsetCommitValue::decode(&mut reader, version).map_err(corrupt)?;
    Ok(StoredOffset {
        offset: value.offset,
        leader_epoch: value.leader_epoch,
        metadata: value.metadata.into(),
        committed_ms: value.commit_timestamp,
        expires_ms: (value.expire_timestamp != NO_TIMESTAMP).then_some(value.expire_timestamp),
        topic_id: value.topic_id.0,
    })
}

fn decode_group(group_id: &str, value: &[u8]) -> Result<ClassicGroup, ReplayError> {
    let mut reader = Reader::new(value);
    let version = reader.int16("version").map_err(corrupt)?;
    let value = GroupMetadataValue::decode(&mut reader, version).map_err(corrupt)?;
    let mut group = ClassicGroup::new(Rc::from(group_id), NO_TIMESTAMP);
    group.state_since_ms = (value.current_state_timestamp != NO_TIMESTAMP).then_some(value.current_state_timestamp);
    group.generation = value.generation;
    group.protocol_type = Some(value.protocol_type.to_owned()).filter(|kind| !kind.is_empty());
    group.protocol_name = value.protocol.map(str::to_owned);
    group.leader = value.leader.map(Rc::from);
    let timeout = |ms: i32| u32::try_from(ms).unwrap_or(0);
    let member = |member: &MemberMetadata<'_>| ClassicMember {
        member_id: Rc::from(member.member_id),
        instance_id: member.group_instance_id.map(Rc::from),
        client_id: member.client_id.to_owned(),
        client_host: member.client_host.to_owned(),
        session_timeout_ms: timeout(member.session_timeout),
        rebalance_timeout_ms: timeout(match member.rebalance_timeout {
            NOT_SAID => member.session_timeout,
            said => said,
        }),
        protocols: vec![Protocol {
            name: value.protocol.unwrap_or_default().to_owned(),
            metadata: member.subscription.to_vec(),
        }],
        assignment: member.assignment.to_vec(),
        is_new: false,
        awaiting_join: None,
        awaiting_sync: None,
    };
    Ok(group.replayed(value.members.iter().map(member).collect()))
}

/// The record of a committed offset.
///
/// # Errors
/// A name or text is longer than Kafka's format takes.
pub fn offset(
    group_id: &str,
    topic: &str,
    partition: i32,
    stored: &StoredOffset,
) -> Result<CoordinatorRecord, EncodeError> {
    // Version 1 alone has a time to expire at, which clients before Kafka 2.1 ask for.
    let version = if stored.expires_ms.is_some() { 1 } else { OFFSET_VERSION };
    let message = OffsetCommitValue {
        offset: stored.offset,
        leader_epoch: if version >= 3 { stored.leader_epoch } else { NOT_SAID },
        metadata: &stored.metadata,
        commit_timestamp: stored.committed_ms,
        expire_timestamp: stored.expires_ms.unwrap_or(NO_TIMESTAMP),
        topic_id: crate::wire::uuid::Uuid(if version >= 4 { stored.topic_id } else { [0; 16] }),
    };
    let mut value = Vec::with_capacity(48);
    writer::int16(&mut value, version);
    message.encode(&mut value, version)?;
    Ok(CoordinatorRecord { key: offset_key(group_id, topic, partition)?, value: Some(value) })
}

/// The record that takes a committed offset back.
///
/// # Errors
/// As [`offset`].
pub fn offset_tombstone(group_id: &str, topic: &str, partition: i32) -> Result<CoordinatorRecord, EncodeError> {
    Ok(CoordinatorRecord { key: offset_key(group_id, topic, partition)?, value: None })
}

fn offset_key(group_id: &str, topic: &str, partition: i32) -> Result<Vec<u8>, EncodeError> {
    let mut key = Vec::with_capacity(10 + group_id.len() + topic.len());
    writer::int16(&mut key, OffsetCommitKey::API_KEY);
    OffsetCommitKey { group: group_id, topic, partition }.encode(&mut key, 0)?;
    Ok(key)
}

/// The record of a classic group as it is.
///
/// # Errors
/// As [`offset`].
pub fn classic(group: &ClassicGroup) -> Result<CoordinatorRecord, EncodeError> {
    let protocol = group.protocol_name.as_deref();
    let timeout = |ms: u32| i32::try_from(ms).unwrap_or(i32::MAX);
    let members = group
        .members()
        .map(|member| MemberMetadata {
            member_id: &member.member_id,
            group_instance_id: member.instance_id.as_deref(),
            client_id: &member.client_id,
            client_host: &member.client_host,
            rebalance_timeout: timeout(member.rebalance_timeout_ms),
            session_timeout: timeout(member.session_timeout_ms),
            subscription: protocol.map_or(&[], |protocol| member.metadata(protocol)),
            assignment: &member.assignment,
        })
        .collect();
    let message = GroupMetadataValue {
        protocol_type: group.protocol_type.as_deref().unwrap_or_default(),
        generation: group.generation,
        protocol,
        leader: group.leader.as_deref(),
        current_state_timestamp: group.state_since_ms.unwrap_or(NO_TIMESTAMP),
        members,
    };
    classic_record(&group.id, &message)
}

/// The record of a group that has just been made, and has no members yet.
///
/// # Errors
/// As [`offset`].
pub fn empty_classic(group: &ClassicGroup) -> Result<CoordinatorRecord, EncodeError> {
    let message = GroupMetadataValue {
        protocol_type: "",
        generation: 0,
        protocol: None,
        leader: None,
        current_state_timestamp: group.state_since_ms.unwrap_or(NO_TIMESTAMP),
        members: Vec::new(),
    };
    classic_record(&group.id, &message)
}

fn classic_record(group_id: &str, message: &GroupMetadataValue<'_>) -> Result<CoordinatorRecord, EncodeError> {
    let mut value = Vec::new();
    writer::int16(&mut value, GROUP_VERSION);
    message.encode(&mut value, GROUP_VERSION)?;
    Ok(CoordinatorRecord { key: classic_key(group_id)?, value: Some(value) })
}

/// The record that takes a classic group back.
///
/// # Errors
/// As [`offset`].
pub fn classic_tombstone(group_id: &str) -> Result<CoordinatorRecord, EncodeError> {
    Ok(CoordinatorRecord { key: classic_key(group_id)?, value: None })
}

fn classic_key(group_id: &str) -> Result<Vec<u8>, EncodeError> {
    let mut key = Vec::with_capacity(4 + group_id.len());
    writer::int16(&mut key, GroupMetadataKey::API_KEY);
    GroupMetadataKey { group: group_id }.encode(&mut key, 0)?;
    Ok(key)
}

/// The first version of offset keys, which had another number; the same otherwise.
const LEGACY_OFFSET_COMMIT: i16 = 0;
/// The versions that Kafka 4.4 writes.
const OFFSET_VERSION: i16 = 4;
const GROUP_VERSION: i16 = 3;
const NO_TIMESTAMP: i64 = -1;
const NOT_SAID: i32 = -1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::record_reader::{check_crc, read_records};

    /// Segments of `__consumer_offsets` that a real Kafka 4.4.0 wrote for the prober's cases: a group's life with commits in
    /// every version of the request, and a static member that came back.
    const GOLDEN: [(&str, &[u8]); 2] = [
        ("classic", include_bytes!("../../tests/golden/groups/classic.log")),
        ("static", include_bytes!("../../tests/golden/groups/static.log")),
    ];

    #[test]
    fn kafkas_records_are_understood_and_would_be_written_the_same() {
        for (name, mut segment) in GOLDEN {
            let mut kinds = [0; 2];
            while !segment.is_empty() {
                let header = check_crc(segment).expect("Kafka's CRC");
                let (batch, rest) = segment.split_at(header.len_bytes as usize);
                segment = rest;
                read_records(batch, usize::MAX, |record| {
                    let key = record.key.expect("coordinators' records have keys");
                    let again = match decode(key, record.value).unwrap_or_else(|error| panic!("{name}: {error}")) {
                        GroupRecord::Offset { group_id, topic, partition, value } => {
                            kinds[0] += 1;
                            match value {
                                Some(value) => offset(&group_id, &topic, partition, &value),
                                None => offset_tombstone(&group_id, &topic, partition),
                            }
                        }
                        GroupRecord::Classic { group_id, value } => {
                            kinds[1] += 1;
                            match value {
                                Some(group) => classic(&group),
                                None => classic_tombstone(&group_id),
                            }
                        }
                        GroupRecord::Consumer { .. } => panic!("{name}: no such group was made"),
                    };
                    let again = again.expect("what was read can be written");
                    assert_eq!((again.key.as_slice(), again.value.as_deref()), (key, record.value), "{name}");
                })
                .expect("whole batches");
            }
            assert!(kinds[1] >= 3, "{name}: {kinds:?}");
        }
    }

    #[test]
    fn damage_is_an_error_and_a_newer_type_is_told_apart() {
        let stored = StoredOffset {
            offset: 5,
            leader_epoch: 1,
            metadata: "m".into(),
            committed_ms: 7,
            expires_ms: Some(9),
            topic_id: [0; 16],
        };
        let record = offset("g", "t", 3, &stored).expect("short names");
        match decode(&record.key, record.value.as_deref()) {
            Ok(GroupRecord::Offset { value: Some(value), .. }) => {
                assert_eq!(value, StoredOffset { leader_epoch: -1, ..stored }, "version 1 has no leader epoch");
            }
            other => panic!("{other:?}"),
        }
        for cut in 0..record.key.len() {
            assert!(decode(&record.key[..cut], record.value.as_deref()).is_err(), "key cut at {cut}");
        }
        let value = record.value.expect("an offset");
        for cut in 0..value.len() {
            assert!(decode(&record.key, Some(&value[..cut])).is_err(), "value cut at {cut}");
        }
        assert!(matches!(decode(&[0, 99, 1], None), Err(ReplayError::UnknownType(99))));
    }
}
