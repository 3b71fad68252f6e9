//! Kafka's LeaveGroup response, versions 0 to 5.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's LeaveGroup response, versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaveGroupResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota. Since version 1.
    pub throttle_time_ms: i32,
    /// The error code, or 0 if there was no error.
    pub error_code: i16,
    /// List of leaving member responses. Since version 3.
    pub members: Vec<MemberResponse<'a>>,
}

impl<'a> LeaveGroupResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 13;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 5;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "LeaveGroupResponse", version });
        }
        let flexible = version >= 4;
        let message = Self {
            throttle_time_ms: if version >= 1 { reader.int32("throttle_time_ms")? } else { 0 },
            error_code: reader.int16("error_code")?,
            members: if version >= 3 {
                reader.array("members", flexible, 5, |reader| MemberResponse::decode(reader, version))?
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
            return Err(EncodeError::UnsupportedVersion { message: "LeaveGroupResponse", version });
        }
        let flexible = version >= 4;
        if version >= 1 {
            writer::int32(out, self.throttle_time_ms);
        }
        writer::int16(out, self.error_code);
        if version >= 3 {
            writer::array(out, "members", &self.members, flexible, |out, value| value.encode_body(out, version))?;
        } else {
            writer::absent("members", version, self.members.is_empty())?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// List of leaving member responses.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberResponse<'a> {
    /// The member ID to remove from the group.
    pub member_id: &'a str,
    /// The group instance ID to remove from the group.
    pub group_instance_id: Option<&'a str>,
    /// The error code, or 0 if there was no error.
    pub error_code: i16,
}

impl Default for MemberResponse<'_> {
    fn default() -> Self {
        Self { member_id: "", group_instance_id: Some(""), error_code: 0 }
    }
}

impl<'a> MemberResponse<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let message = Self {
            member_id: reader.string("member_id", flexible)?,
            group_instance_id: reader.nullable_string("group_instance_id", flexible)?,
            error_code: reader.int16("error_code")?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 4;
        writer::string(out, "member_id", self.member_id, flexible)?;
        writer::nullable_string(out, "group_instance_id", self.group_instance_id, flexible)?;
        writer::int16(out, self.error_code);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
