//! What a group needs to know of topics.

use std::collections::{BTreeMap, BTreeSet};

/// Partitions by topic id.
pub type Partitions = BTreeMap<[u8; 16], BTreeSet<i32>>;

/// A topic as the catalog has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Its id.
    pub id: [u8; 16],
    /// How many partitions it has.
    pub partition_count: i32,
}

/// The catalog, as far as groups look at it.
pub trait Topics {
    /// A topic of this name.
    fn by_name(&self, name: &str) -> Option<TopicInfo>;
    /// The name of a topic.
    fn name_of(&self, id: [u8; 16]) -> Option<String>;
    /// Counts changes.
    fn version(&self) -> u64;
    /// The names of all topics.
    fn each_name(&self, found: &mut dyn FnMut(&str));
}

/// A catalog without topics.
pub struct NoTopics;

impl Topics for NoTopics {
    fn by_name(&self, _name: &str) -> Option<TopicInfo> {
        None
    }

    fn name_of(&self, _id: [u8; 16]) -> Option<String> {
        None
    }

    fn version(&self) -> u64 {
        0
    }

    fn each_name(&self, _found: &mut dyn FnMut(&str)) {}
}
