//! Kafka's JoinGroup response, versions 0 to 9.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's JoinGroup response, versions 0 to 9.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinGroupResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota. Since version 2.
    pub throttle_time_ms: i32,
    /// The error code, or 0 if there was no error.
    pub error_code: i16,
    /// The generation ID of the group.
    pub generation_id: i32,
    /// The group protocol name. Since version 7.
    pub protocol_type: Option<&'a str>,
    /// The group protocol selected by the coordinator.
    pub protocol_name: Option<&'a str>,
    /// The leader of the group.
    pub leader: &'a str,
    /// True if the leader must skip running the assignment. Since version 9.
    pub skip_assignment: bool,
    /// The member ID assigned by the group coordinator.
    pub member_id: &'a str,
    /// The group members.
    pub members: Vec<JoinGroupResponseMember<'a>>,
}

impl Default for JoinGroupResponse<'_> {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            error_code: 0,
            generation_id: -1,
            protocol_type: None,
            protocol_name: Some(""),
            leader: "",
            skip_assignment: false,
            member_id: "",
            members: Vec::new(),
        }
    }
}

impl<'a> JoinGroupResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 11;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 9;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "JoinGroupResponse", version });
        }
        let flexible = version >= 6;
        let message = Self {
            throttle_time_ms: if version >= 2 { reader.int32("throttle_time_ms")? } else { 0 },
            error_code: reader.int16("error_code")?,
            generation_id: reader.int32("generation_id")?,
            protocol_type: if version >= 7 { reader.nullable_string("protocol_type", flexible)? } else { None },
            protocol_name: if version >= 7 {
                reader.nullable_string("protocol_name", flexible)?
            } else {
                Some(reader.string("protocol_name", flexible)?)
            },
            leader: reader.string("leader", flexible)?,
            skip_assignment: if version == 9 { reader.bool("skip_assignment")? } else { false },
            member_id: reader.string("member_id", flexible)?,
            members: reader.array("members", flexible, 4, |reader| JoinGroupResponseMember::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "JoinGroupResponse", version });
        }
        let flexible = version >= 6;
        if version >= 2 {
            writer::int32(out, self.throttle_time_ms);
        }
        writer::int16(out, self.error_code);
        writer::int32(out, self.generation_id);
        if version >= 7 {
            writer::nullable_string(out, "protocol_type", self.protocol_type, flexible)?;
        }
        if version >= 7 {
            writer::nullable_string(out, "protocol_name", self.protocol_name, flexible)?;
        } else {
            writer::string(out, "protocol_name", writer::required("protocol_name", self.protocol_name)?, flexible)?;
        }
        writer::string(out, "leader", self.leader, flexible)?;
        if version == 9 {
            writer::bool(out, self.skip_assignment);
        } else {
            writer::absent("skip_assignment", version, !self.skip_assignment)?;
        }
        writer::string(out, "member_id", self.member_id, flexible)?;
        writer::array(out, "members", &self.members, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The group members.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JoinGroupResponseMember<'a> {
    /// The group member ID.
    pub member_id: &'a str,
    /// The unique identifier of the consumer instance provided by end user. Since version 5.
    pub group_instance_id: Option<&'a str>,
    /// The group member metadata.
    pub metadata: &'a [u8],
}

impl<'a> JoinGroupResponseMember<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let message = Self {
            member_id: reader.string("member_id", flexible)?,
            group_instance_id: if version >= 5 { reader.nullable_string("group_instance_id", flexible)? } else { None },
            metadata: reader.bytes("metadata", flexible)?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        writer::string(out, "member_id", self.member_id, flexible)?;
        if version >= 5 {
            writer::nullable_string(out, "group_instance_id", self.group_instance_id, flexible)?;
        }
        writer::bytes(out, "metadata", self.metadata, flexible)?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
