//! The durable metadata of a partition's remote segments: one file beside the partition, appended to.
//!
//! A change counts once its frame is on stable storage. Where most frames say what is no longer so, the file is written
//! anew. It is the authority: what it does not know is not read, and not counted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::record::batch::crc32c;
use crate::record::offset::{Offset, PartitionId, TopicId};
use crate::ring::buffer::Buffer;
use crate::ring::io::{File, Io, OpenHow, replace_file};
use crate::tier::error::MetadataError;
use crate::tier::metadata::{RemoteSegment, RemoteSegmentId, SegmentEvent, take};
use crate::tier::remote_segments::RemoteSegments;
use crate::tier::segment_state::SegmentState;

/// What the file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataHeader {
    /// Whose segments these are.
    pub id: PartitionId,
    /// The topic's name, as in the names of the store.
    pub topic: String,
    /// The store that has them.
    pub store_url: String,
}

/// The file, as this core knows it. One task at a time changes it.
#[derive(Debug)]
pub struct MetadataFile {
    path: PathBuf,
    header: MetadataHeader,
    /// Where the next frame goes.
    end_bytes: u64,
    frames: usize,
    is_made: bool,
}

/// A file that was read.
#[derive(Debug)]
pub struct LoadedMetadata {
    /// To go on with.
    pub file: MetadataFile,
    /// What it says.
    pub segments: RemoteSegments,
    /// Frames that no state allows, left out.
    pub invalid_count: usize,
    /// Bytes behind the last whole frame.
    pub torn_bytes: u64,
}

impl MetadataFile {
    /// A file that is made with its first frame.
    #[must_use]
    pub fn new(folder: &Path, header: MetadataHeader) -> Self {
        Self { path: folder.join(REMOTE_SEGMENTS), header, end_bytes: 0, frames: 0, is_made: false }
    }

    /// Reads the file of a partition's folder; `None` where there is none.
    ///
    /// # Errors
    /// The disk refuses, or the file is none that this server reads: nothing was changed.
    pub async fn load(io: &Io, folder: &Path) -> Result<Option<LoadedMetadata>, MetadataError> {
        let path = folder.join(REMOTE_SEGMENTS);
        let opened = io.open(&path, OpenHow::Read).await;
        let file = match opened {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(at_path(&path))?,
        };
        // In pieces: of a million segments it is 200 MiB, of which 48 bytes a segment stay.
        let mut ahead = ReadAhead { file, position_bytes: 0, held: Vec::new(), is_end: false };
        ahead.read_more(io).await.map_err(at_path(&path))?;
        let unreadable = |what| MetadataError::Unreadable { path: path.display().to_string(), what };
        let mut rest = &ahead.held[..];
        let header = decode_header(&mut rest).map_err(unreadable)?;
        let mut end_bytes = ahead.keep(rest.len());
        let mut loaded = LoadedMetadata {
            file: Self { path: path.clone(), header, end_bytes: 0, frames: 0, is_made: true },
            segments: RemoteSegments::default(),
            invalid_count: 0,
            torn_bytes: 0,
        };
        loop {
            let mut rest = &ahead.held[..];
            while let Some(payload) = next_frame(&mut rest) {
                let event = SegmentEvent::decode(payload).ok_or_else(|| unreadable("a later version wrote it"))?;
                loaded.file.frames += 1;
                loaded.invalid_count += usize::from(loaded.segments.apply(&event).is_err());
            }
            end_bytes += ahead.keep(rest.len());
            if ahead.is_end || ahead.held.len() >= FRAME_BYTES_MAX {
                break;
            }
            ahead.read_more(io).await.map_err(at_path(&path))?;
            io.yield_now().await;
        }
        let len_bytes = ahead.file.len().await.map_err(at_path(&path))?;
        loaded.torn_bytes = len_bytes.saturating_sub(end_bytes);
        loaded.file.end_bytes = end_bytes;
        Ok(Some(loaded))
    }

    /// What it says of itself.
    #[must_use]
    pub fn header(&self) -> &MetadataHeader {
        &self.header
    }

    /// The partition's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Adds a change; durable on return.
    ///
    /// # Errors
    /// The disk refuses: the change does not count. Where it was the sync that failed, nobody knows whether the next start
    /// finds it.
    pub async fn append(&mut self, io: &Io, event: &SegmentEvent) -> Result<(), MetadataError> {
        if !self.is_made {
            let bytes = encode_header(&self.header);
            self.end_bytes = bytes.len() as u64;
            replace_file(io, &self.path, bytes).await.map_err(at_path(&self.path))?;
            self.is_made = true;
        }
        let frame = frame_of(&event.encode());
        let len_bytes = frame.len() as u64;
        let file = io.open(&self.path, OpenHow::ReadWrite).await.map_err(at_path(&self.path))?;
        // A frame that did not get there whole is written over by the next one.
        file.write_at(Buffer::from_vec(frame), self.end_bytes).await.0.map_err(at_path(&self.path))?;
        file.sync_data().await.map_err(at_path(&self.path))?;
        self.end_bytes += len_bytes;
        self.frames += 1;
        Ok(())
    }

    /// True where most of the file says what is no longer so.
    #[must_use]
    pub fn is_stale(&self, segments: &RemoteSegments) -> bool {
        // A copy takes two frames, and one is what a compacted file has of it.
        self.frames > segments.finished().len() * 2 + segments.unfinished().len() + STALE_FRAMES_MIN
    }

    /// Writes the file anew with `live` alone, which is all that counts. A crash leaves the old or the new one.
    ///
    /// # Errors
    /// The disk refuses: the old one is still there.
    pub async fn compact(
        &mut self,
        io: &Io,
        live: Vec<RemoteSegmentId>,
        local_start: Offset,
    ) -> Result<(), MetadataError> {
        let bytes = read_whole(io, &self.path).await.map_err(at_path(&self.path))?;
        let mut live: BTreeMap<RemoteSegmentId, Option<RemoteSegment>> =
            live.into_iter().map(|id| (id, None)).collect();
        let mut rest = bytes.get(..usize::try_from(self.end_bytes).unwrap_or(usize::MAX)).unwrap_or(&bytes);
        let _ = decode_header(&mut rest);
        let mut seen = 0_usize;
        while let Some(payload) = next_frame(&mut rest) {
            match SegmentEvent::decode(payload) {
                Some(SegmentEvent::Copy(segment) | SegmentEvent::Image(segment)) => {
                    if let Some(place) = live.get_mut(&segment.id) {
                        *place = Some(segment);
                    }
                }
                Some(SegmentEvent::Delete { id, state: SegmentState::DeleteStarted }) => {
                    if let Some(Some(segment)) = live.get_mut(&id) {
                        segment.state = SegmentState::DeleteStarted;
                    }
                }
                _ => {}
            }
            seen += 1;
            if seen.is_multiple_of(FRAMES_A_SLICE) {
                io.yield_now().await;
            }
        }
        let mut kept: Vec<RemoteSegment> = live.into_values().flatten().collect();
        kept.sort_by_key(|segment| (segment.start_offset, segment.id));
        let mut out = encode_header(&self.header);
        out.extend_from_slice(&frame_of(&SegmentEvent::LocalStart(local_start).encode()));
        for segment in &kept {
            out.extend_from_slice(&frame_of(&SegmentEvent::Image(segment.clone()).encode()));
        }
        let end_bytes = out.len() as u64;
        replace_file(io, &self.path, out).await.map_err(at_path(&self.path))?;
        self.end_bytes = end_bytes;
        self.frames = kept.len() + 1;
        Ok(())
    }
}

/// Gives the file of another partition a name that says whose it is, in the same folder; lasting on return.
///
/// # Errors
/// The disk refuses.
pub async fn set_aside(io: &Io, folder: &Path, header: &MetadataHeader) -> Result<PathBuf, MetadataError> {
    let path = folder.join(REMOTE_SEGMENTS);
    let aside = folder.join(format!("{REMOTE_SEGMENTS}.{}-{}", header.id.topic_id, header.id.partition));
    io.rename(&path, &aside).await.map_err(at_path(&path))?;
    io.sync_dir(folder).await.map_err(at_path(folder))?;
    Ok(aside)
}

/// A file that is read once, from its beginning.
struct ReadAhead {
    file: File,
    position_bytes: u64,
    /// What was read and not taken yet.
    held: Vec<u8>,
    is_end: bool,
}

impl ReadAhead {
    async fn read_more(&mut self, io: &Io) -> std::io::Result<()> {
        let (read, piece) = self.file.read_at(io.buffer(READ_BYTES), self.position_bytes).await;
        let count = read?;
        self.held.extend_from_slice(piece.get(..count).unwrap_or_default());
        self.position_bytes += count as u64;
        self.is_end = count < READ_BYTES;
        Ok(())
    }

    /// Lets go of all but the last `len` bytes; says how many that were.
    fn keep(&mut self, len: usize) -> u64 {
        let taken = self.held.len().saturating_sub(len);
        self.held.drain(..taken);
        taken as u64
    }
}

/// Reads all of a file, whatever its length, and leaves the core to others in between.
pub(in crate::tier) async fn read_whole(io: &Io, path: &Path) -> std::io::Result<Vec<u8>> {
    let file = io.open(path, OpenHow::Read).await?;
    let mut bytes = Vec::new();
    loop {
        let (read, piece) = file.read_at(io.buffer(READ_BYTES), bytes.len() as u64).await;
        let count = read?;
        bytes.extend_from_slice(piece.get(..count).unwrap_or_default());
        if count < READ_BYTES {
            return Ok(bytes);
        }
        io.yield_now().await;
    }
}

pub(in crate::tier) fn at_path(path: &Path) -> impl FnOnce(std::io::Error) -> MetadataError + '_ {
    move |source| MetadataError::Io { path: path.display().to_string(), source }
}

pub(in crate::tier) fn encode_header(header: &MetadataHeader) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + header.topic.len() + header.store_url.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&header.id.topic_id.0);
    out.extend_from_slice(&header.id.partition.to_be_bytes());
    for text in [&header.topic, &header.store_url] {
        let text = &text.as_bytes()[..text.len().min(usize::from(u16::MAX))];
        out.extend_from_slice(&(text.len() as u16).to_be_bytes());
        out.extend_from_slice(text);
    }
    let crc = crc32c(&out);
    out.extend_from_slice(&crc.to_be_bytes());
    out
}

pub(in crate::tier) fn decode_header(rest: &mut &[u8]) -> Result<MetadataHeader, &'static str> {
    const NONE: &str = "it is no file of remote segments";
    let whole = *rest;
    let magic: [u8; 8] = take(rest).ok_or(NONE)?;
    if magic != *MAGIC {
        return Err(NONE);
    }
    if u16::from_be_bytes(take(rest).ok_or(NONE)?) != VERSION {
        return Err("a later version wrote it");
    }
    let topic_id = TopicId(take(rest).ok_or(NONE)?);
    let partition = i32::from_be_bytes(take(rest).ok_or(NONE)?);
    let mut texts = [String::new(), String::new()];
    for text in &mut texts {
        let len = usize::from(u16::from_be_bytes(take(rest).ok_or(NONE)?));
        let (bytes, later) = rest.split_at_checked(len).ok_or(NONE)?;
        *text = std::str::from_utf8(bytes).map_err(|_| NONE)?.to_owned();
        *rest = later;
    }
    let covered = whole.len() - rest.len();
    let crc = u32::from_be_bytes(take(rest).ok_or(NONE)?);
    if crc32c(&whole[..covered]) != crc {
        return Err("its header is damaged");
    }
    let [topic, store_url] = texts;
    Ok(MetadataHeader { id: PartitionId { topic_id, partition }, topic, store_url })
}

/// Length, CRC-32C of the payload, payload.
pub(in crate::tier) fn frame_of(payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(FRAME_HEAD_BYTES + payload.len());
    frame.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend_from_slice(&crc32c(payload).to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// The payload of the next whole frame; else what is left is torn.
pub(in crate::tier) fn next_frame<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut at = *rest;
    let len = usize::try_from(u32::from_be_bytes(take(&mut at)?)).ok()?;
    let crc = u32::from_be_bytes(take(&mut at)?);
    let (payload, later) = at.split_at_checked(len)?;
    if len == 0 || crc32c(payload) != crc {
        return None;
    }
    *rest = later;
    Some(payload)
}

/// Its name in the partition's folder.
pub const REMOTE_SEGMENTS: &str = crate::log::layout::REMOTE_SEGMENTS;
const MAGIC: &[u8; 8] = b"alv-tier";
const VERSION: u16 = 1;
const FRAME_HEAD_BYTES: usize = 8;
const READ_BYTES: usize = 256 * 1024;
/// No frame is longer: a segment of 65,535 epochs. What says so is torn.
const FRAME_BYTES_MAX: usize = 1024 * 1024;
const FRAMES_A_SLICE: usize = 1024;
const STALE_FRAMES_MIN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::sim::options::{Crash, SimOptions};
    use crate::ring::sim::world::Sim;
    use crate::tier::metadata::tests::segment;
    use SegmentState::{CopyFinished, CopyStarted, DeleteFinished, DeleteStarted};

    fn header() -> MetadataHeader {
        MetadataHeader {
            id: PartitionId { topic_id: TopicId([3; 16]), partition: 4 },
            topic: "t".to_owned(),
            store_url: "file:///tier".to_owned(),
        }
    }

    fn starts(loaded: &LoadedMetadata) -> Vec<i64> {
        loaded.segments.finished().iter().map(|span| span.start_offset().0).collect()
    }

    async fn load(io: &Io) -> LoadedMetadata {
        MetadataFile::load(io, Path::new("/p")).await.expect("readable").expect("there")
    }

    #[test]
    fn what_was_appended_is_there_after_a_power_cut() {
        for seed in 0..20 {
            let sim = Sim::new(SimOptions { seed, ..SimOptions::default() });
            let machine = sim.machine();
            let io = machine.core(0);
            let run = io.clone();
            sim.run(&io, 1 << 40, async move {
                run.create_dir(Path::new("/p")).await.expect("new");
                run.sync_dir(Path::new("/")).await.expect("sync");
                assert!(MetadataFile::load(&run, Path::new("/p")).await.expect("readable").is_none());
                let mut file = MetadataFile::new(Path::new("/p"), header());
                for number in 0..5_u8 {
                    let start = i64::from(number) * 100;
                    for state in [CopyStarted, CopyFinished] {
                        let event = SegmentEvent::Copy(segment(number, start, start + 99, state));
                        file.append(&run, &event).await.expect("space");
                    }
                }
                let id = segment(0, 0, 0, CopyStarted).id;
                file.append(&run, &SegmentEvent::Delete { id, state: DeleteStarted }).await.expect("space");
                file.append(&run, &SegmentEvent::LocalStart(Offset(100))).await.expect("space");
            })
            .expect("ends");
            machine.crash(Crash::PowerCut);
            let io = machine.core(0);
            let run = io.clone();
            sim.run(&io, 1 << 40, async move {
                let mut loaded = load(&run).await;
                assert_eq!(loaded.file.header(), &header(), "seed {seed}");
                assert_eq!(starts(&loaded), [100, 200, 300, 400], "seed {seed}");
                assert_eq!((loaded.invalid_count, loaded.torn_bytes), (0, 0), "seed {seed}");
                loaded.file.compact(&run, loaded.segments.live(), loaded.segments.local_start()).await.expect("space");
                let id = segment(0, 0, 0, CopyStarted).id;
                let event = SegmentEvent::Delete { id, state: DeleteFinished };
                loaded.file.append(&run, &event).await.expect("space");
                loaded.segments.apply(&event).expect("it was begun");
                let again = load(&run).await;
                assert_eq!(starts(&again), [100, 200, 300, 400], "seed {seed}");
                assert!(again.segments.unfinished().is_empty());
                assert_eq!(again.segments.local_start(), Offset(100), "seed {seed}");
                assert_eq!(again.file.frames, 7, "four, the local start, and the deletion in two");
            })
            .expect("ends");
        }
    }

    #[test]
    fn a_torn_tail_goes_and_another_version_is_refused() {
        let sim = Sim::new(SimOptions::default());
        let io = sim.machine().core(0);
        let run = io.clone();
        sim.run(&io, 1 << 40, async move {
            run.create_dir(Path::new("/p")).await.expect("new");
            let mut file = MetadataFile::new(Path::new("/p"), header());
            let begun = SegmentEvent::Copy(segment(1, 0, 99, CopyStarted));
            let finished = SegmentEvent::Copy(segment(1, 0, 99, CopyFinished));
            file.append(&run, &begun).await.expect("space");
            let whole_bytes = file.end_bytes;
            file.append(&run, &finished).await.expect("space");
            let path = Path::new("/p").join(REMOTE_SEGMENTS);
            let raw = run.open(&path, OpenHow::ReadWrite).await.expect("there");
            raw.set_len(file.end_bytes - 1).await.expect("cut");
            let loaded = load(&run).await;
            assert_eq!(loaded.segments.unfinished().len(), 1, "the copy was not finished");
            assert_eq!(loaded.file.end_bytes, whole_bytes);
            raw.write_at(Buffer::from_vec(vec![0, 2]), 8).await.0.expect("write");
            let refused = MetadataFile::load(&run, Path::new("/p")).await.expect_err("another version");
            assert!(refused.to_string().contains("later version"), "{refused}");
        })
        .expect("ends");
    }
}
