//! What can go wrong with a partition on its core, by what the caller does about it.

use std::io;

use crate::log::error::{AppendError, ReadError};

/// An append that did not happen, or of which nobody can say whether it did.
#[derive(Debug, thiserror::Error)]
pub enum AppendFailure {
    /// The log refuses the batch (sequence, epoch, size): nothing was written.
    #[error(transparent)]
    Refused(#[from] AppendError),
    /// No space on the disk: nothing was appended, a later try may succeed.
    #[error("the disk of this partition is full; free space, or lower its retention")]
    NoSpace,
    /// The next segment could not be opened: nothing was appended, a later try may succeed.
    #[error("the next segment of this partition could not be opened; see the server's log")]
    Segment,
    /// The partition is offline: a disk failed, or its log is damaged.
    #[error("the partition is offline; see the server's log for the reason")]
    Offline,
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
    /// The bytes at the place are not a record batch.
    #[error("the segment is damaged at the place that was looked up; see `alluvium dump`")]
    Damaged,
    /// The disk failed.
    #[error("a segment could not be read: {0}")]
    Disk(#[from] io::Error),
}
