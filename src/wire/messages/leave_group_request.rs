//! Kafka's LeaveGroup request, versions 0 to 5.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's LeaveGroup request, versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaveGroupRequest<'a> {
    /// The ID of the group to leave.
    pub group_id: &'a str,
    /// The member ID to remove from the group. Up to version 2.
    pub member_id: &'a str,
    /// List of leaving member identities. Since version 3.
    pub members: Vec<MemberIdentity<'a>>,
}

impl<'a> LeaveGroupRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 13;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 5;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "LeaveGroupRequest", version });
        }
        let flexible = version >= 4;
        let message = Self {
            group_id: reader.string("group_id", flexible)?,
            member_id: if version <= 2 { reader.string("member_id", flexible)? } else { "" },
            members: if version >= 3 {
                reader.array("members", flexible, 3, |reader| MemberIdentity::decode(reader, version))?
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
            return Err(EncodeError::UnsupportedVersion { message: "LeaveGroupRequest", version });
        }
        let flexible = version >= 4;
        writer::string(out, "group_id", self.group_id, flexible)?;
        if version <= 2 {
            writer::string(out, "member_id", self.member_id, flexible)?;
        } else {
            writer::absent("member_id", version, self.member_id.is_empty())?;
        }
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

/// List of leaving member identities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberIdentity<'a> {
    /// The member ID to remove from the group.
    pub member_id: &'a str,
    /// The group instance ID to remove from the group.
    pub group_instance_id: Option<&'a str>,
    /// The reason why the member left the group. Since version 5.
    pub reason: Option<&'a str>,
}

impl<'a> MemberIdentity<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let message = Self {
            member_id: reader.string("member_id", flexible)?,
            group_instance_id: reader.nullable_string("group_instance_id", flexible)?,
            reason: if version == 5 { reader.nullable_string("reason", flexible)? } else { None },
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
        if version == 5 {
            writer::nullable_string(out, "reason", self.reason, flexible)?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
