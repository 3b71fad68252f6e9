//! The open files of one core's segments: a bounded cache of handles.
//!
//! A plan names a segment; this resolves the name. Ten thousand partitions do not mean thirty thousand open files: the
//! handle that was not used for longest is closed (through the ring) when another is needed. A plan under way holds a
//! clone, so closing a handle here never takes a file from under it.

use std::cell::RefCell;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;

use ahash::RandomState;
use lru::LruCache;

use crate::log::layout;
use crate::log::plan::SegmentId;
use crate::record::offset::PartitionId;
use crate::ring::io::{File, Io, OpenHow};

/// Which file of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// `.log`
    Log,
    /// `.index`
    OffsetIndex,
    /// `.timeindex`
    TimeIndex,
    /// `.txnindex`
    TransactionIndex,
}

type Key = (PartitionId, SegmentId, FileKind);

/// Handles by segment, at most `count_max` of them.
pub struct FileCache {
    handles: RefCell<LruCache<Key, File, RandomState>>,
}

impl FileCache {
    /// An empty cache. The seeds of its hashes come from `io`, so that a simulation repeats.
    pub fn new(io: &Io, count_max: usize) -> Self {
        let seeds = RandomState::with_seeds(io.random_u64(), io.random_u64(), io.random_u64(), io.random_u64());
        let count_max = NonZeroUsize::new(count_max).unwrap_or(NonZeroUsize::MIN);
        Self { handles: RefCell::new(LruCache::with_hasher(count_max, seeds)) }
    }

    /// The handle, if it is open now.
    pub fn get(&self, partition: PartitionId, segment: SegmentId, kind: FileKind) -> Option<File> {
        self.handles.borrow_mut().get(&(partition, segment, kind)).cloned()
    }

    /// Notes a handle that was opened elsewhere (a new segment's).
    pub fn put(&self, partition: PartitionId, segment: SegmentId, kind: FileKind, file: File) {
        self.handles.borrow_mut().put((partition, segment, kind), file);
    }

    /// The handle, opened through the ring where it is not.
    ///
    /// # Errors
    /// As open(2).
    pub async fn open(
        &self,
        io: &Io,
        folder: &Path,
        partition: PartitionId,
        segment: SegmentId,
        kind: FileKind,
    ) -> io::Result<File> {
        if let Some(file) = self.get(partition, segment, kind) {
            return Ok(file);
        }
        let (path, how) = match kind {
            FileKind::Log => (layout::segment_path(folder, segment), OpenHow::ReadWrite),
            // Derived: one that is missing is made again.
            FileKind::OffsetIndex => (layout::offset_index_path(folder, segment), OpenHow::ReadWriteOrCreate),
            FileKind::TimeIndex => (layout::time_index_path(folder, segment), OpenHow::ReadWriteOrCreate),
            FileKind::TransactionIndex => (layout::transaction_index_path(folder, segment), OpenHow::ReadWriteOrCreate),
        };
        let file = io.open(&path, how).await?;
        self.put(partition, segment, kind, file.clone());
        Ok(file)
    }

    /// Closes the handles of a segment that is removed.
    pub fn forget_segment(&self, partition: PartitionId, segment: SegmentId) {
        let mut handles = self.handles.borrow_mut();
        for kind in [FileKind::Log, FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::TransactionIndex] {
            handles.pop(&(partition, segment, kind));
        }
    }

    /// Closes the handles of a partition that leaves this core.
    pub fn forget(&self, partition: PartitionId) {
        let mut handles = self.handles.borrow_mut();
        let gone: Vec<Key> = handles.iter().map(|(key, _)| *key).filter(|key| key.0 == partition).collect();
        for key in gone {
            handles.pop(&key);
        }
    }
}
