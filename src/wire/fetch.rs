//! A Fetch request, walked in place.

use std::ops::Range;

use super::reader::{DecodeError, Reader};
use super::topic_ref::{TextRange, TopicRef};
use super::uuid::Uuid;

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

/// The versions of Fetch that are read and written.
pub const VERSION_MIN: i16 = 4;
/// See [`VERSION_MIN`].
pub const VERSION_MAX: i16 = 18;
/// The first version with fetch sessions and a top-level error code.
pub const SESSION_MIN: i16 = 7;
/// The first version with compact lengths and tagged fields.
pub const FLEXIBLE_MIN: i16 = 12;
/// The first version that names topics by id (KIP-516).
pub const TOPIC_ID_MIN: i16 = 13;
/// The first version with the follower's state in a tagged field (KIP-903).
const REPLICA_STATE_MIN: i16 = 15;

#[cfg(test)]
mod tests {
    use super::*;

    /// A version 4 body: no sessions, no epochs, no rack.
    const BODY: &[u8] = &[
        0xff, 0xff, 0xff, 0xff, // replica id
        0, 0, 1, 0, // max wait
        0, 0, 0, 1, // min bytes
        0, 0, 4, 0, // max bytes
        1, // read committed
        0, 0, 0, 1, // topics
        0, 1, b't', // name
        0, 0, 0, 1, // partitions
        0, 0, 0, 7, // partition
        0, 0, 0, 0, 0, 0, 0, 9, // fetch offset
        0, 0, 2, 0, // max bytes
    ];

    #[test]
    fn a_field_that_the_version_lacks_has_kafkas_default() {
        let frame = FetchFrame::parse(BODY, 4).expect("whole");
        assert_eq!((frame.replica_id, frame.replica_epoch, frame.isolation_level), (-1, -1, 1));
        assert_eq!((frame.session_id, frame.session_epoch, frame.rack_id.text(BODY)), (0, -1, ""));
        let partition = frame.partitions[0];
        assert_eq!(partition.topic.resolve(BODY), crate::wire::topic_ref::Topic::Name("t"));
        assert_eq!((partition.partition, partition.fetch_offset, partition.partition_max_bytes), (7, 9, 512));
        assert_eq!((partition.current_leader_epoch, partition.high_watermark), (-1, i64::MAX));
    }

    /// Nothing of the request before shows, and the memory is the same.
    #[test]
    fn a_frame_may_be_used_again() {
        let mut frame = FetchFrame { session_id: 5, cluster_id: Some(TextRange::default()), ..FetchFrame::default() };
        frame.parse_into(BODY, 4).expect("whole");
        let before = frame.partitions.as_ptr();
        frame.parse_into(BODY, 4).expect("whole");
        assert_eq!(frame, FetchFrame::parse(BODY, 4).expect("whole"));
        assert_eq!(frame.partitions.as_ptr(), before);
    }

    #[test]
    fn counts_beyond_the_bytes_are_refused() {
        // The places of the two array lengths.
        for position in [17, 24] {
            for count in [2_i32, 1000, i32::MAX] {
                let mut body = BODY.to_vec();
                body[position..position + 4].copy_from_slice(&count.to_be_bytes());
                let error = FetchFrame::parse(&body, 4).expect_err("too long");
                assert!(matches!(error, DecodeError::ArrayTooLong { .. } | DecodeError::Truncated { .. }), "{error}");
            }
            let mut body = BODY.to_vec();
            body[position..position + 4].copy_from_slice(&(-1_i32).to_be_bytes());
            assert!(matches!(FetchFrame::parse(&body, 4), Err(DecodeError::Null { .. })), "{position}");
        }
    }
}
