//! The open files of one core's segments: a bounded cache of handles.
//!
//! A plan names a segment; this resolves the name. Ten thousand partitions do not mean thirty thousand open files: the
//! handle that was not used for longest is closed (through the ring) when another is needed. A plan under way holds a
//! clone, so closing a handle here never takes a file from under it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
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

impl FileKind {
    const ALL: [Self; 4] = [Self::Log, Self::OffsetIndex, Self::TimeIndex, Self::TransactionIndex];
}

type Key = (PartitionId, SegmentId, FileKind);

/// Handles by segment, at most `count_max` of them.
pub struct FileCache {
    handles: RefCell<LruCache<Key, File, RandomState>>,
    /// Files whose names are on their way: nothing is opened by name for these.
    pinned: RefCell<HashMap<Key, File, RandomState>>,
    /// How often files were replaced under their names.
    replacements: Cell<u64>,
}

impl FileCache {
    /// An empty cache. The seeds of its hashes come from `io`, so that a simulation repeats.
    pub fn new(io: &Io, count_max: usize) -> Self {
        let seeds = RandomState::with_seeds(io.random_u64(), io.random_u64(), io.random_u64(), io.random_u64());
        let count_max = NonZeroUsize::new(count_max).unwrap_or(NonZeroUsize::MIN);
        Self {
            handles: RefCell::new(LruCache::with_hasher(count_max, seeds.clone())),
            pinned: RefCell::new(HashMap::with_hasher(seeds)),
            replacements: Cell::new(0),
        }
    }

    /// The handle, if it is open now.
    pub fn get(&self, partition: PartitionId, segment: SegmentId, kind: FileKind) -> Option<File> {
        let key = (partition, segment, kind);
        let pinned = self.pinned.borrow().get(&key).cloned();
        pinned.or_else(|| self.handles.borrow_mut().get(&key).cloned())
    }

    /// These are the files of `segment` from now on, whatever has their names, until [`unpin`](Self::unpin).
    pub(in crate::shard) fn pin(&self, partition: PartitionId, segment: SegmentId, kind: FileKind, file: File) {
        self.replacements.set(self.replacements.get() + 1);
        self.pinned.borrow_mut().insert((partition, segment, kind), file);
    }

    /// The pinned files of a segment have their names.
    pub(in crate::shard) fn unpin(&self, partition: PartitionId, segment: SegmentId) {
        for kind in FileKind::ALL {
            if let Some(file) = self.pinned.borrow_mut().remove(&(partition, segment, kind)) {
                self.put(partition, segment, kind, file);
            }
        }
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
        loop {
            let replacements = self.replacements.get();
            let opened = io.open(&path, how).await;
            if self.replacements.get() != replacements {
                // The name may be another file's by now; or it was nobody's for a moment.
                if let Some(file) = self.get(partition, segment, kind) {
                    return Ok(file);
                }
                continue;
            }
            let file = opened?;
            self.put(partition, segment, kind, file.clone());
            return Ok(file);
        }
    }

    /// Closes the handles of a segment that is removed.
    pub fn forget_segment(&self, partition: PartitionId, segment: SegmentId) {
        let mut handles = self.handles.borrow_mut();
        for kind in FileKind::ALL {
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
