//! Kafka's offset commit value, versions 0 to 4.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's offset commit value, versions 0 to 4.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetCommitValue<'a> {
    /// The offset that the consumer wants to store (for this partition).
    pub offset: i64,
    /// The leader epoch of the last consumed record. Since version 3.
    pub leader_epoch: i32,
    /// Any metadata the client wants to keep.
    pub metadata: &'a str,
    /// The time at which the commit was added to the log.
    pub commit_timestamp: i64,
    /// The time at which the offset will expire. Versions 1 to 1.
    pub expire_timestamp: i64,
    /// The topic id of the committed offset. Since version 4.
    pub topic_id: Uuid,
}

impl Default for OffsetCommitValue<'_> {
    fn default() -> Self {
        Self {
            offset: 0,
            leader_epoch: -1,
            metadata: "",
            commit_timestamp: 0,
            expire_timestamp: -1,
            topic_id: Uuid::ZERO,
        }
    }
}

impl<'a> OffsetCommitValue<'a> {
    /// What its record's key begins with.
    pub const API_KEY: i16 = 1;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 4;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "OffsetCommitValue", version });
        }
        let flexible = version == 4;
        let mut message = Self {
            offset: reader.int64("offset")?,
            leader_epoch: if version >= 3 { reader.int32("leader_epoch")? } else { -1 },
            metadata: reader.string("metadata", flexible)?,
            commit_timestamp: reader.int64("commit_timestamp")?,
            expire_timestamp: if version == 1 { reader.int64("expire_timestamp")? } else { -1 },
            topic_id: Uuid::ZERO,
        };
        if flexible {
            reader.tagged_fields(|tag, reader| {
                if tag == 0 {
                    message.topic_id = reader.uuid("topic_id")?;
                }
                Ok(())
            })?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "OffsetCommitValue", version });
        }
        let flexible = version == 4;
        writer::int64(out, self.offset);
        if version >= 3 {
            writer::int32(out, self.leader_epoch);
        }
        writer::string(out, "metadata", self.metadata, flexible)?;
        writer::int64(out, self.commit_timestamp);
        if version == 1 {
            writer::int64(out, self.expire_timestamp);
        }
        if flexible {
            let has_topic_id = !self.topic_id.is_zero();
            writer::unsigned_varint(out, u32::from(has_topic_id));
            if has_topic_id {
                writer::tagged_field(out, 0, |out| {
                    writer::uuid(out, self.topic_id);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }
}
