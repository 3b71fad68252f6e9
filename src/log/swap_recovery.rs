//! Compactions that a crash has cut off between their writing and their end.
//!
//! A compaction writes `.cleaned` files, renames them to `.swap` (the lowest log last), sets the replaced segments aside,
//! and gives the `.swap` files their names; each step is durable before the next begins. So, as Kafka's loader has it:
//! `.swap` files at or above the lowest `.cleaned` one are of a compaction that was not complete, and go; all others are,
//! and take the place of the segments whose offsets they cover.

use std::path::Path;

use crate::log::error::RecoveryError;
use crate::log::layout::{CLEANED_SUFFIX, PartitionFile, SWAP_SUFFIX};
use crate::log::plan::SegmentId;
use crate::log::scan::SegmentScan;
use crate::log::segment_files::at_path;
use crate::record::offset::Offset;
use crate::ring::io::{DirEntry, Io, OpenHow};

/// Ends what was cut off; true where names have changed. Durable on return. `.cleaned` files are left to the caller.
///
/// # Errors
/// The disk refuses, or a segment that is to be swapped in is damaged: it was durable, so nothing is removed for it.
pub(in crate::log) async fn complete_swaps(
    io: &Io,
    folder: &Path,
    entries: &[DirEntry],
) -> Result<bool, RecoveryError> {
    let swaps: Vec<(&DirEntry, SegmentId)> =
        entries.iter().filter_map(|entry| Some((entry, swap_base(entry)?))).collect();
    if swaps.is_empty() {
        return Ok(false);
    }
    let cleaned = entries.iter().filter(|entry| entry.name.ends_with(CLEANED_SUFFIX));
    let lowest_cleaned = cleaned.filter_map(|entry| base_before(&entry.name, CLEANED_SUFFIX)).min();
    let (incomplete, complete): (Vec<_>, Vec<_>) =
        swaps.into_iter().partition(|(_, base)| lowest_cleaned.is_some_and(|lowest| *base >= lowest));
    if !incomplete.is_empty() {
        for (entry, _) in &incomplete {
            remove(io, folder, &entry.name).await?;
        }
        // Before the `.cleaned` files go: without them these would count as complete.
        io.sync_dir(folder).await.map_err(at_path(folder))?;
    }
    let is_log = |entry: &DirEntry| entry.name.ends_with(".log.swap");
    let mut covered: Option<(Offset, Offset)> = None;
    for (entry, base) in complete.iter().filter(|(entry, _)| is_log(entry)) {
        let end = end_of(io, folder, entry, *base).await?;
        let (low, high) = covered.unwrap_or((base.0, end));
        covered = Some((low.min(base.0), high.max(end)));
    }
    if let Some((low, high)) = covered {
        for entry in entries {
            if replaced_base(entry).is_some_and(|base| (low..high).contains(&base.0)) {
                remove(io, folder, &entry.name).await?;
            }
        }
        // Before the new names: what is covered may not be there twice.
        io.sync_dir(folder).await.map_err(at_path(folder))?;
    }
    for last in [false, true] {
        for (entry, _) in complete.iter().filter(|(entry, _)| is_log(entry) == last) {
            let from = folder.join(&entry.name);
            let to = folder.join(entry.name.trim_end_matches(SWAP_SUFFIX));
            io.rename(&from, &to).await.map_err(at_path(&from))?;
        }
    }
    io.sync_dir(folder).await.map_err(at_path(folder))?;
    Ok(true)
}

fn swap_base(entry: &DirEntry) -> Option<SegmentId> {
    match PartitionFile::parse(&entry.name) {
        PartitionFile::Swap(base) => Some(base),
        _ => None,
    }
}

/// The base offset of a segment's file, where it is one that a compaction may replace.
fn replaced_base(entry: &DirEntry) -> Option<SegmentId> {
    match PartitionFile::parse(&entry.name) {
        PartitionFile::Log(base)
        | PartitionFile::OffsetIndex(base)
        | PartitionFile::TimeIndex(base)
        | PartitionFile::TransactionIndex(base) => Some(base),
        _ => None,
    }
}

fn base_before(name: &str, suffix: &str) -> Option<SegmentId> {
    match PartitionFile::parse(name.strip_suffix(suffix)?) {
        PartitionFile::Log(base)
        | PartitionFile::OffsetIndex(base)
        | PartitionFile::TimeIndex(base)
        | PartitionFile::TransactionIndex(base) => Some(base),
        _ => None,
    }
}

/// The offset after the last batch of a segment that is to be swapped in.
async fn end_of(io: &Io, folder: &Path, entry: &DirEntry, base: SegmentId) -> Result<Offset, RecoveryError> {
    let path = folder.join(&entry.name);
    let log = io.open(&path, OpenHow::Read).await.map_err(at_path(&path))?;
    let mut scan = SegmentScan::new(base.0, 0, base.0, entry.len_bytes, false);
    let mut position_bytes = 0;
    while position_bytes < entry.len_bytes {
        let piece_bytes = PIECE_BYTES.min(entry.len_bytes - position_bytes);
        let buffer = io.buffer(usize::try_from(piece_bytes).unwrap_or(0));
        let (read, buffer) = log.read_at(buffer, position_bytes).await;
        let read = read.map_err(at_path(&path))?;
        if read == 0 || !scan.feed(&buffer[..read], |_, _| {}) {
            break;
        }
        position_bytes += read as u64;
        io.yield_now().await;
    }
    let end = scan.finish();
    match end.damage {
        Some(_) => {
            Err(RecoveryError::Damaged { path, position_bytes: end.valid_bytes, recovery_point: end.next_offset })
        }
        None => Ok(end.next_offset),
    }
}

async fn remove(io: &Io, folder: &Path, name: &str) -> Result<(), RecoveryError> {
    let path = folder.join(name);
    match io.remove_file(&path).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(at_path(&path)(error)),
        _ => Ok(()),
    }
}

const PIECE_BYTES: u64 = 256 * 1024;
