//! Places for lookups by time, from one run to the next, however the first one ended.
//!
//! Each core has a journal in each data directory (its form: `log/core_places.rs`), to which it appends by the minute what has
//! come to be below the recovery points that were written just before: one write and one sync for all. What lies behind
//! those a start after a crash scans, and so notes itself. Derived: where a frame is missing, a lookup asks the indexes.
//!
//! A frame that is out of date makes no lookup wrong:
//!
//! - Below a recovery point on stable storage nothing is cut off. So places there hold for as long as the segment does,
//!   whatever is appended, and whether the process is killed or the power fails; those of what was scanned are not taken.
//! - A base offset below it is given once: offsets that were durable do not come again, and a topic that is made anew has
//!   another id.
//! - Compaction alone puts another segment of the same base offset there. Before its swap begins, a frame on stable storage
//!   says that no earlier one counts (`void`); where that cannot be written, nothing is swapped.
//! - After a clean stop another server (Kafka) may have written to the directory: then a segment is to be as long as it was,
//!   with the same largest time and as many index entries; and a place counts for a lookup only where a batch with its
//!   offset begins there.
//!
//! The journal is made anew, as a whole and without what is out of date, by the first write of each run, where it has
//! doubled, after a write that failed, and at a clean stop.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tracing::warn;

use crate::log::core_places::{CorePlaces, FIRST_BYTES, SegmentPlaces};
use crate::log::partition_places::PlacesKept;
use crate::log::plan::SegmentId;
use crate::record::offset::{Offset, PartitionId};
use crate::ring::buffer::Buffer;
use crate::ring::io::{Io, OpenHow, read_file, replace_file};
use crate::shard::core::Shard;
use crate::shard::directories::blames_directory;
use crate::shard::exclusive::Exclusive;
use crate::shard::options::DataDir;
use crate::shard::partition::Partition;

/// A core's journals, by data directory.
#[derive(Default)]
pub(in crate::shard) struct PlacesJournals {
    /// Who writes them.
    turn: Exclusive,
    states: RefCell<BTreeMap<PathBuf, JournalState>>,
    /// Segments whose frames count no more, for as long as they are there: another core's journal may have some of the run
    /// before.
    voided: RefCell<BTreeSet<(PartitionId, Offset)>>,
}

/// A journal as this run has it.
#[derive(Clone, Copy, Debug, Default)]
enum JournalState {
    /// What is there is of a run before, or its end is not known: it is made anew.
    #[default]
    Unknown,
    /// Written and synced; zero bytes: there is none, for want of places.
    Written {
        bytes: u64,
        /// When it was made anew.
        whole_bytes: u64,
    },
    /// It would be too long: it has no places.
    TooLong,
}

/// What is to be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    /// What is new.
    New,
    /// All, for a clean stop.
    All,
}

impl PlacesJournals {
    fn state(&self, dir: &Path) -> JournalState {
        self.states.borrow().get(dir).copied().unwrap_or_default()
    }

    fn set_state(&self, dir: &Path, state: JournalState) {
        self.states.borrow_mut().insert(dir.to_owned(), state);
    }
}

/// What the last run left in a directory, of all cores.
pub async fn load(io: &Io, dir: &DataDir) -> CorePlaces {
    let mut places = CorePlaces::default();
    for name in names(io, &dir.path).await {
        let path = dir.path.join(name);
        match read_file(io, &path, FILE_BYTES_MAX).await {
            Ok(bytes) => {
                // After a crash the last frame may be cut.
                if !places.add_file(bytes) && dir.clean {
                    warn!(path = %path.display(), "kept places make no sense, or are of an earlier version; some lookups by time will ask the indexes");
                }
            }
            Err(error) => {
                places.note_unread();
                warn!(path = %path.display(), %error, "the kept places could not be read; lookups by time will ask the indexes");
            }
        }
    }
    places
}

/// Keeps what has come to be below the recovery points that are on stable storage.
pub(in crate::shard) async fn keep(shard: &Rc<Shard>) {
    write_all_directories(shard, Share::New).await;
}

/// Keeps the places of all partitions, for a clean stop.
pub(in crate::shard) async fn write(shard: &Rc<Shard>) {
    write_all_directories(shard, Share::All).await;
}

/// Keeps the places of segments that compaction has put there.
pub(in crate::shard) async fn keep_of(shard: &Rc<Shard>, partition: &Rc<Partition>) {
    let Some(dir) = partition.folder().parent() else { return };
    let _turn = shard.places().turn.turn(shard.io()).await;
    if let JournalState::Written { bytes: 1.., .. } = shard.places().state(dir) {
        let written = append(shard, dir, std::slice::from_ref(partition)).await;
        note_failure(shard, dir, &written);
    }
}

/// Sees to it that no frame of these segments counts at a start from now on, and that their places count no more in this
/// run: on return others may take their place.
///
/// # Errors
/// The disk refuses: then they may not.
pub(in crate::shard) async fn void(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    segments: &[SegmentId],
) -> io::Result<()> {
    let Some(dir) = partition.folder().parent() else { return Ok(()) };
    let _turn = shard.places().turn.turn(shard.io()).await;
    if !partition.log().borrow_mut().forget_places(segments) {
        return Ok(());
    }
    let voided = segments.iter().map(|segment| (partition.id(), segment.base_offset()));
    shard.places().voided.borrow_mut().extend(voided.clone());
    let written = match shard.places().state(dir) {
        JournalState::Written { bytes: 1.., .. } => {
            let mut frames = Vec::new();
            voided.for_each(|(_, base_offset)| void_frame(partition, base_offset, &mut frames));
            append_bytes(shard, dir, frames).await
        }
        _ => make_anew(shard, dir).await,
    };
    note_failure(shard, dir, &written);
    if written.is_err() {
        // The next try has to do it.
        partition.log().borrow_mut().note_in_journal();
    }
    written
}

fn void_frame(partition: &Partition, base_offset: Offset, frames: &mut Vec<u8>) {
    let leader_epoch = partition.log().borrow().leader_epoch();
    SegmentPlaces::none_of(base_offset).encode(partition.id(), leader_epoch, frames);
}

/// Removes the files of cores that are no more, when no core writes any.
pub(in crate::shard) async fn remove_others(io: &Io, dir: &DataDir, core_count: u32) {
    for name in names(io, &dir.path).await {
        let core = name.strip_prefix(PREFIX).and_then(|core| core.parse::<u32>().ok());
        if core.is_some_and(|core| core >= core_count) {
            // One that stays says nothing that is wrong.
            let _ = io.remove_file(&dir.path.join(name)).await;
        }
    }
}

async fn write_all_directories(shard: &Rc<Shard>, share: Share) {
    for dir in shard.options().data_dirs.iter().filter(|dir| !shard.directory_has_failed(&dir.path)) {
        let _turn = shard.places().turn.turn(shard.io()).await;
        let written = match shard.places().state(&dir.path) {
            JournalState::TooLong if share == Share::New => Ok(()),
            JournalState::Written { bytes: 1.., .. } if share == Share::New => {
                append(shard, &dir.path, &shard.partitions()).await
            }
            _ => make_anew(shard, &dir.path).await,
        };
        note_failure(shard, &dir.path, &written);
    }
}

fn note_failure(shard: &Rc<Shard>, dir: &Path, written: &io::Result<()>) {
    let Err(error) = written else { return };
    shard.places().set_state(dir, JournalState::Unknown);
    warn!(dir = %dir.display(), %error, "the places for lookups by time could not be kept; after the next start some will ask the indexes");
    if blames_directory(error) {
        shard.fail_directory(dir, "the places for lookups by time could not be kept", error);
    }
}

/// The frames of partitions, and what is to be noted when they are on stable storage.
async fn frames_of(
    shard: &Rc<Shard>,
    dir: &Path,
    partitions: &[Rc<Partition>],
    all: bool,
) -> (Vec<u8>, Vec<(Rc<Partition>, PlacesKept)>) {
    let (mut frames, mut kept) = (Vec::new(), Vec::new());
    for partition in partitions.iter().filter(|partition| partition.folder().parent() == Some(dir)) {
        let mut has = if all { PlacesKept::default() } else { partition.log().borrow().places_kept() };
        loop {
            let (due, now_has) = partition.log().borrow().places_to_keep(partition.recorded_point(), has);
            if due.is_empty() && now_has == has {
                break;
            }
            let leader_epoch = partition.log().borrow().leader_epoch();
            due.iter().for_each(|segment| segment.encode(partition.id(), leader_epoch, &mut frames));
            has = now_has;
            shard.io().yield_now().await;
        }
        kept.push((partition.clone(), has));
    }
    (frames, kept)
}

/// Appends what is new of `partitions`; all is made anew where that is time.
async fn append(shard: &Rc<Shard>, dir: &Path, partitions: &[Rc<Partition>]) -> io::Result<()> {
    let (frames, kept) = frames_of(shard, dir, partitions, false).await;
    let JournalState::Written { bytes, whole_bytes } = shard.places().state(dir) else { return Ok(()) };
    let end_bytes = bytes + frames.len() as u64;
    if end_bytes > 2 * whole_bytes.max(WHOLE_BYTES_MIN) || end_bytes > FILE_BYTES_MAX {
        return make_anew(shard, dir).await;
    }
    append_bytes(shard, dir, frames).await?;
    set_kept(kept);
    Ok(())
}

async fn append_bytes(shard: &Rc<Shard>, dir: &Path, frames: Vec<u8>) -> io::Result<()> {
    let JournalState::Written { bytes, whole_bytes } = shard.places().state(dir) else { return Ok(()) };
    if frames.is_empty() {
        return Ok(());
    }
    let end_bytes = bytes + frames.len() as u64;
    let file = shard.io().open(&path(shard, dir), OpenHow::ReadWrite).await?;
    file.write_at(Buffer::from_vec(frames), bytes).await.0?;
    file.sync_data().await?;
    shard.places().set_state(dir, JournalState::Written { bytes: end_bytes, whole_bytes });
    Ok(())
}

/// Replaces the file by one that has what counts.
async fn make_anew(shard: &Rc<Shard>, dir: &Path) -> io::Result<()> {
    let (frames, kept) = frames_of(shard, dir, &shard.partitions(), true).await;
    let mut file = FIRST_BYTES.to_vec();
    // A segment that is gone comes not back, and nobody asks what a frame says of it.
    shard.places().voided.borrow_mut().retain(|(id, base_offset)| {
        shard.hosted(*id).is_some_and(|partition| partition.has_segment(SegmentId(*base_offset)))
    });
    for (id, base_offset) in shard.places().voided.borrow().iter() {
        if let Some(partition) = shard.hosted(*id).filter(|partition| partition.folder().parent() == Some(dir)) {
            void_frame(&partition, *base_offset, &mut file);
        }
    }
    let is_too_long = (file.len() + frames.len()) as u64 > FILE_BYTES_MAX;
    if !is_too_long {
        file.extend_from_slice(&frames);
    }
    let whole_bytes = if file.len() > FIRST_BYTES.len() { file.len() as u64 } else { 0 };
    match whole_bytes {
        0 => remove(shard, dir).await?,
        _ => replace_file(shard.io(), &path(shard, dir), file).await?,
    }
    if is_too_long {
        shard.places().set_state(dir, JournalState::TooLong);
    } else {
        shard.places().set_state(dir, JournalState::Written { bytes: whole_bytes, whole_bytes });
        set_kept(kept);
    }
    Ok(())
}

fn set_kept(kept: Vec<(Rc<Partition>, PlacesKept)>) {
    for (partition, kept) in kept {
        partition.log().borrow_mut().set_places_kept(kept);
    }
}

/// Durable on return.
async fn remove(shard: &Rc<Shard>, dir: &Path) -> io::Result<()> {
    match shard.io().remove_file(&path(shard, dir)).await {
        Ok(()) => shard.io().sync_dir(dir).await,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn path(shard: &Shard, dir: &Path) -> PathBuf {
    dir.join(format!("{PREFIX}{}", shard.core_index()))
}

async fn names(io: &Io, dir: &Path) -> Vec<String> {
    let entries = io.read_dir(dir).await.unwrap_or_default();
    let names = entries.into_iter().map(|entry| entry.name);
    names.filter(|name| name.starts_with(PREFIX) && !name.ends_with(".tmp")).collect()
}

/// Each core's file: this and its index.
const PREFIX: &str = "time-places.core-";
/// The places of 8 TiB.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// A shorter one may double without being made anew: the frames of 1,000 active segments.
const WHOLE_BYTES_MIN: u64 = 1 << 20;
