//! A Fetch response, written around records that others send.

use super::fetch::{FLEXIBLE_MIN, SESSION_MIN, TOPIC_ID_MIN, VERSION_MAX, VERSION_MIN};
use super::messages::fetch_response::{
    AbortedTransaction, EpochEndOffset, LeaderIdAndEpoch, NodeEndpoint, PartitionData, SnapshotId,
};
use super::topic_ref::Topic;
use super::writer::{self, EncodeError};

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

/// The first version whose answers carry addresses of leaders (KIP-951); the leaders themselves come from 12 on.
pub const ENDPOINTS_MIN: i16 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::messages::fetch_response::FetchResponse;
    use crate::wire::reader::Reader;
    use crate::wire::uuid::Uuid;

    fn leader() -> PartitionData<'static> {
        PartitionData { current_leader: LeaderIdAndEpoch { leader_id: 2, leader_epoch: 5 }, ..PartitionData::default() }
    }

    const NODE: NodeEndpoint<'_> = NodeEndpoint { node_id: 2, host: "h", port: 9, rack: None };

    #[test]
    fn what_the_version_lacks_is_left_out() {
        for version in VERSION_MIN..=VERSION_MAX {
            let (mut out, mut cuts) = (Vec::new(), Vec::new());
            let head = FetchResponseHead { throttle_time_ms: 1, error_code: 2, session_id: 3 };
            let mut encoder = FetchResponseEncoder::new(&mut out, &mut cuts, version, head, 2).expect("known version");
            let by_id = version >= TOPIC_ID_MIN;
            let topic = if by_id { Topic::Id(Uuid([7; 16])) } else { Topic::Name("t") };
            encoder.topic(topic, 0).expect("named as the version does");
            encoder.topic(topic, 2).expect("named as the version does");
            encoder.partition(&leader(), FetchRecords::Inline(&[])).expect("partition");
            encoder.partition(&leader(), FetchRecords::Range { slot: 4, len_bytes: 300 }).expect("partition");
            assert_eq!(encoder.end(&[NODE]), Ok(300));

            let [cut] = cuts[..] else { panic!("{cuts:?}") };
            assert_eq!((cut.slot, cut.len_bytes), (4, 300));
            out.splice(cut.position_bytes..cut.position_bytes, [0xab; 300]);
            let mut reader = Reader::new(&out);
            let response = FetchResponse::decode(&mut reader, version).expect("whole");
            assert_eq!(reader.remaining_bytes(), 0, "version {version}");
            assert_eq!(response.error_code, if version >= SESSION_MIN { 2 } else { 0 });
            assert_eq!(response.node_endpoints.len(), usize::from(version >= ENDPOINTS_MIN));
            let [empty, full] = &response.responses[1].partitions[..] else { panic!("{response:?}") };
            assert_eq!((empty.records, full.records), (Some(&[][..]), Some(&[0xab; 300][..])));
            assert_eq!(full.current_leader == leader().current_leader, version >= FLEXIBLE_MIN);
        }
    }

    #[test]
    fn a_topic_must_be_named_as_the_version_does() {
        for (version, topic) in [(12, Topic::Id(Uuid::ZERO)), (13, Topic::Name("t"))] {
            let (mut out, mut cuts) = (Vec::new(), Vec::new());
            let head = FetchResponseHead::default();
            let mut encoder = FetchResponseEncoder::new(&mut out, &mut cuts, version, head, 1).expect("known version");
            assert!(matches!(encoder.topic(topic, 1), Err(EncodeError::FieldNotInVersion { .. })), "{version}");
        }
    }

    #[test]
    fn a_preferred_replica_is_not_dropped() {
        let (mut out, mut cuts) = (Vec::new(), Vec::new());
        let head = FetchResponseHead::default();
        let mut encoder = FetchResponseEncoder::new(&mut out, &mut cuts, 10, head, 1).expect("known version");
        encoder.topic(Topic::Name("t"), 1).expect("by name");
        let data = PartitionData { preferred_read_replica: 3, ..PartitionData::default() };
        assert!(encoder.partition(&data, FetchRecords::Null).is_err());
    }
}
