//! Open a partition: scan the tail, cut what is torn, make indexes anew.
//!
//! The log decides: indexes, epochs and producers are derived from it. What lies below the recovery point was durable
//! once and is not scanned; if it turns out to be damaged nothing is cut, and the partition goes offline. What lies
//! above may be torn by the crash: whole batches stay, the rest goes.
//!
//! Producers come from their snapshots and what follows those: see [`producer_recovery`](crate::log::producer_recovery).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::log::error::RecoveryError;
use crate::log::index_recovery::{IndexRecovery, ScanStart, SegmentFiles, read};
use crate::log::layout::{
    DELETED_SUFFIX, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, PartitionFile, segment_file_names, segment_path,
};
use crate::log::leader_epochs::LeaderEpochs;
use crate::log::partition_metadata;
use crate::log::plan::{IndexKind, SegmentId};
use crate::log::producer_recovery::{ProducerRecovery, RecoveredProducers};
use crate::log::scan::{ScanEnd, SegmentScan};
use crate::log::segment::{Incoming, Segment, SegmentLimits};
use crate::log::segment_files::{at_path, make_segment, remove_segment, write_epochs, write_metadata};
use crate::log::swap_recovery::complete_swaps;
use crate::log::transaction_recovery::TransactionRecovery;
use crate::record::batch::BatchHeader;
use crate::record::offset::{Offset, TopicId};
use crate::ring::io::{Io, OpenHow, read_file};

/// What is known of a partition before its folder is read.
#[derive(Clone, Debug)]
pub struct RecoveryOptions {
    /// All below was on stable storage once: it is not scanned, and damage there is no torn tail.
    pub recovery_point: Offset,
    /// The last stop was a clean one: nothing can be torn, so only the last batches' headers are read.
    pub clean: bool,
    /// First offset of the log, from its checkpoint.
    pub log_start: Offset,
    /// The id that the catalog has; `None` takes what the folder says.
    pub topic_id: Option<TopicId>,
    /// `index.interval.bytes`, for indexes that are made anew.
    pub index_interval_bytes: u32,
    /// `producer.id.expiration.ms`: what is older in a snapshot is not taken over.
    pub producer_expiration_ms: i64,
    /// What the tier has of the log.
    pub remote: Option<RemoteRange>,
}

/// What the tier has of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRange {
    /// Its first offset.
    pub start: Offset,
    /// The offset after its last one; no offset below is given to records again.
    pub end: Offset,
    /// The local log begins here: what is left of segments below does not count.
    pub local_start: Offset,
}

/// A partition's log as it was found, ready for [`PartitionLog::new`](crate::log::partition_log::PartitionLog::new).
#[derive(Debug)]
pub struct RecoveredLog {
    /// First offset.
    pub log_start: Offset,
    /// The next offset; all below is on stable storage.
    pub log_end: Offset,
    /// By base offset, the active one last; all of them have their files.
    pub segments: Vec<Segment>,
    /// Epochs with records.
    pub epochs: LeaderEpochs,
    /// The disk was too full for the epochs' file: it is still to be written.
    pub epochs_unwritten: bool,
    /// Names of files that go, though nobody waits for it: of segments below the log start, and `.deleted` ones. Some of
    /// them may not be there.
    pub leftovers: Vec<String>,
    /// Its producers.
    pub producers: RecoveredProducers,
    /// The topic id that the folder has; zero where neither it nor the caller knows one.
    pub topic_id: TopicId,
    /// What was done, for a log line.
    pub report: RecoveryReport,
}

/// What opening a partition found and changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Bytes of logs that were read.
    pub scanned_bytes: u64,
    /// Bytes cut off, with those of removed segments.
    pub cut_bytes: u64,
    /// Indexes made anew, whole or from some entry on.
    pub indexes_rebuilt: u32,
    /// Snapshots of producers that were torn or damaged, and are removed.
    pub snapshots_refused: u32,
    /// Names in the folder that are none of Kafka's.
    pub unknown_files: Vec<String>,
}

/// Opens a partition's folder. On return all that the log has is on stable storage.
///
/// # Errors
/// Where the disk refuses, the folder is another topic's, or durable bytes are damaged (then nothing was changed that
/// held records).
pub async fn open_partition(io: &Io, folder: &Path, options: &RecoveryOptions) -> Result<RecoveredLog, RecoveryError> {
    let mut opening = Opening::begin(io, folder, options).await?;
    opening.check_topic_id().await?;
    opening.read_epochs().await?;
    if opening.files.is_empty() {
        opening.make_first_segment().await?;
    } else {
        opening.open_segments().await?;
    }
    opening.finish().await
}

/// Makes the folder of a new partition with its metadata and its first segment; durable on return, with its own entry in
/// the data directory. A folder that is there already (a crash came between) is opened, without trust in its tail.
///
/// # Errors
/// Where the disk refuses, or the folder is another topic's.
pub async fn create_partition(
    io: &Io,
    folder: &Path,
    topic_id: TopicId,
    index_interval_bytes: u32,
    producer_expiration_ms: i64,
) -> Result<RecoveredLog, RecoveryError> {
    match io.create_dir(folder).await {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(at_path(folder)(error)),
    }
    let options = RecoveryOptions {
        recovery_point: Offset::ZERO,
        clean: false,
        log_start: Offset::ZERO,
        topic_id: Some(topic_id),
        index_interval_bytes,
        producer_expiration_ms,
        remote: None,
    };
    let log = open_partition(io, folder, &options).await?;
    if let Some(data_dir) = folder.parent() {
        io.sync_dir(data_dir).await.map_err(at_path(data_dir))?;
    }
    Ok(log)
}

/// A partition while it is opened.
struct Opening<'a> {
    io: &'a Io,
    folder: &'a Path,
    options: &'a RecoveryOptions,
    files: BTreeMap<SegmentId, SegmentFiles>,
    /// Snapshots of producers with their lengths.
    snapshots: Vec<(Offset, u64)>,
    /// Lengths of transaction indexes.
    transaction_indexes: BTreeMap<SegmentId, u64>,
    /// The first transaction marker whose entry in an index may be missing.
    markers_from: Option<Offset>,
    has_metadata: bool,
    has_epochs: bool,
    /// The epochs' file was there and right; else all batches must be looked at.
    epochs_known: bool,
    epochs_on_disk: LeaderEpochs,
    log: RecoveredLog,
    /// Something was made or removed: the folder is to be synced.
    folder_changed: bool,
    /// Segments without a byte, to be removed when all else is right.
    empty: Vec<SegmentId>,
}

impl<'a> Opening<'a> {
    async fn begin(io: &'a Io, folder: &'a Path, options: &'a RecoveryOptions) -> Result<Self, RecoveryError> {
        let log = RecoveredLog {
            log_start: options.log_start,
            log_end: options.log_start,
            segments: Vec::new(),
            epochs: LeaderEpochs::default(),
            epochs_unwritten: false,
            leftovers: Vec::new(),
            producers: RecoveredProducers::default(),
            topic_id: options.topic_id.unwrap_or_default(),
            report: RecoveryReport::default(),
        };
        let mut opening = Self {
            io,
            folder,
            options,
            files: BTreeMap::new(),
            snapshots: Vec::new(),
            transaction_indexes: BTreeMap::new(),
            markers_from: None,
            has_metadata: false,
            has_epochs: false,
            epochs_known: false,
            epochs_on_disk: LeaderEpochs::default(),
            log,
            folder_changed: false,
            empty: Vec::new(),
        };
        let mut entries = io.read_dir(folder).await.map_err(at_path(folder))?;
        if complete_swaps(io, folder, &entries).await? {
            entries = io.read_dir(folder).await.map_err(at_path(folder))?;
        }
        let mut indexes = Vec::new();
        for entry in entries {
            match PartitionFile::parse(&entry.name) {
                PartitionFile::Log(segment) => {
                    let log_bytes = entry.len_bytes;
                    let files = SegmentFiles { id: segment, log_bytes, index_bytes: None, time_index_bytes: None };
                    opening.files.insert(segment, files);
                }
                PartitionFile::OffsetIndex(segment) => indexes.push((segment, IndexKind::Offset, entry.len_bytes)),
                PartitionFile::TimeIndex(segment) => indexes.push((segment, IndexKind::Time, entry.len_bytes)),
                PartitionFile::LeaderEpochs => opening.has_epochs = true,
                PartitionFile::Metadata => opening.has_metadata = true,
                PartitionFile::Leftover if entry.name.ends_with(DELETED_SUFFIX) => {
                    opening.log.leftovers.push(entry.name);
                }
                PartitionFile::Leftover => {
                    let path = folder.join(&entry.name);
                    io.remove_file(&path).await.map_err(at_path(&path))?;
                    opening.folder_changed = true;
                }
                PartitionFile::ProducerSnapshot(offset) => opening.snapshots.push((offset, entry.len_bytes)),
                PartitionFile::TransactionIndex(segment) => {
                    opening.transaction_indexes.insert(segment, entry.len_bytes);
                }
                PartitionFile::Swap(_) | PartitionFile::RemoteSegments => {}
                PartitionFile::Unknown => opening.log.report.unknown_files.push(entry.name),
            }
        }
        for (segment, kind, len_bytes) in indexes {
            match (opening.files.get_mut(&segment), kind) {
                (Some(files), IndexKind::Offset) => files.index_bytes = Some(len_bytes),
                (Some(files), IndexKind::Time) => files.time_index_bytes = Some(len_bytes),
                (Some(_), IndexKind::Transaction) => {}
                // An index without a log: the log was removed before a crash.
                (None, _) => {
                    remove_segment(io, folder, segment).await?;
                    opening.folder_changed = true;
                }
            }
        }
        Ok(opening)
    }

    async fn check_topic_id(&mut self) -> Result<(), RecoveryError> {
        if !self.has_metadata {
            if let Some(topic_id) = self.options.topic_id {
                write_metadata(self.io, self.folder, topic_id).await?;
            }
            return Ok(());
        }
        let path = self.folder.join(PARTITION_METADATA);
        let text = read_file(self.io, &path, CHECKPOINT_BYTES_MAX).await.map_err(at_path(&path))?;
        let Some(found) = std::str::from_utf8(&text).ok().and_then(partition_metadata::parse) else {
            return Err(RecoveryError::BadMetadata { path, reason: "not a partition.metadata of version 0" });
        };
        match self.options.topic_id {
            Some(expected) if expected != found => Err(RecoveryError::WrongTopic { path, found, expected }),
            _ => {
                self.log.topic_id = found;
                Ok(())
            }
        }
    }

    async fn read_epochs(&mut self) -> Result<(), RecoveryError> {
        if self.has_epochs {
            let path = self.folder.join(LEADER_EPOCH_CHECKPOINT);
            let text = read_file(self.io, &path, CHECKPOINT_BYTES_MAX).await.map_err(at_path(&path))?;
            if let Some(epochs) = std::str::from_utf8(&text).ok().and_then(LeaderEpochs::parse) {
                self.epochs_known = true;
                self.epochs_on_disk = epochs.clone();
                self.log.epochs = epochs;
            }
        }
        Ok(())
    }

    /// An empty folder: a new partition, or a crash came before its first segment was made.
    async fn make_first_segment(&mut self) -> Result<(), RecoveryError> {
        let segment = SegmentId(self.end_at_least());
        if self.lacks_durable(segment.0) {
            return Err(self.damaged(segment_path(self.folder, segment), 0));
        }
        make_segment(self.io, self.folder, segment).await?;
        self.log.segments.push(Segment::new(segment));
        self.log.log_end = segment.0;
        Ok(())
    }

    async fn open_segments(&mut self) -> Result<(), RecoveryError> {
        let mut files: Vec<SegmentFiles> = self.files.values().copied().collect();
        // A roll that came to nothing leaves an empty log anywhere in the row: it says nothing of the others.
        // Where all are empty the log begins with the first: the others were rolled behind batches that are lost.
        let only = files.first().copied();
        let empty = files.extract_if(.., |files| files.log_bytes == 0).map(|files| files.id);
        self.empty = empty.collect();
        if files.is_empty()
            && let Some(only) = only
        {
            self.empty.retain(|id| *id != only.id);
            files.push(only);
        }
        // What lies below the log start was on its way out when a crash came, and some of it may be gone already: a hole
        // there says nothing of what follows.
        let local_start = self.options.remote.map_or(self.options.log_start, |remote| remote.local_start);
        let local_start = local_start.max(self.options.log_start);
        let below = files.windows(2).take_while(|pair| pair[1].id.0 <= local_start).count();
        for segment in files.drain(..below) {
            self.log.leftovers.extend(segment_file_names(segment.id));
        }
        let mut next_offset = files.first().map_or(self.options.log_start, |first| first.id.0);
        for (at, segment) in files.iter().copied().enumerate() {
            let id = segment.id;
            let next_base = files.get(at + 1).map(|next| next.id.0);
            // A segment is trusted where the next one begins at or below what was durable.
            let trusted = self.epochs_known
                && next_base.is_some_and(|base| self.options.clean || base <= self.options.recovery_point);
            let indexes = if trusted { self.indexes_of(segment).check(next_base).await? } else { None };
            if let Some((index, time_index)) = indexes {
                self.log.segments.push(Segment::opened(id, segment.log_bytes, index, time_index));
                continue;
            }
            next_offset = next_offset.max(id.0);
            let durable = trusted || (self.options.clean && next_base.is_some());
            let start = if self.epochs_known && !durable {
                let below = if self.options.clean { Offset(i64::MAX) } else { self.options.recovery_point };
                self.indexes_of(segment).scan_start(below, segment.log_bytes).await?
            } else {
                ScanStart::default()
            };
            let end = self.scan_segment(segment, &start, next_offset, durable).await?;
            let overlaps = next_base.is_some_and(|base| base < end.next_offset);
            if overlaps
                && let Some(next) = files.get(at + 1)
                && (self.options.clean || self.lacks_durable(end.next_offset))
            {
                return Err(self.damaged(segment_path(self.folder, next.id), 0));
            }
            // Past what was durable, a crash may have taken the end of a segment and spared the next: records that were
            // written behind a lost one go with it. Below, a gap is compaction's.
            let is_gap = !self.options.clean
                && next_base.is_some_and(|base| base > end.next_offset && base > self.options.recovery_point);
            if is_gap && self.lacks_durable(end.next_offset) {
                return Err(self.damaged(segment_path(self.folder, id), end.valid_bytes));
            }
            if end.damage.is_some() || overlaps || is_gap {
                return self.cut_after(&files[at..], &end).await;
            }
            next_offset = end.next_offset;
        }
        self.log.log_end = next_offset;
        match files.last() {
            // All segments were trusted up to the last, which never is.
            Some(last) if self.lacks_durable(next_offset) => {
                Err(self.damaged(segment_path(self.folder, last.id), last.log_bytes))
            }
            _ => Ok(()),
        }
    }

    /// The first of `files` was scanned and ends too early: the rest goes, unless it was durable once.
    async fn cut_after(&mut self, files: &[SegmentFiles], end: &ScanEnd) -> Result<(), RecoveryError> {
        let Some((torn, later)) = files.split_first() else { return Ok(()) };
        let path = segment_path(self.folder, torn.id);
        assert!(!self.options.clean, "a clean stop leaves nothing to be cut");
        assert!(!self.lacks_durable(end.next_offset), "durable records are never cut");
        for segment in later.iter().rev() {
            remove_segment(self.io, self.folder, segment.id).await?;
            self.log.report.cut_bytes += segment.log_bytes;
            self.folder_changed = true;
        }
        if !later.is_empty() {
            // Before the cut: a crash in between must not find a whole log with something else behind it.
            self.io.sync_dir(self.folder).await.map_err(at_path(self.folder))?;
        }
        if end.valid_bytes < torn.log_bytes {
            let log = self.io.open(&path, OpenHow::ReadWrite).await.map_err(at_path(&path))?;
            log.set_len(end.valid_bytes).await.map_err(at_path(&path))?;
            log.sync_data().await.map_err(at_path(&path))?;
            self.log.report.cut_bytes += torn.log_bytes - end.valid_bytes;
        }
        self.log.log_end = end.next_offset;
        Ok(())
    }

    fn indexes_of(&self, files: SegmentFiles) -> IndexRecovery<'a> {
        IndexRecovery {
            io: self.io,
            folder: self.folder,
            files,
            clean: self.options.clean,
            index_interval_bytes: self.options.index_interval_bytes,
        }
    }

    /// Walks a segment from the best place that its index offers, makes the rest of the indexes anew, and takes epochs
    /// in. `durable`: all of it was, whatever the recovery point.
    async fn scan_segment(
        &mut self,
        files: SegmentFiles,
        start: &ScanStart,
        next_offset: Offset,
        durable: bool,
    ) -> Result<ScanEnd, RecoveryError> {
        let SegmentFiles { id, log_bytes, .. } = files;
        let path = segment_path(self.folder, id);
        let how = if self.options.clean { OpenHow::Read } else { OpenHow::ReadWrite };
        let log = self.io.open(&path, how).await.map_err(at_path(&path))?;
        let limits = SegmentLimits {
            segment_bytes: u32::MAX,
            index_interval_bytes: self.options.index_interval_bytes,
            segment_index_bytes: u32::MAX,
            roll_ms: u64::MAX,
        };
        let mut segment = start.segment(id);
        let next_offset = start.first_offset.unwrap_or(next_offset).max(id.0);
        let mut scan = SegmentScan::new(id.0, start.position_bytes, next_offset, log_bytes, !self.options.clean);
        let epochs = &mut self.log.epochs;
        let markers_from = &mut self.markers_from;
        // After a clean stop the entries are there, where the other indexes are.
        let notes_markers = !self.options.clean || files.index_bytes.is_none() || files.time_index_bytes.is_none();
        let mut each = |_: u64, header: &BatchHeader| {
            if notes_markers && header.attributes.is_control() {
                markers_from.get_or_insert(header.base_offset);
            }
            if epochs.latest().is_none_or(|latest| latest < header.leader_epoch) {
                epochs.assign(header.leader_epoch, header.base_offset);
            }
            let incoming = Incoming {
                len_bytes: header.len_bytes,
                first_offset: header.base_offset,
                last_offset: header.last_offset(),
                max_timestamp: header.max_timestamp,
            };
            segment.reserve(&incoming, &limits);
        };
        let mut position_bytes = start.position_bytes;
        while position_bytes < log_bytes {
            let piece = usize::try_from(log_bytes - position_bytes).unwrap_or(usize::MAX).min(SCAN_PIECE_BYTES);
            let bytes = read(self.io, &log, &path, position_bytes, piece).await?;
            let goes_on = !bytes.is_empty() && scan.feed(&bytes, &mut each);
            let (from, len_bytes) = (position_bytes, bytes.len() as u64);
            if !self.options.clean && scan.next_offset() > self.options.recovery_point {
                // A sync of the last run may have failed: then the page cache shows what the disk does not have, counts it
                // as clean, and the sync below would do nothing. Written again, it is dirty again.
                log.write_at(bytes, from).await.0.map_err(at_path(&path))?;
            }
            position_bytes += len_bytes;
            if !goes_on {
                break;
            }
            self.io.yield_now().await;
        }
        self.log.report.scanned_bytes += position_bytes - start.position_bytes;
        let end = scan.finish();
        if end.damage.is_some() && (durable || self.options.clean || self.lacks_durable(end.next_offset)) {
            return Err(self.damaged(path, end.valid_bytes));
        }
        assert_eq!(segment.size_bytes(), end.valid_bytes, "each whole batch has its place");
        if !self.options.clean {
            // What was only in the page cache may be read from now on.
            log.sync_data().await.map_err(at_path(&path))?;
        }
        self.log.report.indexes_rebuilt += self.indexes_of(files).write(&mut segment, start).await?;
        self.folder_changed |= files.index_bytes.is_none() || files.time_index_bytes.is_none();
        self.log.segments.push(segment);
        Ok(end)
    }

    async fn finish(mut self) -> Result<RecoveredLog, RecoveryError> {
        for segment in std::mem::take(&mut self.empty) {
            remove_segment(self.io, self.folder, segment).await?;
            self.folder_changed = true;
        }
        if self.log.log_end < self.end_at_least() {
            self.start_anew().await?;
        }
        let first_local = self.log.segments.first().map_or(self.log.log_end, Segment::base_offset);
        let first = match self.options.remote {
            Some(remote) if remote.end >= first_local => remote.start.min(first_local),
            _ => first_local,
        };
        self.log.log_start = self.options.log_start.max(first);
        self.log.epochs.truncate_from_end(self.log.log_end);
        self.log.epochs.truncate_from_start(self.log.log_start);
        if !self.has_epochs || self.log.epochs != self.epochs_on_disk {
            match write_epochs(self.io, self.folder, self.log.epochs.to_text()).await {
                // A full disk can be read. The file is derived, and is tried again with the next append.
                Err(error) if error.is_no_space() => self.log.epochs_unwritten = true,
                other => other?,
            }
        }
        let mut transactions = TransactionRecovery {
            io: self.io,
            folder: self.folder,
            options: self.options,
            log_end: self.log.log_end,
            markers_from: self.markers_from,
            found: std::mem::take(&mut self.transaction_indexes),
        };
        let entries = transactions.read(&self.log.segments).await?;
        let recovery = ProducerRecovery {
            io: self.io,
            folder: self.folder,
            options: self.options,
            segments: &self.log.segments,
            log_end: self.log.log_end,
            markers_from: transactions.markers_from,
        };
        let (producers, has_removed) = recovery.run(std::mem::take(&mut self.snapshots)).await?;
        let written = transactions.write(&mut self.log.segments, entries, &producers.aborted).await?;
        self.log.report.indexes_rebuilt += written;
        self.folder_changed |= written > 0;
        self.log.report.scanned_bytes += producers.replayed_bytes;
        self.log.report.snapshots_refused = producers.snapshots_refused;
        self.log.producers = producers;
        self.folder_changed |= has_removed;
        if self.folder_changed || !self.options.clean {
            self.io.sync_dir(self.folder).await.map_err(at_path(self.folder))?;
        }
        assert!(!self.log.segments.is_empty(), "an opened log has an active segment");
        assert!(!self.lacks_durable(self.log.log_end), "durable records are missing");
        Ok(self.log)
    }

    /// Offsets below were given to records once: that was deleted, or that only the tier has.
    fn end_at_least(&self) -> Offset {
        self.options.remote.map_or(self.options.log_start, |remote| remote.end.max(self.options.log_start))
    }

    /// All records were deleted, and the crash took the end of them with it: the log begins at its start, as in Kafka.
    /// Offsets below were given to records once and are not given again.
    async fn start_anew(&mut self) -> Result<(), RecoveryError> {
        for segment in std::mem::take(&mut self.log.segments) {
            remove_segment(self.io, self.folder, segment.id()).await?;
            self.log.report.cut_bytes += segment.size_bytes();
        }
        self.log.epochs = LeaderEpochs::default();
        self.make_first_segment().await
    }

    /// True where records that were durable once, and were not deleted since, should follow `end`.
    fn lacks_durable(&self, end: Offset) -> bool {
        end < self.options.recovery_point && self.options.log_start < self.options.recovery_point
    }

    fn damaged(&self, path: PathBuf, position_bytes: u64) -> RecoveryError {
        RecoveryError::Damaged { path, position_bytes, recovery_point: self.options.recovery_point }
    }
}

/// Read at once; the core does other things in between.
const SCAN_PIECE_BYTES: usize = 256 * 1024;
/// A partition has few epochs.
const CHECKPOINT_BYTES_MAX: u64 = 16 << 20;
