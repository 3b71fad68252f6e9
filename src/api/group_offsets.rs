//! OffsetCommit, OffsetFetch and OffsetDelete: how far a group has read.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::api::committed_offsets::{CommitCodes, NamedOffsets};
use crate::api::context::RequestContext;
use crate::api::group_members::ask;
use crate::api::reply::Outcome;
use crate::group::reply::{FetchedOffset, GroupReply};
use crate::group::request::{CommitOffsets, GroupRequest, Speaker};
use crate::record::offset::TopicId;
use crate::shard::core::Shard;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::offset_commit_request::OffsetCommitRequest;
use crate::wire::messages::offset_commit_response::{
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use crate::wire::messages::offset_delete_request::OffsetDeleteRequest;
use crate::wire::messages::offset_delete_response::{
    OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use crate::wire::messages::offset_fetch_request::OffsetFetchRequest;
use crate::wire::messages::offset_fetch_response::{
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use crate::wire::reader::Reader;
use crate::wire::uuid::Uuid;

/// Answers OffsetCommit when the offsets are safe.
pub async fn commit(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let version = context.api_version;
    let request = match OffsetCommitRequest::decode(&mut Reader::new(body), version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let snapshot = shard.snapshot();
    let named = request.topics.iter().map(NamedOffsets::from);
    let (mut codes, topics) = CommitCodes::judge(&snapshot, named, version >= TOPIC_ID_MIN);
    if !topics.is_empty() {
        let speaker = Speaker {
            member_id: request.member_id.to_owned(),
            instance_id: request.group_instance_id.map(str::to_owned),
            generation: request.generation_id_or_member_epoch,
        };
        let commit = CommitOffsets {
            group_id: request.group_id.to_owned(),
            speaker,
            writer: None,
            transactional: None,
            retention_ms: u64::try_from(request.retention_time_ms).ok(),
            tells_unknown_group: version >= UNKNOWN_GROUP_MIN,
            topics,
        };
        let answered = ask(shard, request.group_id, GroupRequest::CommitOffsets(commit)).await;
        codes.fill_in(answered);
    }
    let rows = request.topics.iter().zip(codes.by_topic()).map(|(topic, codes)| OffsetCommitResponseTopic {
        name: topic.name,
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .zip(codes)
            .map(|(partition, code)| OffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code: code.code(),
            })
            .collect(),
    });
    let response = OffsetCommitResponse { topics: rows.collect(), ..OffsetCommitResponse::default() };
    Outcome::message(context, |out, version| response.encode(out, version))
}

/// The topics of one group of an OffsetFetch.
struct Asked<'a> {
    group_id: &'a str,
    /// The member that asks, where it says so, and its epoch.
    member: Option<(&'a str, i32)>,
    /// Name or id, and partitions; `None`: all that there are.
    topics: Option<Vec<(&'a str, Uuid, &'a [i32])>>,
}

/// What is answered for one group.
struct Answered {
    error: ErrorCode,
    topics: Vec<(String, Uuid, Vec<FetchedOffset>)>,
}

/// Answers OffsetFetch, for one group or for many (from version 8).
pub async fn fetch(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let version = context.api_version;
    let request = match OffsetFetchRequest::decode(&mut Reader::new(body), version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let asked: Vec<Asked<'_>> = if version >= FETCH_MANY_MIN {
        let each = request.groups.iter().map(|group| Asked {
            group_id: group.group_id,
            member: group.member_id.filter(|_| group.member_epoch >= 0).map(|member| (member, group.member_epoch)),
            topics: group.topics.as_ref().map(|topics| {
                topics.iter().map(|topic| (topic.name, topic.topic_id, topic.partition_indexes.as_slice())).collect()
            }),
        });
        each.collect()
    } else {
        let topics = request.topics.as_ref().map(|topics| {
            topics.iter().map(|topic| (topic.name, Uuid::ZERO, topic.partition_indexes.as_slice())).collect()
        });
        vec![Asked { group_id: request.group_id, member: None, topics }]
    };
    let mut answered = Vec::with_capacity(asked.len());
    for group in &asked {
        answered.push(fetch_group(shard, group, request.require_stable, version).await);
    }
    let mut response = OffsetFetchResponse::default();
    if version >= FETCH_MANY_MIN {
        response.groups = asked.iter().zip(&answered).map(|(asked, answered)| group_row(asked, answered)).collect();
    } else if let Some(answered) = answered.first() {
        if version >= TOP_LEVEL_ERROR_MIN {
            response.error_code = answered.error.code();
        }
        response.topics = answered.topics.iter().map(|(name, _, offsets)| topic_row(name, offsets)).collect();
    }
    Outcome::message(context, |out, version| response.encode(out, version))
}

async fn fetch_group(shard: &Rc<Shard>, asked: &Asked<'_>, require_stable: bool, version: i16) -> Answered {
    let snapshot = shard.snapshot();
    let by_id = version >= TOPIC_ID_MIN;
    // Names of the topics that are asked for; none where an id is of no topic.
    let names: Option<Vec<Option<String>>> = asked.topics.as_ref().map(|topics| {
        let name = |(name, id, _): &(&str, Uuid, &[i32])| match by_id {
            true => snapshot.topic_by_id(TopicId(id.0)).map(|topic| topic.name.to_string()),
            false => Some((*name).to_owned()),
        };
        topics.iter().map(name).collect()
    });
    let topics = asked.topics.as_ref().zip(names.as_ref()).map(|(topics, names)| {
        let known =
            topics.iter().zip(names).filter_map(|((_, _, indexes), name)| Some((name.clone()?, indexes.to_vec())));
        known.collect()
    });
    let speaker = asked.member.map(|(member_id, generation)| Speaker {
        member_id: member_id.to_owned(),
        instance_id: None,
        generation,
    });
    let request = GroupRequest::FetchOffsets { group_id: asked.group_id.to_owned(), topics, speaker, require_stable };
    let answered = ask(shard, asked.group_id, request).await;
    let refused = |indexes: &[i32], error: ErrorCode| {
        let each = indexes.iter().map(|index| FetchedOffset {
            index: *index,
            offset: NO_OFFSET,
            leader_epoch: NO_EPOCH,
            metadata: String::new(),
            error,
        });
        each.collect::<Vec<_>>()
    };
    let fetched = match answered {
        Ok(GroupReply::Offsets(fetched)) => fetched,
        Ok(_) => unreachable!("offsets are answered as such"),
        Err(error) if version < TOP_LEVEL_ERROR_MIN => {
            let topics = asked.topics.iter().flatten();
            let topics = topics.map(|(name, id, indexes)| ((*name).to_owned(), *id, refused(indexes, error))).collect();
            return Answered { error, topics };
        }
        Err(error) => return Answered { error, topics: Vec::new() },
    };
    let topics = match (&asked.topics, names) {
        (Some(topics), Some(names)) => {
            let mut fetched = fetched.into_iter();
            let row = |((_, id, indexes), name): (&(&str, Uuid, &[i32]), Option<String>)| match name {
                Some(name) => (name, *id, fetched.next().map(|(_, offsets)| offsets).unwrap_or_default()),
                None => (String::new(), *id, refused(indexes, ErrorCode::UnknownTopicId)),
            };
            topics.iter().zip(names).map(row).collect()
        }
        _ => {
            // By id only what has one now can be told.
            let row = |(name, offsets): (String, Vec<FetchedOffset>)| {
                let id = snapshot.topic(&name).map(|topic| Uuid(topic.id.0));
                (!by_id || id.is_some()).then(|| (name, id.unwrap_or(Uuid::ZERO), offsets))
            };
            fetched.into_iter().filter_map(row).collect()
        }
    };
    Answered { error: ErrorCode::None, topics }
}

fn group_row<'a>(asked: &Asked<'a>, answered: &'a Answered) -> OffsetFetchResponseGroup<'a> {
    let partition = |offset: &'a FetchedOffset| OffsetFetchResponsePartitions {
        partition_index: offset.index,
        committed_offset: offset.offset,
        committed_leader_epoch: offset.leader_epoch,
        metadata: Some(&offset.metadata),
        error_code: offset.error.code(),
    };
    let topic = |(name, topic_id, offsets): &'a (String, Uuid, Vec<FetchedOffset>)| OffsetFetchResponseTopics {
        name,
        topic_id: *topic_id,
        partitions: offsets.iter().map(partition).collect(),
    };
    OffsetFetchResponseGroup {
        group_id: asked.group_id,
        topics: answered.topics.iter().map(topic).collect(),
        error_code: answered.error.code(),
    }
}

fn topic_row<'a>(name: &'a str, offsets: &'a [FetchedOffset]) -> OffsetFetchResponseTopic<'a> {
    let partition = |offset: &'a FetchedOffset| OffsetFetchResponsePartition {
        partition_index: offset.index,
        committed_offset: offset.offset,
        committed_leader_epoch: offset.leader_epoch,
        metadata: Some(&offset.metadata),
        error_code: offset.error.code(),
    };
    OffsetFetchResponseTopic { name, partitions: offsets.iter().map(partition).collect() }
}

/// Answers OffsetDelete.
pub async fn delete(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match OffsetDeleteRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let snapshot = shard.snapshot();
    // As Kafka a topic or a partition that stands there more than once is answered once.
    let mut asked: BTreeMap<&str, BTreeMap<i32, ErrorCode>> = BTreeMap::new();
    for topic in &request.topics {
        let found = snapshot.topic(topic.name);
        let partitions = asked.entry(topic.name).or_default();
        for partition in &topic.partitions {
            let is_known = found.is_some_and(|found| found.partition(partition.partition_index).is_some());
            let code = if is_known { ErrorCode::None } else { ErrorCode::UnknownTopicOrPartition };
            partitions.insert(partition.partition_index, code);
        }
    }
    let wanted = asked.iter().map(|(topic, partitions)| {
        let known = partitions.iter().filter(|(_, code)| **code == ErrorCode::None);
        ((*topic).to_owned(), known.map(|(index, _)| *index).collect())
    });
    let topics: Vec<(String, Vec<i32>)> =
        wanted.filter(|(_, indexes): &(String, Vec<i32>)| !indexes.is_empty()).collect();
    let group_request = GroupRequest::DeleteOffsets { group_id: request.group_id.to_owned(), topics };
    let mut response = OffsetDeleteResponse::default();
    match ask(shard, request.group_id, group_request).await {
        Ok(GroupReply::Partitions(judged)) => {
            for (topic, partitions) in judged {
                if let Some(row) = asked.get_mut(topic.as_str()) {
                    row.extend(partitions);
                }
            }
            let partition = |(index, code): (&i32, &ErrorCode)| OffsetDeleteResponsePartition {
                partition_index: *index,
                error_code: code.code(),
            };
            let rows = asked.iter().map(|(name, partitions)| OffsetDeleteResponseTopic {
                name,
                partitions: partitions.iter().map(partition).collect(),
            });
            response.topics = rows.collect();
        }
        Ok(_) => unreachable!("offsets are answered by partition"),
        Err(error) => response.error_code = error.code(),
    }
    Outcome::message(context, |out, version| response.encode(out, version))
}

const NO_OFFSET: i64 = -1;
const NO_EPOCH: i32 = -1;
const TOP_LEVEL_ERROR_MIN: i16 = 2;
const FETCH_MANY_MIN: i16 = 8;
const UNKNOWN_GROUP_MIN: i16 = 9;
const TOPIC_ID_MIN: i16 = 10;
