//! Kafka's group metadata value, versions 0 to 4.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's group metadata value, versions 0 to 4.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupMetadataValue<'a> {
    /// The protocol type.
    pub protocol_type: &'a str,
    /// The generation id.
    pub generation: i32,
    /// The protocol name.
    pub protocol: Option<&'a str>,
    /// The leader id.
    pub leader: Option<&'a str>,
    /// The timestamp of the last state change. Since version 2.
    pub current_state_timestamp: i64,
    /// The group members.
    pub members: Vec<MemberMetadata<'a>>,
}

impl Default for GroupMetadataValue<'_> {
    fn default() -> Self {
        Self {
            protocol_type: "",
            generation: 0,
            protocol: Some(""),
            leader: Some(""),
            current_state_timestamp: -1,
            members: Vec::new(),
        }
    }
}

impl<'a> GroupMetadataValue<'a> {
    /// What its record's key begins with.
    pub const API_KEY: i16 = 2;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 4;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "GroupMetadataValue", version });
        }
        let flexible = version == 4;
        let message = Self {
            protocol_type: reader.string("protocol_type", flexible)?,
            generation: reader.int32("generation")?,
            protocol: reader.nullable_string("protocol", flexible)?,
            leader: reader.nullable_string("leader", flexible)?,
            current_state_timestamp: if version >= 2 { reader.int64("current_state_timestamp")? } else { -1 },
            members: reader.array("members", flexible, 15, |reader| MemberMetadata::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "GroupMetadataValue", version });
        }
        let flexible = version == 4;
        writer::string(out, "protocol_type", self.protocol_type, flexible)?;
        writer::int32(out, self.generation);
        writer::nullable_string(out, "protocol", self.protocol, flexible)?;
        writer::nullable_string(out, "leader", self.leader, flexible)?;
        if version >= 2 {
            writer::int64(out, self.current_state_timestamp);
        }
        writer::array(out, "members", &self.members, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// A part of the message.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberMetadata<'a> {
    /// The member id.
    pub member_id: &'a str,
    /// The group instance id. Since version 3.
    pub group_instance_id: Option<&'a str>,
    /// The client id.
    pub client_id: &'a str,
    /// The client host.
    pub client_host: &'a str,
    /// The rebalance timeout. Since version 1.
    pub rebalance_timeout: i32,
    /// The session timeout.
    pub session_timeout: i32,
    /// The subscription.
    pub subscription: &'a [u8],
    /// The assignment.
    pub assignment: &'a [u8],
}

impl Default for MemberMetadata<'_> {
    fn default() -> Self {
        Self {
            member_id: "",
            group_instance_id: None,
            client_id: "",
            client_host: "",
            rebalance_timeout: -1,
            session_timeout: 0,
            subscription: &[],
            assignment: &[],
        }
    }
}

impl<'a> MemberMetadata<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version == 4;
        let message = Self {
            member_id: reader.string("member_id", flexible)?,
            group_instance_id: if version >= 3 { reader.nullable_string("group_instance_id", flexible)? } else { None },
            client_id: reader.string("client_id", flexible)?,
            client_host: reader.string("client_host", flexible)?,
            rebalance_timeout: if version >= 1 { reader.int32("rebalance_timeout")? } else { -1 },
            session_timeout: reader.int32("session_timeout")?,
            subscription: reader.bytes("subscription", flexible)?,
            assignment: reader.bytes("assignment", flexible)?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version == 4;
        writer::string(out, "member_id", self.member_id, flexible)?;
        if version >= 3 {
            writer::nullable_string(out, "group_instance_id", self.group_instance_id, flexible)?;
        }
        writer::string(out, "client_id", self.client_id, flexible)?;
        writer::string(out, "client_host", self.client_host, flexible)?;
        if version >= 1 {
            writer::int32(out, self.rebalance_timeout);
        }
        writer::int32(out, self.session_timeout);
        writer::bytes(out, "subscription", self.subscription, flexible)?;
        writer::bytes(out, "assignment", self.assignment, flexible)?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
