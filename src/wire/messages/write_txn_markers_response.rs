//! Kafka's WriteTxnMarkers response, versions 1 to 2.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's WriteTxnMarkers response, versions 1 to 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteTxnMarkersResponse<'a> {
    /// The results for writing makers.
    pub markers: Vec<WritableTxnMarkerResult<'a>>,
}

impl<'a> WriteTxnMarkersResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 27;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 1;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 2;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "WriteTxnMarkersResponse", version });
        }
        let message = Self {
            markers: reader.array("markers", true, 10, |reader| WritableTxnMarkerResult::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "WriteTxnMarkersResponse", version });
        }
        writer::array(out, "markers", &self.markers, true, |out, value| value.encode_body(out, version))?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The results for writing makers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WritableTxnMarkerResult<'a> {
    /// The current producer ID in use by the transactional ID.
    pub producer_id: i64,
    /// The results by topic.
    pub topics: Vec<WritableTxnMarkerTopicResult<'a>>,
}

impl<'a> WritableTxnMarkerResult<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            producer_id: reader.int64("producer_id")?,
            topics: reader.array("topics", true, 3, |reader| WritableTxnMarkerTopicResult::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        writer::int64(out, self.producer_id);
        writer::array(out, "topics", &self.topics, true, |out, value| value.encode_body(out, version))?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The results by topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WritableTxnMarkerTopicResult<'a> {
    /// The topic name.
    pub name: &'a str,
    /// The results by partition.
    pub partitions: Vec<WritableTxnMarkerPartitionResult>,
}

impl<'a> WritableTxnMarkerTopicResult<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            name: reader.string("name", true)?,
            partitions: reader
                .array("partitions", true, 7, |reader| WritableTxnMarkerPartitionResult::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        writer::string(out, "name", self.name, true)?;
        writer::array(out, "partitions", &self.partitions, true, |out, value| value.encode_body(out, version))?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The results by partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WritableTxnMarkerPartitionResult {
    /// The partition index.
    pub partition_index: i32,
    /// The error code, or 0 if there was no error.
    pub error_code: i16,
}

impl WritableTxnMarkerPartitionResult {
    fn decode(reader: &mut Reader<'_>, _version: i16) -> Result<Self, DecodeError> {
        let message =
            Self { partition_index: reader.int32("partition_index")?, error_code: reader.int16("error_code")? };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::int32(out, self.partition_index);
        writer::int16(out, self.error_code);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
