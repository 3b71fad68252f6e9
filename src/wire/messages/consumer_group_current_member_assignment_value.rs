//! Kafka's consumer group current member assignment value, versions 0.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's consumer group current member assignment value, versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupCurrentMemberAssignmentValue {
    /// The current member epoch that is expected from the member in the heartbeat request.
    pub member_epoch: i32,
    /// If the last epoch bump is lost before reaching the member, the member will retry with the previous epoch.
    pub previous_member_epoch: i32,
    /// The member state. See MemberState for the possible values.
    pub state: i8,
    /// The partitions assigned to (or owned by) this member.
    pub assigned_partitions: Vec<TopicPartitions>,
    /// The partitions that must be revoked by this member.
    pub partitions_pending_revocation: Vec<TopicPartitions>,
}

impl ConsumerGroupCurrentMemberAssignmentValue {
    /// What its record's key begins with.
    pub const API_KEY: i16 = 8;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 0;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion {
                message: "ConsumerGroupCurrentMemberAssignmentValue",
                version,
            });
        }
        let message = Self {
            member_epoch: reader.int32("member_epoch")?,
            previous_member_epoch: reader.int32("previous_member_epoch")?,
            state: reader.int8("state")?,
            assigned_partitions: reader
                .array("assigned_partitions", true, 18, |reader| TopicPartitions::decode(reader, version))?,
            partitions_pending_revocation: reader
                .array("partitions_pending_revocation", true, 18, |reader| TopicPartitions::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion {
                message: "ConsumerGroupCurrentMemberAssignmentValue",
                version,
            });
        }
        writer::int32(out, self.member_epoch);
        writer::int32(out, self.previous_member_epoch);
        writer::int8(out, self.state);
        writer::array(out, "assigned_partitions", &self.assigned_partitions, true, |out, value| {
            value.encode_body(out, version)
        })?;
        writer::array(
            out,
            "partitions_pending_revocation",
            &self.partitions_pending_revocation,
            true,
            |out, value| value.encode_body(out, version),
        )?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// A part of the message.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicPartitions {
    /// The topic Id.
    pub topic_id: Uuid,
    /// The partition Ids.
    pub partitions: Vec<i32>,
    /// The epoch at which the partition was assigned to the member. Used to fence zombie commits requests. Of the
    /// same length as Partitions.
    pub assignment_epochs: Option<Vec<i32>>,
}

impl Default for TopicPartitions {
    fn default() -> Self {
        Self { topic_id: Uuid::ZERO, partitions: Vec::new(), assignment_epochs: Some(Vec::new()) }
    }
}

impl TopicPartitions {
    fn decode(reader: &mut Reader<'_>, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self {
            topic_id: reader.uuid("topic_id")?,
            partitions: reader.array("partitions", true, 4, |reader| reader.int32("partitions"))?,
            assignment_epochs: Some(Vec::new()),
        };
        reader.tagged_fields(|tag, reader| {
            if tag == 0 {
                message.assignment_epochs =
                    reader.nullable_array("assignment_epochs", true, 4, |reader| reader.int32("assignment_epochs"))?;
            }
            Ok(())
        })?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::uuid(out, self.topic_id);
        writer::array(out, "partitions", &self.partitions, true, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        let has_assignment_epochs = self.assignment_epochs.as_ref().is_none_or(|values| !values.is_empty());
        writer::unsigned_varint(out, u32::from(has_assignment_epochs));
        if has_assignment_epochs {
            writer::tagged_field(out, 0, |out| {
                writer::nullable_array(
                    out,
                    "assignment_epochs",
                    self.assignment_epochs.as_deref(),
                    true,
                    |out, value| {
                        writer::int32(out, *value);
                        Ok(())
                    },
                )?;
                Ok(())
            })?;
        }
        Ok(())
    }
}
