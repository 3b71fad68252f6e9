//! Kafka's consumer group target assignment metadata value, versions 0.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's consumer group target assignment metadata value, versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupTargetAssignmentMetadataValue {
    /// The assignment epoch.
    pub assignment_epoch: i32,
    /// The time at which the assignment calculation finished.
    pub assignment_timestamp: i64,
}

impl ConsumerGroupTargetAssignmentMetadataValue {
    /// What its record's key begins with.
    pub const API_KEY: i16 = 6;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 0;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion {
                message: "ConsumerGroupTargetAssignmentMetadataValue",
                version,
            });
        }
        let mut message = Self { assignment_epoch: reader.int32("assignment_epoch")?, assignment_timestamp: 0 };
        reader.tagged_fields(|tag, reader| {
            if tag == 0 {
                message.assignment_timestamp = reader.int64("assignment_timestamp")?;
            }
            Ok(())
        })?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion {
                message: "ConsumerGroupTargetAssignmentMetadataValue",
                version,
            });
        }
        writer::int32(out, self.assignment_epoch);
        let has_assignment_timestamp = self.assignment_timestamp != 0;
        writer::unsigned_varint(out, u32::from(has_assignment_timestamp));
        if has_assignment_timestamp {
            writer::tagged_field(out, 0, |out| {
                writer::int64(out, self.assignment_timestamp);
                Ok(())
            })?;
        }
        Ok(())
    }
}
