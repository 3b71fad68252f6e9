//! What a partition log hands out for the ring to carry out.

use std::fmt;

use crate::record::offset::{LeaderEpoch, Offset, TimestampMs};

/// Names a segment of a partition: its base offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub Offset);

impl SegmentId {
    /// Offset of the first record that it can hold.
    pub fn base_offset(self) -> Offset {
        self.0
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Answer to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Append {
    /// Stamp the batch, write it where the plan says, then commit the plan or fail it.
    Plan(AppendPlan),
    /// The batch is here already, or planned: answer with its first place once `last_offset` is durable. Where a failed
    /// append takes it away (see [`Truncate::end`]), this answer fails with it.
    Duplicate {
        /// Offset that its first record has.
        base_offset: Offset,
        /// Offset that its last record has.
        last_offset: Offset,
        /// Its log append time or largest timestamp.
        timestamp: TimestampMs,
    },
    /// The active segment is full: open the next one's files, call
    /// [`rolled`](super::partition_log::PartitionLog::rolled), then ask again. Nothing is reserved.
    Roll(RollPlan),
}

/// Where one batch goes. Offsets, position and sequences are reserved until it is committed or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendPlan {
    /// Number of the plan within the partition, rising.
    pub id: u64,
    /// How often the partition had been truncated when the plan was made.
    pub generation: u32,
    /// The segment to write to.
    pub segment: SegmentId,
    /// Where in its log.
    pub position_bytes: u64,
    /// Offset of the first record, to be stamped.
    pub base_offset: Offset,
    /// Offset of the last record.
    pub last_offset: Offset,
    /// Length of the batch.
    pub len_bytes: u32,
    /// To be stamped where the topic has log append time; it is then the timestamp to answer with.
    pub log_append_time: Option<i64>,
    /// Largest timestamp of the records, to be stamped where the header says another (as Kafka does).
    pub max_timestamp: TimestampMs,
    /// Leader epoch, to be stamped.
    pub leader_epoch: LeaderEpoch,
}

impl AppendPlan {
    /// Stamps the batch in place with all that the plan says. `batch` is exactly the batch.
    pub fn stamp(&self, batch: &mut [u8]) {
        assert_eq!(batch.len(), self.len_bytes as usize, "the plan is of another batch");
        crate::record::batch::stamp(batch, self.base_offset, self.leader_epoch);
        let max_timestamp = self.log_append_time.map_or(self.max_timestamp, TimestampMs);
        crate::record::batch::stamp_timestamp(batch, self.log_append_time.is_some(), max_timestamp);
    }
}

/// The next segment, to be made before the batch that did not fit can be planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollPlan {
    /// The segment to make: empty `.log`, `.index` and `.timeindex`, their folder synced.
    pub segment: SegmentId,
    /// The segment that becomes sealed.
    pub sealed: SegmentId,
    /// As in [`AppendPlan`].
    pub generation: u32,
}

/// What a commit did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// The batch is written; it can be read once the high watermark passes it.
    Written {
        /// All below was written, without holes.
        written: Offset,
        /// `written` moved by this commit (else an earlier write is still on its way).
        advanced: bool,
    },
    /// An earlier append failed meanwhile, and took this one with it.
    Failed,
}

/// What must be cut off after a failed append, once no write of this partition is on its way any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncate {
    /// The segment that becomes the active one again.
    pub segment: SegmentId,
    /// Where its log is to be cut.
    pub position_bytes: u64,
    /// The log ends here now: all plans from this offset on have failed, and duplicates of them too.
    pub end: Offset,
    /// Segments made since, to be removed, last first.
    pub remove: Vec<SegmentId>,
    /// The generation that begins.
    pub generation: u32,
}

/// What must be synced for `end` to be durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncPlan {
    /// Segments in order of their offsets; sync their logs.
    pub segments: Vec<SegmentId>,
    /// To be told to [`durable`](super::partition_log::PartitionLog::durable) afterwards.
    pub end: Offset,
}

/// An index of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// `.index`
    Offset,
    /// `.timeindex`
    Time,
    /// `.txnindex`: synced after each write.
    Transaction,
}

/// Entries of an index, to be written in the order in which they were handed out; then say
/// [`index_written`](super::partition_log::PartitionLog::index_written). Indexes are derived: no need to sync them before an
/// answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexWrite {
    /// The segment whose index it is.
    pub segment: SegmentId,
    /// Which of its indexes.
    pub kind: IndexKind,
    /// Where in the file.
    pub position_bytes: u64,
    /// The entries; none where only [`completes`](Self::completes) matters.
    pub bytes: Vec<u8>,
    /// The last entries of a sealed segment: sync the file before it is said to be written, so that a start after a crash
    /// may believe it.
    pub completes: bool,
}

/// One contiguous range of one segment, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPlan {
    /// The segment to read from.
    pub segment: SegmentId,
    /// Where in its log.
    pub position_bytes: u64,
    /// Length of the range. The first batch is whole; the last may be cut.
    pub len_bytes: u32,
    /// The offset asked for; the first batch may begin before it.
    pub start_offset: Offset,
    /// Where the next read of a sequential reader starts, if known; give it to
    /// [`read_hint`](super::partition_log::PartitionLog::read_hint).
    pub next_hint: Option<ReadHint>,
}

/// The place of one offset: reading it starts exactly there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadHint {
    /// The offset that will be asked for.
    pub offset: Offset,
    /// The segment that has it.
    pub segment: SegmentId,
    /// Where the batch that has it begins.
    pub position_bytes: u64,
}

/// How far a reader may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBound {
    /// A consumer: up to the high watermark.
    HighWatermark,
    /// A consumer with read_committed: up to the last stable offset.
    LastStable,
    /// A follower: all that is written.
    Written,
}
