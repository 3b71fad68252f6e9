//! All that one core owns.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::Poll;

use ahash::RandomState;

use crate::control::catalog::Catalog;
use crate::control::snapshot::Snapshot;
use crate::group::coordinator::GroupCoordinator;
use crate::log::core_checkpoint::CorePoints;
use crate::log::core_places::{CorePlaces, SegmentPlaces};
use crate::log::recovery_point::PartitionOffsets;
use crate::record::offset::{Offset, PartitionId};
use crate::ring::io::Io;
use crate::ring::mailbox::{self, Mailbox, MailboxSeat};
use crate::ring::task::WaitList;
use crate::ring::timer::Nanos;
use crate::shard::catalog_host::CatalogHost;
use crate::shard::coordinators::Coordinators;
use crate::shard::counters::Counters;
use crate::shard::deletion::Deletions;
use crate::shard::directories::Directories;
use crate::shard::durability::DurabilityStage;
use crate::shard::exclusive::Exclusive;
use crate::shard::files::FileCache;
use crate::shard::forward::{Done, JOBS_MAX, Job};
use crate::shard::kept_places::PlacesJournals;
use crate::shard::memory::MemoryBudget;
use crate::shard::message::{Answer, Question};
use crate::shard::options::{DataDir, ShardOptions};
use crate::shard::partition::Partition;
use crate::shard::recompression::RecompressionSlots;
use crate::shard::tier::{SharedTier, Tier};
use crate::shard::watch::Watches;
use crate::txn::coordinator::TransactionCoordinator;

/// One core: its partitions, files, memory and mail. Never leaves its thread.
pub struct Shard {
    io: Io,
    options: Rc<ShardOptions>,
    snapshot: RefCell<Snapshot>,
    partitions: RefCell<HashMap<PartitionId, Rc<Partition>, RandomState>>,
    /// Placed here and not openable: requests are told so.
    open_failed: RefCell<HashMap<PartitionId, OpenFailure, RandomState>>,
    files: FileCache,
    memory: Rc<MemoryBudget>,
    recompressions: Rc<RecompressionSlots>,
    durability: DurabilityStage,
    deletions: Deletions,
    hosting_turn: Exclusive,
    checkpoints_turn: Exclusive,
    places: PlacesJournals,
    directories: Directories,
    tier: SharedTier,
    mailbox: Mailbox<Question, Answer>,
    jobs: Mailbox<Job, Done>,
    watches: Watches,
    groups: Coordinators<GroupCoordinator>,
    transactions: Coordinators<TransactionCoordinator>,
    counters: Counters,
    stopping: Cell<bool>,
    /// Its partitions are being closed: nothing is appended any more.
    closing: Cell<bool>,
    /// Cores whose connections have ended, at the stop.
    drained_cores: Cell<usize>,
    stop_waiters: WaitList,
    pub(in crate::shard) producer_ids: RefCell<std::ops::Range<i64>>,
    /// On the controller's core.
    catalog_host: RefCell<Option<Rc<CatalogHost>>>,
    has_catalog: Cell<bool>,
    catalog_waiters: WaitList,
    start: RefCell<StartState>,
}

/// Why a partition that is placed here could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shard) enum OpenFailure {
    /// The disk is full: the next change of the catalog and the next look for what is to be deleted try again.
    NoSpace,
    /// A sync may have failed, and another one would succeed without making anything durable.
    UntilRestart,
}

/// A core's seats in the mailboxes, before it runs.
pub struct ShardMail {
    /// For the catalog.
    pub questions: MailboxSeat<Question, Answer>,
    /// For requests that came in by another core than their partition's.
    pub jobs: MailboxSeat<Job, Done>,
}

impl ShardMail {
    /// Connects `core_count` cores, each with each.
    pub fn mesh(core_count: usize) -> Vec<Self> {
        let questions = mailbox::mesh(core_count, QUESTIONS_MAX);
        let jobs = mailbox::mesh(core_count, JOBS_MAX);
        questions.into_iter().zip(jobs).map(|(questions, jobs)| Self { questions, jobs }).collect()
    }
}

/// How the last run left the data directories.
#[derive(Default)]
pub struct StartState {
    /// Where logs were known to be durable, by data directory.
    pub recovery_points: BTreeMap<PathBuf, RecoveryPoints>,
}

/// Where the logs of one data directory were known to be durable.
#[derive(Default)]
pub struct RecoveryPoints {
    /// From the cores' own checkpoints.
    pub by_id: CorePoints,
    /// From Kafka's merged one, where no core has left one.
    pub by_name: PartitionOffsets,
    /// Log start offsets, likewise.
    pub log_starts_by_id: CorePoints,
    /// Those of Kafka's.
    pub log_starts_by_name: PartitionOffsets,
    /// Where compaction has come to, likewise.
    pub cleaned_by_id: CorePoints,
    /// Those of Kafka's.
    pub cleaned_by_name: PartitionOffsets,
    /// Where lookups by time begin, as the last run has left it; taken as partitions are opened.
    pub places: CorePlaces,
}

impl Shard {
    /// A core that hosts nothing yet.
    pub fn new(io: Io, options: Rc<ShardOptions>, mail: ShardMail) -> Rc<Self> {
        let hasher = || RandomState::with_seeds(io.random_u64(), io.random_u64(), io.random_u64(), io.random_u64());
        Rc::new(Self {
            snapshot: RefCell::new(Catalog::new().snapshot()),
            partitions: RefCell::new(HashMap::with_hasher(hasher())),
            open_failed: RefCell::new(HashMap::with_hasher(hasher())),
            files: FileCache::new(&io, options.open_files_max),
            memory: MemoryBudget::new(options.frame_memory_bytes),
            recompressions: Rc::default(),
            durability: DurabilityStage::new(&options),
            deletions: Deletions::default(),
            hosting_turn: Exclusive::default(),
            checkpoints_turn: Exclusive::default(),
            places: PlacesJournals::default(),
            mailbox: mail.questions.bind(&io),
            jobs: mail.jobs.bind(&io),
            watches: Watches::new(&io),
            groups: Coordinators::default(),
            transactions: Coordinators::default(),
            directories: Directories::new(&options.data_dirs),
            tier: Tier::new(&io, &options).map(Rc::new),
            counters: Counters::default(),
            stopping: Cell::new(false),
            closing: Cell::new(false),
            drained_cores: Cell::new(0),
            stop_waiters: WaitList::default(),
            producer_ids: RefCell::new(0..0),
            catalog_host: RefCell::new(None),
            has_catalog: Cell::new(false),
            catalog_waiters: WaitList::default(),
            start: RefCell::new(StartState::default()),
            io,
            options,
        })
    }

    /// This core's view of the world.
    pub fn io(&self) -> &Io {
        &self.io
    }

    /// What it was started with.
    pub fn options(&self) -> &Rc<ShardOptions> {
        &self.options
    }

    /// Its index.
    pub fn core_index(&self) -> u32 {
        u32::try_from(self.io.core_index()).expect("cores are few")
    }

    /// Its broker id in Kafka's protocol.
    pub fn broker_id(&self) -> i32 {
        self.options.broker_of(self.core_index()).map_or(-1, |broker| broker.id)
    }

    /// The catalog as this core has it.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.borrow().clone()
    }

    pub(in crate::shard) fn set_snapshot(&self, snapshot: Snapshot) {
        let previous = self.snapshot.replace(snapshot);
        assert!(previous.version() <= self.snapshot.borrow().version(), "a snapshot of the catalog went back");
        self.has_catalog.set(true);
        self.io.wake_all(&self.catalog_waiters);
    }

    /// True once this core has the catalog of this run, and has opened what that places here.
    pub fn has_catalog(&self) -> bool {
        self.has_catalog.get()
    }

    /// Has the current task polled when the catalog is there.
    pub fn note_catalog(&self) {
        self.catalog_waiters.wait(self.io.current_task());
    }

    /// The catalog's host, on the controller's core.
    pub(in crate::shard) fn catalog_host(&self) -> Option<Rc<CatalogHost>> {
        self.catalog_host.borrow().clone()
    }

    pub(in crate::shard) fn set_catalog_host(&self, host: Rc<CatalogHost>) {
        *self.catalog_host.borrow_mut() = Some(host);
    }

    /// Says how the last run left the data directories; before any partition is opened.
    pub fn set_start_state(&self, start: StartState) {
        assert!(!self.has_catalog(), "partitions are opened already");
        *self.start.borrow_mut() = start;
    }

    /// True where nothing of the directory has to be scanned.
    pub(in crate::shard) fn is_clean_start(&self, dir: &DataDir) -> bool {
        // What is made later is not what the last run left.
        dir.clean && !self.has_catalog()
    }

    pub(in crate::shard) fn recovery_point_of(&self, dir: &DataDir, topic: &str, id: PartitionId) -> Offset {
        let start = self.start.borrow();
        let Some(points) = start.recovery_points.get(&dir.path) else { return Offset(0) };
        if let Some((_, offset)) = points.by_id.get(&id) {
            return *offset;
        }
        // A topic that is made later may have the name of one that was there.
        let by_name = points.by_name.get(&(topic.to_owned(), id.partition)).filter(|_| !self.has_catalog());
        by_name.copied().unwrap_or(Offset(0))
    }

    pub(in crate::shard) fn log_start_of(&self, dir: &DataDir, topic: &str, id: PartitionId) -> Offset {
        let start = self.start.borrow();
        let Some(points) = start.recovery_points.get(&dir.path) else { return Offset(0) };
        if let Some((_, offset)) = points.log_starts_by_id.get(&id) {
            return *offset;
        }
        let by_name = points.log_starts_by_name.get(&(topic.to_owned(), id.partition));
        by_name.copied().filter(|_| !self.has_catalog()).unwrap_or(Offset(0))
    }

    pub(in crate::shard) fn cleaned_to_of(&self, dir: &DataDir, topic: &str, id: PartitionId) -> Option<Offset> {
        let start = self.start.borrow();
        let points = start.recovery_points.get(&dir.path)?;
        if let Some((_, offset)) = points.cleaned_by_id.get(&id) {
            return Some(*offset);
        }
        points.cleaned_by_name.get(&(topic.to_owned(), id.partition)).copied().filter(|_| !self.has_catalog())
    }

    /// What the last run has kept of a partition's places; `None` where there may be something that is not known.
    pub(in crate::shard) fn take_places_of(&self, dir: &DataDir, id: PartitionId) -> Option<Vec<SegmentPlaces>> {
        let mut start = self.start.borrow_mut();
        let points = start.recovery_points.get_mut(&dir.path)?;
        (!self.has_catalog() && !points.places.lacks_any()).then(|| points.places.take(id))
    }

    /// Those of other cores' partitions, when this core's are open.
    pub(in crate::shard) fn forget_places(&self) {
        for points in self.start.borrow_mut().recovery_points.values_mut() {
            points.places = CorePlaces::default();
        }
    }

    /// Log start offsets that the last run left in a directory, of partitions that are not hosted here and that the
    /// catalog still has.
    pub(in crate::shard) fn log_starts_of_others(&self, dir: &Path) -> CorePoints {
        let (start, snapshot) = (self.start.borrow(), self.snapshot());
        let Some(points) = start.recovery_points.get(dir) else { return CorePoints::new() };
        let others = points.log_starts_by_id.iter().filter(|(id, _)| {
            self.hosted(**id).is_none() && snapshot.partition_by_id(id.topic_id, id.partition).is_some()
        });
        others.map(|(id, known)| (*id, known.clone())).collect()
    }

    pub(in crate::shard) fn directories(&self) -> &Directories {
        &self.directories
    }

    /// The partition, if this core hosts it. Requests go through [`Shard::route`].
    pub(in crate::shard) fn hosted(&self, id: PartitionId) -> Option<Rc<Partition>> {
        self.partitions.borrow().get(&id).cloned()
    }

    /// All partitions that this core hosts, in no order.
    pub fn partitions(&self) -> Vec<Rc<Partition>> {
        self.partitions.borrow().values().cloned().collect()
    }

    pub(in crate::shard) fn host(&self, partition: Rc<Partition>) {
        self.open_failed.borrow_mut().remove(&partition.id());
        self.partitions.borrow_mut().insert(partition.id(), partition);
    }

    pub(in crate::shard) fn unhost(&self, id: PartitionId) -> Option<Rc<Partition>> {
        self.open_failed.borrow_mut().remove(&id);
        self.files.forget(id);
        self.partitions.borrow_mut().remove(&id)
    }

    pub(in crate::shard) fn note_open_failed(&self, id: PartitionId, failure: OpenFailure) {
        self.open_failed.borrow_mut().insert(id, failure);
    }

    /// Whether opening it failed in a way that another try would only hide.
    pub(in crate::shard) fn stays_offline(&self, id: PartitionId) -> bool {
        self.open_failed.borrow().get(&id) == Some(&OpenFailure::UntilRestart)
    }

    /// True where a partition could not be opened for want of space.
    pub(in crate::shard) fn lacks_space(&self) -> bool {
        self.open_failed.borrow().values().any(|failure| *failure == OpenFailure::NoSpace)
    }

    /// Partitions that are placed here and could not be opened.
    pub(in crate::shard) fn unopened(&self) -> Vec<PartitionId> {
        self.open_failed.borrow().keys().copied().collect()
    }

    pub(in crate::shard) fn open_failed(&self, id: PartitionId) -> bool {
        self.open_failed.borrow().contains_key(&id)
    }

    /// Handles of its segments.
    pub fn files(&self) -> &FileCache {
        &self.files
    }

    /// Memory for frames.
    pub fn memory(&self) -> &Rc<MemoryBudget> {
        &self.memory
    }

    /// Files of deleted segments.
    pub fn deletions(&self) -> &Deletions {
        &self.deletions
    }

    /// Who takes in a catalog and opens partitions.
    pub(in crate::shard) fn hosting_turn(&self) -> &Exclusive {
        &self.hosting_turn
    }

    /// Who writes this core's checkpoints.
    pub(in crate::shard) fn checkpoints_turn(&self) -> &Exclusive {
        &self.checkpoints_turn
    }

    /// What is kept of where lookups by time begin.
    pub(in crate::shard) fn places(&self) -> &PlacesJournals {
        &self.places
    }

    pub(in crate::shard) fn recompressions(&self) -> &Rc<RecompressionSlots> {
        &self.recompressions
    }

    /// The tier, where the server has one.
    pub fn tier(&self) -> Option<&Rc<Tier>> {
        self.tier.as_ref()
    }

    /// The stage between written and durable.
    pub fn durability(&self) -> &DurabilityStage {
        &self.durability
    }

    /// Mail to and from the other cores.
    pub fn mailbox(&self) -> &Mailbox<Question, Answer> {
        &self.mailbox
    }

    /// Work for the other cores, and of theirs.
    pub(in crate::shard) fn jobs(&self) -> &Mailbox<Job, Done> {
        &self.jobs
    }

    /// Who waits for partitions across cores.
    pub(in crate::shard) fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Coordinators of groups.
    pub(in crate::shard) fn groups(&self) -> &Coordinators<GroupCoordinator> {
        &self.groups
    }

    /// Coordinators of transactions.
    pub(in crate::shard) fn transactions(&self) -> &Coordinators<TransactionCoordinator> {
        &self.transactions
    }

    /// What it has counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// True once the server stops: nothing new is taken up.
    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// True once the partitions are being closed, after the last connection of any core has ended.
    pub(in crate::shard) fn is_closing(&self) -> bool {
        self.closing.get()
    }

    pub(in crate::shard) fn begin_closing(&self) {
        self.closing.set(true);
    }

    /// Tells the other cores that no request comes from this one any more, and waits until all of them have said so: what
    /// they still have under way may need partitions of this core.
    pub async fn wait_all_drained(self: &Rc<Self>, deadline: Nanos) {
        let others: Vec<usize> = (0..self.jobs.core_count()).filter(|core| *core != self.io.core_index()).collect();
        for core in &others {
            let core = *core;
            let shard = self.clone();
            self.io.spawn(async move {
                let _ = shard.on_core(core, |other| async move { other.note_core_drained() }).await;
            });
        }
        let _timer = self.io.wake_at(deadline);
        poll_fn(|_| {
            if self.drained_cores.get() >= others.len() || self.io.now() >= deadline {
                return Poll::Ready(());
            }
            self.stop_waiters.wait(self.io.current_task());
            Poll::Pending
        })
        .await;
    }

    fn note_core_drained(&self) {
        self.drained_cores.set(self.drained_cores.get() + 1);
        self.io.wake_all(&self.stop_waiters);
    }

    /// Has the current task polled when the server stops.
    pub fn note_stopping(&self) {
        self.stop_waiters.wait(self.io.current_task());
    }

    /// The current task waits for the stop no longer.
    pub fn forget_stopping(&self) {
        self.stop_waiters.forget(self.io.current_task());
    }

    /// Begins the stop: long polls answer, connections close after their last reply.
    pub fn stop(&self) {
        self.stopping.set(true);
        self.io.wake_all(&self.stop_waiters);
        self.groups.send_away(self);
        self.transactions.send_away(self);
        for partition in self.partitions.borrow().values() {
            self.io.wake_all(partition.progress());
        }
    }
}

/// Questions that one core may have open with another.
const QUESTIONS_MAX: usize = 256;
