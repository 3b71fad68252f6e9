//! What a compaction writes: `.cleaned` files, complete and on stable storage before anything else happens to them.

use std::io;
use std::path::{Path, PathBuf};

use crate::log::cleaned_segment::{CleanedEntries, CleanedSegment};
use crate::log::layout::{self, CLEANED_SUFFIX};
use crate::log::partition_log::LogConfig;
use crate::log::plan::SegmentId;
use crate::log::transaction_index::AbortedTransaction;
use crate::record::batch::BatchHeader;
use crate::ring::buffer::Buffer;
use crate::ring::io::{File, OpenHow};
use crate::shard::clean_turns::CleaningTurns;
use crate::shard::error::CleanFailure;
use crate::shard::files::FileKind;

/// Takes the batches that stay, and cuts them into segments.
pub(in crate::shard) struct CleanSink {
    config: LogConfig,
    first: SegmentId,
    done: Vec<WrittenSegment>,
    current: Option<Current>,
    /// Made, by name: for the case that nothing comes of them.
    made: Vec<PathBuf>,
    /// Bytes of logs so far.
    pub(in crate::shard) bytes: u64,
}

/// A segment whose files are complete, under their `.cleaned` names.
pub(in crate::shard) struct WrittenSegment {
    pub(in crate::shard) cleaned: CleanedSegment,
    /// All of them, open.
    pub(in crate::shard) files: Vec<(FileKind, File)>,
}

struct Current {
    cleaned: CleanedSegment,
    offset_index: File,
    time_index: File,
    log: File,
    /// Batches on their way to the file, from this position on.
    staged: Buffer,
    staged_bytes: usize,
    staged_at: u64,
    unsynced_bytes: usize,
}

impl CleanSink {
    /// Begins with a segment of the name of the first that is replaced.
    pub(in crate::shard) fn new(config: LogConfig, first: SegmentId) -> Self {
        Self { config, first, done: Vec::new(), current: None, made: Vec::new(), bytes: 0 }
    }

    /// Adds a batch.
    pub(in crate::shard) async fn add(
        &mut self,
        turns: &mut CleaningTurns,
        header: &BatchHeader,
        batch: &[u8],
    ) -> Result<(), CleanFailure> {
        if self.current.as_mut().is_some_and(|current| current.cleaned.is_full_for(header)) {
            self.complete_current(turns).await?;
        }
        if self.current.is_none() {
            // One that follows goes on where the one before ends, so that no gap lies between two segments.
            let next = self.done.last().map_or(self.first, |last| SegmentId(last.cleaned.next_offset()));
            self.current = Some(self.make(turns, next).await?);
        }
        let Some(current) = &mut self.current else { return Ok(()) };
        let position_bytes = current.cleaned.place(header);
        debug_assert_eq!(
            position_bytes,
            current.staged_at + current.staged_bytes as u64,
            "batches lie one behind the other"
        );
        let mut rest = batch;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(current.staged.len() - current.staged_bytes));
            current.staged[current.staged_bytes..current.staged_bytes + now.len()].copy_from_slice(now);
            current.staged_bytes += now.len();
            rest = later;
            if current.staged_bytes == current.staged.len() {
                current.write_out(turns).await?;
            }
        }
        self.bytes += batch.len() as u64;
        turns.work(batch.len() / COPIED_BYTES_A_WORK_BYTE).await;
        Ok(())
    }

    /// The marker that was added last has aborted this transaction.
    pub(in crate::shard) fn note_aborted(&mut self, aborted: AbortedTransaction) {
        if let Some(current) = &mut self.current {
            current.cleaned.note_aborted(aborted);
        }
    }

    /// Completes all segments. On return they are on stable storage, names and all.
    pub(in crate::shard) async fn finish(
        &mut self,
        turns: &mut CleaningTurns,
    ) -> Result<Vec<WrittenSegment>, CleanFailure> {
        self.complete_current(turns).await?;
        turns.check()?;
        turns.io().sync_dir(turns.partition().folder()).await?;
        Ok(std::mem::take(&mut self.done))
    }

    /// Removes what was written. Where that fails the next start does it.
    pub(in crate::shard) async fn abandon(self, turns: &CleaningTurns) {
        let partition = turns.partition().clone();
        // Counts as a write: whoever closes or renames the folder waits for it.
        partition.begin_write();
        drop(self.current);
        drop(self.done);
        if turns.shard().hosted(partition.id()).is_some() {
            for path in self.made {
                let _ = turns.io().remove_file(&path).await;
            }
        }
        partition.end_write(turns.io());
    }

    async fn make(&mut self, turns: &CleaningTurns, id: SegmentId) -> Result<Current, CleanFailure> {
        let [offset_index, time_index, log] = [
            self.make_file(turns, &layout::offset_index_path(turns.partition().folder(), id)).await?,
            self.make_file(turns, &layout::time_index_path(turns.partition().folder(), id)).await?,
            self.make_file(turns, &layout::segment_path(turns.partition().folder(), id)).await?,
        ];
        Ok(Current {
            cleaned: CleanedSegment::new(id, &self.config),
            offset_index,
            time_index,
            log,
            staged: turns.io().buffer(WRITTEN_AT_ONCE_BYTES),
            staged_bytes: 0,
            staged_at: 0,
            unsynced_bytes: 0,
        })
    }

    /// Makes the `.cleaned` file of what will be at `path`.
    async fn make_file(&mut self, turns: &CleaningTurns, path: &Path) -> Result<File, CleanFailure> {
        // Else the name of the folder may be another topic's by now.
        turns.check()?;
        let mut name = path.as_os_str().to_owned();
        name.push(CLEANED_SUFFIX);
        let path = PathBuf::from(name);
        // Counts as a write: whoever renames the folder waits for it.
        turns.partition().begin_write();
        let opened = turns.io().open(&path, OpenHow::CreateOrTruncate).await;
        turns.partition().end_write(turns.io());
        let file = opened?;
        self.made.push(path);
        Ok(file)
    }

    async fn complete_current(&mut self, turns: &mut CleaningTurns) -> Result<(), CleanFailure> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        current.write_out(turns).await?;
        let mut entries = current.cleaned.complete();
        let aborted = entries.aborted.take();
        current.write_entries(entries).await?;
        let Current { cleaned, offset_index, time_index, log, .. } = current;
        let mut files =
            vec![(FileKind::OffsetIndex, offset_index), (FileKind::TimeIndex, time_index), (FileKind::Log, log)];
        if let Some(bytes) = aborted {
            let path = layout::transaction_index_path(turns.partition().folder(), cleaned.id());
            let file = self.make_file(turns, &path).await?;
            file.write_at(Buffer::from_vec(bytes), 0).await.0?;
            files.push((FileKind::TransactionIndex, file));
        }
        for (_, file) in &files {
            file.sync_data().await?;
        }
        self.done.push(WrittenSegment { cleaned, files });
        Ok(())
    }
}

impl Current {
    /// Writes what is staged, and what is due of the indexes.
    async fn write_out(&mut self, turns: &mut CleaningTurns) -> Result<(), CleanFailure> {
        if self.staged_bytes == 0 {
            return Ok(());
        }
        let next = turns.io().buffer(WRITTEN_AT_ONCE_BYTES);
        let mut staged = std::mem::replace(&mut self.staged, next);
        staged.truncate(self.staged_bytes);
        self.log.write_at(staged, self.staged_at).await.0?;
        self.staged_at += self.staged_bytes as u64;
        self.unsynced_bytes += self.staged_bytes;
        turns.pay(self.staged_bytes).await?;
        self.staged_bytes = 0;
        let entries = self.cleaned.take_entries();
        self.write_entries(entries).await?;
        if self.unsynced_bytes >= SYNCED_AT_ONCE_BYTES {
            // Pages that are dirty for long make the kernel slow down everybody who writes.
            self.log.sync_data().await?;
            self.unsynced_bytes = 0;
        }
        Ok(())
    }

    async fn write_entries(&self, entries: CleanedEntries) -> io::Result<()> {
        for (file, entries) in [(&self.offset_index, entries.offsets), (&self.time_index, entries.times)] {
            if let Some((position_bytes, bytes)) = entries {
                file.write_at(Buffer::from_vec(bytes), position_bytes).await.0?;
            }
        }
        Ok(())
    }
}

const WRITTEN_AT_ONCE_BYTES: usize = 256 * 1024;
const SYNCED_AT_ONCE_BYTES: usize = 16 << 20;
/// A copy is so much faster than what else is done with a byte.
const COPIED_BYTES_A_WORK_BYTE: usize = 16;
