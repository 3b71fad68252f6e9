//! The records of groups of the consumer protocol.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::group::classic_client::ClassicClient;
use crate::group::consumer_group::ConsumerGroup;
use crate::group::consumer_member::{ConsumerMember, MemberState};
use crate::group::request::Protocol;
use crate::group::topics::Partitions;
use crate::record::coordination::{CoordinatorRecord, ReplayError};
use crate::wire::messages::consumer_group_current_member_assignment_key::ConsumerGroupCurrentMemberAssignmentKey as CurrentKey;
use crate::wire::messages::consumer_group_current_member_assignment_value::{
    ConsumerGroupCurrentMemberAssignmentValue as CurrentValue, TopicPartitions as CurrentParts,
};
use crate::wire::messages::consumer_group_member_metadata_key::ConsumerGroupMemberMetadataKey as MemberKey;
use crate::wire::messages::consumer_group_member_metadata_value::{
    ClassicMemberMetadata, ClassicProtocol, ConsumerGroupMemberMetadataValue as MemberValue,
};
use crate::wire::messages::consumer_group_metadata_key::ConsumerGroupMetadataKey as EpochKey;
use crate::wire::messages::consumer_group_metadata_value::ConsumerGroupMetadataValue as EpochValue;
use crate::wire::messages::consumer_group_partition_metadata_key::ConsumerGroupPartitionMetadataKey as TopicsKey;
use crate::wire::messages::consumer_group_regular_expression_key::ConsumerGroupRegularExpressionKey as RegexKey;
use crate::wire::messages::consumer_group_regular_expression_value::ConsumerGroupRegularExpressionValue as RegexValue;
use crate::wire::messages::consumer_group_target_assignment_member_key::ConsumerGroupTargetAssignmentMemberKey as TargetKey;
use crate::wire::messages::consumer_group_target_assignment_member_value::{
    ConsumerGroupTargetAssignmentMemberValue as TargetValue, TopicPartition as TargetParts,
};
use crate::wire::messages::consumer_group_target_assignment_metadata_key::ConsumerGroupTargetAssignmentMetadataKey as AssignmentKey;
use crate::wire::messages::consumer_group_target_assignment_metadata_value::ConsumerGroupTargetAssignmentMetadataValue as AssignmentValue;
use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// A record of a group of the consumer protocol, as it is understood. `None` takes back.
#[derive(Debug)]
pub enum ConsumerRecord {
    /// The group's epoch and the hash of its topics.
    Epoch(Option<(i32, i64)>),
    /// A member.
    Member(String, Option<Box<ConsumerMember>>),
    /// The epoch of the assignment.
    AssignmentEpoch(Option<i32>),
    /// What a member shall have.
    Target(String, Option<Partitions>),
    /// What a member has.
    Current(String, Option<Box<CurrentAssignment>>),
    /// The topics that a regular expression stands for.
    Regex(String, Option<BTreeSet<String>>),
    /// What is derived, and made anew.
    Derived,
}

/// What a member has.
#[derive(Clone, Debug)]
pub struct CurrentAssignment {
    /// The epoch that it is in.
    pub epoch: i32,
    /// The epoch that it was in before.
    pub previous_epoch: i32,
    /// Where it is on the way to its assignment.
    pub state: MemberState,
    /// What it may read.
    pub assigned: Partitions,
    /// What it has to give back.
    pub pending_revocation: Partitions,
}

/// True for the types of records that [`decode`] reads.
pub fn is_of_consumers(kind: i16) -> bool {
    let kinds = [
        EpochKey::API_KEY,
        TopicsKey::API_KEY,
        MemberKey::API_KEY,
        AssignmentKey::API_KEY,
        TargetKey::API_KEY,
        CurrentKey::API_KEY,
        RegexKey::API_KEY,
    ];
    kinds.contains(&kind)
}

/// Reads a record behind its type; says of which group it is.
///
/// # Errors
/// What makes no sense.
pub fn decode(kind: i16, key: &mut Reader<'_>, value: Option<&[u8]>) -> Result<(String, ConsumerRecord), ReplayError> {
    decoded(kind, key, value).map_err(|error| ReplayError::Corrupt(error.to_string()))
}

fn decoded(kind: i16, key: &mut Reader<'_>, value: Option<&[u8]>) -> Result<(String, ConsumerRecord), DecodeError> {
    let value = value
        .map(|value| {
            let mut reader = Reader::new(value);
            reader.int16("version").map(|version| (reader, version))
        })
        .transpose()?;
    Ok(match kind {
        EpochKey::API_KEY => {
            let group_id = EpochKey::decode(key, 0)?.group_id.to_owned();
            let value = value.map(|(mut value, version)| EpochValue::decode(&mut value, version)).transpose()?;
            (group_id, ConsumerRecord::Epoch(value.map(|value| (value.epoch, value.metadata_hash))))
        }
        MemberKey::API_KEY => {
            let key = MemberKey::decode(key, 0)?;
            let member = match value {
                None => None,
                Some((mut value, version)) => Some(Box::new(read_member(key.member_id, &mut value, version)?)),
            };
            (key.group_id.to_owned(), ConsumerRecord::Member(key.member_id.to_owned(), member))
        }
        AssignmentKey::API_KEY => {
            let group_id = AssignmentKey::decode(key, 0)?.group_id.to_owned();
            let value = value.map(|(mut value, version)| AssignmentValue::decode(&mut value, version)).transpose()?;
            (group_id, ConsumerRecord::AssignmentEpoch(value.map(|value| value.assignment_epoch)))
        }
        TargetKey::API_KEY => {
            let key = TargetKey::decode(key, 0)?;
            let value = value.map(|(mut value, version)| TargetValue::decode(&mut value, version)).transpose()?;
            let parts = value.map(|value| {
                gathered(value.topic_partitions.into_iter().map(|topic| (topic.topic_id, topic.partitions)))
            });
            (key.group_id.to_owned(), ConsumerRecord::Target(key.member_id.to_owned(), parts))
        }
        CurrentKey::API_KEY => {
            let key = CurrentKey::decode(key, 0)?;
            let value = value.map(|(mut value, version)| CurrentValue::decode(&mut value, version)).transpose()?;
            let of =
                |parts: Vec<CurrentParts>| gathered(parts.into_iter().map(|part| (part.topic_id, part.partitions)));
            let current = value.map(|value| {
                Box::new(CurrentAssignment {
                    epoch: value.member_epoch,
                    previous_epoch: value.previous_member_epoch,
                    state: MemberState::of(value.state),
                    assigned: of(value.assigned_partitions),
                    pending_revocation: of(value.partitions_pending_revocation),
                })
            });
            (key.group_id.to_owned(), ConsumerRecord::Current(key.member_id.to_owned(), current))
        }
        TopicsKey::API_KEY => (TopicsKey::decode(key, 0)?.group_id.to_owned(), ConsumerRecord::Derived),
        _ => {
            let key = RegexKey::decode(key, 0)?;
            let value = value.map(|(mut value, version)| RegexValue::decode(&mut value, version)).transpose()?;
            let topics = value.map(|value| value.topics.iter().map(|topic| (*topic).to_owned()).collect());
            (key.group_id.to_owned(), ConsumerRecord::Regex(key.regular_expression.to_owned(), topics))
        }
    })
}

fn read_member(member_id: &str, value: &mut Reader<'_>, version: i16) -> Result<ConsumerMember, DecodeError> {
    let value = MemberValue::decode(value, version)?;
    let classic = value.classic_member_metadata.map(|classic| ClassicClient {
        session_timeout_ms: u32::try_from(classic.session_timeout_ms).unwrap_or(0),
        protocols: classic
            .supported_protocols
            .iter()
            .map(|offered| Protocol { name: offered.name.to_owned(), metadata: offered.metadata.to_vec() })
            .collect(),
    });
    Ok(ConsumerMember {
        instance_id: value.instance_id.map(Rc::from),
        rack_id: value.rack_id.map(str::to_owned),
        client_id: value.client_id.to_owned(),
        client_host: value.client_host.to_owned(),
        rebalance_timeout_ms: value.rebalance_timeout_ms,
        subscribed_topics: value.subscribed_topic_names.iter().map(|name| (*name).to_owned()).collect(),
        subscribed_regex: value.subscribed_topic_regex.unwrap_or_default().to_owned(),
        server_assignor: value.server_assignor.map(str::to_owned),
        classic,
        ..ConsumerMember::new(Rc::from(member_id))
    })
}

fn gathered(parts: impl Iterator<Item = (Uuid, Vec<i32>)>) -> Partitions {
    parts.map(|(topic, parts)| (topic.0, parts.into_iter().collect::<BTreeSet<i32>>())).collect()
}

type Made = Result<CoordinatorRecord, EncodeError>;
type Encode<'a> = &'a dyn Fn(&mut Vec<u8>) -> Result<(), EncodeError>;

fn record(kind: i16, key: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>, value: Option<Encode<'_>>) -> Made {
    let mut made = CoordinatorRecord { key: Vec::with_capacity(64), value: None };
    writer::int16(&mut made.key, kind);
    key(&mut made.key)?;
    if let Some(value) = value {
        let mut bytes = Vec::with_capacity(64);
        writer::int16(&mut bytes, VERSION);
        value(&mut bytes)?;
        made.value = Some(bytes);
    }
    Ok(made)
}

/// The group's epoch.
///
/// # Errors
/// A name is longer than the format takes; so for all records here.
pub fn epoch(group: &ConsumerGroup) -> Made {
    let value = EpochValue { epoch: group.epoch, metadata_hash: group.metadata_hash };
    let key = EpochKey { group_id: &group.id };
    record(EpochKey::API_KEY, |out| key.encode(out, 0), Some(&|out| value.encode(out, VERSION)))
}

/// A member.
///
/// # Errors
/// As [`epoch`].
pub fn member(group_id: &str, member: &ConsumerMember) -> Made {
    let classic = member.classic.as_ref().map(|classic| ClassicMemberMetadata {
        session_timeout_ms: i32::try_from(classic.session_timeout_ms).unwrap_or(i32::MAX),
        supported_protocols: classic
            .protocols
            .iter()
            .map(|offered| ClassicProtocol { name: &offered.name, metadata: &offered.metadata })
            .collect(),
    });
    let value = MemberValue {
        instance_id: member.instance_id.as_deref(),
        rack_id: member.rack_id.as_deref(),
        client_id: &member.client_id,
        client_host: &member.client_host,
        subscribed_topic_names: member.subscribed_topics.iter().map(String::as_str).collect(),
        subscribed_topic_regex: Some(&member.subscribed_regex),
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        server_assignor: member.server_assignor.as_deref(),
        classic_member_metadata: classic,
    };
    let key = MemberKey { group_id, member_id: &member.member_id };
    record(MemberKey::API_KEY, |out| key.encode(out, 0), Some(&|out| value.encode(out, VERSION)))
}

/// A member is no more.
///
/// # Errors
/// As [`epoch`].
pub fn member_tombstone(group_id: &str, member_id: &str) -> Made {
    record(MemberKey::API_KEY, |out| MemberKey { group_id, member_id }.encode(out, 0), None)
}

/// What a member shall have.
///
/// # Errors
/// As [`epoch`].
pub fn target(group_id: &str, member_id: &str, parts: &Partitions) -> Made {
    let each = parts
        .iter()
        .map(|(topic, parts)| TargetParts { topic_id: Uuid(*topic), partitions: parts.iter().copied().collect() });
    let value = TargetValue { topic_partitions: each.collect() };
    let key = TargetKey { group_id, member_id };
    record(TargetKey::API_KEY, |out| key.encode(out, 0), Some(&|out| value.encode(out, VERSION)))
}

/// A member shall have nothing any more.
///
/// # Errors
/// As [`epoch`].
pub fn target_tombstone(group_id: &str, member_id: &str) -> Made {
    record(TargetKey::API_KEY, |out| TargetKey { group_id, member_id }.encode(out, 0), None)
}

/// The epoch of the assignment.
///
/// # Errors
/// As [`epoch`].
pub fn assignment_epoch(group_id: &str, assignment_epoch: i32, assignment_timestamp: i64) -> Made {
    let value = AssignmentValue { assignment_epoch, assignment_timestamp };
    let key = AssignmentKey { group_id };
    record(AssignmentKey::API_KEY, |out| key.encode(out, 0), Some(&|out| value.encode(out, VERSION)))
}

/// What a member has.
///
/// # Errors
/// As [`epoch`].
pub fn current(group_id: &str, member: &ConsumerMember) -> Made {
    let parts = |parts: &Partitions| {
        let each = parts.iter().map(|(topic, parts)| CurrentParts {
            topic_id: Uuid(*topic),
            partitions: parts.iter().copied().collect(),
            ..CurrentParts::default()
        });
        each.collect()
    };
    let value = CurrentValue {
        member_epoch: member.epoch,
        previous_member_epoch: member.previous_epoch,
        state: member.state.number(),
        assigned_partitions: parts(&member.assigned),
        partitions_pending_revocation: parts(&member.pending_revocation),
    };
    let key = CurrentKey { group_id, member_id: &member.member_id };
    record(CurrentKey::API_KEY, |out| key.encode(out, 0), Some(&|out| value.encode(out, VERSION)))
}

/// A member has nothing any more.
///
/// # Errors
/// As [`epoch`].
pub fn current_tombstone(group_id: &str, member_id: &str) -> Made {
    record(CurrentKey::API_KEY, |out| CurrentKey { group_id, member_id }.encode(out, 0), None)
}

/// The topics that a regular expression stands for, by this version of the catalog.
///
/// # Errors
/// As [`epoch`].
pub fn regex(group_id: &str, pattern: &str, topics: &BTreeSet<String>, version: u64, wall_ms: i64) -> Made {
    let value = RegexValue {
        topics: topics.iter().map(String::as_str).collect(),
        version: i64::try_from(version).unwrap_or(i64::MAX),
        timestamp: wall_ms,
    };
    let key = RegexKey { group_id, regular_expression: pattern };
    record(RegexKey::API_KEY, |out| key.encode(out, 0), Some(&|out| value.encode(out, VERSION)))
}

/// Nobody subscribes by the regular expression any more.
///
/// # Errors
/// As [`epoch`].
pub fn regex_tombstone(group_id: &str, pattern: &str) -> Made {
    let key = RegexKey { group_id, regular_expression: pattern };
    record(RegexKey::API_KEY, |out| key.encode(out, 0), None)
}

/// The group is no more.
///
/// # Errors
/// As [`epoch`].
pub fn group_tombstones(group_id: &str) -> [Made; 2] {
    [
        record(AssignmentKey::API_KEY, |out| AssignmentKey { group_id }.encode(out, 0), None),
        record(EpochKey::API_KEY, |out| EpochKey { group_id }.encode(out, 0), None),
    ]
}

/// All values have the one version that there is.
const VERSION: i16 = 0;
