//! Which partitions this core has: opened, made, let go and removed as the catalog says; and closed at the stop.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use tracing::{error, info, warn};

use crate::control::snapshot::Snapshot;
use crate::control::topic::Topic;
use crate::log::core_checkpoint::{self, CorePoints};
use crate::log::error::RecoveryError;
use crate::log::layout;
use crate::log::partition_log::PartitionLog;
use crate::log::recovery::{self, RecoveryOptions, RecoveryReport};
use crate::log::recovery_point::{self, PartitionOffsets};
use crate::log::segment_files;
use crate::record::offset::{LeaderEpoch, Offset, PartitionId};
use crate::ring::buffer::Buffer;
use crate::ring::io::{Io, read_file, replace_file};
use crate::shard::core::{OpenFailure, RecoveryPoints, Shard};
use crate::shard::durability::sync_from_recovery_point;
use crate::shard::files::FileKind;
use crate::shard::opening::OpeningProgress;
use crate::shard::options::DataDir;
use crate::shard::partition::Partition;
use crate::shard::producer_snapshots;
use crate::shard::topic_limits::Durability;
use crate::shard::topic_limits::TopicLimits;

/// Takes a snapshot of the catalog: opens what it newly places here, then shows it, then lets go of what it takes away.
///
/// On return requests for every partition placed here are served, or told why not. Calls come one after the other.
pub async fn take(shard: &Rc<Shard>, snapshot: Snapshot) {
    let mut to_open = VecDeque::new();
    for topic in snapshot.topics() {
        for (index, placed) in (0..).zip(&topic.partitions) {
            let id = PartitionId { topic_id: topic.id, partition: index };
            if u32::from(placed.core.index()) == shard.core_index()
                && shard.hosted(id).is_none()
                && !shard.stays_offline(id)
            {
                to_open.push_back((topic.clone(), index));
            }
        }
    }
    let opened = to_open.len();
    let began_at = shard.io().now();
    let progress = (opened > 0).then(|| OpeningProgress::begin(shard.io(), opened));
    let (shard_of_jobs, told) = (shard.clone(), progress.clone());
    run_side_by_side(shard.io(), to_open, OPENED_AT_ONCE_MAX, move |(topic, index)| {
        let (shard, progress) = (shard_of_jobs.clone(), told.clone());
        async move {
            let report = open(shard, topic.clone(), index).await;
            if let Some(progress) = progress {
                progress.opened(&topic.name, index, report.as_ref());
            }
        }
    })
    .await;
    let scanned_bytes = progress.map_or(0, |progress| progress.end());
    if opened > 0 && !shard.has_catalog() {
        let elapsed_ms = shard.io().now().since(began_at) / 1_000_000;
        info!(core = shard.core_index(), partitions = opened, scanned_bytes, elapsed_ms, "partitions opened");
    }
    let gone: Vec<Rc<Partition>> =
        shard.partitions().into_iter().filter(|p| !is_placed_here(shard, &snapshot, p.id())).collect();
    for partition in shard.partitions() {
        apply_configs(shard, &snapshot, &partition);
    }
    shard.set_snapshot(snapshot.clone());
    for partition in gone {
        let deleted = snapshot.topic_by_id(partition.id().topic_id).is_none();
        let _ = shard.unhost(partition.id());
        partition.take_offline(shard.io(), "it is no longer on this core");
        if deleted {
            remove(shard, &partition).await;
        }
    }
}

fn is_placed_here(shard: &Shard, snapshot: &Snapshot, id: PartitionId) -> bool {
    let placed = snapshot.partition_by_id(id.topic_id, id.partition);
    placed.is_some_and(|placed| u32::from(placed.core.index()) == shard.core_index())
}

/// Configs that were changed, and a leader epoch that was raised.
fn apply_configs(shard: &Shard, snapshot: &Snapshot, partition: &Partition) {
    let Some(topic) = snapshot.topic_by_id(partition.id().topic_id) else { return };
    let Some(placed) = topic.partition(partition.id().partition) else { return };
    partition.set_limits(TopicLimits::of(shard.options(), &topic.configs));
    let mut log = partition.log().borrow_mut();
    log.set_config(partition.limits().log);
    if LeaderEpoch(placed.leader_epoch) > log.leader_epoch() {
        log.raise_leader_epoch(LeaderEpoch(placed.leader_epoch));
    }
}

/// Opens one partition, or makes it; says what was found. Where that fails it is noted, and the others go on.
async fn open(shard: Rc<Shard>, topic: Arc<Topic>, index: i32) -> Option<RecoveryReport> {
    let id = PartitionId { topic_id: topic.id, partition: index };
    let placed = topic.partition(index)?;
    let Some(dir) = shard.options().data_dirs.iter().find(|dir| dir.id == placed.directory.0).cloned() else {
        error!(topic = &*topic.name, partition = index, directory = %placed.directory,
            "the data directory of this partition was not named with --data-dir; it stays offline");
        shard.note_open_failed(id, OpenFailure::UntilRestart);
        return None;
    };
    let limits = TopicLimits::of(shard.options(), &topic.configs);
    let folder = layout::partition_folder(&dir.path, &topic.name, index);
    if shard.has_catalog()
        && let Err(source) = shard.io().sync_dir(&dir.path).await
    {
        // An earlier attempt may have made the folder and not got so far as to make its entry durable.
        error!(topic = &*topic.name, partition = index, error = %source, "the data directory could not be synced; the partition stays offline");
        shard.note_open_failed(id, OpenFailure::UntilRestart);
        return None;
    }
    let options = RecoveryOptions {
        recovery_point: shard.recovery_point_of(&dir, &topic.name, id),
        clean: shard.is_clean_start(),
        log_start: Offset(0),
        topic_id: Some(topic.id),
        index_interval_bytes: limits.log.index_interval_bytes,
        producer_expiration_ms: i64::from(shard.options().broker_config.producer_id_expiration_ms()),
    };
    let create = || {
        let (interval_bytes, expiration_ms) = (options.index_interval_bytes, options.producer_expiration_ms);
        recovery::create_partition(shard.io(), &folder, topic.id, interval_bytes, expiration_ms)
    };
    let opened = match recovery::open_partition(shard.io(), &folder, &options).await {
        Err(RecoveryError::Io { source, path }) if source.kind() == io::ErrorKind::NotFound && path == folder => {
            if options.recovery_point > Offset(0) {
                error!(topic = &*topic.name, partition = index, folder = %folder.display(),
                    "the folder of a partition that had records is missing; it stays offline: is the right disk mounted?");
                shard.note_open_failed(id, OpenFailure::UntilRestart);
                return None;
            }
            create().await
        }
        other => other,
    };
    let recovered = match opened {
        Err(RecoveryError::WrongTopic { .. }) => match set_stray_aside(shard.io(), &folder).await {
            Ok(()) => create().await,
            Err(source) => Err(RecoveryError::Io { path: folder.clone(), source }),
        },
        other => other,
    };
    match recovered {
        Ok(mut recovered) => {
            let report = std::mem::take(&mut recovered.report);
            let recovery_point = recovered.log_end;
            let log = PartitionLog::new(recovered, limits.log, LeaderEpoch(placed.leader_epoch));
            let partition = Partition::new(id, Rc::from(&*topic.name), folder, log, limits);
            partition.set_recovery_point(recovery_point);
            shard.host(Rc::new(partition));
            Some(report)
        }
        Err(error) => {
            error!(topic = &*topic.name, partition = index, %error, "the partition stays offline; the others go on");
            let is_full =
                matches!(&error, RecoveryError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull);
            shard.note_open_failed(id, if is_full { OpenFailure::NoSpace } else { OpenFailure::UntilRestart });
            None
        }
    }
}

/// A folder of this name that belongs to a topic that is no more: kept under another name, for the operator to judge.
async fn set_stray_aside(io: &Io, folder: &Path) -> io::Result<()> {
    let aside = with_suffix(io, folder, "stray");
    warn!(folder = %folder.display(), aside = %aside.display(), "a folder of a topic that is not in the catalog was set aside; remove it if nobody misses it");
    io.rename(folder, &aside).await
}

/// `topic-0` as `topic-0.<32 hex digits>-delete`, as in Kafka; a long topic name is cut.
fn with_suffix(io: &Io, folder: &Path, suffix: &str) -> PathBuf {
    let unique = format!(".{:016x}{:016x}-{suffix}", io.random_u64(), io.random_u64());
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let kept: String = name.chars().take(FILE_NAME_BYTES_MAX - unique.len()).collect();
    folder.with_file_name(format!("{kept}{unique}"))
}

/// Removes a deleted topic's partition: renamed at once, its files later and paced.
async fn remove(shard: &Rc<Shard>, partition: &Rc<Partition>) {
    let io = shard.io();
    // A roll would make its file in whatever folder has the name by then.
    partition.wait_drained(io).await;
    let doomed = with_suffix(io, partition.folder(), "delete");
    if let Err(error) = io.rename(partition.folder(), &doomed).await {
        warn!(topic = partition.topic(), folder = %partition.folder().display(), %error, "a deleted partition's folder could not be renamed; it is set aside when the name is used again");
        return;
    }
    let delay_ms = partition.limits().file_delete_delay_ms;
    let shard = shard.clone();
    io.clone().spawn(async move {
        shard.io().sleep_ms(delay_ms).await;
        remove_folder(shard.io(), &doomed).await;
    });
}

/// Removes a folder and its files, one after the other.
async fn remove_folder(io: &Io, folder: &Path) {
    let removed = async {
        for entry in io.read_dir(folder).await? {
            io.remove_file(&folder.join(&entry.name)).await?;
            io.yield_now().await;
        }
        io.remove_dir(folder).await
    };
    if let Err(error) = removed.await {
        warn!(folder = %folder.display(), %error, "a deleted partition's files could not be removed; the next start tries again");
    }
}

/// Goes on removing what an earlier run had begun to remove, and reports folders that no topic owns. For one core.
pub async fn sweep(shard: Rc<Shard>) {
    for dir in shard.options().data_dirs.clone() {
        let entries = match shard.io().read_dir(&dir.path).await {
            Ok(entries) => entries,
            Err(error) => {
                warn!(dir = %dir.path.display(), %error, "a data directory could not be listed");
                continue;
            }
        };
        for entry in entries.into_iter().filter(|entry| entry.is_dir) {
            match layout::PartitionFolder::parse(&entry.name) {
                layout::PartitionFolder::Deleted => remove_folder(shard.io(), &dir.path.join(&entry.name)).await,
                layout::PartitionFolder::Partition { topic, partition }
                    if shard.snapshot().partition(&topic, partition).is_none() =>
                {
                    warn!(dir = %dir.path.display(), folder = entry.name, "no topic owns this folder; it is left alone");
                }
                _ => {}
            }
        }
    }
}

/// Reads where the last run's logs were known to be durable: from each core's own checkpoint, or, where there is none (the
/// directory was Kafka's), from Kafka's.
pub async fn load_recovery_points(io: &Io, dir: &DataDir) -> RecoveryPoints {
    let mut points = RecoveryPoints::default();
    let Ok(entries) = io.read_dir(&dir.path).await else { return points };
    let mut is_ours = false;
    for entry in entries.iter().filter(|entry| entry.name.starts_with(CORE_CHECKPOINT) && !entry.name.ends_with(".tmp"))
    {
        is_ours = true;
        // Two cores may have had a partition one after the other: what was durable then is so now.
        for (id, (topic, offset)) in load_core_points(io, &dir.path.join(&entry.name)).await {
            let (_, known) = points.by_id.entry(id).or_insert((topic, offset));
            *known = offset.max(*known);
        }
    }
    let kafkas = dir.path.join(layout::RECOVERY_POINT_CHECKPOINT);
    if !is_ours && let Ok(bytes) = read_file(io, &kafkas, CHECKPOINT_BYTES_MAX).await {
        match recovery_point::parse(&String::from_utf8_lossy(&bytes)) {
            Some(found) => points.by_name = found,
            None => {
                warn!(path = %kafkas.display(), "a checkpoint makes no sense; its logs are scanned from their start")
            }
        }
    }
    points
}

async fn load_core_points(io: &Io, path: &Path) -> CorePoints {
    let parsed = read_file(io, path, CHECKPOINT_BYTES_MAX)
        .await
        .map(|bytes| core_checkpoint::parse(&String::from_utf8_lossy(&bytes)));
    match parsed {
        Ok(Some(found)) => return found,
        Ok(None) => warn!(path = %path.display(), "a checkpoint makes no sense; its logs are scanned from their start"),
        Err(error) => {
            warn!(path = %path.display(), %error, "a checkpoint could not be read; its logs are scanned from their start")
        }
    }
    CorePoints::new()
}

/// Writes this core's recovery points now and then, so that a start after a crash scans little.
pub async fn keep_checkpoints(shard: Rc<Shard>) {
    while !shard.is_stopping() {
        shard.io().sleep_ms(CHECKPOINT_INTERVAL_MS).await;
        forget_idle_producers(&shard);
        producer_snapshots::keep(&shard).await;
        write_checkpoints(&shard).await;
    }
}

/// Producers that wrote nothing for `producer.id.expiration.ms` are forgotten, as in Kafka.
fn forget_idle_producers(shard: &Shard) {
    let expiration_ms = i64::from(shard.options().broker_config.producer_id_expiration_ms());
    let now_ms = shard.io().wall_ms();
    for partition in shard.partitions() {
        partition.log().borrow_mut().expire_producers(now_ms, expiration_ms);
    }
}

async fn write_checkpoints(shard: &Rc<Shard>) {
    for dir in &shard.options().data_dirs {
        let mut points = CorePoints::new();
        for partition in shard.partitions().iter().filter(|partition| partition.folder().parent() == Some(&dir.path)) {
            points.insert(partition.id(), (partition.topic().to_owned(), partition.recovery_point()));
        }
        let path = dir.path.join(format!("{CORE_CHECKPOINT}{}", shard.core_index()));
        if let Err(error) = replace_file(shard.io(), &path, core_checkpoint::to_text(&points).into_bytes()).await {
            warn!(path = %path.display(), %error, "the recovery points could not be written; a start after a crash will scan more");
        }
    }
}

/// Merges the cores' checkpoints into Kafka's one a directory, when no core writes any more.
///
/// # Errors
/// Where the disk refuses.
pub async fn merge_checkpoints(io: &Io, dir: &DataDir, core_count: u32) -> io::Result<()> {
    let mut points = PartitionOffsets::new();
    for core in 0..core_count {
        let found = load_core_points(io, &dir.path.join(format!("{CORE_CHECKPOINT}{core}"))).await;
        points.extend(found.into_iter().map(|(id, (topic, offset))| ((topic, id.partition), offset)));
    }
    let text = recovery_point::to_text(&points);
    for name in [layout::RECOVERY_POINT_CHECKPOINT, layout::HIGH_WATERMARK_CHECKPOINT] {
        replace_file(io, &dir.path.join(name), text.clone().into_bytes()).await?;
    }
    let none = recovery_point::to_text(&PartitionOffsets::new());
    replace_file(io, &dir.path.join(layout::LOG_START_CHECKPOINT), none.into_bytes()).await
}

/// How the partitions of a core were left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// All is durable and complete on disk: the next start may trust it.
    Cleanly,
    /// A disk refused, now or earlier: the next start has to look at what lies past the recovery points.
    WithGaps,
}

/// Makes all of every partition durable and complete on disk, for a clean stop.
pub async fn close_all(shard: &Rc<Shard>) -> Closed {
    let partitions: VecDeque<Rc<Partition>> = shard.partitions().into();
    let shard_of_jobs = shard.clone();
    let closed = Rc::new(Cell::new(Closed::Cleanly));
    let told = closed.clone();
    run_side_by_side(shard.io(), partitions, OPENED_AT_ONCE_MAX, move |partition| {
        let (shard, closed) = (shard_of_jobs.clone(), told.clone());
        async move {
            match close(&shard, &partition).await {
                Ok(this) if this == Closed::WithGaps => closed.set(this),
                Ok(_) => {}
                Err(error) => {
                    closed.set(Closed::WithGaps);
                    error!(topic = partition.topic(), partition = partition.id().partition, %error, "the partition could not be closed cleanly");
                }
            }
        }
    })
    .await;
    write_checkpoints(shard).await;
    closed.get()
}

async fn close(shard: &Rc<Shard>, partition: &Rc<Partition>) -> io::Result<Closed> {
    partition.wait_drained(shard.io()).await;
    if !partition.is_online() {
        // Nobody knows what its last write or sync left.
        return Ok(Closed::WithGaps);
    }
    let end = partition.log().borrow().offsets().written;
    sync_from_recovery_point(shard, partition, end).await?;
    let writes = partition.log().borrow_mut().take_all_index_writes();
    shard.write_index(partition, writes).await?;
    shard.write_epochs(partition).await?;
    partition.log().borrow_mut().snapshot_producers();
    producer_snapshots::write_ready(shard.clone(), partition.clone()).await;
    producer_snapshots::remove_stale(shard, partition).await;
    Ok(Closed::Cleanly)
}

impl Shard {
    /// A segment was sealed: under `os` its bytes become durable now, in the background, as in Kafka; and what is due of
    /// the index and the epochs is written.
    pub(in crate::shard) fn after_roll(self: &Rc<Self>, partition: &Rc<Partition>, sealed_end: Offset) {
        let (shard, partition) = (self.clone(), partition.clone());
        self.io().spawn(async move {
            let done = async {
                if partition.durability() == Durability::Os {
                    sync_from_recovery_point(&shard, &partition, sealed_end).await?;
                }
                let writes = partition.log().borrow_mut().take_index_writes();
                producer_snapshots::write_ready(shard.clone(), partition.clone()).await;
                shard.write_index(&partition, writes).await
            };
            if let Err(error) = done.await {
                warn!(topic = partition.topic(), partition = partition.id().partition, %error, "a sealed segment could not be completed; a start after a crash will scan it");
            }
        });
    }

    /// Writes entries of indexes. They are derived: an error costs time at the next start, no records.
    pub(in crate::shard) async fn write_index(
        &self,
        partition: &Partition,
        writes: Vec<crate::log::plan::IndexWrite>,
    ) -> io::Result<()> {
        for write in writes {
            let file = self
                .files()
                .open(self.io(), partition.folder(), partition.id(), write.segment, FileKind::OffsetIndex)
                .await?;
            file.write_at(Buffer::from_vec(write.bytes), write.position_bytes).await.0?;
        }
        Ok(())
    }

    /// Writes the leader epochs where they have changed.
    pub(in crate::shard) async fn write_epochs(&self, partition: &Partition) -> io::Result<()> {
        let Some(text) = partition.log().borrow_mut().take_epoch_checkpoint() else { return Ok(()) };
        let written = segment_files::write_epochs(self.io(), partition.folder(), text).await.map_err(io::Error::other);
        if written.is_err() {
            partition.log().borrow_mut().epoch_checkpoint_failed();
        }
        written
    }
}

/// Runs jobs, at most `at_once_max` at the same time, until all are done.
async fn run_side_by_side<T, F>(io: &Io, jobs: VecDeque<T>, at_once_max: usize, run: impl Fn(T) -> F + 'static)
where
    T: 'static,
    F: Future<Output = ()> + 'static,
{
    let workers = at_once_max.min(jobs.len());
    let jobs = Rc::new(RefCell::new(jobs));
    let left = Rc::new(Cell::new(workers));
    let run = Rc::new(run);
    let waiter = io.current_task();
    for _ in 0..workers {
        let (jobs, left, run, io_of_worker) = (jobs.clone(), left.clone(), run.clone(), io.clone());
        io.spawn(async move {
            loop {
                let Some(job) = jobs.borrow_mut().pop_front() else { break };
                run(job).await;
            }
            left.set(left.get() - 1);
            io_of_worker.wake(waiter);
        });
    }
    poll_fn(|_| if left.get() == 0 { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// Partitions opened or closed at the same time.
const OPENED_AT_ONCE_MAX: usize = 16;
/// Each core's own checkpoint: this and its index.
const CORE_CHECKPOINT: &str = "recovery-point-offset-checkpoint.core-";
const CHECKPOINT_BYTES_MAX: u64 = 64 << 20;
/// Kafka's log.flush.offset.checkpoint.interval.ms.
const CHECKPOINT_INTERVAL_MS: u64 = 60_000;
const FILE_NAME_BYTES_MAX: usize = 255;
