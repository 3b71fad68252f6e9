//! Kafka's DescribeCluster request, versions 0 to 2.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's DescribeCluster request, versions 0 to 2.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeClusterRequest {
    /// Whether to include cluster authorized operations.
    pub include_cluster_authorized_operations: bool,
    /// The endpoint type to describe. 1=brokers, 2=controllers. Since version 1.
    pub endpoint_type: i8,
    /// Whether to include fenced brokers when listing brokers. Since version 2.
    pub include_fenced_brokers: bool,
}

impl Default for DescribeClusterRequest {
    fn default() -> Self {
        Self { include_cluster_authorized_operations: false, endpoint_type: 1, include_fenced_brokers: false }
    }
}

impl DescribeClusterRequest {
    /// The key of its API.
    pub const API_KEY: i16 = 60;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 2;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DescribeClusterRequest", version });
        }
        let message = Self {
            include_cluster_authorized_operations: reader.bool("include_cluster_authorized_operations")?,
            endpoint_type: if version >= 1 { reader.int8("endpoint_type")? } else { 1 },
            include_fenced_brokers: if version == 2 { reader.bool("include_fenced_brokers")? } else { false },
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DescribeClusterRequest", version });
        }
        writer::bool(out, self.include_cluster_authorized_operations);
        if version >= 1 {
            writer::int8(out, self.endpoint_type);
        } else {
            writer::absent("endpoint_type", version, self.endpoint_type == 1)?;
        }
        if version == 2 {
            writer::bool(out, self.include_fenced_brokers);
        } else {
            writer::absent("include_fenced_brokers", version, !self.include_fenced_brokers)?;
        }
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
