//! Kafka's DescribeLogDirs response, versions 1 to 5.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's DescribeLogDirs response, versions 1 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeLogDirsResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota.
    pub throttle_time_ms: i32,
    /// The error code, or 0 if there was no error. Since version 3.
    pub error_code: i16,
    /// The log directories.
    pub results: Vec<DescribeLogDirsResult<'a>>,
}

impl<'a> DescribeLogDirsResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 35;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 1;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 5;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DescribeLogDirsResponse", version });
        }
        let flexible = version >= 2;
        let message = Self {
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            error_code: if version >= 3 { reader.int16("error_code")? } else { 0 },
            results: reader.array("results", flexible, 5, |reader| DescribeLogDirsResult::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DescribeLogDirsResponse", version });
        }
        let flexible = version >= 2;
        writer::int32(out, self.throttle_time_ms);
        if version >= 3 {
            writer::int16(out, self.error_code);
        }
        writer::array(out, "results", &self.results, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The log directories.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeLogDirsResult<'a> {
    /// The error code, or 0 if there was no error.
    pub error_code: i16,
    /// The absolute log directory path.
    pub log_dir: &'a str,
    /// The topics.
    pub topics: Vec<DescribeLogDirsTopic<'a>>,
    /// The total size in bytes of the volume the log directory is in. This value does not include the size of data
    /// stored in remote storage. Since version 4.
    pub total_bytes: i64,
    /// The usable size in bytes of the volume the log directory is in. This value does not include the size of data
    /// stored in remote storage. Since version 4.
    pub usable_bytes: i64,
    /// True if this log directory is cordoned. Since version 5.
    pub is_cordoned: bool,
}

impl Default for DescribeLogDirsResult<'_> {
    fn default() -> Self {
        Self { error_code: 0, log_dir: "", topics: Vec::new(), total_bytes: -1, usable_bytes: -1, is_cordoned: false }
    }
}

impl<'a> DescribeLogDirsResult<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let message = Self {
            error_code: reader.int16("error_code")?,
            log_dir: reader.string("log_dir", flexible)?,
            topics: reader.array("topics", flexible, 3, |reader| DescribeLogDirsTopic::decode(reader, version))?,
            total_bytes: if version >= 4 { reader.int64("total_bytes")? } else { -1 },
            usable_bytes: if version >= 4 { reader.int64("usable_bytes")? } else { -1 },
            is_cordoned: if version == 5 { reader.bool("is_cordoned")? } else { false },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        writer::int16(out, self.error_code);
        writer::string(out, "log_dir", self.log_dir, flexible)?;
        writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        if version >= 4 {
            writer::int64(out, self.total_bytes);
        }
        if version >= 4 {
            writer::int64(out, self.usable_bytes);
        }
        if version == 5 {
            writer::bool(out, self.is_cordoned);
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The topics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeLogDirsTopic<'a> {
    /// The topic name.
    pub name: &'a str,
    /// The partitions.
    pub partitions: Vec<DescribeLogDirsPartition>,
}

impl<'a> DescribeLogDirsTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let message = Self {
            name: reader.string("name", flexible)?,
            partitions: reader
                .array("partitions", flexible, 21, |reader| DescribeLogDirsPartition::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        writer::string(out, "name", self.name, flexible)?;
        writer::array(out, "partitions", &self.partitions, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The partitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeLogDirsPartition {
    /// The partition index.
    pub partition_index: i32,
    /// The size of the log segments in this partition in bytes.
    pub partition_size: i64,
    /// The lag of the log's LEO w.r.t. partition's HW (if it is the current log for the partition) or current
    /// replica's LEO (if it is the future log for the partition).
    pub offset_lag: i64,
    /// True if this log is created by AlterReplicaLogDirsRequest and will replace the current log of the replica in
    /// the future.
    pub is_future_key: bool,
}

impl DescribeLogDirsPartition {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let message = Self {
            partition_index: reader.int32("partition_index")?,
            partition_size: reader.int64("partition_size")?,
            offset_lag: reader.int64("offset_lag")?,
            is_future_key: reader.bool("is_future_key")?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        writer::int32(out, self.partition_index);
        writer::int64(out, self.partition_size);
        writer::int64(out, self.offset_lag);
        writer::bool(out, self.is_future_key);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
