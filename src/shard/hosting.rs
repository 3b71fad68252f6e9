//! Which partitions this core has: opened, made, let go and removed as the catalog says; and closed at the stop.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::future::{Future, poll_fn};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use tracing::{error, info, warn};

use crate::control::snapshot::Snapshot;
use crate::control::topic::Topic;
use crate::log::error::RecoveryError;
use crate::log::layout;
use crate::log::partition_log::PartitionLog;
use crate::log::recovery::{self, RecoveryOptions, RecoveryReport};
use crate::log::segment::Segment;
use crate::log::segment_files;
use crate::record::offset::{LeaderEpoch, Offset, PartitionId};
use crate::ring::io::Io;
use crate::shard::checkpoints;
use crate::shard::coordinators;
use crate::shard::core::{OpenFailure, Shard};
use crate::shard::directories::is_disk_failure;
use crate::shard::durability::sync_from_recovery_point;
use crate::shard::index_writes::IndexShare;
use crate::shard::opening::OpeningProgress;
use crate::shard::options::DataDir;
use crate::shard::partition::Partition;
use crate::shard::producer_snapshots;
use crate::shard::remote_partition::RemotePartition;
use crate::shard::tier_removal;
use crate::shard::topic_limits::Durability;
use crate::shard::topic_limits::TopicLimits;
use crate::tier::error::MetadataError;
use crate::tier::metadata_file::{self, MetadataHeader};

/// Takes a snapshot of the catalog: opens what it newly places here, then shows it, then lets go of what it takes away.
///
/// On return requests for every partition placed here are served, or told why not.
pub async fn take(shard: &Rc<Shard>, snapshot: Snapshot) {
    let _turn = shard.hosting_turn().turn(shard.io()).await;
    take_in_turn(shard, snapshot).await;
}

/// Tries again to open what could not be opened for want of space.
pub(in crate::shard) async fn open_again(shard: &Rc<Shard>) {
    if shard.lacks_space() {
        let _turn = shard.hosting_turn().turn(shard.io()).await;
        take_in_turn(shard, shard.snapshot()).await;
    }
}

async fn take_in_turn(shard: &Rc<Shard>, snapshot: Snapshot) {
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
    shard.forget_places();
    let gone: Vec<Rc<Partition>> =
        shard.partitions().into_iter().filter(|p| !is_placed_here(shard, &snapshot, p.id())).collect();
    for partition in shard.partitions() {
        apply_configs(shard, &snapshot, &partition);
    }
    let before = shard.snapshot();
    shard.set_snapshot(snapshot.clone());
    for partition in &gone {
        let _ = shard.unhost(partition.id());
        if let Some(tier) = shard.tier() {
            tier.mover().borrow_mut().forget(partition.id());
        }
        partition.take_offline(shard.io(), "it is no longer on this core");
    }
    coordinators::follow(shard, &before, &snapshot);
    for partition in gone {
        let deleted = snapshot.topic_by_id(partition.id().topic_id).is_none();
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
    tier_when_asked(shard, partition);
    let mut log = partition.log().borrow_mut();
    log.set_config(partition.limits().log);
    if LeaderEpoch(placed.leader_epoch) > log.leader_epoch() {
        log.raise_leader_epoch(LeaderEpoch(placed.leader_epoch));
    }
}

/// What the partition has in the tier, as is noted beside it. What is noted there of another topic is kept for that one.
async fn load_remote(
    shard: &Shard,
    topic: &Topic,
    id: PartitionId,
    folder: &Path,
) -> Result<Option<Rc<RemotePartition>>, MetadataError> {
    let Some(remote) = RemotePartition::load(shard.io(), folder).await? else { return Ok(None) };
    let header = remote.header();
    if header.id == id {
        return Ok(Some(remote));
    }
    let aside = metadata_file::set_aside(shard.io(), folder, header).await?;
    warn!(topic = &*topic.name, partition = id.partition, found_topic = header.topic, found_partition = header.id.partition, found_topic_id = %header.id.topic_id, aside = %aside.display(), "remote-segments is of another topic: it is set aside, and nothing of it is deleted; put it in that topic's folder, or restore that topic from the tier");
    Ok(None)
}

/// A topic that is tiered from now on: its partitions get their place in the tier with their first copy.
fn tier_when_asked(shard: &Shard, partition: &Partition) {
    let Some(tier) = shard.tier() else { return };
    if partition.limits().tier.enabled && partition.remote().is_none() {
        let header =
            MetadataHeader { id: partition.id(), topic: partition.topic().to_owned(), store_url: tier.store().url() };
        partition.set_remote(RemotePartition::new(partition.folder(), header));
        info!(
            topic = partition.topic(),
            partition = partition.id().partition,
            tier = tier.store().url(),
            "the partition is tiered"
        );
    }
    tier.tell(shard.io());
}

/// Opens one partition, or makes it; says what was found. Where that fails it is noted, and the others go on.
async fn open(shard: Rc<Shard>, topic: Arc<Topic>, index: i32) -> Option<RecoveryReport> {
    let id = PartitionId { topic_id: topic.id, partition: index };
    let placed = topic.partition(index)?;
    let Some(dir) = shard.options().data_dirs.iter().find(|dir| dir.id == placed.directory.0).cloned() else {
        error!(topic = &*topic.name, partition = index, directory = %placed.directory,
            "the data directory of this partition was not named with --data-dir, or cannot be used; it stays offline");
        shard.note_open_failed(id, OpenFailure::UntilRestart);
        return None;
    };
    if shard.directory_has_failed(&dir.path) {
        shard.note_open_failed(id, OpenFailure::UntilRestart);
        return None;
    }
    let limits = TopicLimits::of(shard.options(), &topic.configs);
    let folder = layout::partition_folder(&dir.path, &topic.name, index);
    if shard.has_catalog()
        && let Err(source) = shard.io().sync_dir(&dir.path).await
    {
        // An earlier attempt may have made the folder and not got so far as to make its entry durable.
        shard.fail_directory(&dir.path, "it could not be synced", &source);
        shard.note_open_failed(id, OpenFailure::UntilRestart);
        return None;
    }
    let remote = match load_remote(&shard, &topic, id, &folder).await {
        Ok(remote) => remote,
        Err(error) => {
            error!(topic = &*topic.name, partition = index, %error, "what the partition has in the tier is not known; it stays offline, the others go on");
            shard.note_open_failed(id, OpenFailure::UntilRestart);
            return None;
        }
    };
    let options = RecoveryOptions {
        recovery_point: shard.recovery_point_of(&dir, &topic.name, id),
        clean: shard.is_clean_start(&dir),
        log_start: shard.log_start_of(&dir, &topic.name, id),
        topic_id: Some(topic.id),
        index_interval_bytes: limits.log.index_interval_bytes,
        producer_expiration_ms: i64::from(shard.options().broker_config.producer_id_expiration_ms()),
        remote: remote.as_ref().and_then(|remote| remote.range()),
    };
    let create = || {
        let (interval_bytes, expiration_ms) = (options.index_interval_bytes, options.producer_expiration_ms);
        recovery::create_partition(shard.io(), &folder, topic.id, interval_bytes, expiration_ms)
    };
    let opened = match recovery::open_partition(shard.io(), &folder, &options).await {
        Err(RecoveryError::Io { source, path }) if source.kind() == io::ErrorKind::NotFound && path == folder => {
            if options.recovery_point.max(options.log_start) > Offset(0) {
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
        Ok(_) if shard.directory_has_failed(&dir.path) => {
            // Meanwhile; its others were taken offline.
            shard.note_open_failed(id, OpenFailure::UntilRestart);
            None
        }
        Ok(mut recovered) => {
            let report = std::mem::take(&mut recovered.report);
            let recovery_point = recovered.log_end;
            let leftovers: Vec<PathBuf> = recovered.leftovers.iter().map(|name| folder.join(name)).collect();
            // While files below the log start are there, only its checkpoint says that they do not count.
            let is_tidy = !recovered.leftovers.iter().any(|name| name.ends_with(".log"));
            let first_local = recovered.segments.first().filter(|_| is_tidy).map(|first| first.base_offset());
            // What is in the tier is found again too.
            let remote_start = remote.as_ref().and_then(|remote| remote.range()).map(|range| range.start);
            let first_base = first_local.map(|first| remote_start.map_or(first, |start| start.min(first)));
            let kept_base = recovered.segments.first().map_or(recovered.log_end, Segment::base_offset);
            let mut log = PartitionLog::new(recovered, limits.log, LeaderEpoch(placed.leader_epoch))
                .with_roll_seed(shard.io().random_u64());
            match shard.take_places_of(&dir, id) {
                Some(kept) => log.restore_places(kept, options.clean),
                None => log.note_in_journal(),
            }
            let partition = Partition::new(id, Rc::from(&*topic.name), folder, log, limits);
            partition.set_recovery_point(recovery_point);
            partition.set_recorded_point(options.recovery_point);
            partition.set_cleaned_to(shard.cleaned_to_of(&dir, &topic.name, id));
            if let Some(remote) = remote {
                partition.set_remote(remote);
            }
            tier_when_asked(&shard, &partition);
            match first_base {
                Some(first_base) => partition.set_first_base_on_disk(first_base),
                None => partition.note_files_below(),
            }
            partition.set_producers_durable_at(kept_base);
            shard.host(Rc::new(partition));
            shard.deletions().remove_later(&shard, id, leftovers, 0);
            Some(report)
        }
        Err(error) => {
            error!(topic = &*topic.name, partition = index, %error, "the partition stays offline; the others go on");
            let is_full =
                matches!(&error, RecoveryError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull);
            shard.note_open_failed(id, if is_full { OpenFailure::NoSpace } else { OpenFailure::UntilRestart });
            if let RecoveryError::Io { source, .. } = &error
                && is_disk_failure(source)
            {
                shard.fail_directory(&dir.path, "a partition could not be opened", source);
            }
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
    let (shard, id) = (shard.clone(), partition.id());
    io.clone().spawn(async move {
        let due = shard.io().now().plus_ms(delay_ms);
        // Nobody reads it any more: what is in the tier goes at once.
        if let Some(tier) = shard.tier() {
            tier.wait_idle(shard.io(), id).await;
        }
        if tier_removal::remove_remote_of(&shard, &doomed).await {
            shard.io().sleep_until(due).await;
            tier_removal::remove_folder(&shard, &doomed).await;
        }
    });
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
                layout::PartitionFolder::Deleted => remove_later(&shard, dir.path.join(&entry.name)),
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

/// As a task of its own: the tier may not answer, and other folders do not wait for it.
fn remove_later(shard: &Rc<Shard>, folder: PathBuf) {
    let shard = shard.clone();
    shard.io().clone().spawn(async move {
        if tier_removal::remove_remote_of(&shard, &folder).await {
            tier_removal::remove_folder(&shard, &folder).await;
        }
    });
}

/// How partitions were left, by data directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    with_gaps: BTreeSet<PathBuf>,
}

impl Closed {
    /// True where all of a directory is durable and complete on disk: the next start may trust it. Else a disk refused,
    /// now or earlier, and the next start has to look at what lies past the recovery points.
    pub fn is_clean(&self, dir: &DataDir) -> bool {
        !self.with_gaps.contains(&dir.path)
    }

    /// Takes in what another core left.
    pub fn join(&mut self, other: Self) {
        self.with_gaps.extend(other.with_gaps);
    }

    fn note_gap(&mut self, partition: &Partition) {
        self.with_gaps.extend(partition.folder().parent().map(Path::to_path_buf));
    }
}

/// Makes all of every partition durable and complete on disk, for a clean stop.
pub async fn close_all(shard: &Rc<Shard>) -> Closed {
    shard.begin_closing();
    let partitions: VecDeque<Rc<Partition>> = shard.partitions().into();
    let shard_of_jobs = shard.clone();
    let closed = Rc::new(RefCell::new(Closed::default()));
    let told = closed.clone();
    run_side_by_side(shard.io(), partitions, OPENED_AT_ONCE_MAX, move |partition| {
        let (shard, closed) = (shard_of_jobs.clone(), told.clone());
        async move {
            match close(&shard, &partition).await {
                Ok(true) => {}
                Ok(false) => closed.borrow_mut().note_gap(&partition),
                Err(error) => {
                    closed.borrow_mut().note_gap(&partition);
                    error!(topic = partition.topic(), partition = partition.id().partition, %error, "the partition could not be closed cleanly");
                }
            }
        }
    })
    .await;
    checkpoints::write_all(shard).await;
    let mut closed = closed.take();
    let snapshot = shard.snapshot();
    for dir in &shard.options().data_dirs {
        // What could not be opened is not known to be whole.
        let is_unopened = shard.unopened().into_iter().any(|id| {
            let placed = snapshot.partition_by_id(id.topic_id, id.partition);
            placed.is_some_and(|placed| placed.directory.0 == dir.id)
        });
        if is_unopened || shard.directory_has_failed(&dir.path) {
            closed.with_gaps.insert(dir.path.clone());
        }
    }
    closed
}

/// False where nobody knows what its last write or sync left.
async fn close(shard: &Rc<Shard>, partition: &Rc<Partition>) -> io::Result<bool> {
    partition.wait_drained(shard.io()).await;
    if !partition.is_online() {
        return Ok(false);
    }
    let end = partition.log().borrow().offsets().written;
    sync_from_recovery_point(shard, partition, end).await?;
    shard.write_index(partition, Vec::new(), IndexShare::All).await?;
    shard.write_epochs(partition).await?;
    partition.log().borrow_mut().snapshot_producers();
    producer_snapshots::write_ready(shard.clone(), partition.clone()).await;
    producer_snapshots::remove_stale(shard, partition).await;
    // An index that could not be completed earlier ends too soon: the next start makes it anew.
    let is_complete = partition.log().borrow().recovery_point_max().is_none();
    Ok(is_complete)
}

impl Shard {
    /// A segment was sealed: under `os` its bytes become durable now, in the background, as in Kafka; and what is due of
    /// the index and the epochs is written.
    pub(in crate::shard) fn after_roll(self: &Rc<Self>, partition: &Rc<Partition>, sealed_end: Offset) {
        let (shard, partition) = (self.clone(), partition.clone());
        self.io().spawn(async move {
            let done: io::Result<()> = async {
                if partition.durability() == Durability::Os
                    && let Err(error) = sync_from_recovery_point(&shard, &partition, sealed_end).await
                {
                    // The next sync would say that all is well.
                    shard.fail_partition(&partition, "a sync of a sealed segment failed", &error);
                    return Err(error);
                }
                producer_snapshots::write_ready(shard.clone(), partition.clone()).await;
                shard.write_index(&partition, Vec::new(), IndexShare::Due).await?;
                partition.note_sealed(sealed_end);
                shard.tell_of_sealed(&partition);
                Ok(())
            }
            .await;
            if let Err(error) = done {
                warn!(topic = partition.topic(), partition = partition.id().partition, %error, "a sealed segment could not be completed; a start after a crash will scan it");
            }
        });
    }

    /// The high watermark of a partition has moved: who waits for that is polled.
    pub(in crate::shard) fn note_progress(&self, partition: &Partition) {
        self.io().wake_all(partition.progress());
        self.tell_of_sealed(partition);
    }

    /// Tells the tier of a sealed segment once all below its end is stable and durable.
    pub(in crate::shard) fn tell_of_sealed(&self, partition: &Partition) {
        if let Some(tier) = self.tier()
            && partition.take_sealed_stable()
            && partition.remote().is_some()
        {
            tier.tell(self.io());
        }
    }

    /// Writes the leader epochs where they have changed.
    pub(in crate::shard) async fn write_epochs(&self, partition: &Partition) -> io::Result<()> {
        let _turn = partition.epochs_turn().turn(self.io()).await;
        let Some(text) = partition.log().borrow_mut().take_epoch_checkpoint() else { return Ok(()) };
        let written = segment_files::write_epochs(self.io(), partition.folder(), text).await;
        let written = written.map_err(RecoveryError::into_io);
        if written.is_err() {
            partition.log().borrow_mut().epoch_checkpoint_failed();
        }
        written
    }
}

/// Runs jobs, at most `at_once_max` at the same time, until all are done.
pub(in crate::shard) async fn run_side_by_side<T, F>(
    io: &Io,
    jobs: VecDeque<T>,
    at_once_max: usize,
    run: impl Fn(T) -> F + 'static,
) where
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
const FILE_NAME_BYTES_MAX: usize = 255;
