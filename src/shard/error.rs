//! What can go wrong with a partition on its core, by what the caller does about it.

use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use crate::control::catalog_file::CatalogFileError;
use crate::log::error::{AppendError, ReadError};
use crate::log::plan::SegmentId;
use crate::record::batch_error::BatchError;
use crate::record::offset::Offset;
use crate::shard::message::ProposeError;
use crate::tier::error::{OwnerError, SegmentFileError, StoreError};

/// An append that did not happen, or of which nobody can say whether it did.
#[derive(Debug, thiserror::Error)]
pub enum AppendFailure {
    /// The log refuses the batch (sequence, epoch, size): nothing was written.
    #[error(transparent)]
    Refused(#[from] AppendError),
    /// No space on the disk: nothing was appended, a later try may succeed.
    #[error("the disk of this partition is full; free space, or lower its retention")]
    NoSpace,
    /// The partition is offline: a disk failed, or its log is damaged.
    #[error("the partition is offline; see the server's log for the reason")]
    Offline,
    /// The server stops, and the partition is closed.
    #[error("the server is stopping")]
    Stopping,
}

/// Records that were not deleted: nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeleteFailure {
    /// Below zero, or above the high watermark.
    #[error("the offset is outside the log")]
    OutOfRange,
    /// The topic's `cleanup.policy` is `compact` alone.
    #[error("the topic's cleanup.policy does not allow deleting records")]
    Policy,
    /// The partition is offline.
    #[error("the partition is offline; see the server's log for the reason")]
    Offline,
}

/// A compaction that did not come to its end. What it had done is right as it is.
#[derive(Debug, thiserror::Error)]
pub(in crate::shard) enum CleanFailure {
    /// The server stops, the partition is gone, or its segments were deleted: a later try begins anew.
    #[error("the compaction was cut off")]
    Stopped,
    /// The disk refuses what was to be written.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// The disk refuses what was to be read.
    #[error("segment {segment} cannot be read at {position_bytes}: {source}")]
    Unreadable {
        /// The segment.
        segment: SegmentId,
        /// Where in its log.
        position_bytes: u64,
        /// The disk's answer.
        source: io::Error,
    },
    /// What was read is no log.
    #[error("segment {segment} is damaged at {position_bytes}, about offset {offset}: {what}")]
    Damaged {
        /// The segment.
        segment: SegmentId,
        /// The offset after the last batch that is right.
        offset: Offset,
        /// Where in its log.
        position_bytes: u64,
        /// What is wrong.
        what: BatchError,
    },
}

/// A read that found nothing out.
#[derive(Debug, thiserror::Error)]
pub enum ReadFailure {
    /// The log refuses the offset.
    #[error(transparent)]
    Refused(#[from] ReadError),
    /// The partition is offline.
    #[error("the partition is offline; see the server's log for the reason")]
    Offline,
    /// The disk failed.
    #[error("a segment could not be read: {0}")]
    Disk(#[from] io::Error),
    /// The tier does not answer, or has not what it should have.
    #[error(transparent)]
    Remote(#[from] RemoteReadError),
}

/// A read of the tier that found nothing out.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RemoteReadError {
    /// The server has no tier now: it was started without `--tier`.
    #[error("the records are in a tier, and the server was started without --tier")]
    NoTier,
    /// The store did not do it.
    #[error("the tier could not be read: {0}")]
    Store(Rc<StoreError>),
    /// A segment's file is not what it should be.
    #[error("{path}: {source}; `alluvium tier verify` tells more")]
    Segment {
        /// Within the store.
        path: String,
        /// What is wrong.
        source: SegmentFileError,
    },
}

impl From<StoreError> for RemoteReadError {
    fn from(error: StoreError) -> Self {
        Self::Store(Rc::new(error))
    }
}

/// Why a core does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The catalog's file cannot be used.
    #[error("{}: {source}", path.display())]
    Catalog {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: CatalogFileError,
    },
    /// The disk refused the catalog's file.
    #[error("{}: {source}; check the disk and the permissions", path.display())]
    CatalogDisk {
        /// The file.
        path: PathBuf,
        /// The disk's answer.
        source: io::Error,
    },
    /// The catalog does not take this start in.
    #[error("the catalog refuses this start: {source}")]
    Change {
        /// Why.
        source: ProposeError,
    },
    /// The tier cannot be used.
    #[error("--tier: {0}")]
    Tier(#[from] OwnerError),
    /// The listener cannot be used.
    #[error("core {core} cannot listen: {source}")]
    Listen {
        /// Index of the core.
        core: usize,
        /// What the kernel said.
        source: io::Error,
    },
}
