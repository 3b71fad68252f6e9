//! Kafka's WriteTxnMarkers request, versions 1 to 2.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's WriteTxnMarkers request, versions 1 to 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteTxnMarkersRequest<'a> {
    /// The transaction markers to be written.
    pub markers: Vec<WritableTxnMarker<'a>>,
}

impl<'a> WriteTxnMarkersRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 27;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 1;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 2;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "WriteTxnMarkersRequest", version });
        }
        let message =
            Self { markers: reader.array("markers", true, 17, |reader| WritableTxnMarker::decode(reader, version))? };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "WriteTxnMarkersRequest", version });
        }
        writer::array(out, "markers", &self.markers, true, |out, value| value.encode_body(out, version))?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The transaction markers to be written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WritableTxnMarker<'a> {
    /// The current producer ID.
    pub producer_id: i64,
    /// The current epoch associated with the producer ID.
    pub producer_epoch: i16,
    /// The result of the transaction to write to the partitions (false = ABORT, true = COMMIT).
    pub transaction_result: bool,
    /// Each topic that we want to write transaction marker(s) for.
    pub topics: Vec<WritableTxnMarkerTopic<'a>>,
    /// Epoch associated with the transaction state partition hosted by this transaction coordinator.
    pub coordinator_epoch: i32,
    /// Transaction version of the marker. Ex: 0/1 = legacy (TV0/TV1), 2 = TV2 etc. Since version 2.
    pub transaction_version: i8,
}

impl<'a> WritableTxnMarker<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            producer_id: reader.int64("producer_id")?,
            producer_epoch: reader.int16("producer_epoch")?,
            transaction_result: reader.bool("transaction_result")?,
            topics: reader.array("topics", true, 3, |reader| WritableTxnMarkerTopic::decode(reader, version))?,
            coordinator_epoch: reader.int32("coordinator_epoch")?,
            transaction_version: if version == 2 { reader.int8("transaction_version")? } else { 0 },
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        writer::int64(out, self.producer_id);
        writer::int16(out, self.producer_epoch);
        writer::bool(out, self.transaction_result);
        writer::array(out, "topics", &self.topics, true, |out, value| value.encode_body(out, version))?;
        writer::int32(out, self.coordinator_epoch);
        if version == 2 {
            writer::int8(out, self.transaction_version);
        }
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// Each topic that we want to write transaction marker(s) for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WritableTxnMarkerTopic<'a> {
    /// The topic name.
    pub name: &'a str,
    /// The indexes of the partitions to write transaction markers for.
    pub partition_indexes: Vec<i32>,
}

impl<'a> WritableTxnMarkerTopic<'a> {
    fn decode(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            name: reader.string("name", true)?,
            partition_indexes: reader
                .array("partition_indexes", true, 4, |reader| reader.int32("partition_indexes"))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::string(out, "name", self.name, true)?;
        writer::array(out, "partition_indexes", &self.partition_indexes, true, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
