//! Produce without copying records: walk the request, write the response.

use std::ops::Range;

use super::messages::produce_response::{LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse};
use super::reader::{DecodeError, Reader};
use super::topic_ref::{TextRange, Topic, TopicRef};
use super::writer::{self, EncodeError};

/// A Produce request, versions 3 to 13: where things are in its body. It borrows nothing, so the caller can stamp record
/// batches in the same buffer and write them from there.
///
/// All ranges count from the start of the body given to [`ProduceFrame::parse`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProduceFrame {
    /// The transactional id, or none if the producer is not transactional.
    pub transactional_id: Option<TextRange>,
    /// How many acknowledgements are asked for: 0, 1, or -1 for all. Not yet checked.
    pub acks: i16,
    /// How long to wait for them.
    pub timeout_ms: i32,
    /// The topics in the order of the request.
    pub topics: Vec<ProduceTopic>,
    /// The partitions of all topics in the order of the request.
    pub partitions: Vec<ProducePartition>,
}

/// One topic of a Produce request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceTopic {
    /// Its name (to version 12) or id (from 13).
    pub topic: TopicRef,
    /// Its partitions in [`ProduceFrame::partitions`].
    pub partitions: Range<usize>,
}

/// One partition of a Produce request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducePartition {
    /// The topic, as in its [`ProduceTopic`].
    pub topic: TopicRef,
    /// The partition index.
    pub index: i32,
    /// Where its record batch lies in the body; none if the client sent null.
    pub records: Option<Range<usize>>,
}

impl ProduceFrame {
    /// Walks a request's body. Bytes after it are ignored, as in Kafka.
    pub fn parse(body: &[u8], version: i16) -> Result<Self, DecodeError> {
        let mut frame = Self::default();
        frame.parse_into(body, version)?;
        Ok(frame)
    }

    /// The same into a frame that is used again, which saves its two allocations. After an error its content means nothing.
    pub fn parse_into(&mut self, body: &[u8], version: i16) -> Result<(), DecodeError> {
        if !(VERSION_MIN..=VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ProduceRequest", version });
        }
        let flexible = version >= FLEXIBLE_MIN;
        self.topics.clear();
        self.partitions.clear();

        let mut reader = Reader::new(body);
        self.transactional_id = TextRange::read_nullable(&mut reader, "transactional_id", flexible)?;
        self.acks = reader.int16("acks")?;
        self.timeout_ms = reader.int32("timeout_ms")?;
        // The fewest bytes of a topic and of a partition: see the order of fields below.
        let (topic_bytes_min, partition_bytes_min) = if flexible { (3, 6) } else { (6, 8) };
        let topic_count = reader.array_length("topic_data", flexible, topic_bytes_min)?;
        self.topics.reserve(topic_count);
        for _ in 0..topic_count {
            let topic = TopicRef::read(&mut reader, "name", version >= TOPIC_ID_MIN, flexible)?;
            let partition_count = reader.array_length("partition_data", flexible, partition_bytes_min)?;
            let first = self.partitions.len();
            self.partitions.reserve(partition_count);
            for _ in 0..partition_count {
                let index = reader.int32("index")?;
                let records = reader.nullable_bytes("records", flexible)?;
                let end = reader.position_bytes();
                let records = records.map(|bytes| end - bytes.len()..end);
                if flexible {
                    reader.skip_tagged_fields()?;
                }
                self.partitions.push(ProducePartition { topic, index, records });
            }
            if flexible {
                reader.skip_tagged_fields()?;
            }
            self.topics.push(ProduceTopic { topic, partitions: first..self.partitions.len() });
        }
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(())
    }
}

/// Writes a Produce response, versions 3 to 13, straight into the output: nothing is collected first.
///
/// Between [`begin_frame`](super::frame::begin_frame) and the frame's end: `new`, then for each topic `topic` and as many times
/// `partition` as was said there, then `end`. After an error the caller cuts off what was written.
#[derive(Debug)]
pub struct ProduceResponseEncoder<'o> {
    out: &'o mut Vec<u8>,
    version: i16,
    topics_left: usize,
    partitions_left: usize,
}

impl<'o> ProduceResponseEncoder<'o> {
    /// Begins a response with so many topics.
    pub fn new(out: &'o mut Vec<u8>, version: i16, topic_count: usize) -> Result<Self, EncodeError> {
        if !(VERSION_MIN..=VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ProduceResponse", version });
        }
        writer::length(out, "responses", topic_count, version >= FLEXIBLE_MIN)?;
        Ok(Self { out, version, topics_left: topic_count, partitions_left: 0 })
    }

    /// Begins a topic with so many partitions. It is named as the request named it: an error where the version does not.
    pub fn topic(&mut self, topic: Topic<'_>, partition_count: usize) -> Result<(), EncodeError> {
        debug_assert_eq!(self.partitions_left, 0, "the topic before lacks partitions");
        debug_assert_ne!(self.topics_left, 0, "more topics than announced");
        let flexible = self.version >= FLEXIBLE_MIN;
        topic.encode(self.out, "name", self.version, self.version >= TOPIC_ID_MIN, flexible)?;
        writer::length(self.out, "partition_responses", partition_count, flexible)?;
        self.topics_left = self.topics_left.saturating_sub(1);
        self.partitions_left = partition_count;
        if partition_count == 0 {
            self.end_topic();
        }
        Ok(())
    }

    /// Appends one partition of the topic begun last. An empty `record_errors` costs no allocation.
    ///
    /// What the version lacks is left out, the current leader (before version 10) too.
    pub fn partition(&mut self, partition: &PartitionProduceResponse<'_>) -> Result<(), EncodeError> {
        debug_assert_ne!(self.partitions_left, 0, "more partitions than announced");
        let (out, version) = (&mut *self.out, self.version);
        let flexible = version >= FLEXIBLE_MIN;
        writer::int32(out, partition.index);
        writer::int16(out, partition.error_code);
        writer::int64(out, partition.base_offset);
        writer::int64(out, partition.log_append_time_ms);
        if version >= 5 {
            writer::int64(out, partition.log_start_offset);
        }
        if version >= 8 {
            let errors = &partition.record_errors;
            writer::array(out, "record_errors", errors, flexible, |out, error| error.encode_body(out, version))?;
            writer::nullable_string(out, "error_message", partition.error_message, flexible)?;
        }
        if flexible {
            let leader = &partition.current_leader;
            let has_leader = version >= LEADER_MIN && *leader != LeaderIdAndEpoch::default();
            writer::unsigned_varint(out, u32::from(has_leader));
            if has_leader {
                writer::tagged_field(out, 0, |out| leader.encode_body(out, version))?;
            }
        }
        self.partitions_left = self.partitions_left.saturating_sub(1);
        if self.partitions_left == 0 {
            self.end_topic();
        }
        Ok(())
    }

    /// Ends the response. `node_endpoints` are the addresses of leaders named in partitions; versions below 10 leave them
    /// out as they do the leaders.
    pub fn end(self, throttle_time_ms: i32, node_endpoints: &[NodeEndpoint<'_>]) -> Result<(), EncodeError> {
        debug_assert_eq!((self.topics_left, self.partitions_left), (0, 0), "fewer topics or partitions than announced");
        writer::int32(self.out, throttle_time_ms);
        if self.version < FLEXIBLE_MIN {
            return Ok(());
        }
        let has_endpoints = self.version >= LEADER_MIN && !node_endpoints.is_empty();
        writer::unsigned_varint(self.out, u32::from(has_endpoints));
        if has_endpoints {
            writer::tagged_field(self.out, 0, |out| {
                writer::array(out, "node_endpoints", node_endpoints, true, |out, node| {
                    node.encode_body(out, self.version)
                })
            })?;
        }
        Ok(())
    }

    fn end_topic(&mut self) {
        if self.version >= FLEXIBLE_MIN {
            writer::unsigned_varint(self.out, 0);
        }
    }
}

const VERSION_MIN: i16 = 3;
const VERSION_MAX: i16 = 13;
const FLEXIBLE_MIN: i16 = 9;
/// The first version whose answers name the current leader (KIP-951).
pub const LEADER_MIN: i16 = 10;
/// The first version that names topics by id (KIP-516).
pub const TOPIC_ID_MIN: i16 = 13;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::messages::produce_response::{BatchIndexAndErrorMessage, ProduceResponse};
    use crate::wire::uuid::Uuid;

    /// A version 3 body: no transactional id, acks 1, one topic, partitions with records and with null.
    const BODY: &[u8] = &[
        0xff, 0xff, // transactional id
        0, 1, // acks
        0, 0, 1, 0, // timeout
        0, 0, 0, 1, // topics
        0, 1, b't', // name
        0, 0, 0, 2, // partitions
        0, 0, 0, 7, 0, 0, 0, 2, 0xaa, 0xbb, // index and records
        0, 0, 0, 8, 0xff, 0xff, 0xff, 0xff,
    ];

    #[test]
    fn records_can_be_stamped_in_the_same_buffer() {
        let mut body = BODY.to_vec();
        let frame = ProduceFrame::parse(&body, 3).expect("whole");
        let records = frame.partitions[0].records.clone().expect("records");
        body[records.clone()].fill(0x55);
        assert_eq!(frame.partitions[0].topic.resolve(&body), Topic::Name("t"));
        assert_eq!((frame.partitions[1].index, frame.partitions[1].records.clone()), (8, None));
        assert_eq!(frame.topics[0].partitions, 0..2);
        assert_eq!(&BODY[records], [0xaa, 0xbb]);
    }

    #[test]
    fn a_frame_may_be_used_again() {
        let mut frame = ProduceFrame { transactional_id: Some(TextRange::default()), ..ProduceFrame::default() };
        frame.parse_into(BODY, 3).expect("whole");
        let before = frame.partitions.as_ptr();
        frame.parse_into(BODY, 3).expect("whole");
        assert_eq!(frame, ProduceFrame::parse(BODY, 3).expect("whole"));
        assert_eq!(frame.partitions.as_ptr(), before);
    }

    /// Kafka answers an unknown topic, where a name that is no UTF-8 cannot be a topic's.
    #[test]
    fn an_ill_formed_name_is_no_error() {
        let mut body = BODY.to_vec();
        body[14] = 0xff;
        let frame = ProduceFrame::parse(&body, 3).expect("whole");
        assert_eq!(frame.topics[0].topic.resolve(&body), Topic::Name(crate::wire::reader::ILL_FORMED));
    }

    #[test]
    fn counts_and_lengths_beyond_the_bytes_are_refused() {
        // The places of the two array lengths and of the first records' length.
        for position in [8, 15, 23] {
            for count in [100_i32, i32::MAX] {
                let mut body = BODY.to_vec();
                body[position..position + 4].copy_from_slice(&count.to_be_bytes());
                let error = ProduceFrame::parse(&body, 3).expect_err("too long");
                assert!(matches!(error, DecodeError::ArrayTooLong { .. } | DecodeError::Truncated { .. }), "{error}");
            }
        }
    }

    #[test]
    fn what_the_version_lacks_is_left_out() {
        let error = BatchIndexAndErrorMessage { batch_index: 1, batch_index_error_message: None };
        let partition = PartitionProduceResponse {
            log_start_offset: 4,
            record_errors: vec![error],
            error_message: Some("why"),
            current_leader: LeaderIdAndEpoch { leader_id: 2, leader_epoch: 5 },
            ..PartitionProduceResponse::default()
        };
        let node = NodeEndpoint { node_id: 2, host: "h", port: 9, rack: None };
        for version in VERSION_MIN..=VERSION_MAX {
            let mut out = Vec::new();
            let mut encoder = ProduceResponseEncoder::new(&mut out, version, 2).expect("known version");
            let by_id = version >= TOPIC_ID_MIN;
            let topic = if by_id { Topic::Id(Uuid([7; 16])) } else { Topic::Name("t") };
            encoder.topic(topic, 0).expect("named as the version does");
            encoder.topic(topic, 1).expect("named as the version does");
            encoder.partition(&partition).expect("partition");
            encoder.end(6, std::slice::from_ref(&node)).expect("end");
            let mut reader = Reader::new(&out);
            let response = ProduceResponse::decode(&mut reader, version).expect("whole");
            assert_eq!((reader.remaining_bytes(), response.throttle_time_ms), (0, 6), "version {version}");
            let again = &response.responses[1].partition_responses[0];
            assert_eq!(again.log_start_offset, if version >= 5 { 4 } else { -1 });
            assert_eq!(again.error_message, if version >= 8 { Some("why") } else { None });
            assert_eq!(again.current_leader == partition.current_leader, version >= LEADER_MIN);
            assert_eq!(response.node_endpoints.len(), usize::from(version >= LEADER_MIN));
        }
    }
}
