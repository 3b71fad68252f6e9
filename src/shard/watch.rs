//! Waiting for a partition of another core: it tells, once, that something moved there.
//!
//! A fetch that waits holds nothing of the other core: it leaves a note there (one a core and partition, however many
//! fetches wait), and is woken by a job that comes back. So ten thousand waiting consumers cost no credits.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use ahash::RandomState;

use crate::record::offset::{Offset, PartitionId};
use crate::ring::io::Io;
use crate::ring::task::{TaskId, WaitList};
use crate::shard::core::Shard;
use crate::shard::partition::Partition;

/// What a reader has seen of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its high watermark.
    pub high_watermark: Offset,
    /// Its last stable offset.
    pub last_stable: Offset,
    /// Its first offset.
    pub log_start: Offset,
}

/// Who waits for whom across cores, on one core.
pub struct Watches {
    /// Partitions of other cores that tasks of this one wait for.
    remote: RefCell<HashMap<PartitionId, Rc<RemoteWatch>, RandomState>>,
    /// Cores that wait for partitions of this one.
    noted: RefCell<HashMap<PartitionId, Vec<usize>, RandomState>>,
}

/// One partition of another core that tasks of this one wait for.
pub struct RemoteWatch {
    seen: Seen,
    moved: Cell<bool>,
    waiters: WaitList,
}

impl RemoteWatch {
    /// True where it has moved since what was seen; else the current task is polled when it does.
    pub fn poll_moved(&self, io: &Io) -> bool {
        if !self.moved.get() {
            self.waiters.wait(io.current_task());
        }
        self.moved.get()
    }

    /// The task waits no longer.
    pub fn forget(&self, task: TaskId) {
        self.waiters.forget(task);
    }
}

/// Watches that the other core has not confirmed. Dropped before (it said no, or the reader went away), whoever has joined
/// in looks again.
struct Unconfirmed<'a> {
    shard: &'a Shard,
    asked: Vec<(PartitionId, Seen)>,
}

impl Drop for Unconfirmed<'_> {
    fn drop(&mut self) {
        for (id, _) in &self.asked {
            self.shard.tell_moved(*id);
        }
    }
}

impl Watches {
    /// Nobody waits; `io` gives the seeds of the hashes.
    pub fn new(io: &Io) -> Self {
        let hasher = || RandomState::with_seeds(io.random_u64(), io.random_u64(), io.random_u64(), io.random_u64());
        Self {
            remote: RefCell::new(HashMap::with_hasher(hasher())),
            noted: RefCell::new(HashMap::with_hasher(hasher())),
        }
    }
}

impl Shard {
    /// Watches partitions of `core` for whatever is past what was `seen` of them. `None`: one of them has moved already,
    /// or the core is gone.
    pub async fn watch_on(&self, core: usize, wanted: &[(PartitionId, Seen)]) -> Option<Vec<Rc<RemoteWatch>>> {
        let mut watches = Vec::with_capacity(wanted.len());
        let mut new = Unconfirmed { shard: self, asked: Vec::new() };
        for (id, seen) in wanted {
            let mut remote = self.watches().remote.borrow_mut();
            let watch = remote.entry(*id).or_insert_with(|| {
                new.asked.push((*id, *seen));
                Rc::new(RemoteWatch { seen: *seen, moved: Cell::new(false), waiters: WaitList::default() })
            });
            if watch.seen != *seen {
                // Another reader has seen more (or less) of it: this one looks again.
                drop(remote);
                return None;
            }
            watches.push(watch.clone());
        }
        if !new.asked.is_empty() {
            let (own_core, asked) = (self.io().core_index(), new.asked.clone());
            let noted = self.on_core(core, move |shard| async move { shard.note_watches(own_core, &asked) }).await;
            if noted != Ok(true) {
                return None;
            }
            new.asked.clear();
        }
        Some(watches)
    }

    /// A watched partition of another core moved.
    fn tell_moved(&self, id: PartitionId) {
        if let Some(watch) = self.watches().remote.borrow_mut().remove(&id) {
            watch.moved.set(true);
            self.io().wake_all(&watch.waiters);
        }
    }

    /// Notes that core `from` wants to hear when one of these partitions moves. False where one has moved already, or is
    /// not served here (any more).
    fn note_watches(self: &Rc<Self>, from: usize, asked: &[(PartitionId, Seen)]) -> bool {
        let mut partitions = Vec::with_capacity(asked.len());
        for (id, seen) in asked {
            match self.hosted(*id) {
                Some(partition) if partition.is_online() && partition.seen() == *seen && !self.is_stopping() => {
                    partitions.push(partition);
                }
                _ => return false,
            }
        }
        for partition in partitions {
            let mut noted = self.watches().noted.borrow_mut();
            let cores = noted.entry(partition.id()).or_default();
            if cores.is_empty() {
                self.io().spawn(tell_when_moved(self.clone(), partition));
            }
            if !cores.contains(&from) {
                cores.push(from);
            }
        }
        true
    }
}

/// Waits until the partition moves, and tells the cores that asked.
async fn tell_when_moved(shard: Rc<Shard>, partition: Rc<Partition>) {
    let seen = partition.seen();
    poll_fn(|_| {
        if partition.seen() != seen || !partition.is_online() || shard.is_stopping() {
            return Poll::Ready(());
        }
        partition.progress().wait(shard.io().current_task());
        Poll::Pending
    })
    .await;
    let id = partition.id();
    let cores = shard.watches().noted.borrow_mut().remove(&id).unwrap_or_default();
    for core in cores {
        // A core that is gone waits for nothing.
        let _ = shard.on_core(core, move |other| async move { other.tell_moved(id) }).await;
    }
}
