//! Kafka's CreateTopics response, versions 2 to 7.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's CreateTopics response, versions 2 to 7.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreateTopicsResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota.
    pub throttle_time_ms: i32,
    /// Results for each topic we tried to create.
    pub topics: Vec<CreatableTopicResult<'a>>,
}

impl<'a> CreateTopicsResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 19;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 2;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 7;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "CreateTopicsResponse", version });
        }
        let flexible = version >= 5;
        let message = Self {
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            topics: reader.array("topics", flexible, 6, |reader| CreatableTopicResult::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "CreateTopicsResponse", version });
        }
        let flexible = version >= 5;
        writer::int32(out, self.throttle_time_ms);
        writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Results for each topic we tried to create.
#[derive(Clone, Debug, PartialEq)]
pub struct CreatableTopicResult<'a> {
    /// The topic name.
    pub name: &'a str,
    /// The unique topic ID. Since version 7.
    pub topic_id: Uuid,
    /// The error code, or 0 if there was no error.
    pub error_code: i16,
    /// The error message, or null if there was no error.
    pub error_message: Option<&'a str>,
    /// Optional topic config error returned if configs are not returned in the response. Since version 5.
    pub topic_config_error_code: i16,
    /// Number of partitions of the topic. Since version 5.
    pub num_partitions: i32,
    /// Replication factor of the topic. Since version 5.
    pub replication_factor: i16,
    /// Configuration of the topic. Since version 5.
    pub configs: Option<Vec<CreatableTopicConfigs<'a>>>,
}

impl Default for CreatableTopicResult<'_> {
    fn default() -> Self {
        Self {
            name: "",
            topic_id: Uuid::ZERO,
            error_code: 0,
            error_message: Some(""),
            topic_config_error_code: 0,
            num_partitions: -1,
            replication_factor: -1,
            configs: Some(Vec::new()),
        }
    }
}

impl<'a> CreatableTopicResult<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 5;
        let mut message = Self {
            name: reader.string("name", flexible)?,
            topic_id: if version == 7 { reader.uuid("topic_id")? } else { Uuid::ZERO },
            error_code: reader.int16("error_code")?,
            error_message: reader.nullable_string("error_message", flexible)?,
            topic_config_error_code: 0,
            num_partitions: if version >= 5 { reader.int32("num_partitions")? } else { -1 },
            replication_factor: if version >= 5 { reader.int16("replication_factor")? } else { -1 },
            configs: if version >= 5 {
                reader
                    .nullable_array("configs", flexible, 6, |reader| CreatableTopicConfigs::decode(reader, version))?
            } else {
                Some(Vec::new())
            },
        };
        if flexible {
            reader.tagged_fields(|tag, reader| {
                if tag == 0 {
                    message.topic_config_error_code = reader.int16("topic_config_error_code")?;
                }
                Ok(())
            })?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 5;
        writer::string(out, "name", self.name, flexible)?;
        if version == 7 {
            writer::uuid(out, self.topic_id);
        }
        writer::int16(out, self.error_code);
        writer::nullable_string(out, "error_message", self.error_message, flexible)?;
        if version >= 5 {
            writer::int32(out, self.num_partitions);
        }
        if version >= 5 {
            writer::int16(out, self.replication_factor);
        }
        if version >= 5 {
            writer::nullable_array(out, "configs", self.configs.as_deref(), flexible, |out, value| {
                value.encode_body(out, version)
            })?;
        }
        if flexible {
            let has_topic_config_error_code = self.topic_config_error_code != 0;
            writer::unsigned_varint(out, u32::from(has_topic_config_error_code));
            if has_topic_config_error_code {
                writer::tagged_field(out, 0, |out| {
                    writer::int16(out, self.topic_config_error_code);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }
}

/// Configuration of the topic.
#[derive(Clone, Debug, PartialEq)]
pub struct CreatableTopicConfigs<'a> {
    /// The configuration name.
    pub name: &'a str,
    /// The configuration value.
    pub value: Option<&'a str>,
    /// True if the configuration is read-only.
    pub read_only: bool,
    /// The configuration source.
    pub config_source: i8,
    /// True if this configuration is sensitive.
    pub is_sensitive: bool,
}

impl Default for CreatableTopicConfigs<'_> {
    fn default() -> Self {
        Self { name: "", value: Some(""), read_only: false, config_source: -1, is_sensitive: false }
    }
}

impl<'a> CreatableTopicConfigs<'a> {
    fn decode(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        let flexible = true;
        let message = Self {
            name: reader.string("name", flexible)?,
            value: reader.nullable_string("value", flexible)?,
            read_only: reader.bool("read_only")?,
            config_source: reader.int8("config_source")?,
            is_sensitive: reader.bool("is_sensitive")?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        let flexible = true;
        writer::string(out, "name", self.name, flexible)?;
        writer::nullable_string(out, "value", self.value, flexible)?;
        writer::bool(out, self.read_only);
        writer::int8(out, self.config_source);
        writer::bool(out, self.is_sensitive);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
