//! Kafka's DescribeCluster response, versions 0 to 2.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's DescribeCluster response, versions 0 to 2.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeClusterResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota.
    pub throttle_time_ms: i32,
    /// The top-level error code, or 0 if there was no error.
    pub error_code: i16,
    /// The top-level error message, or null if there was no error.
    pub error_message: Option<&'a str>,
    /// The endpoint type that was described. 1=brokers, 2=controllers. Since version 1.
    pub endpoint_type: i8,
    /// The cluster ID that responding broker belongs to.
    pub cluster_id: &'a str,
    /// The ID of the controller. When handled by a controller, returns the current voter leader ID. When handled by a
    /// broker, returns a random alive broker ID as a fallback.
    pub controller_id: i32,
    /// Each broker in the response.
    pub brokers: Vec<DescribeClusterBroker<'a>>,
    /// 32-bit bitfield to represent authorized operations for this cluster.
    pub cluster_authorized_operations: i32,
}

impl Default for DescribeClusterResponse<'_> {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            error_code: 0,
            error_message: None,
            endpoint_type: 1,
            cluster_id: "",
            controller_id: -1,
            brokers: Vec::new(),
            cluster_authorized_operations: -2147483648,
        }
    }
}

impl<'a> DescribeClusterResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 60;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 2;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DescribeClusterResponse", version });
        }
        let message = Self {
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            error_code: reader.int16("error_code")?,
            error_message: reader.nullable_string("error_message", true)?,
            endpoint_type: if version >= 1 { reader.int8("endpoint_type")? } else { 1 },
            cluster_id: reader.string("cluster_id", true)?,
            controller_id: reader.int32("controller_id")?,
            brokers: reader.array("brokers", true, 11, |reader| DescribeClusterBroker::decode(reader, version))?,
            cluster_authorized_operations: reader.int32("cluster_authorized_operations")?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DescribeClusterResponse", version });
        }
        writer::int32(out, self.throttle_time_ms);
        writer::int16(out, self.error_code);
        writer::nullable_string(out, "error_message", self.error_message, true)?;
        if version >= 1 {
            writer::int8(out, self.endpoint_type);
        } else {
            writer::absent("endpoint_type", version, self.endpoint_type == 1)?;
        }
        writer::string(out, "cluster_id", self.cluster_id, true)?;
        writer::int32(out, self.controller_id);
        writer::array(out, "brokers", &self.brokers, true, |out, value| value.encode_body(out, version))?;
        writer::int32(out, self.cluster_authorized_operations);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// Each broker in the response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeClusterBroker<'a> {
    /// The broker ID.
    pub broker_id: i32,
    /// The broker hostname.
    pub host: &'a str,
    /// The broker port.
    pub port: i32,
    /// The rack of the broker, or null if it has not been assigned to a rack.
    pub rack: Option<&'a str>,
    /// Whether the broker is fenced Since version 2.
    pub is_fenced: bool,
}

impl<'a> DescribeClusterBroker<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            broker_id: reader.int32("broker_id")?,
            host: reader.string("host", true)?,
            port: reader.int32("port")?,
            rack: reader.nullable_string("rack", true)?,
            is_fenced: if version == 2 { reader.bool("is_fenced")? } else { false },
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        writer::int32(out, self.broker_id);
        writer::string(out, "host", self.host, true)?;
        writer::int32(out, self.port);
        writer::nullable_string(out, "rack", self.rack, true)?;
        if version == 2 {
            writer::bool(out, self.is_fenced);
        } else {
            writer::absent("is_fenced", version, !self.is_fenced)?;
        }
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
