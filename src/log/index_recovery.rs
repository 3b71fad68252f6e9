//! The indexes of a segment while it is opened: believed, continued or made anew.
//!
//! The log decides. An index that is believed without a scan must make sense by its length and its end; where a scan
//! goes on from an entry, the log must have that very batch there. All else is made anew.

use std::path::Path;

use crate::log::error::RecoveryError;
use crate::log::layout::{offset_index_path, segment_path, time_index_path};
use crate::log::offset_index::{INDEX_ENTRY_BYTES, IndexEntry, OffsetIndex};
use crate::log::plan::SegmentId;
use crate::log::segment::Segment;
use crate::log::segment_files::at_path;
use crate::log::time_index::{TIME_INDEX_ENTRY_BYTES, TimeIndex, TimeIndexEntry};
use crate::record::batch::{HEADER_BYTES, parse_header};
use crate::record::offset::{Offset, TimestampMs};
use crate::ring::buffer::Buffer;
use crate::ring::io::{File, Io, OpenHow};

/// A segment's files as the folder lists them.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct SegmentFiles {
    pub(in crate::log) id: SegmentId,
    pub(in crate::log) log_bytes: u64,
    /// `None` where there is no such file; the same for the time index.
    pub(in crate::log) index_bytes: Option<u64>,
    pub(in crate::log) time_index_bytes: Option<u64>,
}

/// Where a scan begins, and which entries of the indexes stay.
#[derive(Debug, Default)]
pub(in crate::log) struct ScanStart {
    pub(in crate::log) position_bytes: u64,
    /// Base offset of the batch there.
    pub(in crate::log) first_offset: Option<Offset>,
    /// Largest timestamp of the segment's first batch, where the scan begins behind it.
    pub(in crate::log) first_timestamp: Option<TimestampMs>,
    entries_kept: u32,
    last_kept: Option<IndexEntry>,
    times_kept: u32,
    last_time_kept: Option<TimeIndexEntry>,
    /// What the time index has after the entries that are kept, where that was read.
    times_after: Option<Vec<u8>>,
}

impl ScanStart {
    /// The segment as far as it is not scanned.
    pub(in crate::log) fn segment(&self, id: SegmentId) -> Segment {
        let index = OffsetIndex::opened(self.entries_kept, self.last_kept);
        let time_index = TimeIndex::opened(self.times_kept, self.last_time_kept);
        let mut segment = Segment::opened(id, self.position_bytes, index, time_index);
        if let Some(timestamp) = self.first_timestamp {
            segment.set_first_timestamp(timestamp);
        }
        segment
    }
}

/// The end of a time index, or all of it.
struct TimesRead {
    /// Number of the first entry read.
    first: u32,
    bytes: Vec<u8>,
    /// As many as rise.
    entries: Vec<TimeIndexEntry>,
    /// All that was read rises, and the file ends after a whole entry.
    sound: bool,
}

/// Reads and mends the indexes of one segment.
pub(in crate::log) struct IndexRecovery<'a> {
    pub(in crate::log) io: &'a Io,
    pub(in crate::log) folder: &'a Path,
    pub(in crate::log) files: SegmentFiles,
    pub(in crate::log) clean: bool,
    pub(in crate::log) index_interval_bytes: u32,
}

impl IndexRecovery<'_> {
    /// What the indexes of a segment that is not scanned say of themselves, by one small read each; `None` where one
    /// must be made anew. The next segment begins at `next_base`.
    pub(in crate::log) async fn check(
        &self,
        next_base: Option<Offset>,
    ) -> Result<Option<(OffsetIndex, TimeIndex)>, RecoveryError> {
        let Some(index) = self.check_offset_index(next_base).await? else { return Ok(None) };
        let times = self.check_time_index(next_base).await?;
        Ok(times.map(|times| (index, times)))
    }

    async fn check_offset_index(&self, next_base: Option<Offset>) -> Result<Option<OffsetIndex>, RecoveryError> {
        let SegmentFiles { id, log_bytes, index_bytes, .. } = self.files;
        let Some(index_bytes) = index_bytes.filter(|bytes| bytes % INDEX_ENTRY_BYTES as u64 == 0) else {
            return Ok(None);
        };
        let Ok(count) = u32::try_from(index_bytes / INDEX_ENTRY_BYTES as u64) else { return Ok(None) };
        if count == 0 {
            // Right for a segment of few bytes; made anew where entries should be there.
            let few = log_bytes <= 2 * u64::from(self.index_interval_bytes);
            return Ok(few.then(OffsetIndex::default));
        }
        let path = offset_index_path(self.folder, id);
        let index = self.io.open(&path, OpenHow::Read).await.map_err(at_path(&path))?;
        let last = read(self.io, &index, &path, index_bytes - INDEX_ENTRY_BYTES as u64, INDEX_ENTRY_BYTES).await?;
        let Some(last) = IndexEntry::decode_all(&last).next() else { return Ok(None) };
        let below_next = next_base.is_none_or(|base| id.0.plus(i64::from(last.relative_offset)) < base);
        let within = u64::from(last.position_bytes) < log_bytes && (count == 1 || last.position_bytes > 0);
        Ok((below_next && within).then(|| OffsetIndex::opened(count, Some(last))))
    }

    async fn check_time_index(&self, next_base: Option<Offset>) -> Result<Option<TimeIndex>, RecoveryError> {
        // A sealed segment has an entry at least, but where its records have no timestamps: such a one is scanned.
        let Some(bytes) = self.files.time_index_bytes.filter(|bytes| *bytes > 0) else {
            return Ok((self.files.log_bytes == 0).then(TimeIndex::default));
        };
        let read = self.read_times(bytes, CHECKED_TIMES_BYTES).await?;
        let last = read.entries.last().copied().filter(|last| {
            let below_next = next_base.is_none_or(|base| last.offset(self.files.id.0) < base);
            read.sound && below_next && read.entries.iter().all(|entry| entry.timestamp > TimestampMs::NONE)
        });
        Ok(last.and_then(|last| {
            let count = u32::try_from(bytes / TIME_INDEX_ENTRY_BYTES as u64).ok()?;
            Some(TimeIndex::opened(count, Some(last)))
        }))
    }

    /// The last `len_bytes` of the time index, which has `file_bytes`, by whole entries.
    async fn read_times(&self, file_bytes: u64, len_bytes: u64) -> Result<TimesRead, RecoveryError> {
        let entry_bytes = TIME_INDEX_ENTRY_BYTES as u64;
        let whole_bytes = file_bytes / entry_bytes * entry_bytes;
        let len_bytes = whole_bytes.min(len_bytes / entry_bytes * entry_bytes);
        let path = time_index_path(self.folder, self.files.id);
        let file = self.io.open(&path, OpenHow::Read).await.map_err(at_path(&path))?;
        let from = whole_bytes - len_bytes;
        let bytes = read(self.io, &file, &path, from, usize::try_from(len_bytes).unwrap_or(usize::MAX)).await?;
        let mut entries: Vec<TimeIndexEntry> = TimeIndexEntry::decode_all(&bytes).collect();
        let found = entries.len();
        let rising = entries.windows(2).take_while(|pair| pair[0].rises_to(pair[1])).count() + 1;
        entries.truncate(rising);
        let first = u32::try_from(from / entry_bytes).unwrap_or(u32::MAX);
        let sound = whole_bytes == file_bytes && entries.len() == found;
        Ok(TimesRead { first, bytes: bytes.to_vec(), entries, sound })
    }

    /// Where a scan can begin: at a batch that the offset index names, below `below` and `window_bytes`. An index is
    /// believed where it rises all along and the log has that very batch there.
    pub(in crate::log) async fn scan_start(
        &self,
        below: Offset,
        window_bytes: u64,
    ) -> Result<ScanStart, RecoveryError> {
        let tail = INDEX_TAIL_BYTES;
        let files = self.files;
        let times_bytes = files.time_index_bytes.filter(|bytes| *bytes <= INDEX_BYTES_MAX).unwrap_or(0);
        let mut times = match times_bytes {
            0 => TimesRead { first: 0, bytes: Vec::new(), entries: Vec::new(), sound: true },
            bytes => self.read_times(bytes, tail).await?,
        };
        let index_bytes = files.index_bytes.filter(|bytes| *bytes > 0 && *bytes <= INDEX_BYTES_MAX);
        if let Some(index_bytes) = index_bytes {
            let log_path = segment_path(self.folder, files.id);
            let log = self.io.open(&log_path, OpenHow::Read).await.map_err(at_path(&log_path))?;
            let path = offset_index_path(self.folder, files.id);
            let index = self.io.open(&path, OpenHow::Read).await.map_err(at_path(&path))?;
            let whole_entries = index_bytes / INDEX_ENTRY_BYTES as u64 * INDEX_ENTRY_BYTES as u64;
            // The ends are enough nearly always; else (Kafka leaves zeros there after a crash) all of them.
            for read_bytes in [whole_entries.min(tail), whole_entries] {
                let from = whole_entries - read_bytes;
                let bytes =
                    read(self.io, &index, &path, from, usize::try_from(read_bytes).unwrap_or(usize::MAX)).await?;
                let entries: Vec<IndexEntry> = IndexEntry::decode_all(&bytes).collect();
                let usable = self.usable_entries(&entries, &times, below, window_bytes);
                if let Some(entry) = usable.checked_sub(1).and_then(|last| entries.get(last))
                    && let Some(mut start) = self.start_at(&log, &log_path, *entry, &times).await?
                {
                    start.entries_kept = u32::try_from(from / INDEX_ENTRY_BYTES as u64).unwrap_or(0) + usable as u32;
                    return Ok(start);
                }
                if times.first > 0 {
                    times = self.read_times(times_bytes, times_bytes).await?;
                }
            }
        }
        let times_after = (times.first == 0).then_some(times.bytes);
        Ok(ScanStart { times_after, ..ScanStart::default() })
    }

    /// How many of `entries` can be begun at: they rise, and lie where the caller wants. Where the time index may have
    /// lost its end, none beyond what is left of it: what the largest timestamp was there is not known.
    fn usable_entries(&self, entries: &[IndexEntry], times: &TimesRead, below: Offset, window_bytes: u64) -> usize {
        let rises = |pair: &[IndexEntry]| {
            pair[0].relative_offset < pair[1].relative_offset && pair[0].position_bytes < pair[1].position_bytes
        };
        let rising = entries.windows(2).take_while(|pair| rises(pair)).count() + 1;
        let last_time = times.entries.last().map(|last| last.relative_offset);
        let times_whole = self.clean && times.sound;
        let usable = entries.iter().take(rising).take_while(|entry| {
            u64::from(entry.position_bytes) <= window_bytes
                && u64::from(entry.position_bytes) + (HEADER_BYTES as u64) < self.files.log_bytes
                && self.files.id.0.plus(i64::from(entry.relative_offset)) < below
                && (times_whole || last_time.is_some_and(|last| entry.relative_offset <= last))
        });
        usable.count()
    }

    /// A scan from the batch of `entry`, if the log has it there and the time index agrees with it.
    async fn start_at(
        &self,
        log: &File,
        log_path: &Path,
        entry: IndexEntry,
        times: &TimesRead,
    ) -> Result<Option<ScanStart>, RecoveryError> {
        let head = read(self.io, log, log_path, u64::from(entry.position_bytes), HEADER_BYTES).await?;
        let Ok(header) = parse_header(&head) else { return Ok(None) };
        let base = self.files.id.0;
        if header.last_offset() != base.plus(i64::from(entry.relative_offset)) || header.base_offset < base {
            return Ok(None);
        }
        let kept = times.entries.partition_point(|time| time.relative_offset <= entry.relative_offset);
        let last_time_kept = kept.checked_sub(1).and_then(|last| times.entries.get(last)).copied();
        let max_so_far = last_time_kept.map_or(TimestampMs::NONE, |last| last.timestamp);
        // The entries before those that were read are not known; or the batch's own entry is missing.
        if (kept == 0 && times.first > 0) || header.max_timestamp > max_so_far {
            return Ok(None);
        }
        let first = read(self.io, log, log_path, 0, HEADER_BYTES).await?;
        Ok(Some(ScanStart {
            position_bytes: u64::from(entry.position_bytes),
            first_offset: Some(header.base_offset),
            first_timestamp: parse_header(&first).ok().map(|first| first.max_timestamp),
            entries_kept: 0,
            last_kept: Some(entry),
            times_kept: times.first + u32::try_from(kept).unwrap_or(u32::MAX),
            last_time_kept,
            times_after: times.bytes.get(kept * TIME_INDEX_ENTRY_BYTES..).map(<[u8]>::to_vec),
        }))
    }

    /// Brings the index files to what the scan found, where they differ in length or may differ after a crash. Says how
    /// many it changed.
    pub(in crate::log) async fn write(&self, segment: &mut Segment, start: &ScanStart) -> Result<u32, RecoveryError> {
        segment.complete_time_index();
        let size_bytes = segment.size_bytes();
        let mut changed = 0;
        let writes = segment.index_mut().take_writes(size_bytes, true);
        let right_bytes = u64::from(segment.index().flushed_count()) * INDEX_ENTRY_BYTES as u64;
        if self.files.index_bytes != Some(right_bytes) || (!self.clean && writes.is_some()) {
            let kept_bytes = u64::from(start.entries_kept) * INDEX_ENTRY_BYTES as u64;
            let path = offset_index_path(self.folder, segment.id());
            self.replace(&path, self.files.index_bytes, kept_bytes, writes).await?;
            changed += 1;
        }
        let writes = segment.time_index_mut().take_writes(size_bytes, true);
        let is_there = start.times_after.as_deref() == Some(writes.as_ref().map_or(&[], |(_, bytes)| bytes.as_slice()));
        let right_bytes = u64::from(segment.time_index().flushed_count()) * TIME_INDEX_ENTRY_BYTES as u64;
        let is_wrong = self.files.time_index_bytes != Some(right_bytes) || !is_there;
        // What is there may be in the page cache alone, and no later start looks again.
        if is_wrong || (!self.clean && writes.is_some()) {
            let kept_bytes = u64::from(start.times_kept) * TIME_INDEX_ENTRY_BYTES as u64;
            let path = time_index_path(self.folder, segment.id());
            // What is right is not cut: a full disk has no room for it then.
            let cut_from_bytes = self.files.time_index_bytes.filter(|_| is_wrong);
            self.replace(&path, cut_from_bytes, kept_bytes, writes).await?;
            changed += u32::from(is_wrong);
        }
        Ok(changed)
    }

    async fn replace(
        &self,
        path: &Path,
        file_bytes: Option<u64>,
        kept_bytes: u64,
        writes: Option<(u64, Vec<u8>)>,
    ) -> Result<(), RecoveryError> {
        let replaced = async {
            let index = self.io.open(path, OpenHow::ReadWriteOrCreate).await?;
            // Cut first: a crash in between leaves a short index, not a wrong one.
            if file_bytes.unwrap_or(0) > kept_bytes {
                index.set_len(kept_bytes).await?;
            }
            if let Some((position_bytes, bytes)) = writes {
                index.write_at(Buffer::from_vec(bytes), position_bytes).await.0?;
            }
            // The next start may believe it.
            index.sync_data().await
        };
        match replaced.await.map_err(at_path(path)) {
            // A full disk can be read: a lookup walks the log where its index ends early, and the next start tries again.
            Err(error) if error.is_no_space() => Ok(()),
            other => other,
        }
    }
}

/// Up to `len` bytes; fewer at the end of the file.
pub(in crate::log) async fn read(
    io: &Io,
    file: &File,
    path: &Path,
    position_bytes: u64,
    len: usize,
) -> Result<Buffer, RecoveryError> {
    let (read, mut buffer) = file.read_at(io.buffer(len), position_bytes).await;
    buffer.truncate(read.map_err(at_path(path))?);
    Ok(buffer)
}

/// The end of an index: 8192 entries of offsets, 5461 of times.
const INDEX_TAIL_BYTES: u64 = 64 * 1024;
/// What is looked at of a time index that is believed without a scan.
const CHECKED_TIMES_BYTES: u64 = 4096;
/// No index is larger: `segment.index.bytes` is 10 MiB by default, and 2^31 bytes of log give 4 MiB of entries.
const INDEX_BYTES_MAX: u64 = 64 << 20;
