//! What the clients of one world were promised, and what they saw that breaks it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use alluvium::wire::uuid::Uuid;

use crate::client::TopicView;
use crate::oracle::{Contents, Oracle};
use crate::server::core_of;

/// Told by all clients of a world; the first broken promise is kept.
#[derive(Default)]
pub(crate) struct Ledger {
    oracle: RefCell<Oracle>,
    topics: RefCell<BTreeMap<String, TopicState>>,
    partition_counts: RefCell<BTreeMap<[u8; 16], i32>>,
    deleted: RefCell<BTreeSet<[u8; 16]>>,
    leader_epochs: RefCell<BTreeMap<([u8; 16], i32), i32>>,
    producer_ids: RefCell<BTreeSet<i64>>,
    violation: RefCell<Option<String>>,
    is_over: Cell<bool>,
    clients: Cell<usize>,
    pub(crate) counts: Counts,
}

/// What happened, to see that a run shows something.
#[derive(Default, Debug)]
pub(crate) struct Counts {
    pub(crate) topics_created: Cell<u32>,
    pub(crate) topics_deleted: Cell<u32>,
    pub(crate) batches_acknowledged: Cell<u32>,
    pub(crate) batches_resent: Cell<u32>,
    pub(crate) batches_refused: Cell<u32>,
    pub(crate) records_read: Cell<u32>,
    pub(crate) deletes_acknowledged: Cell<u32>,
    pub(crate) commits_acknowledged: Cell<u32>,
    pub(crate) transactions_ended: Cell<u32>,
    pub(crate) readers_overtaken: Cell<u32>,
}

/// What is known of a topic's name. One client changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopicState {
    /// Never made, or acknowledged as deleted.
    Absent,
    /// A creation was asked and not answered.
    Unknown,
    /// Acknowledged, or seen.
    Exists(Uuid),
    /// A deletion was asked and not answered.
    Deleting(Uuid),
}

impl Ledger {
    pub(crate) fn violate(&self, what: String) {
        self.violation.borrow_mut().get_or_insert(what);
    }

    pub(crate) fn violation(&self) -> Option<String> {
        self.violation.borrow().clone()
    }

    pub(crate) fn is_violated(&self) -> bool {
        self.violation.borrow().is_some()
    }

    /// Tells the clients to come to an end.
    pub(crate) fn end(&self) {
        self.is_over.set(true);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    pub(crate) fn client_began(&self) {
        self.clients.set(self.clients.get() + 1);
    }

    pub(crate) fn client_ended(&self) {
        self.clients.set(self.clients.get() - 1);
    }

    pub(crate) fn client_count(&self) -> usize {
        self.clients.get()
    }

    pub(crate) fn promised_count(&self) -> usize {
        self.oracle.borrow().promised_count()
    }

    pub(crate) fn set_topic(&self, name: &str, state: TopicState) {
        if let Some(TopicState::Exists(id) | TopicState::Deleting(id)) = self.topic(name)
            && state == TopicState::Absent
        {
            self.deleted.borrow_mut().insert(id.0);
        }
        self.topics.borrow_mut().insert(name.to_owned(), state);
    }

    pub(crate) fn topic(&self, name: &str) -> Option<TopicState> {
        self.topics.borrow().get(name).copied()
    }

    /// The name of a topic that is known to be there.
    pub(crate) fn name_of(&self, id: Uuid) -> Option<String> {
        let topics = self.topics.borrow();
        topics.iter().find(|(_, state)| **state == TopicState::Exists(id)).map(|(name, _)| name.clone())
    }

    pub(crate) fn topic_names(&self) -> Vec<(String, TopicState)> {
        self.topics.borrow().iter().map(|(name, state)| (name.clone(), *state)).collect()
    }

    pub(crate) fn set_partition_count(&self, id: Uuid, count: i32) {
        self.partition_counts.borrow_mut().insert(id.0, count);
    }

    /// True while the topic is known to be there.
    pub(crate) fn exists(&self, id: Uuid) -> bool {
        self.topics.borrow().values().any(|state| *state == TopicState::Exists(id))
    }

    /// A producer id was given out.
    pub(crate) fn producer_id(&self, id: i64) {
        if !self.producer_ids.borrow_mut().insert(id) {
            self.violate(format!("producer id {id} was given out twice"));
        }
    }

    /// Ids of the topics acknowledged as deleted so far: what is asked from now on may not show them.
    pub(crate) fn deleted(&self) -> BTreeSet<[u8; 16]> {
        self.deleted.borrow().clone()
    }

    /// The topics as a core shows them, asked when those in `deleted` were gone already.
    pub(crate) fn saw_topics(&self, deleted: &BTreeSet<[u8; 16]>, seen: &BTreeMap<String, TopicView>) {
        for (name, view) in seen {
            if deleted.contains(&view.id.0) {
                self.violate(format!("{name} {} was acknowledged as deleted and is there", view.id));
            }
            if let Some(count) = self.partition_counts.borrow().get(&view.id.0)
                && view.leaders.len() != *count as usize
            {
                self.violate(format!("{name} has {} partitions, not {count}", view.leaders.len()));
            }
            for (partition, (leader, epoch)) in &view.leaders {
                if core_of(*leader).is_none() {
                    self.violate(format!("{name}-{partition} is led by {leader}, which there is not"));
                }
                let mut epochs = self.leader_epochs.borrow_mut();
                let known = epochs.entry((view.id.0, *partition)).or_insert(*epoch);
                if *epoch < *known {
                    let known = *known;
                    drop(epochs);
                    return self
                        .violate(format!("the leader epoch of {name}-{partition} went back, {known} to {epoch}"));
                }
                *known = *epoch;
            }
        }
    }

    /// The topics as a core shows them, when nobody changes them any more.
    pub(crate) fn check_topics(&self, core: usize, seen: &BTreeMap<String, TopicView>) {
        self.saw_topics(&self.deleted(), seen);
        for (name, state) in self.topic_names() {
            let found = seen.get(&name).map(|view| view.id);
            match state {
                TopicState::Exists(id) if found != Some(id) => {
                    self.violate(format!("core {core}: {name} {id} was acknowledged as created; found: {found:?}"));
                }
                TopicState::Absent if found.is_some() => {
                    self.violate(format!("core {core}: {name} was acknowledged as deleted; found: {found:?}"));
                }
                _ => {}
            }
        }
    }

    pub(crate) fn sent(&self, topic: Uuid, partition: i32, producer: u32, payload: &[u8]) {
        self.oracle.borrow_mut().sent(&topic.to_string(), partition, producer, payload);
    }

    /// A client is about to delete records, or retention may.
    pub(crate) fn may_delete(&self, topic: Uuid, partition: i32, log_start_offset: i64) {
        self.oracle.borrow_mut().may_delete(&topic.to_string(), partition, log_start_offset);
    }

    pub(crate) fn may_be_deleted(&self, topic: Uuid, partition: i32, offset: i64) -> bool {
        self.oracle.borrow().may_be_deleted(&topic.to_string(), partition, offset)
    }

    /// Records were deleted, the log begins at `log_start_offset` from now on.
    pub(crate) fn deleted_records(&self, topic: Uuid, partition: i32, log_start_offset: i64) {
        count(&self.counts.deletes_acknowledged);
        let told = self.oracle.borrow_mut().deleted(&topic.to_string(), partition, log_start_offset);
        if let Err(violation) = told {
            self.violate(format!("deleted {topic}-{partition} below {log_start_offset}: {violation:?}"));
        }
    }

    pub(crate) fn acknowledged(&self, topic: Uuid, partition: i32, offset: i64, payload: &[u8]) {
        let told = self.oracle.borrow_mut().acknowledged(&topic.to_string(), partition, offset, payload);
        if let Err(violation) = told {
            self.violate(format!("acknowledged {topic}-{partition} at {offset}: {violation:?}"));
        }
    }

    pub(crate) fn read(&self, topic: Uuid, partition: i32, offset: i64, payload: &[u8]) {
        let told = self.oracle.borrow_mut().read(&topic.to_string(), partition, offset, payload);
        if let Err(violation) = told {
            self.violate(format!("read {topic}-{partition} at {offset}: {violation:?}"));
        }
    }

    /// All of a partition, when nobody writes to it any more.
    pub(crate) fn check(&self, topic: Uuid, partition: i32, contents: &Contents<'_>) {
        let told = self.oracle.borrow_mut().check(&topic.to_string(), partition, contents);
        if let Err(violation) = told {
            let Contents { log_start_offset, high_watermark, .. } = contents;
            self.violate(format!("{topic}-{partition}, {log_start_offset} to {high_watermark}: {violation:?}"));
        }
    }
}

/// Adds one.
pub(crate) fn count(counter: &Cell<u32>) {
    counter.set(counter.get() + 1);
}
