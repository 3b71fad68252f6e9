//! Kafka's DescribeGroups response, versions 0 to 6.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's DescribeGroups response, versions 0 to 6.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeGroupsResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota. Since version 1.
    pub throttle_time_ms: i32,
    /// Each described group.
    pub groups: Vec<DescribedGroup<'a>>,
}

impl<'a> DescribeGroupsResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 15;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 6;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DescribeGroupsResponse", version });
        }
        let flexible = version >= 5;
        let message = Self {
            throttle_time_ms: if version >= 1 { reader.int32("throttle_time_ms")? } else { 0 },
            groups: reader.array("groups", flexible, 12, |reader| DescribedGroup::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DescribeGroupsResponse", version });
        }
        let flexible = version >= 5;
        if version >= 1 {
            writer::int32(out, self.throttle_time_ms);
        }
        writer::array(out, "groups", &self.groups, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each described group.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedGroup<'a> {
    /// The describe error, or 0 if there was no error.
    pub error_code: i16,
    /// The describe error message, or null if there was no error. Since version 6.
    pub error_message: Option<&'a str>,
    /// The group ID string.
    pub group_id: &'a str,
    /// The group state string, or the empty string.
    pub group_state: &'a str,
    /// The group protocol type, or the empty string.
    pub protocol_type: &'a str,
    /// The group protocol data, or the empty string.
    pub protocol_data: &'a str,
    /// The group members.
    pub members: Vec<DescribedGroupMember<'a>>,
    /// 32-bit bitfield to represent authorized operations for this group. Since version 3.
    pub authorized_operations: i32,
}

impl Default for DescribedGroup<'_> {
    fn default() -> Self {
        Self {
            error_code: 0,
            error_message: None,
            group_id: "",
            group_state: "",
            protocol_type: "",
            protocol_data: "",
            members: Vec::new(),
            authorized_operations: -2147483648,
        }
    }
}

impl<'a> DescribedGroup<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 5;
        let message = Self {
            error_code: reader.int16("error_code")?,
            error_message: if version == 6 { reader.nullable_string("error_message", flexible)? } else { None },
            group_id: reader.string("group_id", flexible)?,
            group_state: reader.string("group_state", flexible)?,
            protocol_type: reader.string("protocol_type", flexible)?,
            protocol_data: reader.string("protocol_data", flexible)?,
            members: reader.array("members", flexible, 7, |reader| DescribedGroupMember::decode(reader, version))?,
            authorized_operations: if version >= 3 { reader.int32("authorized_operations")? } else { -2147483648 },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 5;
        writer::int16(out, self.error_code);
        if version == 6 {
            writer::nullable_string(out, "error_message", self.error_message, flexible)?;
        } else {
            writer::absent("error_message", version, self.error_message.is_none())?;
        }
        writer::string(out, "group_id", self.group_id, flexible)?;
        writer::string(out, "group_state", self.group_state, flexible)?;
        writer::string(out, "protocol_type", self.protocol_type, flexible)?;
        writer::string(out, "protocol_data", self.protocol_data, flexible)?;
        writer::array(out, "members", &self.members, flexible, |out, value| value.encode_body(out, version))?;
        if version >= 3 {
            writer::int32(out, self.authorized_operations);
        } else {
            writer::absent("authorized_operations", version, self.authorized_operations == -2147483648)?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The group members.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribedGroupMember<'a> {
    /// The member id.
    pub member_id: &'a str,
    /// The unique identifier of the consumer instance provided by end user. Since version 4.
    pub group_instance_id: Option<&'a str>,
    /// The client ID used in the member's latest join group request.
    pub client_id: &'a str,
    /// The client host.
    pub client_host: &'a str,
    /// The metadata corresponding to the current group protocol in use.
    pub member_metadata: &'a [u8],
    /// The current assignment provided by the group leader.
    pub member_assignment: &'a [u8],
}

impl<'a> DescribedGroupMember<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 5;
        let message = Self {
            member_id: reader.string("member_id", flexible)?,
            group_instance_id: if version >= 4 { reader.nullable_string("group_instance_id", flexible)? } else { None },
            client_id: reader.string("client_id", flexible)?,
            client_host: reader.string("client_host", flexible)?,
            member_metadata: reader.bytes("member_metadata", flexible)?,
            member_assignment: reader.bytes("member_assignment", flexible)?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 5;
        writer::string(out, "member_id", self.member_id, flexible)?;
        if version >= 4 {
            writer::nullable_string(out, "group_instance_id", self.group_instance_id, flexible)?;
        }
        writer::string(out, "client_id", self.client_id, flexible)?;
        writer::string(out, "client_host", self.client_host, flexible)?;
        writer::bytes(out, "member_metadata", self.member_metadata, flexible)?;
        writer::bytes(out, "member_assignment", self.member_assignment, flexible)?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
