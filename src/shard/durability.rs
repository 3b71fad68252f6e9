//! The one stage between written and durable.
//!
//! It takes partitions that have written something, and moves their high watermark when that is durable under the mode
//! in force. Under `segment` the syncs are group commits: while one runs, appends collect for the next; and where many
//! partitions of a data directory wait, its file system is synced as a whole in the place of their files.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::rc::Rc;

use crate::log::plan::SegmentId;
use crate::record::offset::Offset;
use crate::ring::io::Io;
use crate::shard::core::Shard;
use crate::shard::files::FileKind;
use crate::shard::options::{DataDir, ShardOptions};
use crate::shard::partition::Partition;
use crate::shard::topic_limits::Durability;
use crate::shard::whole_sync::{WholeSync, WholeSyncEnd};

/// Partitions of one core that wait for a sync.
pub struct DurabilityStage {
    /// One for each data directory: a disk that hangs holds up nobody else's.
    directories: Vec<Rc<DirectorySyncs>>,
}

/// Those of one data directory.
struct DirectorySyncs {
    queue: RefCell<VecDeque<Rc<Partition>>>,
    workers: Cell<usize>,
    /// One worker syncs the whole file system: the others rest, for what comes in meanwhile is the next one's.
    is_whole: Cell<bool>,
    whole: WholeSync,
}

impl DurabilityStage {
    /// Nothing waits yet.
    pub fn new(options: &ShardOptions) -> Self {
        let syncs = |dir: &DataDir| Rc::new(DirectorySyncs::new(&dir.path, options.whole_sync_partitions_min));
        Self { directories: options.data_dirs.iter().map(syncs).collect() }
    }

    /// Opens the file systems of the data directories. To be called before anything is written to a partition: an error of
    /// writing it back, from here on, is told to this core's next sync, also where another core's sync came upon it.
    pub async fn open(&self, io: &Io) {
        for directory in &self.directories {
            directory.whole.open(io).await;
        }
    }

    /// Notes that `partition` has written something. Under `os` that is durable enough; under `segment` a sync follows
    /// at once, or after the one that runs. Each partition stands in the queue once, so the queue is bounded by them.
    pub fn written(&self, shard: &Rc<Shard>, partition: &Rc<Partition>) {
        if partition.durability() == Durability::Os {
            let written = partition.log().borrow().offsets().written;
            if partition.log().borrow_mut().durable(written) {
                shard.note_progress(partition);
            }
            self.flush_as_configured(shard, partition, written);
            return;
        }
        self.queue_sync(shard, partition);
    }

    /// Under `os`, Kafka's `flush.messages` and `flush.ms` have the background sync what nobody waits for.
    fn flush_as_configured(&self, shard: &Rc<Shard>, partition: &Rc<Partition>, written: Offset) {
        let limits = partition.limits();
        let unflushed = u64::try_from(written.since(partition.recovery_point())).unwrap_or(0);
        if unflushed >= limits.flush_messages {
            self.queue_sync(shard, partition);
        } else if limits.flush_ms < FLUSH_MS_NEVER && !partition.flush_timer_set.replace(true) {
            let (shard, partition) = (shard.clone(), partition.clone());
            shard.io().clone().spawn(async move {
                shard.io().sleep_ms(limits.flush_ms).await;
                partition.flush_timer_set.set(false);
                shard.durability().queue_sync(&shard, &partition);
            });
        }
    }

    fn queue_sync(&self, shard: &Rc<Shard>, partition: &Rc<Partition>) {
        if partition.sync_queued.replace(true) {
            return;
        }
        let directory = self.directory_of(partition);
        directory.queue.borrow_mut().push_back(partition.clone());
        directory.start_worker(shard);
    }

    fn directory_of(&self, partition: &Partition) -> &Rc<DirectorySyncs> {
        let folder = partition.folder().parent();
        let found = self.directories.iter().find(|directory| Some(directory.whole.folder()) == folder);
        found.expect("a partition lies in a data directory")
    }

    /// True where nothing is written that is not durable.
    pub fn is_idle(&self) -> bool {
        self.directories.iter().all(|directory| directory.workers.get() == 0)
    }
}

impl DirectorySyncs {
    fn new(folder: &Path, whole_sync_partitions_min: usize) -> Self {
        let whole = WholeSync::new(folder, whole_sync_partitions_min);
        Self { queue: RefCell::default(), workers: Cell::new(0), is_whole: Cell::new(false), whole }
    }

    fn start_worker(self: &Rc<Self>, shard: &Rc<Shard>) {
        if self.workers.get() < SYNCS_AT_ONCE_MAX && !self.is_whole.get() {
            self.workers.set(self.workers.get() + 1);
            shard.io().spawn(self.clone().work(shard.clone()));
        }
    }

    async fn work(self: Rc<Self>, shard: Rc<Shard>) {
        while !self.is_whole.get() {
            let Some(partition) = self.queue.borrow_mut().pop_front() else { break };
            let waiting = self.queue.borrow().len() + 1;
            if self.whole.is_worth(waiting, shard.io().now()) {
                self.sync_whole(&shard, partition).await;
                continue;
            }
            // Whatever is written from here on wants another sync.
            partition.sync_queued.set(false);
            let (began, at_once) = (shard.io().now(), self.workers.get());
            match sync(&shard, &partition).await {
                Ok(moved) => {
                    self.whole.note_one(shard.io().now().since(began), at_once);
                    tell(&shard, &partition, moved);
                }
                Err(error) => {
                    shard.fail_partition(
                        &partition,
                        "a sync failed: what it should have made durable may be lost",
                        &error,
                    );
                }
            }
        }
        self.workers.set(self.workers.get() - 1);
    }

    /// Syncs the file system for `first` and all that wait.
    async fn sync_whole(self: &Rc<Self>, shard: &Rc<Shard>, first: Rc<Partition>) {
        let waiting = std::mem::take(&mut *self.queue.borrow_mut());
        // Each with the end of what is written now, and whether readers wait for it.
        let targets: Vec<_> = std::iter::once(first)
            .chain(waiting)
            .map(|partition| {
                partition.sync_queued.set(false);
                let log = partition.log().borrow();
                let target = log.sync_target().map(|target| target.end);
                let written = log.offsets().written;
                drop(log);
                (partition, target, written)
            })
            .collect();
        self.is_whole.set(true);
        let end = self.whole.run(shard.io(), targets.len()).await;
        self.is_whole.set(false);
        match end {
            WholeSyncEnd::Durable => {
                shard.counters().whole_syncs.add(1);
                for (partition, target, written) in targets.iter().filter(|(partition, ..)| partition.is_online()) {
                    partition.set_recovery_point(target.unwrap_or(*written));
                    let moved = target.is_some_and(|end| partition.log().borrow_mut().durable(end));
                    tell(shard, partition, moved);
                }
            }
            WholeSyncEnd::EachFile => {
                let mut queue = self.queue.borrow_mut();
                for (partition, ..) in targets.into_iter().rev() {
                    if !partition.sync_queued.replace(true) {
                        queue.push_front(partition);
                    }
                }
            }
        }
        if self.queue.borrow().len() > 1 {
            self.start_worker(shard);
        }
    }
}

fn tell(shard: &Rc<Shard>, partition: &Rc<Partition>, moved: bool) {
    shard.counters().syncs.add(1);
    if moved {
        shard.note_progress(partition);
    } else {
        shard.tell_of_sealed(partition);
    }
}

async fn sync(shard: &Rc<Shard>, partition: &Rc<Partition>) -> io::Result<bool> {
    let Some(target) = partition.log().borrow().sync_target() else {
        // Under `os` all that is written counts as durable: what is not on disk yet is behind the recovery point.
        let end = partition.log().borrow().offsets().written;
        sync_from_recovery_point(shard, partition, end).await?;
        return Ok(false);
    };
    for segment in &target.segments {
        sync_segment(shard, partition, *segment).await?;
    }
    if !partition.is_online() {
        return Ok(false);
    }
    partition.set_recovery_point(target.end);
    Ok(partition.log().borrow_mut().durable(target.end))
}

/// Syncs every segment that may have bytes past the recovery point, and moves that to `end`.
pub(in crate::shard) async fn sync_from_recovery_point(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    end: Offset,
) -> io::Result<()> {
    let from = partition.recovery_point();
    if from >= end {
        return Ok(());
    }
    let segments: Vec<_> = {
        let log = partition.log().borrow();
        let segments = log.segments();
        let first = segments.partition_point(|segment| segment.base_offset() <= from).saturating_sub(1);
        segments[first..].iter().map(|segment| segment.id()).filter(|segment| segment.base_offset() < end).collect()
    };
    for segment in segments {
        sync_segment(shard, partition, segment).await?;
    }
    partition.set_recovery_point(end);
    Ok(())
}

/// Nobody needs the bytes of a segment that was deleted meanwhile.
async fn sync_segment(shard: &Rc<Shard>, partition: &Rc<Partition>, segment: SegmentId) -> io::Result<()> {
    match shard.files().open(shard.io(), partition.folder(), partition.id(), segment, FileKind::Log).await {
        Ok(file) => file.sync_data().await,
        Err(_) if !partition.has_segment(segment) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Kafka's default of flush.ms: for all that it matters, never.
const FLUSH_MS_NEVER: u64 = i64::MAX as u64;
/// Syncs of one data directory at once. Each holds one of the ring's workers, of which lookups need some, so the ring has two
/// for each directory and two more.
pub const SYNCS_AT_ONCE_MAX: usize = 2;
