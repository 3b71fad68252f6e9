//! The segments that one partition has in the tier, as its core holds them.

use std::cell::{Ref, RefCell};
use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;

use tracing::warn;

use crate::log::plan::ReadHint;
use crate::log::recovery::RemoteRange;
use crate::record::offset::Offset;
use crate::ring::io::Io;
use crate::shard::exclusive::{Exclusive, to_its_end};
use crate::tier::error::MetadataError;
use crate::tier::metadata::{RemoteSegmentId, SegmentEvent};
use crate::tier::metadata_file::{MetadataFile, MetadataHeader};
use crate::tier::remote_segments::{InvalidTransition, RemoteSegments};

/// What is known of a partition's remote segments, in memory and beside the partition. Changes go to the disk first.
pub struct RemotePartition {
    header: MetadataHeader,
    segments: RefCell<RemoteSegments>,
    /// Lent to the task that has the turn.
    file: RefCell<Option<MetadataFile>>,
    turn: Exclusive,
    /// Where sequential readers of remote segments go on, newest last.
    hints: RefCell<VecDeque<(RemoteSegmentId, ReadHint)>>,
}

/// A change that did not come about.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// No state allows it.
    #[error(transparent)]
    Invalid(#[from] InvalidTransition),
    /// It could not be made durable.
    #[error(transparent)]
    Disk(#[from] MetadataError),
}

impl RemotePartition {
    /// Of a partition that has nothing in the tier. Its file is made with the first segment.
    pub fn new(folder: &Path, header: MetadataHeader) -> Rc<Self> {
        let file = MetadataFile::new(folder, header.clone());
        Self::of(header, file, RemoteSegments::default())
    }

    fn of(header: MetadataHeader, file: MetadataFile, segments: RemoteSegments) -> Rc<Self> {
        Rc::new(Self {
            header,
            segments: RefCell::new(segments),
            file: RefCell::new(Some(file)),
            turn: Exclusive::default(),
            hints: RefCell::default(),
        })
    }

    /// Reads what there is beside a partition; `None` where there is nothing.
    ///
    /// # Errors
    /// It cannot be read: nothing may be said of the partition then.
    pub async fn load(io: &Io, folder: &Path) -> Result<Option<Rc<Self>>, MetadataError> {
        let Some(loaded) = MetadataFile::load(io, folder).await? else { return Ok(None) };
        if loaded.invalid_count > 0 {
            warn!(folder = %folder.display(), count = loaded.invalid_count, "states of remote segments that may not follow each other were left out");
        }
        if loaded.torn_bytes > 0 {
            warn!(folder = %folder.display(), bytes = loaded.torn_bytes, "the end of the remote segments' metadata was torn by a crash; what it said had not come about");
        }
        Ok(Some(Self::of(loaded.file.header().clone(), loaded.file, loaded.segments)))
    }

    /// Whose segments these are, and where.
    pub fn header(&self) -> &MetadataHeader {
        &self.header
    }

    /// What is known; not to be held across an await.
    pub fn segments(&self) -> Ref<'_, RemoteSegments> {
        self.segments.borrow()
    }

    /// What the tier has.
    pub fn range(&self) -> Option<RemoteRange> {
        let segments = self.segments.borrow();
        let local_start = segments.local_start();
        Some(RemoteRange { start: segments.start()?, end: segments.end()?.plus(1), local_start })
    }

    /// Makes a change durable, then takes it in. Goes on to its end although the caller goes away.
    ///
    /// # Errors
    /// The change has not come about here; a start after a crash may find it all the same.
    pub async fn record(self: &Rc<Self>, io: &Io, event: SegmentEvent) -> Result<(), RecordError> {
        let this = self.clone();
        let io_of_work = io.clone();
        to_its_end(io, async move {
            let io = io_of_work;
            let _turn = this.turn.turn(&io).await;
            this.segments.borrow().check(&event)?;
            let mut file = this.file.take().expect("whoever has the turn gives the file back");
            let appended = file.append(&io, &event).await;
            if appended.is_ok() {
                let applied = this.segments.borrow_mut().apply(&event);
                assert!(applied.is_ok(), "checked in this turn: {applied:?}");
                let is_stale = file.is_stale(&this.segments.borrow());
                if is_stale {
                    let (live, local_start) = {
                        let segments = this.segments.borrow();
                        (segments.live(), segments.local_start())
                    };
                    if let Err(error) = file.compact(&io, live, local_start).await {
                        warn!(%error, "the metadata of remote segments could not be written anew; it grows meanwhile");
                    }
                }
            }
            *this.file.borrow_mut() = Some(file);
            Ok(appended?)
        })
        .await
    }

    /// Where a reader that was here before goes on in this segment.
    pub(in crate::shard) fn hint(&self, segment: RemoteSegmentId, offset: Offset) -> Option<u64> {
        let hints = self.hints.borrow();
        let known = hints.iter().rev().find(|(of, hint)| *of == segment && hint.offset == offset);
        known.map(|(_, hint)| hint.position_bytes)
    }

    /// Remembers where a reader goes on.
    pub(in crate::shard) fn note_hint(&self, segment: RemoteSegmentId, hint: ReadHint) {
        let mut hints = self.hints.borrow_mut();
        hints.retain(|(_, known)| known.offset != hint.offset);
        if hints.len() == HINTS_KEPT {
            hints.pop_front();
        }
        hints.push_back((segment, hint));
    }
}

/// As many sequential readers of one partition go on without a lookup.
const HINTS_KEPT: usize = 8;
