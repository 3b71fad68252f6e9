//! The coordinators of one kind on a core, and the way to the one that has a group's or a transaction's state.
//!
//! Kafka's hash of a key names a partition of the internal topic; whoever leads that partition has its coordinator.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use tracing::info;

use crate::control::catalog::{Command, NewTopic};
use crate::control::catalog_error::CatalogError;
use crate::control::internal_topics::{InternalTopic, partition_of};
use crate::control::snapshot::Snapshot;
use crate::group::coordinator::GroupCoordinator;
use crate::record::offset::{PartitionId, ProducerId, TopicId};
use crate::shard::coordinator::Coordinator;
use crate::shard::core::Shard;
use crate::shard::machine::{CoordinatorFailure, Machine};
use crate::shard::message::ProposeError;
use crate::txn::coordinator::TransactionCoordinator;
use crate::wire::uuid::Uuid;

/// All coordinators of one kind that this core has, by the partition of their topic.
pub struct Coordinators<M: Machine> {
    by_partition: RefCell<BTreeMap<i32, Rc<Coordinator<M>>>>,
}

impl<M: Machine> Default for Coordinators<M> {
    fn default() -> Self {
        Self { by_partition: RefCell::default() }
    }
}

/// Where a key's coordinator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The partition of the internal topic.
    pub partition: i32,
    /// The core that leads it.
    pub core: u32,
}

impl<M: Machine> Coordinators<M> {
    fn get(&self, partition: i32) -> Option<Rc<Coordinator<M>>> {
        self.by_partition.borrow().get(&partition).cloned()
    }

    /// All that this core has.
    pub(in crate::shard) fn all(&self) -> Vec<Rc<Coordinator<M>>> {
        self.by_partition.borrow().values().cloned().collect()
    }

    /// The server stops: nobody is kept waiting.
    pub(in crate::shard) fn send_away(&self, shard: &Shard) {
        self.all().iter().for_each(|coordinator| coordinator.send_away(shard));
    }

    /// Takes up the partitions that are here now, and lets go of those that are not.
    fn follow(&self, shard: &Rc<Shard>, snapshot: &Snapshot) {
        let mut here = BTreeMap::new();
        if let Some(topic) = snapshot.topic(M::TOPIC.name()) {
            for partition in (0..).take(topic.partitions.len()) {
                let hosted = shard.hosted(PartitionId { topic_id: topic.id, partition });
                here.extend(hosted.map(|hosted| (partition, hosted)));
            }
        }
        let mut known = self.by_partition.borrow_mut();
        known.retain(|partition, coordinator| {
            let stays = here.get(partition).is_some_and(|hosted| Rc::ptr_eq(hosted, coordinator.partition()));
            if !stays {
                coordinator.end(shard);
            }
            stays
        });
        for (partition, hosted) in here {
            known.entry(partition).or_insert_with(|| Coordinator::start(shard, hosted));
        }
    }
}

/// The catalog is in force here: coordinators come and go with their partitions, and the others hear of it.
pub(in crate::shard) fn follow(shard: &Rc<Shard>, before: &Snapshot, after: &Snapshot) {
    // Neither topic is there on most servers most of the time.
    if InternalTopic::ALL.iter().all(|topic| before.topic(topic.name()).or(after.topic(topic.name())).is_none()) {
        return;
    }
    let gone = before.topics().filter(|topic| after.topic_by_id(topic.id).is_none());
    let gone: Vec<Arc<str>> = gone.map(|topic| topic.name.clone()).collect();
    follow_kind::<GroupCoordinator>(shard, &gone, after);
    follow_kind::<TransactionCoordinator>(shard, &gone, after);
}

fn follow_kind<M: Machine>(shard: &Rc<Shard>, gone: &[Arc<str>], after: &Snapshot) {
    let coordinators = M::coordinators(shard);
    let known = coordinators.all();
    coordinators.follow(shard, after);
    for coordinator in known {
        coordinator.catalog_changed(shard, gone, after);
    }
}

impl Shard {
    /// Where a key's coordinator is.
    ///
    /// # Errors
    /// Its topic is not there.
    pub fn locate_coordinator(&self, topic: InternalTopic, key: &str) -> Result<Place, CoordinatorFailure> {
        let snapshot = self.snapshot();
        let found = snapshot.topic(topic.name()).ok_or(CoordinatorFailure::NotHere)?;
        let count = i32::try_from(found.partitions.len()).unwrap_or(i32::MAX);
        let partition = partition_of(key, count);
        let placed = found.partition(partition).ok_or(CoordinatorFailure::NotAvailable)?;
        Ok(Place { partition, core: u32::from(placed.core.index()) })
    }

    /// Asks the coordinator of `key`: on this core, or on another one where cores work for each other. A request for a
    /// coordinator of this core takes effect at the first poll.
    ///
    /// # Errors
    /// It did not answer; unless it says [`CoordinatorFailure::Loading`], nobody can say whether it took the request in.
    pub async fn ask<M: Machine>(
        self: &Rc<Self>,
        key: &str,
        request: M::Request,
    ) -> Result<M::Reply, CoordinatorFailure> {
        let place = self.locate_coordinator(M::TOPIC, key)?;
        if place.core == self.core_index() {
            return self.ask_here::<M>(place.partition, request).await;
        }
        if !self.options().listen_mode.is_one_broker() {
            return Err(CoordinatorFailure::NotHere);
        }
        let job = move |there: Rc<Self>| async move { there.ask_here::<M>(place.partition, request).await };
        Box::pin(self.on_core(place.core as usize, job)).await.unwrap_or(Err(CoordinatorFailure::NotAvailable))
    }

    /// The same wherever it is: for what cores ask in the name of their partitions.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn ask_on_any_core<M: Machine>(
        self: &Rc<Self>,
        key: &str,
        request: M::Request,
    ) -> Result<M::Reply, CoordinatorFailure> {
        let place = self.locate_coordinator(M::TOPIC, key)?;
        if place.core == self.core_index() {
            return self.ask_here::<M>(place.partition, request).await;
        }
        let job = move |there: Rc<Self>| async move { there.ask_here::<M>(place.partition, request).await };
        Box::pin(self.on_core(place.core as usize, job)).await.unwrap_or(Err(CoordinatorFailure::NotAvailable))
    }

    pub(in crate::shard) async fn ask_here<M: Machine>(
        self: &Rc<Self>,
        partition: i32,
        request: M::Request,
    ) -> Result<M::Reply, CoordinatorFailure> {
        let coordinator = M::coordinators(self).get(partition).ok_or(CoordinatorFailure::NotHere)?;
        coordinator.ask(self, request).await
    }

    /// Asks every coordinator that this broker has: those of this core, or of all cores where they are one broker. Those that
    /// have gone meanwhile are left out.
    ///
    /// # Errors
    /// One of them does not answer.
    pub async fn ask_all<M: Machine>(
        self: &Rc<Self>,
        request: impl Fn() -> M::Request,
    ) -> Result<Vec<M::Reply>, CoordinatorFailure> {
        let mut replies = Vec::new();
        let cores = if self.options().listen_mode.is_one_broker() {
            0..self.options().core_count
        } else {
            self.core_index()..self.core_index() + 1
        };
        for core in cores {
            // Each coordinator of a core gets a request of its own, made here: what makes them stays on its core.
            let snapshot = self.snapshot();
            let Some(topic) = snapshot.topic(M::TOPIC.name()) else { return Ok(replies) };
            for (partition, placed) in (0..).zip(&topic.partitions) {
                if u32::from(placed.core.index()) != core {
                    continue;
                }
                let request = request();
                let answered = if core == self.core_index() {
                    self.ask_here::<M>(partition, request).await
                } else {
                    let job = move |there: Rc<Self>| async move { there.ask_here::<M>(partition, request).await };
                    self.on_core(core as usize, job).await.unwrap_or(Err(CoordinatorFailure::NotAvailable))
                };
                match answered {
                    Ok(reply) => replies.push(reply),
                    Err(CoordinatorFailure::NotHere) => {}
                    Err(failure) => return Err(failure),
                }
            }
        }
        Ok(replies)
    }

    /// A marker that ends a transaction has become durable in a partition of this core, which may be a coordinator's.
    pub fn transaction_ended(&self, id: PartitionId, producer_id: ProducerId, committed: bool) {
        let groups = GroupCoordinator::coordinators(self).get(id.partition);
        if let Some(coordinator) = groups.filter(|coordinator| coordinator.partition().id() == id) {
            coordinator.transaction_ended(producer_id, committed);
        }
    }

    /// Makes an internal topic, where it is not there yet. On return its partitions can be used.
    ///
    /// # Errors
    /// It could not be made.
    pub async fn ensure_internal_topic(self: &Rc<Self>, topic: InternalTopic) -> Result<(), ProposeError> {
        if self.snapshot().topic(topic.name()).is_some() {
            return Ok(());
        }
        let config = &self.options().broker_config;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.io().random_u64().to_be_bytes());
        bytes[8..].copy_from_slice(&self.io().random_u64().to_be_bytes());
        let new_topic = NewTopic {
            name: topic.name().to_owned(),
            topic_id: TopicId(Uuid::from_random_bytes(bytes).0),
            partition_count: topic.partition_count(config),
            replication_factor: 1,
            assignments: Vec::new(),
            configs: topic.configs(config),
            created_ms: self.io().wall_ms(),
            seed: self.io().random_u64(),
        };
        match self.propose(Command::CreateTopic(new_topic)).await {
            Ok(snapshot) => {
                let partitions = snapshot.topic(topic.name()).map_or(0, |made| made.partitions.len());
                info!(topic = topic.name(), partitions, "internal topic created");
                Ok(())
            }
            // Another client was quicker.
            Err(ProposeError::Refused(CatalogError::TopicExists { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
