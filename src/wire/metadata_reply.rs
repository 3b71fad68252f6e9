//! Metadata's response written topic by topic, so that a big one can be made in slices.

use super::messages::metadata_response::{MetadataResponse, MetadataResponseTopic};
use super::writer::{self, EncodeError};

/// Writes a response in the order of its fields: what comes before the topics, each topic, what comes after.
pub struct MetadataReplyEncoder<'a> {
    out: &'a mut Vec<u8>,
    version: i16,
}

impl<'a> MetadataReplyEncoder<'a> {
    /// Writes all of `head` that comes before its topics; `topic_count` of them are to follow, whatever `head` has.
    ///
    /// # Errors
    /// A field is too long.
    pub fn new(
        out: &'a mut Vec<u8>,
        version: i16,
        head: &MetadataResponse<'_>,
        topic_count: usize,
    ) -> Result<Self, EncodeError> {
        let flexible = version >= FLEXIBLE_MIN;
        if version >= 3 {
            writer::int32(out, head.throttle_time_ms);
        }
        writer::array(out, "brokers", &head.brokers, flexible, |out, broker| broker.encode_body(out, version))?;
        if version >= 2 {
            writer::nullable_string(out, "cluster_id", head.cluster_id, flexible)?;
        }
        if version >= 1 {
            writer::int32(out, head.controller_id);
        }
        writer::length(out, "topics", topic_count, flexible)?;
        Ok(Self { out, version })
    }

    /// Writes the next topic.
    ///
    /// # Errors
    /// A field is too long, or none that the version has.
    pub fn topic(&mut self, topic: &MetadataResponseTopic<'_>) -> Result<(), EncodeError> {
        topic.encode_body(self.out, self.version)
    }

    /// Writes what comes after the topics.
    pub fn end(self, head: &MetadataResponse<'_>) {
        if (8..=10).contains(&self.version) {
            writer::int32(self.out, head.cluster_authorized_operations);
        }
        if self.version == 13 {
            writer::int16(self.out, head.error_code);
        }
        if self.version >= FLEXIBLE_MIN {
            writer::unsigned_varint(self.out, 0);
        }
    }
}

const FLEXIBLE_MIN: i16 = 9;
