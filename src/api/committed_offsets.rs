//! What OffsetCommit and TxnOffsetCommit have in common: offsets by topic and partition in, a code for each out.

use crate::control::snapshot::Snapshot;
use crate::control::topic::Topic;
use crate::group::reply::GroupReply;
use crate::group::request::{CommitPartition, CommitTopic};
use crate::record::offset::TopicId;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::offset_commit_request::OffsetCommitRequestTopic;
use crate::wire::messages::txn_offset_commit_request::TxnOffsetCommitRequestTopic;
use crate::wire::uuid::Uuid;

/// The offsets of one topic, as a request names it.
pub struct NamedOffsets<'a> {
    name: &'a str,
    topic_id: Uuid,
    partitions: Vec<CommitPartition>,
}

impl<'a> From<&OffsetCommitRequestTopic<'a>> for NamedOffsets<'a> {
    fn from(topic: &OffsetCommitRequestTopic<'a>) -> Self {
        let partitions = topic.partitions.iter().map(|one| {
            committed(one.partition_index, one.committed_offset, one.committed_leader_epoch, one.committed_metadata)
        });
        Self { name: topic.name, topic_id: topic.topic_id, partitions: partitions.collect() }
    }
}

impl<'a> From<&TxnOffsetCommitRequestTopic<'a>> for NamedOffsets<'a> {
    fn from(topic: &TxnOffsetCommitRequestTopic<'a>) -> Self {
        let partitions = topic.partitions.iter().map(|one| {
            committed(one.partition_index, one.committed_offset, one.committed_leader_epoch, one.committed_metadata)
        });
        Self { name: topic.name, topic_id: topic.topic_id, partitions: partitions.collect() }
    }
}

fn committed(index: i32, offset: i64, leader_epoch: i32, metadata: Option<&str>) -> CommitPartition {
    CommitPartition { index, offset, leader_epoch, metadata: metadata.unwrap_or_default().to_owned() }
}

/// The codes of a request, by topic and partition in its order. Those of what is not refused here are the coordinator's.
pub struct CommitCodes(Vec<Vec<ErrorCode>>);

impl CommitCodes {
    /// Takes a request apart: what the coordinator is asked, and the codes of all that it need not be.
    pub fn judge<'a>(
        snapshot: &Snapshot,
        topics: impl Iterator<Item = NamedOffsets<'a>>,
        by_id: bool,
    ) -> (Self, Vec<CommitTopic>) {
        let (mut codes, mut asked) = (Vec::new(), Vec::new());
        for topic in topics {
            let found = match by_id {
                true => snapshot.topic_by_id(TopicId(topic.topic_id.0)).ok_or(ErrorCode::UnknownTopicId),
                false => snapshot.topic(topic.name).ok_or(ErrorCode::UnknownTopicOrPartition),
            };
            let code = |found: &Topic, partition: &CommitPartition| match found.partition(partition.index) {
                Some(_) => ErrorCode::None,
                None => ErrorCode::UnknownTopicOrPartition,
            };
            let judged = topic.partitions.iter().map(|one| found.map_or_else(|error| error, |found| code(found, one)));
            let row: Vec<ErrorCode> = judged.collect();
            let known = topic.partitions.into_iter().zip(&row).filter(|(_, code)| **code == ErrorCode::None);
            let partitions: Vec<CommitPartition> = known.map(|(partition, _)| partition).collect();
            if let Ok(found) = found
                && !partitions.is_empty()
            {
                asked.push(CommitTopic { name: found.name.to_string(), topic_id: found.id.0, partitions });
            }
            codes.push(row);
        }
        (Self(codes), asked)
    }

    /// Takes in what the coordinator says, in the order of what it was asked.
    pub fn fill_in(&mut self, answered: Result<GroupReply, ErrorCode>) {
        let (judged, error) = match &answered {
            Ok(GroupReply::Partitions(topics)) => (topics.as_slice(), ErrorCode::UnknownServerError),
            Ok(_) => unreachable!("offsets are answered by partition"),
            Err(error) => (&[][..], *error),
        };
        let mut judged = judged.iter().flat_map(|(_, partitions)| partitions.iter().map(|(_, code)| *code));
        for code in self.0.iter_mut().flatten().filter(|code| **code == ErrorCode::None) {
            *code = judged.next().unwrap_or(error);
        }
    }

    /// The codes of each topic.
    pub fn by_topic(&self) -> impl Iterator<Item = &[ErrorCode]> {
        self.0.iter().map(Vec::as_slice)
    }
}
