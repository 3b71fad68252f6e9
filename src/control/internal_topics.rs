//! Topics that the server keeps for itself: names, shapes, and whose state is in which partition.

use crate::control::broker_config::BrokerConfig;

/// A topic that holds the state of coordinators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InternalTopic {
    /// `__consumer_offsets`: groups and committed offsets.
    ConsumerOffsets,
    /// `__transaction_state`: transactions.
    TransactionState,
}

impl InternalTopic {
    /// Both.
    pub const ALL: [Self; 2] = [Self::ConsumerOffsets, Self::TransactionState];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ConsumerOffsets => "__consumer_offsets",
            Self::TransactionState => "__transaction_state",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.name() == name)
    }

    /// How many partitions it is made with.
    #[must_use]
    pub fn partition_count(self, config: &BrokerConfig) -> i32 {
        match self {
            Self::ConsumerOffsets => config.offsets_topic_num_partitions(),
            Self::TransactionState => config.transaction_state_log_num_partitions(),
        }
    }

    /// The settings that it is made with, as in Kafka.
    #[must_use]
    pub fn configs(self, config: &BrokerConfig) -> Vec<(String, Option<String>)> {
        let (segment_bytes, compression) = match self {
            Self::ConsumerOffsets => (config.offsets_topic_segment_bytes(), "producer"),
            Self::TransactionState => (config.transaction_state_log_segment_bytes(), "uncompressed"),
        };
        let pair = |name: &str, value: String| (name.to_owned(), Some(value));
        vec![
            pair("cleanup.policy", "compact".to_owned()),
            pair("compression.type", compression.to_owned()),
            pair("segment.bytes", segment_bytes.to_string()),
        ]
    }
}

/// True for the topics that clients may not write to.
#[must_use]
pub fn is_internal(name: &str) -> bool {
    InternalTopic::of(name).is_some() || name == SHARE_GROUP_STATE
}

/// The partition that has the state of a group or transactional id: Java's hash of the text, without its sign.
///
/// # Panics
/// Where there are no partitions.
#[must_use]
pub fn partition_of(key: &str, partition_count: i32) -> i32 {
    assert!(partition_count > 0, "a topic has partitions");
    let hash = key.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    // Kafka takes 0 where there is no positive number of that size.
    hash.checked_abs().unwrap_or(0) % partition_count
}

const SHARE_GROUP_STATE: &str = "__share_group_state";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_kafkas() {
        // By Java: "".hashCode() is 0, "a" 97, "group" 98629247, "polygenelubricants" Integer.MIN_VALUE.
        for (key, partition) in [("", 0), ("a", 47), ("group", 47), ("polygenelubricants", 0)] {
            assert_eq!(partition_of(key, 50), partition, "{key}");
        }
        assert_eq!(partition_of("\u{1f600}", i32::MAX), 1_772_899, "two UTF-16 units");
    }

    #[test]
    fn names_are_known() {
        for topic in InternalTopic::ALL {
            assert_eq!(InternalTopic::of(topic.name()), Some(topic));
            assert!(is_internal(topic.name()));
        }
        assert!(is_internal("__share_group_state"));
        assert!(!is_internal("__mine"));
    }
}
