//! Kafka's JoinGroup request, versions 0 to 9.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's JoinGroup request, versions 0 to 9.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinGroupRequest<'a> {
    /// The group identifier.
    pub group_id: &'a str,
    /// The coordinator considers the consumer dead if it receives no heartbeat after this timeout in milliseconds.
    pub session_timeout_ms: i32,
    /// The maximum time in milliseconds that the coordinator will wait for each member to rejoin when rebalancing the
    /// group. Since version 1.
    pub rebalance_timeout_ms: i32,
    /// The member id assigned by the group coordinator.
    pub member_id: &'a str,
    /// The unique identifier of the consumer instance provided by end user. Since version 5.
    pub group_instance_id: Option<&'a str>,
    /// The unique name the for class of protocols implemented by the group we want to join.
    pub protocol_type: &'a str,
    /// The list of protocols that the member supports.
    pub protocols: Vec<JoinGroupRequestProtocol<'a>>,
    /// The reason why the member (re-)joins the group. Since version 8.
    pub reason: Option<&'a str>,
}

impl Default for JoinGroupRequest<'_> {
    fn default() -> Self {
        Self {
            group_id: "",
            session_timeout_ms: 0,
            rebalance_timeout_ms: -1,
            member_id: "",
            group_instance_id: None,
            protocol_type: "",
            protocols: Vec::new(),
            reason: None,
        }
    }
}

impl<'a> JoinGroupRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 11;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 9;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "JoinGroupRequest", version });
        }
        let flexible = version >= 6;
        let message = Self {
            group_id: reader.string("group_id", flexible)?,
            session_timeout_ms: reader.int32("session_timeout_ms")?,
            rebalance_timeout_ms: if version >= 1 { reader.int32("rebalance_timeout_ms")? } else { -1 },
            member_id: reader.string("member_id", flexible)?,
            group_instance_id: if version >= 5 { reader.nullable_string("group_instance_id", flexible)? } else { None },
            protocol_type: reader.string("protocol_type", flexible)?,
            protocols: reader
                .array("protocols", flexible, 3, |reader| JoinGroupRequestProtocol::decode(reader, version))?,
            reason: if version >= 8 { reader.nullable_string("reason", flexible)? } else { None },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "JoinGroupRequest", version });
        }
        let flexible = version >= 6;
        writer::string(out, "group_id", self.group_id, flexible)?;
        writer::int32(out, self.session_timeout_ms);
        if version >= 1 {
            writer::int32(out, self.rebalance_timeout_ms);
        }
        writer::string(out, "member_id", self.member_id, flexible)?;
        if version >= 5 {
            writer::nullable_string(out, "group_instance_id", self.group_instance_id, flexible)?;
        } else {
            writer::absent("group_instance_id", version, self.group_instance_id.is_none())?;
        }
        writer::string(out, "protocol_type", self.protocol_type, flexible)?;
        writer::array(out, "protocols", &self.protocols, flexible, |out, value| value.encode_body(out, version))?;
        if version >= 8 {
            writer::nullable_string(out, "reason", self.reason, flexible)?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The list of protocols that the member supports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JoinGroupRequestProtocol<'a> {
    /// The protocol name.
    pub name: &'a str,
    /// The protocol metadata.
    pub metadata: &'a [u8],
}

impl<'a> JoinGroupRequestProtocol<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let message = Self { name: reader.string("name", flexible)?, metadata: reader.bytes("metadata", flexible)? };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        writer::string(out, "name", self.name, flexible)?;
        writer::bytes(out, "metadata", self.metadata, flexible)?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
