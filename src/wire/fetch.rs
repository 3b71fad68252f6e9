//! Fetch without copying records: walk the request, write around ranges.

use std::ops::Range;

use super::messages::fetch_response::{
    AbortedTransaction, EpochEndOffset, LeaderIdAndEpoch, NodeEndpoint, PartitionData, SnapshotId,
};
use super::reader::{DecodeError, Reader};
use super::topic_ref::{TextRange, Topic, TopicRef};
use super::uuid::Uuid;
use super::writer::{self, EncodeError};

/// A Fetch request, versions 4 to 18. Topic names stay in the body; everything else is here.
///
/// A field that the version lacks has Kafka's default: no session (epoch -1), no size limit, no known epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchFrame {
    /// The cluster that the sender believes to be in, if it says so.
    pub cluster_id: Option<TextRange>,
    /// The follower's broker id, or -1 for a consumer; from the field or, since version 15, the replica state.
    pub replica_id: i32,
    /// The follower's epoch, or -1.
    pub replica_epoch: i64,
    /// How long the answer may wait for `min_bytes`.
    pub max_wait_ms: i32,
    /// How many bytes of records the answer should have at least.
    pub min_bytes: i32,
    /// How many bytes of records the answer should have at most; its first batch may pass it.
    pub max_bytes: i32,
    /// 0 for read uncommitted, 1 for read committed. Not yet checked.
    pub isolation_level: i8,
    /// The fetch session, or 0.
    pub session_id: i32,
    /// The number of the request in its session; 0 asks for a new one and -1 for none.
    pub session_epoch: i32,
    /// The topics in the order of the request.
    pub topics: Vec<FetchTopic>,
    /// The partitions of all topics in the order of the request, which is the order of service.
    pub partitions: Vec<FetchPartition>,
    /// The partitions that leave the session.
    pub forgotten: Vec<ForgottenPartition>,
    /// The consumer's rack, or an empty range.
    pub rack_id: TextRange,
}

/// One topic of a Fetch request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchTopic {
    /// Its name (to version 12) or id (from 13).
    pub topic: TopicRef,
    /// Its partitions in [`FetchFrame::partitions`].
    pub partitions: Range<usize>,
}

/// One partition of a Fetch request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    /// The topic, as in its [`FetchTopic`].
    pub topic: TopicRef,
    /// The partition index.
    pub partition: i32,
    /// The leader epoch that the client knows, or -1.
    pub current_leader_epoch: i32,
    /// The first offset wanted.
    pub fetch_offset: i64,
    /// The epoch of the last record that the client has, or -1.
    pub last_fetched_epoch: i32,
    /// The follower's log start offset, or -1 for a consumer.
    pub log_start_offset: i64,
    /// How many bytes of this partition the answer should have at most.
    pub partition_max_bytes: i32,
    /// The follower's directory, or zero.
    pub replica_directory_id: Uuid,
    /// The follower's high watermark; -1 if it has none, `i64::MAX` if it does not say.
    pub high_watermark: i64,
}

/// One partition that leaves the fetch session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForgottenPartition {
    /// The topic.
    pub topic: TopicRef,
    /// The partition index.
    pub partition: i32,
}

impl Default for FetchFrame {
    fn default() -> Self {
        Self {
            cluster_id: None,
            replica_id: -1,
            replica_epoch: -1,
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: i32::MAX,
            isolation_level: 0,
            session_id: 0,
            session_epoch: -1,
            topics: Vec::new(),
            partitions: Vec::new(),
            forgotten: Vec::new(),
            rack_id: TextRange::default(),
        }
    }
}

impl FetchFrame {
    /// Walks a request's body. Bytes after it are ignored, as in Kafka.
    pub fn parse(body: &[u8], version: i16) -> Result<Self, DecodeError> {
        let mut frame = Self::default();
        frame.parse_into(body, version)?;
        Ok(frame)
    }

    /// The same into a frame that is used again, which saves its allocations. After an error its content means nothing.
    pub fn parse_into(&mut self, body: &[u8], version: i16) -> Result<(), DecodeError> {
        if !(VERSION_MIN..=VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "FetchRequest", version });
        }
        let flexible = version >= FLEXIBLE_MIN;
        let (mut topics, mut partitions, mut forgotten) = (
            std::mem::take(&mut self.topics),
            std::mem::take(&mut self.partitions),
            std::mem::take(&mut self.forgotten),
        );
        topics.clear();
        partitions.clear();
        forgotten.clear();
        *self = Self { topics, partitions, forgotten, ..Self::default() };

        let mut reader = Reader::new(body);
        if version < REPLICA_STATE_MIN {
            self.replica_id = reader.int32("replica_id")?;
        }
        self.max_wait_ms = reader.int32("max_wait_ms")?;
        self.min_bytes = reader.int32("min_bytes")?;
        self.max_bytes = reader.int32("max_bytes")?;
        self.isolation_level = reader.int8("isolation_level")?;
        if version >= SESSION_MIN {
            self.session_id = reader.int32("session_id")?;
            self.session_epoch = reader.int32("session_epoch")?;
        }
        self.read_topics(&mut reader, version)?;
        if version >= SESSION_MIN {
            self.read_forgotten(&mut reader, version)?;
        }
        if version >= 11 {
            self.rack_id = TextRange::read(&mut reader, "rack_id", flexible)?;
        }
        if flexible {
            reader.tagged_fields(|tag, reader| {
                match tag {
                    0 => self.cluster_id = TextRange::read_nullable(reader, "cluster_id", true)?,
                    1 if version >= REPLICA_STATE_MIN => {
                        self.replica_id = reader.int32("replica_id")?;
                        self.replica_epoch = reader.int64("replica_epoch")?;
                        reader.skip_tagged_fields()?;
                    }
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn read_topics(&mut self, reader: &mut Reader<'_>, version: i16) -> Result<(), DecodeError> {
        let flexible = version >= FLEXIBLE_MIN;
        // The fewest bytes of a topic and of a partition: see the order of fields in FetchPartition::read.
        let (topic_bytes_min, partition_bytes_min) = if flexible { (3, 33) } else { (6, 16) };
        let topic_count = reader.array_length("topics", flexible, topic_bytes_min)?;
        self.topics.reserve(topic_count);
        for _ in 0..topic_count {
            let topic = TopicRef::read(reader, "topic", version >= TOPIC_ID_MIN, flexible)?;
            let partition_count = reader.array_length("partitions", flexible, partition_bytes_min)?;
            let first = self.partitions.len();
            self.partitions.reserve(partition_count);
            for _ in 0..partition_count {
                self.partitions.push(FetchPartition::read(reader, topic, version)?);
            }
            if flexible {
                reader.skip_tagged_fields()?;
            }
            self.topics.push(FetchTopic { topic, partitions: first..self.partitions.len() });
        }
        Ok(())
    }

    fn read_forgotten(&mut self, reader: &mut Reader<'_>, version: i16) -> Result<(), DecodeError> {
        let flexible = version >= FLEXIBLE_MIN;
        let topic_bytes_min = if flexible { 3 } else { 6 };
        for _ in 0..reader.array_length("forgotten_topics_data", flexible, topic_bytes_min)? {
            let topic = TopicRef::read(reader, "topic", version >= TOPIC_ID_MIN, flexible)?;
            let partition_count = reader.array_length("partitions", flexible, 4)?;
            self.forgotten.reserve(partition_count);
            for _ in 0..partition_count {
                self.forgotten.push(ForgottenPartition { topic, partition: reader.int32("partitions")? });
            }
            if flexible {
                reader.skip_tagged_fields()?;
            }
        }
        Ok(())
    }
}

impl FetchPartition {
    fn read(reader: &mut Reader<'_>, topic: TopicRef, version: i16) -> Result<Self, DecodeError> {
        let mut partition = Self {
            topic,
            partition: reader.int32("partition")?,
            current_leader_epoch: if version >= 9 { reader.int32("current_leader_epoch")? } else { -1 },
            fetch_offset: reader.int64("fetch_offset")?,
            last_fetched_epoch: if version >= 12 { reader.int32("last_fetched_epoch")? } else { -1 },
            log_start_offset: if version >= 5 { reader.int64("log_start_offset")? } else { -1 },
            partition_max_bytes: reader.int32("partition_max_bytes")?,
            replica_directory_id: Uuid::ZERO,
            high_watermark: i64::MAX,
        };
        if version >= FLEXIBLE_MIN {
            reader.tagged_fields(|tag, reader| {
                match tag {
                    0 if version >= 17 => partition.replica_directory_id = reader.uuid("replica_directory_id")?,
                    1 if version >= 18 => partition.high_watermark = reader.int64("high_watermark")?,
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok(partition)
    }
}

/// The records of one partition in a Fetch response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchRecords<'a> {
    /// No records, not even an empty set. Kafka sends this nowhere, but its format has it.
    Null,
    /// Bytes copied into the output; an empty slice is what an answer without records has.
    Inline(&'a [u8]),
    /// `len_bytes` bytes that somebody else sends at the cut; `slot` is the caller's name for them.
    Range {
        /// Comes back in [`RecordsCut::slot`].
        slot: usize,
        /// How many bytes will be sent.
        len_bytes: u32,
    },
}

/// A place in the output where records belong that are not in it.
///
/// Sending a response is: the output up to the first cut, that cut's records, the output up to the next cut, and so on, then
/// the rest of the output (there always is one).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordsCut {
    /// Records go before this byte of the output, counted from its start (not the frame's).
    pub position_bytes: usize,
    /// The caller's name for the records.
    pub slot: usize,
    /// How many bytes they have. Not zero.
    pub len_bytes: u32,
}

/// What stands at the head of a Fetch response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchResponseHead {
    /// How long the request was held back for a quota.
    pub throttle_time_ms: i32,
    /// An error of the whole request (since version 7).
    pub error_code: i16,
    /// The fetch session, or 0 (since version 7).
    pub session_id: i32,
}

/// Writes a Fetch response, versions 4 to 18, around records that it never sees.
///
/// Between [`begin_frame`](super::frame::begin_frame) and [`end_with`](super::frame::OpenFrame::end_with): `new`, then for each
/// topic `topic` and as many times `partition` as was said there, then `end`, whose result goes to `end_with`. After an error the
/// caller cuts off what was written, cuts included.
#[derive(Debug)]
pub struct FetchResponseEncoder<'o> {
    out: &'o mut Vec<u8>,
    cuts: &'o mut Vec<RecordsCut>,
    version: i16,
    topics_left: usize,
    partitions_left: usize,
    records_bytes: u64,
}

impl<'o> FetchResponseEncoder<'o> {
    /// Begins a response with so many topics. Cuts are appended to `cuts`.
    pub fn new(
        out: &'o mut Vec<u8>,
        cuts: &'o mut Vec<RecordsCut>,
        version: i16,
        head: FetchResponseHead,
        topic_count: usize,
    ) -> Result<Self, EncodeError> {
        if !(VERSION_MIN..=VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "FetchResponse", version });
        }
        writer::int32(out, head.throttle_time_ms);
        if version >= SESSION_MIN {
            writer::int16(out, head.error_code);
            writer::int32(out, head.session_id);
        }
        writer::length(out, "responses", topic_count, version >= FLEXIBLE_MIN)?;
        Ok(Self { out, cuts, version, topics_left: topic_count, partitions_left: 0, records_bytes: 0 })
    }

    /// Begins a topic with so many partitions. It is named as the request named it: an error where the version does not.
    pub fn topic(&mut self, topic: Topic<'_>, partition_count: usize) -> Result<(), EncodeError> {
        debug_assert_eq!(self.partitions_left, 0, "the topic before lacks partitions");
        debug_assert_ne!(self.topics_left, 0, "more topics than announced");
        let flexible = self.version >= FLEXIBLE_MIN;
        topic.encode(self.out, "topic", self.version, self.version >= TOPIC_ID_MIN, flexible)?;
        writer::length(self.out, "partitions", partition_count, flexible)?;
        self.topics_left = self.topics_left.saturating_sub(1);
        self.partitions_left = partition_count;
        if partition_count == 0 {
            self.end_topic();
        }
        Ok(())
    }

    /// Appends one partition of the topic begun last; `records` stand in for [`PartitionData::records`], which is not looked at.
    ///
    /// What the version lacks is left out, with one exception: a preferred read replica before version 11 is an error,
    /// since the client would read nothing and not know why.
    pub fn partition(&mut self, data: &PartitionData<'_>, records: FetchRecords<'_>) -> Result<(), EncodeError> {
        debug_assert_ne!(self.partitions_left, 0, "more partitions than announced");
        let (out, version) = (&mut *self.out, self.version);
        let flexible = version >= FLEXIBLE_MIN;
        writer::int32(out, data.partition_index);
        writer::int16(out, data.error_code);
        writer::int64(out, data.high_watermark);
        writer::int64(out, data.last_stable_offset);
        if version >= 5 {
            writer::int64(out, data.log_start_offset);
        }
        let aborted = data.aborted_transactions.as_deref();
        let element = |out: &mut Vec<u8>, value: &AbortedTransaction| value.encode_body(out, version);
        writer::nullable_array(out, "aborted_transactions", aborted, flexible, element)?;
        if version >= 11 {
            writer::int32(out, data.preferred_read_replica);
        } else {
            writer::absent("preferred_read_replica", version, data.preferred_read_replica == -1)?;
        }
        match records {
            FetchRecords::Null => writer::null_length(out, flexible),
            FetchRecords::Inline(bytes) => writer::bytes(out, "records", bytes, flexible)?,
            FetchRecords::Range { slot, len_bytes } => {
                writer::length(out, "records", len_bytes as usize, flexible)?;
                if len_bytes > 0 {
                    self.cuts.push(RecordsCut { position_bytes: out.len(), slot, len_bytes });
                    self.records_bytes += u64::from(len_bytes);
                }
            }
        }
        if flexible {
            self.partition_tags(data)?;
        }
        self.partitions_left = self.partitions_left.saturating_sub(1);
        if self.partitions_left == 0 {
            self.end_topic();
        }
        Ok(())
    }

    /// Ends the response; returns how many bytes of records lie at the cuts, for the frame's length.
    ///
    /// `node_endpoints` are the addresses of leaders named in partitions; versions below 16 leave them out.
    pub fn end(self, node_endpoints: &[NodeEndpoint<'_>]) -> Result<u64, EncodeError> {
        debug_assert_eq!((self.topics_left, self.partitions_left), (0, 0), "fewer topics or partitions than announced");
        if self.version >= FLEXIBLE_MIN {
            let has_endpoints = self.version >= ENDPOINTS_MIN && !node_endpoints.is_empty();
            writer::unsigned_varint(self.out, u32::from(has_endpoints));
            if has_endpoints {
                writer::tagged_field(self.out, 0, |out| {
                    writer::array(out, "node_endpoints", node_endpoints, true, |out, node| {
                        node.encode_body(out, self.version)
                    })
                })?;
            }
        }
        Ok(self.records_bytes)
    }

    fn partition_tags(&mut self, data: &PartitionData<'_>) -> Result<(), EncodeError> {
        let (out, version) = (&mut *self.out, self.version);
        let has_epoch = data.diverging_epoch != EpochEndOffset::default();
        let has_leader = data.current_leader != LeaderIdAndEpoch::default();
        let has_snapshot = data.snapshot_id != SnapshotId::default();
        writer::unsigned_varint(out, u32::from(has_epoch) + u32::from(has_leader) + u32::from(has_snapshot));
        if has_epoch {
            writer::tagged_field(out, 0, |out| data.diverging_epoch.encode_body(out, version))?;
        }
        if has_leader {
            writer::tagged_field(out, 1, |out| data.current_leader.encode_body(out, version))?;
        }
        if has_snapshot {
            writer::tagged_field(out, 2, |out| data.snapshot_id.encode_body(out, version))?;
        }
        Ok(())
    }

    fn end_topic(&mut self) {
        if self.version >= FLEXIBLE_MIN {
            writer::unsigned_varint(self.out, 0);
        }
    }
}

const VERSION_MIN: i16 = 4;
const VERSION_MAX: i16 = 18;
/// The first version with fetch sessions and a top-level error code.
const SESSION_MIN: i16 = 7;
const FLEXIBLE_MIN: i16 = 12;
/// The first version that names topics by id (KIP-516).
pub const TOPIC_ID_MIN: i16 = 13;
const REPLICA_STATE_MIN: i16 = 15;
/// The first version whose answers carry addresses of leaders (KIP-951); the leaders themselves come from 12 on.
pub const ENDPOINTS_MIN: i16 = 16;
