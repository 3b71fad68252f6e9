//! Open a partition: scan the tail, cut what is torn, make indexes anew.

use std::path::Path;

use crate::log::error::RecoveryError;
use crate::log::leader_epochs::LeaderEpochs;
use crate::log::plan::RollPlan;
use crate::log::producer_state::ProducerStates;
use crate::log::segment::Segment;
use crate::record::offset::{Offset, TopicId};
use crate::ring::io::Io;

/// What is known of a partition before its folder is read.
#[derive(Clone, Debug)]
pub struct RecoveryOptions {
    /// All below was on stable storage once: it is not scanned, and damage there is no torn tail.
    pub recovery_point: Offset,
    /// The last stop was a clean one.
    pub clean: bool,
    /// First offset of the log, from its checkpoint.
    pub log_start: Offset,
    /// The id that the catalog has; `None` takes what the folder says.
    pub topic_id: Option<TopicId>,
    /// `index.interval.bytes`, for indexes that are made anew.
    pub index_interval_bytes: u32,
}

/// A partition's log as it was found, ready for [`PartitionLog::new`](crate::log::partition_log::PartitionLog::new).
#[derive(Debug, Default)]
pub struct RecoveredLog {
    /// First offset.
    pub log_start: Offset,
    /// The next offset; all below is on stable storage.
    pub log_end: Offset,
    /// By base offset, the active one last.
    pub segments: Vec<Segment>,
    /// Epochs with records.
    pub epochs: LeaderEpochs,
    /// Producers of the scanned tail.
    pub producers: ProducerStates,
    /// The topic id that the folder has.
    pub topic_id: TopicId,
}

/// Opens a partition.
///
/// # Errors
/// Where the partition must go offline.
pub async fn open_partition(
    _io: &Io,
    _folder: &Path,
    _options: &RecoveryOptions,
) -> Result<RecoveredLog, RecoveryError> {
    Ok(RecoveredLog::default())
}

/// Makes the folder of a new partition.
///
/// # Errors
/// Where the disk refuses.
pub async fn create_partition(_io: &Io, _folder: &Path, _topic_id: TopicId) -> Result<RecoveredLog, RecoveryError> {
    Ok(RecoveredLog::default())
}

/// Makes the files of the next segment.
///
/// # Errors
/// Where the disk refuses.
pub async fn roll_files(_io: &Io, _folder: &Path, _plan: &RollPlan) -> Result<(), RecoveryError> {
    Ok(())
}
