//! All of a partition's remote segments at once: read out of the metadata's file, or written as a new one.

use std::collections::BTreeMap;
use std::path::Path;

use crate::record::offset::Offset;
use crate::ring::io::{Io, replace_file};
use crate::tier::error::MetadataError;
use crate::tier::metadata::{RemoteSegment, RemoteSegmentId, SegmentEvent};
use crate::tier::metadata_file::{
    MetadataHeader, REMOTE_SEGMENTS, at_path, decode_header, encode_header, frame_of, next_frame, read_whole,
};
use crate::tier::segment_state::SegmentState;

/// The segments that are read, by start offset, with all that the file knows of them. May be called while the file is
/// written: a change on its way is in it or not.
///
/// # Errors
/// The disk refuses, or the file is none that this server reads.
pub async fn read_finished(io: &Io, folder: &Path) -> Result<Vec<RemoteSegment>, MetadataError> {
    let path = folder.join(REMOTE_SEGMENTS);
    let bytes = match read_whole(io, &path).await {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(at_path(&path)(error)),
    };
    let mut rest = &bytes[..];
    decode_header(&mut rest).map_err(|what| MetadataError::Unreadable { path: path.display().to_string(), what })?;
    let mut finished: BTreeMap<RemoteSegmentId, RemoteSegment> = BTreeMap::new();
    let mut seen = 0_usize;
    while let Some(payload) = next_frame(&mut rest) {
        match SegmentEvent::decode(payload) {
            Some(SegmentEvent::Copy(segment) | SegmentEvent::Image(segment)) => {
                if segment.state == SegmentState::CopyFinished {
                    finished.insert(segment.id, segment);
                } else {
                    finished.remove(&segment.id);
                }
            }
            Some(SegmentEvent::Delete { id, .. }) => {
                finished.remove(&id);
            }
            Some(SegmentEvent::LocalStart(_)) | None => {}
        }
        seen += 1;
        if seen.is_multiple_of(FRAMES_A_SLICE) {
            io.yield_now().await;
        }
    }
    let mut segments: Vec<RemoteSegment> = finished.into_values().collect();
    segments.sort_by_key(|segment| (segment.start_offset, segment.id));
    Ok(segments)
}

/// Writes the file of a partition that is put together from the store; durable on return, but for its folder's own entry.
///
/// # Errors
/// The disk refuses.
pub async fn write(
    io: &Io,
    folder: &Path,
    header: &MetadataHeader,
    local_start: Offset,
    segments: &[RemoteSegment],
) -> Result<(), MetadataError> {
    let path = folder.join(REMOTE_SEGMENTS);
    let mut out = encode_header(header);
    out.extend_from_slice(&frame_of(&SegmentEvent::LocalStart(local_start).encode()));
    for segment in segments {
        out.extend_from_slice(&frame_of(&SegmentEvent::Image(segment.clone()).encode()));
    }
    replace_file(io, &path, out).await.map_err(at_path(&path))
}

const FRAMES_A_SLICE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::offset::{PartitionId, TopicId};
    use crate::ring::sim::options::SimOptions;
    use crate::ring::sim::world::Sim;
    use crate::tier::metadata::tests::segment;
    use crate::tier::metadata_file::MetadataFile;

    #[test]
    fn what_is_read_is_what_was_written_and_not_deleted() {
        let sim = Sim::new(SimOptions::default());
        let io = sim.machine().core(0);
        let run = io.clone();
        sim.run(&io, 1 << 40, async move {
            let folder = Path::new("/p");
            run.create_dir(folder).await.expect("new");
            assert_eq!(read_finished(&run, folder).await.expect("nothing is there"), []);
            let id = PartitionId { topic_id: TopicId([3; 16]), partition: 4 };
            let header = MetadataHeader { id, topic: "t".to_owned(), store_url: "file:///tier".to_owned() };
            let segments = [(1, 0), (2, 100), (3, 200)]
                .map(|(at, start)| segment(at, start, start + 99, SegmentState::CopyFinished));
            write(&run, folder, &header, Offset(300), &segments).await.expect("space");
            assert_eq!(read_finished(&run, folder).await.expect("ours"), segments);
            let mut loaded = MetadataFile::load(&run, folder).await.expect("ours").expect("there");
            assert_eq!((loaded.file.header(), loaded.segments.local_start()), (&header, Offset(300)));
            assert_eq!(loaded.segments.finished().len(), 3);
            let gone = SegmentEvent::Delete { id: segments[0].id, state: SegmentState::DeleteStarted };
            loaded.file.append(&run, &gone).await.expect("space");
            let begun = SegmentEvent::Copy(segment(4, 300, 399, SegmentState::CopyStarted));
            loaded.file.append(&run, &begun).await.expect("space");
            assert_eq!(read_finished(&run, folder).await.expect("ours"), segments[1..]);
        })
        .expect("ends");
    }
}
