//! One partition as its core holds it: its log, its state, and who waits for it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::path::PathBuf;
use std::rc::Rc;
use std::task::Poll;

use crate::log::partition_log::PartitionLog;
use crate::log::plan::SegmentId;
use crate::log::retention::RetentionLimits;
use crate::log::segment::Segment;
use crate::record::offset::{Offset, PartitionId};
use crate::ring::io::Io;
use crate::ring::task::WaitList;
use crate::ring::timer::Nanos;
use crate::shard::exclusive::Exclusive;
use crate::shard::lane::Lane;
use crate::shard::remote_partition::RemotePartition;
use crate::shard::reservation::Reservation;
use crate::shard::topic_limits::{Durability, TopicLimits};
use crate::shard::watch::Seen;

/// A partition that this core leads. No borrow of `log` lives across an await.
pub struct Partition {
    id: PartitionId,
    topic: Rc<str>,
    folder: PathBuf,
    log: RefCell<PartitionLog>,
    limits: Cell<TopicLimits>,
    /// All below is on stable storage, whatever the durability in force.
    recovery_point: Cell<Offset>,
    /// That of the checkpoint on stable storage.
    recorded_point: Cell<Offset>,
    offline: RefCell<Option<Rc<str>>>,
    /// Polled when the high watermark moved, or the partition went offline.
    progress: WaitList,
    /// Polled when appends may be planned again.
    admission: WaitList,
    /// A roll or a repair is under way: no append is planned.
    closed_for_appends: Cell<bool>,
    /// Ends of the log after failed appends, by number; the oldest ones are merged.
    truncations: RefCell<VecDeque<(u64, Offset)>>,
    /// Polled when no write is under way.
    drained: WaitList,
    /// Appends that came over the mailbox stand here until they have their offsets.
    forwarded: Rc<Lane>,
    /// Writes and rolls that were begun and have not ended.
    writes_under_way: Cell<u32>,
    reservation: Reservation,
    /// A sync by `flush.ms` is to come.
    pub(in crate::shard) flush_timer_set: Cell<bool>,
    /// Its log start offset as a checkpoint has it durably, or as its first segment tells.
    log_start_durable: Cell<Offset>,
    /// Base offset of the first segment that a start would find.
    first_base_on_disk: Cell<Offset>,
    /// Files of deleted segments may stand below that, under their own names.
    has_files_below: Cell<bool>,
    epochs_turn: Exclusive,
    indexes_turn: Exclusive,
    /// When a write of them failed, where none has gone well since.
    index_failed_at: Cell<Option<Nanos>>,
    /// Where the last compaction ended; `None` where there was none.
    cleaned_to: Cell<Option<Offset>>,
    /// Compaction met something in it that it cannot read.
    uncleanable: Cell<bool>,
    replacement_turn: Exclusive,
    snapshots_turn: Exclusive,
    /// What the log says of producers below is durable without the segments that said it.
    producers_durable_at: Cell<Offset>,
    /// This partition is queued for a sync, or in one.
    pub(in crate::shard) sync_queued: Cell<bool>,
    /// Its segments in the tier; `None` where there never were any and none are to be.
    remote: RefCell<Option<Rc<RemotePartition>>>,
    /// Where a sealed segment ends that the tier may have once all below is stable; nobody has told it yet.
    sealed_untold: Cell<Option<Offset>>,
}

impl Partition {
    /// A partition whose log was recovered.
    pub fn new(id: PartitionId, topic: Rc<str>, folder: PathBuf, log: PartitionLog, limits: TopicLimits) -> Self {
        Self {
            id,
            topic,
            folder,
            log: RefCell::new(log),
            limits: Cell::new(limits),
            recovery_point: Cell::new(Offset(0)),
            recorded_point: Cell::new(Offset(0)),
            offline: RefCell::new(None),
            progress: WaitList::default(),
            admission: WaitList::default(),
            closed_for_appends: Cell::new(false),
            truncations: RefCell::new(VecDeque::new()),
            drained: WaitList::default(),
            forwarded: Rc::default(),
            writes_under_way: Cell::new(0),
            reservation: Reservation::default(),
            flush_timer_set: Cell::new(false),
            log_start_durable: Cell::new(Offset(0)),
            first_base_on_disk: Cell::new(Offset(0)),
            has_files_below: Cell::new(false),
            epochs_turn: Exclusive::default(),
            indexes_turn: Exclusive::default(),
            index_failed_at: Cell::new(None),
            cleaned_to: Cell::new(None),
            uncleanable: Cell::new(false),
            replacement_turn: Exclusive::default(),
            snapshots_turn: Exclusive::default(),
            producers_durable_at: Cell::new(Offset(0)),
            sync_queued: Cell::new(false),
            remote: RefCell::new(None),
            sealed_untold: Cell::new(None),
        }
    }

    /// Topic id and partition index.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// The topic's name.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Where its files are.
    pub fn folder(&self) -> &PathBuf {
        &self.folder
    }

    /// Its log; never borrowed across an await.
    pub fn log(&self) -> &RefCell<PartitionLog> {
        &self.log
    }

    /// Its topic's configs.
    pub fn limits(&self) -> TopicLimits {
        self.limits.get()
    }

    /// Takes changed configs, for the appends that follow.
    pub(in crate::shard) fn set_limits(&self, limits: TopicLimits) {
        self.limits.set(limits);
    }

    /// When its appends are safe.
    pub fn durability(&self) -> Durability {
        self.limits.get().durability
    }

    /// All below is on stable storage.
    pub fn recovery_point(&self) -> Offset {
        self.recovery_point.get()
    }

    /// The recovery point of the checkpoint that a start after a crash would find.
    pub(in crate::shard) fn recorded_point(&self) -> Offset {
        self.recorded_point.get()
    }

    pub(in crate::shard) fn set_recorded_point(&self, offset: Offset) {
        self.recorded_point.set(offset);
    }

    /// The recovery point that a checkpoint may say: below it the indexes of sealed segments are durable as well.
    pub(in crate::shard) fn checkpointed_recovery_point(&self) -> Offset {
        let at_most = self.log.borrow().recovery_point_max();
        at_most.map_or(self.recovery_point.get(), |at_most| at_most.min(self.recovery_point.get()))
    }

    /// A segment is sealed that ends at `end`, and what the tier needs of it is written.
    pub(in crate::shard) fn note_sealed(&self, end: Offset) {
        self.sealed_untold.set(self.sealed_untold.get().or(Some(end)));
    }

    /// True once for each sealed segment, when the tier may have it.
    pub(in crate::shard) fn take_sealed_stable(&self) -> bool {
        let Some(end) = self.sealed_untold.get() else { return false };
        let bound = self.log.borrow().offsets().last_stable.min(self.checkpointed_recovery_point());
        if end > bound {
            return false;
        }
        let newest_end = self.log.borrow().segments().last().map(|active| active.base_offset());
        self.sealed_untold.set(newest_end.filter(|end| *end > bound));
        true
    }

    /// Moves the recovery point; it never goes back.
    pub(in crate::shard) fn set_recovery_point(&self, offset: Offset) {
        self.recovery_point.set(self.recovery_point.get().max(offset));
    }

    /// Its log start offset that a start after a crash would know.
    pub fn log_start_durable(&self) -> Offset {
        self.log_start_durable.get().max(self.first_base_on_disk.get())
    }

    pub(in crate::shard) fn set_log_start_durable(&self, offset: Offset) {
        self.log_start_durable.set(offset.max(self.log_start_durable.get()));
    }

    /// Base offset of the first segment that a start after a crash would find.
    pub(in crate::shard) fn first_base_on_disk(&self) -> Offset {
        self.first_base_on_disk.get()
    }

    /// Segments that end at or below may go: what they say of producers is durable.
    pub(in crate::shard) fn producers_durable_at(&self) -> Offset {
        self.producers_durable_at.get()
    }

    pub(in crate::shard) fn set_producers_durable_at(&self, offset: Offset) {
        self.producers_durable_at.set(offset.max(self.producers_durable_at.get()));
    }

    /// Who writes and removes snapshots of its producers.
    pub(in crate::shard) fn snapshots_turn(&self) -> &Exclusive {
        &self.snapshots_turn
    }

    pub(in crate::shard) fn set_first_base_on_disk(&self, offset: Offset) {
        if !self.has_files_below.get() {
            self.first_base_on_disk.set(offset.max(self.first_base_on_disk.get()));
        }
    }

    /// Whether [`note_files_below`](Self::note_files_below) was called.
    pub(in crate::shard) fn has_files_below(&self) -> bool {
        self.has_files_below.get()
    }

    /// Files of deleted segments have kept their names: until the next start the checkpoint alone says that they do not
    /// count. Without it a start would take what stands behind the hole for the rest of a torn tail.
    pub(in crate::shard) fn note_files_below(&self) {
        self.has_files_below.set(true);
    }

    /// Where the last compaction ended: below, each key has one record.
    pub fn cleaned_to(&self) -> Option<Offset> {
        self.cleaned_to.get()
    }

    pub(in crate::shard) fn set_cleaned_to(&self, offset: Option<Offset>) {
        self.cleaned_to.set(offset);
    }

    /// True where compaction has given it up until the server is started again.
    pub fn is_uncleanable(&self) -> bool {
        self.uncleanable.get()
    }

    pub(in crate::shard) fn set_uncleanable(&self) {
        self.uncleanable.set(true);
    }

    /// Who takes segments away or puts others in their place.
    pub(in crate::shard) fn replacement_turn(&self) -> &Exclusive {
        &self.replacement_turn
    }

    /// Its segments in the tier.
    pub fn remote(&self) -> Option<Rc<RemotePartition>> {
        self.remote.borrow().clone()
    }

    pub(in crate::shard) fn set_remote(&self, remote: Rc<RemotePartition>) {
        *self.remote.borrow_mut() = Some(remote);
    }

    /// All below is in the tier, from the local log start on without a hole.
    pub(in crate::shard) fn copied_below(&self) -> Offset {
        let local_log_start = self.log.borrow().offsets().local_log_start;
        self.remote.borrow().as_ref().map_or(Offset(0), |remote| remote.segments().covered_to(local_log_start))
    }

    /// What goes of its local log.
    pub(in crate::shard) fn local_retention(&self) -> RetentionLimits {
        self.limits.get().local_retention(self.copied_below())
    }

    /// Who writes the leader epochs.
    pub(in crate::shard) fn epochs_turn(&self) -> &Exclusive {
        &self.epochs_turn
    }

    /// Who takes what is due of the indexes, and writes it.
    pub(in crate::shard) fn indexes_turn(&self) -> &Exclusive {
        &self.indexes_turn
    }

    /// True where an append may write what is due of the indexes: nobody does, and the disk has not just refused.
    pub(in crate::shard) fn may_write_indexes(&self, io: &Io) -> bool {
        let rests = |failed_at: Nanos| io.now() < failed_at.plus_ms(INDEX_REST_MS);
        self.indexes_turn.is_free() && !self.index_failed_at.get().is_some_and(rests)
    }

    pub(in crate::shard) fn note_index_failure(&self, now: Nanos) {
        self.index_failed_at.set(Some(now));
    }

    pub(in crate::shard) fn forget_index_failure(&self) {
        self.index_failed_at.set(None);
    }

    /// True where entries of its indexes wait for another try.
    pub(in crate::shard) fn has_index_failure(&self) -> bool {
        self.index_failed_at.get().is_some()
    }

    /// False where the segment was deleted, or cut off.
    pub(in crate::shard) fn has_segment(&self, segment: SegmentId) -> bool {
        self.log.borrow().segments().binary_search_by_key(&segment, Segment::id).is_ok()
    }

    /// Why it is offline; `None` while it serves.
    pub fn offline_reason(&self) -> Option<Rc<str>> {
        self.offline.borrow().clone()
    }

    /// True while it serves.
    pub fn is_online(&self) -> bool {
        self.offline.borrow().is_none()
    }

    /// Takes it offline; whoever waits for it is told. The first reason stays.
    pub fn take_offline(&self, io: &Io, reason: &str) {
        self.offline.borrow_mut().get_or_insert_with(|| Rc::from(reason));
        io.wake_all(&self.progress);
        io.wake_all(&self.admission);
    }

    /// Who waits for the high watermark.
    pub fn progress(&self) -> &WaitList {
        &self.progress
    }

    /// Who waits to append.
    pub(in crate::shard) fn admission(&self) -> &WaitList {
        &self.admission
    }

    /// True while no append may be planned.
    pub(in crate::shard) fn is_closed_for_appends(&self) -> bool {
        self.closed_for_appends.get()
    }

    /// Stops the planning of appends for a roll or a repair. False where one is under way already.
    pub(in crate::shard) fn close_for_appends(&self) -> bool {
        !self.closed_for_appends.replace(true)
    }

    /// Lets appends go on.
    pub(in crate::shard) fn reopen_for_appends(&self, io: &Io) {
        self.closed_for_appends.set(false);
        io.wake_all(&self.admission);
    }

    /// What its active segment has allocated ahead.
    pub(in crate::shard) fn reservation(&self) -> &Reservation {
        &self.reservation
    }

    /// True where the caller's write or roll is the only one.
    pub(in crate::shard) fn writes_alone(&self) -> bool {
        self.writes_under_way.get() == 1
    }

    pub(in crate::shard) fn begin_write(&self) {
        self.writes_under_way.set(self.writes_under_way.get() + 1);
    }

    pub(in crate::shard) fn end_write(&self, io: &Io) {
        assert!(self.writes_under_way.get() > 0, "a write ended that was not begun");
        self.writes_under_way.set(self.writes_under_way.get() - 1);
        if self.writes_under_way.get() == 0 {
            io.wake_all(&self.drained);
        }
    }

    /// Waits until no write and no roll is under way.
    pub(in crate::shard) async fn wait_drained(&self, io: &Io) {
        poll_fn(|_| {
            if self.writes_under_way.get() == 0 {
                return Poll::Ready(());
            }
            self.drained.wait(io.current_task());
            Poll::Pending
        })
        .await;
    }

    /// How many truncations there were.
    pub(in crate::shard) fn truncations(&self) -> u64 {
        self.truncations.borrow().back().map_or(0, |(number, _)| *number)
    }

    /// Notes that a failed append cut the log off at `end`.
    pub(in crate::shard) fn note_truncation(&self, end: Offset) {
        let mut truncations = self.truncations.borrow_mut();
        let number = truncations.back().map_or(0, |(number, _)| *number) + 1;
        truncations.push_back((number, end));
        if truncations.len() > TRUNCATIONS_KEPT_MAX
            && let Some((_, oldest)) = truncations.pop_front()
            && let Some((_, next)) = truncations.front_mut()
        {
            *next = oldest.min(*next);
        }
    }

    /// True where a truncation after the `seen`-th took `offset` away.
    pub(in crate::shard) fn was_truncated_since(&self, seen: u64, offset: Offset) -> bool {
        self.truncations.borrow().iter().any(|(number, end)| *number > seen && *end <= offset)
    }

    /// What a reader sees of it now.
    pub fn seen(&self) -> Seen {
        let offsets = self.log.borrow().offsets();
        Seen { high_watermark: offsets.high_watermark, last_stable: offsets.last_stable, log_start: offsets.log_start }
    }

    /// Where appends of other cores' connections keep their order.
    pub fn forwarded(&self) -> &Rc<Lane> {
        &self.forwarded
    }

    /// The high watermark now.
    pub fn high_watermark(&self) -> Offset {
        self.log.borrow().offsets().high_watermark
    }
}

/// Appends try no more often to write indexes that a full disk has refused: each try that fails is a line in the log.
const INDEX_REST_MS: u64 = 1000;
/// More truncations than this while one duplicate waits are taken together: it fails rather than is acknowledged wrongly.
const TRUNCATIONS_KEPT_MAX: usize = 16;
