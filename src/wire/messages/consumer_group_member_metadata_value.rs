//! Kafka's consumer group member metadata value, versions 0.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's consumer group member metadata value, versions 0.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerGroupMemberMetadataValue<'a> {
    /// The (optional) instance id.
    pub instance_id: Option<&'a str>,
    /// The (optional) rack id.
    pub rack_id: Option<&'a str>,
    /// The client id.
    pub client_id: &'a str,
    /// The client host.
    pub client_host: &'a str,
    /// The list of subscribed topic names.
    pub subscribed_topic_names: Vec<&'a str>,
    /// The subscribed topic regular expression.
    pub subscribed_topic_regex: Option<&'a str>,
    /// The rebalance timeout.
    pub rebalance_timeout_ms: i32,
    /// The server assignor to use; or null if not used.
    pub server_assignor: Option<&'a str>,
    /// The classic member metadata which includes the supported protocols of the consumer if it uses the classic
    /// protocol. The metadata is null if the consumer uses the consumer protocol.
    pub classic_member_metadata: Option<ClassicMemberMetadata<'a>>,
}

impl Default for ConsumerGroupMemberMetadataValue<'_> {
    fn default() -> Self {
        Self {
            instance_id: Some(""),
            rack_id: Some(""),
            client_id: "",
            client_host: "",
            subscribed_topic_names: Vec::new(),
            subscribed_topic_regex: Some(""),
            rebalance_timeout_ms: -1,
            server_assignor: Some(""),
            classic_member_metadata: Some(ClassicMemberMetadata::default()),
        }
    }
}

impl<'a> ConsumerGroupMemberMetadataValue<'a> {
    /// What its record's key begins with.
    pub const API_KEY: i16 = 5;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 0;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ConsumerGroupMemberMetadataValue", version });
        }
        let mut message = Self {
            instance_id: reader.nullable_string("instance_id", true)?,
            rack_id: reader.nullable_string("rack_id", true)?,
            client_id: reader.string("client_id", true)?,
            client_host: reader.string("client_host", true)?,
            subscribed_topic_names: reader
                .array("subscribed_topic_names", true, 1, |reader| reader.string("subscribed_topic_names", true))?,
            subscribed_topic_regex: reader.nullable_string("subscribed_topic_regex", true)?,
            rebalance_timeout_ms: reader.int32("rebalance_timeout_ms")?,
            server_assignor: reader.nullable_string("server_assignor", true)?,
            classic_member_metadata: Some(ClassicMemberMetadata::default()),
        };
        reader.tagged_fields(|tag, reader| {
            if tag == 0 {
                message.classic_member_metadata = if reader.unsigned_varint("classic_member_metadata")? == 0 {
                    None
                } else {
                    Some(ClassicMemberMetadata::decode(reader, version)?)
                };
            }
            Ok(())
        })?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ConsumerGroupMemberMetadataValue", version });
        }
        writer::nullable_string(out, "instance_id", self.instance_id, true)?;
        writer::nullable_string(out, "rack_id", self.rack_id, true)?;
        writer::string(out, "client_id", self.client_id, true)?;
        writer::string(out, "client_host", self.client_host, true)?;
        writer::array(out, "subscribed_topic_names", &self.subscribed_topic_names, true, |out, value| {
            writer::string(out, "subscribed_topic_names", value, true)
        })?;
        writer::nullable_string(out, "subscribed_topic_regex", self.subscribed_topic_regex, true)?;
        writer::int32(out, self.rebalance_timeout_ms);
        writer::nullable_string(out, "server_assignor", self.server_assignor, true)?;
        let has_classic_member_metadata = self.classic_member_metadata != Some(ClassicMemberMetadata::default());
        writer::unsigned_varint(out, u32::from(has_classic_member_metadata));
        if has_classic_member_metadata {
            writer::tagged_field(out, 0, |out| {
                match self.classic_member_metadata.as_ref() {
                    Some(value) => {
                        writer::unsigned_varint(out, 1);
                        value.encode_body(out, version)?;
                    }
                    None => writer::unsigned_varint(out, 0),
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// The classic member metadata which includes the supported protocols of the consumer if it uses the classic
/// protocol. The metadata is null if the consumer uses the consumer protocol.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassicMemberMetadata<'a> {
    /// The session timeout if the consumer uses the classic protocol.
    pub session_timeout_ms: i32,
    /// The list of protocols that the member supports if the consumer uses the classic protocol.
    pub supported_protocols: Vec<ClassicProtocol<'a>>,
}

impl<'a> ClassicMemberMetadata<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            session_timeout_ms: reader.int32("session_timeout_ms")?,
            supported_protocols: reader
                .array("supported_protocols", true, 3, |reader| ClassicProtocol::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        writer::int32(out, self.session_timeout_ms);
        writer::array(out, "supported_protocols", &self.supported_protocols, true, |out, value| {
            value.encode_body(out, version)
        })?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The list of protocols that the member supports if the consumer uses the classic protocol.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassicProtocol<'a> {
    /// The protocol name.
    pub name: &'a str,
    /// The protocol metadata.
    pub metadata: &'a [u8],
}

impl<'a> ClassicProtocol<'a> {
    fn decode(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        let message = Self { name: reader.string("name", true)?, metadata: reader.bytes("metadata", true)? };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::string(out, "name", self.name, true)?;
        writer::bytes(out, "metadata", self.metadata, true)?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
