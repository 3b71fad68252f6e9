//! The catalog's one writer: commands in, records out, then applied.

use std::sync::Arc;

use crate::control::broker_config::BrokerConfig;
use crate::control::catalog_error::{CatalogError, RecordMismatch};
use crate::control::catalog_record::CatalogRecord;
use crate::control::id::{ClusterId, CoreIndex, DirectoryId};
use crate::control::placement::{self, AssignmentError, Load, Move, PlacementError};
use crate::control::snapshot::{CatalogState, Snapshot};
use crate::control::topic::{Partition, Topic};
use crate::control::topic_config::{self, ConfigChange};
use crate::control::topic_name::{TopicNameError, check_topic_name, collision_key};
use crate::record::offset::TopicId;

/// All topics and where they are.
///
/// `plan` changes nothing. Its records go into one frame ([`crate::control::catalog_file::encode_frame`]),
/// the frame is written and synced, and only then are they applied. Only one frame is ever on its way. Several commands may share a
/// frame: plan and apply them on a clone (it costs one pointer), then apply all their records here at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    state: Arc<CatalogState>,
    next_frame: u64,
}

/// What may be asked of the catalog.
#[derive(Clone, Debug)]
pub enum Command {
    /// Makes a topic.
    CreateTopic(NewTopic),
    /// Takes a topic away.
    DeleteTopic {
        /// Which.
        topic_id: TopicId,
    },
    /// Changes a topic's settings.
    AlterTopicConfigs {
        /// Which topic.
        topic_id: TopicId,
        /// The changes, in order.
        changes: Vec<ConfigChange>,
    },
    /// Gives a topic more partitions.
    CreatePartitions {
        /// Which topic.
        topic_id: TopicId,
        /// How many it shall have in all.
        count: i32,
        /// Broker ids for each new partition, where somebody named them.
        assignments: Option<Vec<Vec<i32>>>,
        /// Where the rotation of cores begins.
        seed: u64,
    },
    /// The first command of every run: raises every leader epoch and takes in the cores there are.
    StartServer {
        /// The cluster's id, taken where there is none yet.
        cluster_id: ClusterId,
        /// The cores.
        cores: Vec<CoreIndex>,
        /// The data directories.
        directories: Vec<DirectoryId>,
    },
    /// Gives a partition to another core, by hand.
    MovePartition {
        /// Which, and where to.
        moved: Move,
    },
    /// Gives a core the next [`PRODUCER_ID_BLOCK`] producer ids.
    AllocateProducerIds {
        /// The core.
        core: CoreIndex,
    },
}

/// A topic as a client asks for it, with the id, time and seed that the server gives it.
#[derive(Clone, Debug)]
pub struct NewTopic {
    /// Any text.
    pub name: String,
    /// A fresh random id.
    pub topic_id: TopicId,
    /// -1: `num.partitions`. Not looked at where there are assignments.
    pub partition_count: i32,
    /// -1: `default.replication.factor`. Not looked at where there are assignments.
    pub replication_factor: i16,
    /// Partition numbers with their broker ids; empty: the server places.
    pub assignments: Vec<(i32, Vec<i32>)>,
    /// Settings.
    pub configs: Vec<(String, Option<String>)>,
    /// Now, in milliseconds since 1970.
    pub created_ms: i64,
    /// Where the rotation of cores begins.
    pub seed: u64,
}

/// What commands are judged by.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// The server's settings.
    pub config: &'a BrokerConfig,
    /// The machine's `--node-id`.
    pub node_id: i32,
    /// `--clamp-replication`.
    pub clamp_replication: bool,
    /// Directories that nothing is placed in.
    pub failed_directories: &'a [DirectoryId],
}

/// Producer ids that a core gets at a time, as many as in Kafka.
pub const PRODUCER_ID_BLOCK: u32 = 1000;

/// Machines there are; more come with replication.
const MACHINES: i16 = 1;

/// Kafka's own name for its metadata log.
const METADATA_TOPIC: &str = "__cluster_metadata";

impl Default for Catalog {
    fn default() -> Self {
        Self::new()
    }
}

impl Catalog {
    /// A catalog with nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self { state: Arc::default(), next_frame: 1 }
    }

    /// What it holds now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { state: Arc::clone(&self.state) }
    }

    /// The number that the next frame of the file has.
    #[must_use]
    pub fn next_frame(&self) -> u64 {
        self.next_frame
    }

    /// A catalog that continues after the frame before `next_frame`.
    pub(super) fn with_next_frame(mut self, next_frame: u64) -> Self {
        self.next_frame = next_frame;
        self
    }

    /// Judges a command and turns it into records; no records where nothing would change.
    ///
    /// # Errors
    /// Why the command is refused.
    pub fn plan(&self, command: &Command, rules: &Rules<'_>) -> Result<Vec<CatalogRecord>, CatalogError> {
        match command {
            Command::CreateTopic(topic) => self.plan_topic(topic, rules),
            Command::DeleteTopic { topic_id } => {
                self.known(*topic_id)?;
                Ok(vec![CatalogRecord::TopicDeleted { topic_id: *topic_id }])
            }
            Command::AlterTopicConfigs { topic_id, changes } => {
                let topic = self.known(*topic_id)?;
                let configs = topic_config::altered(&topic.configs, changes, rules.config)?;
                if configs == topic.configs {
                    return Ok(Vec::new());
                }
                Ok(vec![CatalogRecord::TopicConfigsSet { topic_id: *topic_id, configs }])
            }
            Command::CreatePartitions { topic_id, count, assignments, seed } => {
                self.plan_partitions(*topic_id, *count, assignments.as_deref(), *seed, rules)
            }
            Command::StartServer { cluster_id, cores, directories } => self.plan_start(*cluster_id, cores, directories),
            Command::MovePartition { moved } => self.plan_move(*moved),
            Command::AllocateProducerIds { core } => {
                let first = self.state.next_producer_id;
                first.checked_add(i64::from(PRODUCER_ID_BLOCK)).ok_or(CatalogError::UsedUp { what: "producer ids" })?;
                Ok(vec![CatalogRecord::ProducerIdsAllocated { core: *core, first, count: PRODUCER_ID_BLOCK }])
            }
        }
    }

    /// Applies the records of one frame, once it is on stable storage.
    ///
    /// # Errors
    /// Never for records that were planned on this state; then those before the bad one are applied.
    pub fn apply(&mut self, records: &[CatalogRecord]) -> Result<(), RecordMismatch> {
        let state = Arc::make_mut(&mut self.state);
        for record in records {
            state.apply(record)?;
        }
        self.next_frame = self.next_frame.checked_add(1).ok_or(RecordMismatch::Order)?;
        Ok(())
    }

    /// The whole state as records, for an image.
    #[must_use]
    pub fn image_records(&self) -> Vec<CatalogRecord> {
        let state = &*self.state;
        let cluster = state.cluster_id.map(|cluster_id| CatalogRecord::ClusterCreated { cluster_id });
        let topics = state.by_name.values().map(|topic| CatalogRecord::TopicCreated { topic: Arc::clone(topic) });
        let following: Vec<CatalogRecord> = cluster.into_iter().chain(topics).collect();
        // Each of them was once a record of its own, so the version is at least their number.
        assert!(state.version >= following.len() as u64, "every topic came with a record");
        let started = CatalogRecord::ImageStarted {
            version: state.version - following.len() as u64,
            next_producer_id: state.next_producer_id,
            cores: state.cores.clone(),
            directories: state.directories.clone(),
        };
        std::iter::once(started).chain(following).collect()
    }

    fn known(&self, topic_id: TopicId) -> Result<&Arc<Topic>, CatalogError> {
        self.state.by_id.get(&topic_id).ok_or(CatalogError::UnknownTopic)
    }

    fn load(&self, rules: &Rules<'_>) -> Result<Load, CatalogError> {
        let state = &*self.state;
        let works = |directory: &&DirectoryId| !rules.failed_directories.contains(directory);
        let directories: Vec<DirectoryId> = state.directories.iter().filter(works).copied().collect();
        if state.cores.is_empty() || directories.is_empty() {
            return Err(CatalogError::NoPlace);
        }
        Ok(Load::of(state.by_name.values().map(|topic| &**topic), &state.cores, &directories))
    }

    /// Judges in Kafka's order: name, settings, whether it exists, shape.
    fn plan_topic(&self, new: &NewTopic, rules: &Rules<'_>) -> Result<Vec<CatalogRecord>, CatalogError> {
        check_topic_name(&new.name)?;
        if new.name == METADATA_TOPIC {
            return Err(CatalogError::InternalTopic { name: new.name.clone() });
        }
        self.check_collision(&new.name)?;
        let configs = topic_config::overrides(&new.configs, rules.config)?;
        if self.state.by_name.contains_key(new.name.as_str()) {
            return Err(CatalogError::TopicExists { name: new.name.clone() });
        }
        if new.topic_id.is_reserved() || self.state.by_id.contains_key(&new.topic_id) {
            return Err(CatalogError::TopicIdTaken { topic_id: new.topic_id });
        }
        let clamp = rules.clamp_replication;
        let mut load = self.load(rules)?;
        let (count, partitions) = if new.assignments.is_empty() {
            let default_factor = rules.config.default_replication_factor();
            placement::replication_factor(new.replication_factor, default_factor, MACHINES, clamp)?;
            let count = placement::partition_count(new.partition_count, rules.config.num_partitions())?;
            (count as usize, load.place(&[], count, new.seed))
        } else {
            let cores = placement::assigned_cores(&new.assignments, rules.node_id, &self.state.cores, clamp)?;
            (cores.len(), load.place_by_hand(&cores))
        };
        assert_eq!(partitions.len(), count, "there are cores and directories to place on");
        let topic =
            Topic { name: new.name.as_str().into(), id: new.topic_id, created_ms: new.created_ms, partitions, configs };
        Ok(vec![CatalogRecord::TopicCreated { topic: Arc::new(topic) }])
    }

    fn check_collision(&self, name: &str) -> Result<(), CatalogError> {
        if !name.contains(['.', '_']) || self.state.by_name.contains_key(name) {
            return Ok(());
        }
        let key = collision_key(name);
        match self.state.by_name.keys().find(|existing| existing.len() == name.len() && collision_key(existing) == key)
        {
            None => Ok(()),
            Some(existing) => {
                Err(TopicNameError::Collides { name: name.to_owned(), existing: existing.to_string() }.into())
            }
        }
    }

    fn plan_partitions(
        &self,
        topic_id: TopicId,
        count: i32,
        assignments: Option<&[Vec<i32>]>,
        seed: u64,
        rules: &Rules<'_>,
    ) -> Result<Vec<CatalogRecord>, CatalogError> {
        let topic = self.known(topic_id)?;
        let current = i32::try_from(topic.partitions.len()).map_err(|_| PlacementError::TooManyPartitions)?;
        if count == current {
            return Err(PlacementError::SameCount { count }.into());
        }
        if count < current {
            return Err(PlacementError::NoIncrease { name: topic.name.to_string(), current, asked: count }.into());
        }
        let added = placement::partition_count(count - current, 1)?;
        let mut load = self.load(rules)?;
        let partitions = match assignments {
            None => load.place(&topic.partitions, added, seed),
            Some(assignments) if assignments.len() != added as usize => {
                return Err(PlacementError::from(AssignmentError::Count { added, assigned: assignments.len() }).into());
            }
            Some(assignments) => {
                let cores = assignments
                    .iter()
                    .map(|brokers| {
                        placement::assigned_core(brokers, rules.node_id, &self.state.cores, rules.clamp_replication)
                    })
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(PlacementError::from)?;
                load.place_by_hand(&cores)
            }
        };
        assert_eq!(partitions.len(), added as usize, "there are cores and directories to place on");
        Ok(vec![CatalogRecord::PartitionsCreated { topic_id, partitions }])
    }

    fn plan_start(
        &self,
        cluster_id: ClusterId,
        cores: &[CoreIndex],
        directories: &[DirectoryId],
    ) -> Result<Vec<CatalogRecord>, CatalogError> {
        if cores.is_empty() || directories.is_empty() {
            return Err(CatalogError::NoPlace);
        }
        let state = &*self.state;
        if state
            .by_name
            .values()
            .flat_map(|topic| &topic.partitions)
            .any(|partition| partition.leader_epoch == i32::MAX)
        {
            return Err(CatalogError::UsedUp { what: "leader epochs" });
        }
        let mut cores = cores.to_vec();
        cores.sort_unstable();
        cores.dedup();
        let moves = placement::replace(state.by_name.values().map(|topic| &**topic), &state.cores, &cores);
        let started = CatalogRecord::ServerStarted { cores, directories: directories.to_vec(), moves };
        let created = state.cluster_id.is_none().then_some(CatalogRecord::ClusterCreated { cluster_id });
        Ok(created.into_iter().chain([started]).collect())
    }

    fn plan_move(&self, moved: Move) -> Result<Vec<CatalogRecord>, CatalogError> {
        let partition = *self.known(moved.topic_id)?.partition(moved.partition).ok_or(CatalogError::UnknownTopic)?;
        if !self.state.cores.contains(&moved.core) {
            return Err(CatalogError::UnknownCore { core: moved.core });
        }
        if partition.core == moved.core && partition.placed_by_hand {
            return Ok(Vec::new());
        }
        let leader_epoch =
            partition.leader_epoch.checked_add(1).ok_or(CatalogError::UsedUp { what: "leader epochs" })?;
        Ok(vec![CatalogRecord::PartitionMoved { moved, leader_epoch }])
    }
}

impl CatalogState {
    fn apply(&mut self, record: &CatalogRecord) -> Result<(), RecordMismatch> {
        match record {
            CatalogRecord::ClusterCreated { cluster_id } => {
                if self.cluster_id.replace(*cluster_id).is_some() {
                    return Err(RecordMismatch::Exists);
                }
            }
            CatalogRecord::ServerStarted { cores, directories, moves } => {
                self.raise_leader_epochs()?;
                for moved in moves {
                    self.change_partition(moved.topic_id, moved.partition, |partition| {
                        // A core that was named and is gone: from here on the server places the partition.
                        partition.core = moved.core;
                        partition.placed_by_hand = false;
                    })?;
                }
                self.cores.clone_from(cores);
                self.directories.clone_from(directories);
            }
            CatalogRecord::TopicCreated { topic } => {
                // A bad name would become a bad directory, so a record's CRC is not enough.
                if topic.partitions.is_empty() || topic.id.is_reserved() || check_topic_name(&topic.name).is_err() {
                    return Err(RecordMismatch::Exists);
                }
                if self.by_name.contains_key(&topic.name) || self.by_id.contains_key(&topic.id) {
                    return Err(RecordMismatch::Exists);
                }
                self.put(Arc::clone(topic));
            }
            CatalogRecord::TopicDeleted { topic_id } => {
                let topic = self.by_id.remove(topic_id).ok_or(RecordMismatch::Unknown)?;
                self.by_name.remove(&topic.name);
            }
            CatalogRecord::TopicConfigsSet { topic_id, configs } => {
                self.change_topic(*topic_id, |topic| topic.configs.clone_from(configs))?;
            }
            CatalogRecord::PartitionsCreated { topic_id, partitions } => {
                self.change_topic(*topic_id, |topic| topic.partitions.extend_from_slice(partitions))?;
            }
            CatalogRecord::PartitionMoved { moved, leader_epoch } => {
                let partition = self.by_id.get(&moved.topic_id).and_then(|topic| topic.partition(moved.partition));
                if *leader_epoch <= partition.ok_or(RecordMismatch::Unknown)?.leader_epoch {
                    return Err(RecordMismatch::Order);
                }
                self.change_partition(moved.topic_id, moved.partition, |partition| {
                    partition.core = moved.core;
                    partition.leader_epoch = *leader_epoch;
                    partition.placed_by_hand = true;
                })?;
            }
            CatalogRecord::ProducerIdsAllocated { first, count, .. } => {
                if *first < self.next_producer_id {
                    return Err(RecordMismatch::Order);
                }
                self.next_producer_id = first.checked_add(i64::from(*count)).ok_or(RecordMismatch::Order)?;
            }
            CatalogRecord::ImageStarted { version, next_producer_id, cores, directories } => {
                if self.version != 0 {
                    return Err(RecordMismatch::Exists);
                }
                if *next_producer_id < 0 {
                    return Err(RecordMismatch::Order);
                }
                self.next_producer_id = *next_producer_id;
                self.cores.clone_from(cores);
                self.directories.clone_from(directories);
                self.version = *version;
                return Ok(());
            }
        }
        self.version = self.version.checked_add(1).ok_or(RecordMismatch::Order)?;
        Ok(())
    }

    fn raise_leader_epochs(&mut self) -> Result<(), RecordMismatch> {
        for topic in self.by_name.values_mut() {
            for partition in &mut Arc::make_mut(topic).partitions {
                partition.leader_epoch = partition.leader_epoch.checked_add(1).ok_or(RecordMismatch::Order)?;
            }
            self.by_id.insert(topic.id, Arc::clone(topic));
        }
        Ok(())
    }

    fn put(&mut self, topic: Arc<Topic>) {
        self.by_id.insert(topic.id, Arc::clone(&topic));
        self.by_name.insert(Arc::clone(&topic.name), topic);
        assert_eq!(self.by_id.len(), self.by_name.len(), "a topic has one name and one id");
    }

    fn change_topic(&mut self, topic_id: TopicId, change: impl FnOnce(&mut Topic)) -> Result<(), RecordMismatch> {
        let mut topic = Topic::clone(self.by_id.get(&topic_id).ok_or(RecordMismatch::Unknown)?);
        change(&mut topic);
        self.put(Arc::new(topic));
        Ok(())
    }

    fn change_partition(
        &mut self,
        topic_id: TopicId,
        partition: i32,
        change: impl FnOnce(&mut Partition),
    ) -> Result<(), RecordMismatch> {
        let place = usize::try_from(partition).map_err(|_| RecordMismatch::Unknown)?;
        if self.by_id.get(&topic_id).is_none_or(|topic| place >= topic.partitions.len()) {
            return Err(RecordMismatch::Unknown);
        }
        self.change_topic(topic_id, |topic| {
            if let Some(partition) = topic.partitions.get_mut(place) {
                change(partition);
            }
        })
    }
}
