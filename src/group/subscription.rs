//! What consumers of the classic protocol say to each other: subscriptions and assignments.

use std::collections::BTreeSet;

use crate::group::topics::{Partitions, Topics};
use crate::wire::messages::consumer_protocol_assignment::{ConsumerProtocolAssignment, TopicPartition};
use crate::wire::messages::consumer_protocol_subscription::ConsumerProtocolSubscription;
use crate::wire::reader::Reader;
use crate::wire::writer;

/// The topics of a consumer's subscription; `None` where the bytes are not one.
pub fn subscribed_topics(metadata: &[u8]) -> Option<BTreeSet<String>> {
    let mut reader = Reader::new(metadata);
    let version = reader.int16("version").ok()?;
    if version < ConsumerProtocolSubscription::VERSION_MIN {
        return None;
    }
    // The beginning is the same in all versions, so that newer ones can be read: as Kafka, no more of it is looked at.
    let subscription = ConsumerProtocolSubscription::decode(&mut reader, 0).ok()?;
    Some(subscription.topics.iter().map(|topic| (*topic).to_owned()).collect())
}

/// What a consumer says of itself when it joins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// What it reads.
    pub topics: BTreeSet<String>,
    /// What it has, of the topics that there are.
    pub owned: Partitions,
    /// Where it says that it is.
    pub rack_id: Option<String>,
}

/// A consumer's subscription; `None` where the bytes are not one.
pub fn subscription(metadata: &[u8], topics: &dyn Topics) -> Option<Subscription> {
    let (mut reader, version) = versioned(metadata)?;
    let read = ConsumerProtocolSubscription::decode(&mut reader, version).ok()?;
    let owned = read.owned_partitions.iter().map(|owned| (owned.topic, owned.partitions.as_slice()));
    Some(Subscription {
        topics: read.topics.iter().map(|topic| (*topic).to_owned()).collect(),
        owned: by_id(owned, topics),
        rack_id: read.rack_id.map(str::to_owned),
    })
}

/// What a consumer was assigned, of the topics that there are; `None` where the bytes are no assignment, or one of an
/// assignor that has more to say than which partitions.
pub fn assigned(assignment: &[u8], topics: &dyn Topics) -> Option<Partitions> {
    if assignment.is_empty() {
        return Some(Partitions::new());
    }
    let (mut reader, version) = versioned(assignment)?;
    let read = ConsumerProtocolAssignment::decode(&mut reader, version).ok()?;
    if read.user_data.is_some_and(|data| !data.is_empty()) {
        return None;
    }
    Some(by_id(read.assigned_partitions.iter().map(|part| (part.topic, part.partitions.as_slice())), topics))
}

/// An assignment for a consumer whose subscription is `metadata`: in the version that it speaks.
pub fn assignment(parts: &Partitions, metadata: &[u8], topics: &dyn Topics) -> Vec<u8> {
    let version = versioned(metadata).map_or(0, |(_, version)| version);
    let named: Vec<(String, Vec<i32>)> =
        parts.iter().filter_map(|(id, parts)| Some((topics.name_of(*id)?, parts.iter().copied().collect()))).collect();
    let assigned_partitions =
        named.iter().map(|(topic, parts)| TopicPartition { topic, partitions: parts.clone() }).collect();
    let mut out = Vec::new();
    writer::int16(&mut out, version);
    let message = ConsumerProtocolAssignment { assigned_partitions, user_data: None };
    if let Err(error) = message.encode(&mut out, version) {
        tracing::error!(%error, "an assignment cannot be written as consumers of the classic protocol read it");
    }
    out
}

fn versioned(bytes: &[u8]) -> Option<(Reader<'_>, i16)> {
    let mut reader = Reader::new(bytes);
    let version = reader.int16("version").ok()?;
    if version < ConsumerProtocolSubscription::VERSION_MIN {
        return None;
    }
    // Newer versions only add to the end.
    Some((reader, version.min(ConsumerProtocolSubscription::VERSION_MAX)))
}

fn by_id<'a>(parts: impl Iterator<Item = (&'a str, &'a [i32])>, topics: &dyn Topics) -> Partitions {
    let mut found = Partitions::new();
    for (topic, parts) in parts.filter(|(_, parts)| !parts.is_empty()) {
        if let Some(topic) = topics.by_name(topic) {
            found.entry(topic.id).or_default().extend(parts.iter().copied());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_read_and_rubbish_is_none() {
        let mut bytes = vec![0, 3];
        let subscription = ConsumerProtocolSubscription { topics: vec!["b", "a"], ..Default::default() };
        subscription.encode(&mut bytes, 3).expect("short names");
        let topics = subscribed_topics(&bytes).expect("a subscription");
        assert_eq!(topics.into_iter().collect::<Vec<_>>(), ["a", "b"]);
        for cut in 0..bytes.len().min(12) {
            assert_eq!(subscribed_topics(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(subscribed_topics(b"\xff\xff"), None);
    }
}
