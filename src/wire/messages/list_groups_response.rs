//! Kafka's ListGroups response, versions 0 to 5.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's ListGroups response, versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListGroupsResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota. Since version 1.
    pub throttle_time_ms: i32,
    /// The error code, or 0 if there was no error.
    pub error_code: i16,
    /// Each group in the response.
    pub groups: Vec<ListedGroup<'a>>,
}

impl<'a> ListGroupsResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 16;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 5;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ListGroupsResponse", version });
        }
        let flexible = version >= 3;
        let message = Self {
            throttle_time_ms: if version >= 1 { reader.int32("throttle_time_ms")? } else { 0 },
            error_code: reader.int16("error_code")?,
            groups: reader.array("groups", flexible, 3, |reader| ListedGroup::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ListGroupsResponse", version });
        }
        let flexible = version >= 3;
        if version >= 1 {
            writer::int32(out, self.throttle_time_ms);
        }
        writer::int16(out, self.error_code);
        writer::array(out, "groups", &self.groups, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each group in the response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedGroup<'a> {
    /// The group ID.
    pub group_id: &'a str,
    /// The group protocol type.
    pub protocol_type: &'a str,
    /// The group state name. Since version 4.
    pub group_state: &'a str,
    /// The group type name. Since version 5.
    pub group_type: &'a str,
}

impl<'a> ListedGroup<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let message = Self {
            group_id: reader.string("group_id", flexible)?,
            protocol_type: reader.string("protocol_type", flexible)?,
            group_state: if version >= 4 { reader.string("group_state", flexible)? } else { "" },
            group_type: if version == 5 { reader.string("group_type", flexible)? } else { "" },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        writer::string(out, "group_id", self.group_id, flexible)?;
        writer::string(out, "protocol_type", self.protocol_type, flexible)?;
        if version >= 4 {
            writer::string(out, "group_state", self.group_state, flexible)?;
        }
        if version == 5 {
            writer::string(out, "group_type", self.group_type, flexible)?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
