//! A topic and its partitions, as the catalog keeps them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::control::id::{CoreIndex, DirectoryId, TopicId};

/// Settings of one topic that differ from the server's, by Kafka's names, in name order.
pub type ConfigOverrides = BTreeMap<String, String>;

/// One topic. Partition `i` is `partitions[i]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its name, legal by `topic_name`.
    pub name: Arc<str>,
    /// Its id, never [`TopicId::is_reserved`], never used again after a delete.
    pub id: TopicId,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
    /// Its partitions, at least one.
    pub partitions: Vec<Partition>,
    /// Its settings.
    pub configs: ConfigOverrides,
}

impl Topic {
    /// The partition with this number, where the topic has it.
    #[must_use]
    pub fn partition(&self, partition: i32) -> Option<&Partition> {
        self.partitions.get(usize::try_from(partition).ok()?)
    }
}

/// Where a partition is, and since which epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The core that owns it.
    pub core: CoreIndex,
    /// The data directory that its files are in.
    pub directory: DirectoryId,
    /// Raised at every start of the server and every move, never going back.
    pub leader_epoch: i32,
    /// True where somebody named the core; balancing leaves such a partition alone.
    pub placed_by_hand: bool,
}
