//! Kafka's FindCoordinator response, versions 0 to 6.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's FindCoordinator response, versions 0 to 6.
#[derive(Clone, Debug, PartialEq)]
pub struct FindCoordinatorResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota. Since version 1.
    pub throttle_time_ms: i32,
    /// The error code, or 0 if there was no error. Up to version 3.
    pub error_code: i16,
    /// The error message, or null if there was no error. Versions 1 to 3.
    pub error_message: Option<&'a str>,
    /// The node id. Up to version 3.
    pub node_id: i32,
    /// The host name. Up to version 3.
    pub host: &'a str,
    /// The port. Up to version 3.
    pub port: i32,
    /// Each coordinator result in the response. Since version 4.
    pub coordinators: Vec<Coordinator<'a>>,
}

impl Default for FindCoordinatorResponse<'_> {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            error_code: 0,
            error_message: Some(""),
            node_id: 0,
            host: "",
            port: 0,
            coordinators: Vec::new(),
        }
    }
}

impl<'a> FindCoordinatorResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 10;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 6;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "FindCoordinatorResponse", version });
        }
        let flexible = version >= 3;
        let message = Self {
            throttle_time_ms: if version >= 1 { reader.int32("throttle_time_ms")? } else { 0 },
            error_code: if version <= 3 { reader.int16("error_code")? } else { 0 },
            error_message: if (1..=3).contains(&version) {
                reader.nullable_string("error_message", flexible)?
            } else {
                Some("")
            },
            node_id: if version <= 3 { reader.int32("node_id")? } else { 0 },
            host: if version <= 3 { reader.string("host", flexible)? } else { "" },
            port: if version <= 3 { reader.int32("port")? } else { 0 },
            coordinators: if version >= 4 {
                reader.array("coordinators", flexible, 14, |reader| Coordinator::decode(reader, version))?
            } else {
                Vec::new()
            },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "FindCoordinatorResponse", version });
        }
        let flexible = version >= 3;
        if version >= 1 {
            writer::int32(out, self.throttle_time_ms);
        }
        if version <= 3 {
            writer::int16(out, self.error_code);
        } else {
            writer::absent("error_code", version, self.error_code == 0)?;
        }
        if (1..=3).contains(&version) {
            writer::nullable_string(out, "error_message", self.error_message, flexible)?;
        }
        if version <= 3 {
            writer::int32(out, self.node_id);
        } else {
            writer::absent("node_id", version, self.node_id == 0)?;
        }
        if version <= 3 {
            writer::string(out, "host", self.host, flexible)?;
        } else {
            writer::absent("host", version, self.host.is_empty())?;
        }
        if version <= 3 {
            writer::int32(out, self.port);
        } else {
            writer::absent("port", version, self.port == 0)?;
        }
        if version >= 4 {
            writer::array(out, "coordinators", &self.coordinators, flexible, |out, value| {
                value.encode_body(out, version)
            })?;
        } else {
            writer::absent("coordinators", version, self.coordinators.is_empty())?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each coordinator result in the response.
#[derive(Clone, Debug, PartialEq)]
pub struct Coordinator<'a> {
    /// The coordinator key.
    pub key: &'a str,
    /// The node id.
    pub node_id: i32,
    /// The host name.
    pub host: &'a str,
    /// The port.
    pub port: i32,
    /// The error code, or 0 if there was no error.
    pub error_code: i16,
    /// The error message, or null if there was no error.
    pub error_message: Option<&'a str>,
}

impl Default for Coordinator<'_> {
    fn default() -> Self {
        Self { key: "", node_id: 0, host: "", port: 0, error_code: 0, error_message: Some("") }
    }
}

impl<'a> Coordinator<'a> {
    fn decode(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        let flexible = true;
        let message = Self {
            key: reader.string("key", flexible)?,
            node_id: reader.int32("node_id")?,
            host: reader.string("host", flexible)?,
            port: reader.int32("port")?,
            error_code: reader.int16("error_code")?,
            error_message: reader.nullable_string("error_message", flexible)?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        let flexible = true;
        writer::string(out, "key", self.key, flexible)?;
        writer::int32(out, self.node_id);
        writer::string(out, "host", self.host, flexible)?;
        writer::int32(out, self.port);
        writer::int16(out, self.error_code);
        writer::nullable_string(out, "error_message", self.error_message, flexible)?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
