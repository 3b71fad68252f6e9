//! Kafka's consumer group metadata value, versions 0.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's consumer group metadata value, versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupMetadataValue {
    /// The group epoch.
    pub epoch: i32,
    /// The hash of all topics in the group.
    pub metadata_hash: i64,
}

impl ConsumerGroupMetadataValue {
    /// What its record's key begins with.
    pub const API_KEY: i16 = 3;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 0;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ConsumerGroupMetadataValue", version });
        }
        let mut message = Self { epoch: reader.int32("epoch")?, metadata_hash: 0 };
        reader.tagged_fields(|tag, reader| {
            if tag == 0 {
                message.metadata_hash = reader.int64("metadata_hash")?;
            }
            Ok(())
        })?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ConsumerGroupMetadataValue", version });
        }
        writer::int32(out, self.epoch);
        let has_metadata_hash = self.metadata_hash != 0;
        writer::unsigned_varint(out, u32::from(has_metadata_hash));
        if has_metadata_hash {
            writer::tagged_field(out, 0, |out| {
                writer::int64(out, self.metadata_hash);
                Ok(())
            })?;
        }
        Ok(())
    }
}
