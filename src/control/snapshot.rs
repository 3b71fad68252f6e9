//! The catalog as one core reads it: immutable, cheap to clone.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::control::id::{ClusterId, CoreIndex, DirectoryId};
use crate::control::topic::{Partition, Topic};
use crate::record::offset::TopicId;

/// What the catalog held at one version. A clone copies one pointer; any core may hold it for as long as it likes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub(super) state: Arc<CatalogState>,
}

/// The catalog's content. Topics are counted, so that a change of one copies pointers to the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CatalogState {
    pub(super) version: u64,
    pub(super) cluster_id: Option<ClusterId>,
    pub(super) cores: Vec<CoreIndex>,
    pub(super) directories: Vec<DirectoryId>,
    pub(super) next_producer_id: i64,
    pub(super) by_name: BTreeMap<Arc<str>, Arc<Topic>>,
    pub(super) by_id: BTreeMap<TopicId, Arc<Topic>>,
}

impl Snapshot {
    /// Counts the changes so far; a larger one is newer.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.state.version
    }

    /// The cluster's id, from the first start on.
    #[must_use]
    pub fn cluster_id(&self) -> Option<ClusterId> {
        self.state.cluster_id
    }

    /// The first producer id that no core has.
    #[must_use]
    pub fn next_producer_id(&self) -> i64 {
        self.state.next_producer_id
    }

    /// The cores of the running server, ascending.
    #[must_use]
    pub fn cores(&self) -> &[CoreIndex] {
        &self.state.cores
    }

    /// The data directories of the running server, in the operator's order.
    #[must_use]
    pub fn directories(&self) -> &[DirectoryId] {
        &self.state.directories
    }

    /// The topic of this name.
    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.state.by_name.get(name)
    }

    /// The topic of this id.
    #[must_use]
    pub fn topic_by_id(&self, topic_id: TopicId) -> Option<&Arc<Topic>> {
        self.state.by_id.get(&topic_id)
    }

    /// A partition by its topic's name: its core, its directory and its epoch.
    #[must_use]
    pub fn partition(&self, name: &str, partition: i32) -> Option<&Partition> {
        self.topic(name)?.partition(partition)
    }

    /// A partition by its topic's id.
    #[must_use]
    pub fn partition_by_id(&self, topic_id: TopicId, partition: i32) -> Option<&Partition> {
        self.topic_by_id(topic_id)?.partition(partition)
    }

    /// All topics in name order.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &Arc<Topic>> {
        self.state.by_name.values()
    }

    /// Topics in name order from `name` on, for an answer that is made in slices.
    pub fn topics_from<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Arc<Topic>> {
        self.state.by_name.range::<str, _>((Bound::Included(name), Bound::Unbounded)).map(|(_, topic)| topic)
    }
}
