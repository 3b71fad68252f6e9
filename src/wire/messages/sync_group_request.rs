//! Kafka's SyncGroup request, versions 0 to 5.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's SyncGroup request, versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncGroupRequest<'a> {
    /// The unique group identifier.
    pub group_id: &'a str,
    /// The generation of the group.
    pub generation_id: i32,
    /// The member ID assigned by the group.
    pub member_id: &'a str,
    /// The unique identifier of the consumer instance provided by end user. Since version 3.
    pub group_instance_id: Option<&'a str>,
    /// The group protocol type. Since version 5.
    pub protocol_type: Option<&'a str>,
    /// The group protocol name. Since version 5.
    pub protocol_name: Option<&'a str>,
    /// Each assignment.
    pub assignments: Vec<SyncGroupRequestAssignment<'a>>,
}

impl<'a> SyncGroupRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 14;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 5;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "SyncGroupRequest", version });
        }
        let flexible = version >= 4;
        let message = Self {
            group_id: reader.string("group_id", flexible)?,
            generation_id: reader.int32("generation_id")?,
            member_id: reader.string("member_id", flexible)?,
            group_instance_id: if version >= 3 { reader.nullable_string("group_instance_id", flexible)? } else { None },
            protocol_type: if version == 5 { reader.nullable_string("protocol_type", flexible)? } else { None },
            protocol_name: if version == 5 { reader.nullable_string("protocol_name", flexible)? } else { None },
            assignments: reader
                .array("assignments", flexible, 3, |reader| SyncGroupRequestAssignment::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "SyncGroupRequest", version });
        }
        let flexible = version >= 4;
        writer::string(out, "group_id", self.group_id, flexible)?;
        writer::int32(out, self.generation_id);
        writer::string(out, "member_id", self.member_id, flexible)?;
        if version >= 3 {
            writer::nullable_string(out, "group_instance_id", self.group_instance_id, flexible)?;
        } else {
            writer::absent("group_instance_id", version, self.group_instance_id.is_none())?;
        }
        if version == 5 {
            writer::nullable_string(out, "protocol_type", self.protocol_type, flexible)?;
        }
        if version == 5 {
            writer::nullable_string(out, "protocol_name", self.protocol_name, flexible)?;
        }
        writer::array(out, "assignments", &self.assignments, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each assignment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncGroupRequestAssignment<'a> {
    /// The ID of the member to assign.
    pub member_id: &'a str,
    /// The member assignment.
    pub assignment: &'a [u8],
}

impl<'a> SyncGroupRequestAssignment<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let message = Self {
            member_id: reader.string("member_id", flexible)?,
            assignment: reader.bytes("assignment", flexible)?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 4;
        writer::string(out, "member_id", self.member_id, flexible)?;
        writer::bytes(out, "assignment", self.assignment, flexible)?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
