//! Kafka's DescribeConfigs response, versions 1 to 4.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's DescribeConfigs response, versions 1 to 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeConfigsResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota.
    pub throttle_time_ms: i32,
    /// The results for each resource.
    pub results: Vec<DescribeConfigsResult<'a>>,
}

impl<'a> DescribeConfigsResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 32;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 1;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 4;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DescribeConfigsResponse", version });
        }
        let flexible = version == 4;
        let message = Self {
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            results: reader.array("results", flexible, 7, |reader| DescribeConfigsResult::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DescribeConfigsResponse", version });
        }
        let flexible = version == 4;
        writer::int32(out, self.throttle_time_ms);
        writer::array(out, "results", &self.results, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The results for each resource.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeConfigsResult<'a> {
    /// The error code, or 0 if we were able to successfully describe the configurations.
    pub error_code: i16,
    /// The error message, or null if we were able to successfully describe the configurations.
    pub error_message: Option<&'a str>,
    /// The resource type.
    pub resource_type: i8,
    /// The resource name.
    pub resource_name: &'a str,
    /// Each listed configuration.
    pub configs: Vec<DescribeConfigsResourceResult<'a>>,
}

impl Default for DescribeConfigsResult<'_> {
    fn default() -> Self {
        Self { error_code: 0, error_message: Some(""), resource_type: 0, resource_name: "", configs: Vec::new() }
    }
}

impl<'a> DescribeConfigsResult<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version == 4;
        let message = Self {
            error_code: reader.int16("error_code")?,
            error_message: reader.nullable_string("error_message", flexible)?,
            resource_type: reader.int8("resource_type")?,
            resource_name: reader.string("resource_name", flexible)?,
            configs: reader
                .array("configs", flexible, 9, |reader| DescribeConfigsResourceResult::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version == 4;
        writer::int16(out, self.error_code);
        writer::nullable_string(out, "error_message", self.error_message, flexible)?;
        writer::int8(out, self.resource_type);
        writer::string(out, "resource_name", self.resource_name, flexible)?;
        writer::array(out, "configs", &self.configs, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each listed configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeConfigsResourceResult<'a> {
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
    /// The synonyms for this configuration key.
    pub synonyms: Vec<DescribeConfigsSynonym<'a>>,
    /// The configuration data type. Type can be one of the following values - BOOLEAN, STRING, INT, SHORT, LONG,
    /// DOUBLE, LIST, CLASS, PASSWORD. Since version 3.
    pub config_type: i8,
    /// The configuration documentation. Since version 3.
    pub documentation: Option<&'a str>,
}

impl Default for DescribeConfigsResourceResult<'_> {
    fn default() -> Self {
        Self {
            name: "",
            value: Some(""),
            read_only: false,
            config_source: -1,
            is_sensitive: false,
            synonyms: Vec::new(),
            config_type: 0,
            documentation: Some(""),
        }
    }
}

impl<'a> DescribeConfigsResourceResult<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version == 4;
        let message = Self {
            name: reader.string("name", flexible)?,
            value: reader.nullable_string("value", flexible)?,
            read_only: reader.bool("read_only")?,
            config_source: reader.int8("config_source")?,
            is_sensitive: reader.bool("is_sensitive")?,
            synonyms: reader
                .array("synonyms", flexible, 4, |reader| DescribeConfigsSynonym::decode(reader, version))?,
            config_type: if version >= 3 { reader.int8("config_type")? } else { 0 },
            documentation: if version >= 3 { reader.nullable_string("documentation", flexible)? } else { Some("") },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version == 4;
        writer::string(out, "name", self.name, flexible)?;
        writer::nullable_string(out, "value", self.value, flexible)?;
        writer::bool(out, self.read_only);
        writer::int8(out, self.config_source);
        writer::bool(out, self.is_sensitive);
        writer::array(out, "synonyms", &self.synonyms, flexible, |out, value| value.encode_body(out, version))?;
        if version >= 3 {
            writer::int8(out, self.config_type);
        }
        if version >= 3 {
            writer::nullable_string(out, "documentation", self.documentation, flexible)?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The synonyms for this configuration key.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeConfigsSynonym<'a> {
    /// The synonym name.
    pub name: &'a str,
    /// The synonym value.
    pub value: Option<&'a str>,
    /// The synonym source.
    pub source: i8,
}

impl Default for DescribeConfigsSynonym<'_> {
    fn default() -> Self {
        Self { name: "", value: Some(""), source: 0 }
    }
}

impl<'a> DescribeConfigsSynonym<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version == 4;
        let message = Self {
            name: reader.string("name", flexible)?,
            value: reader.nullable_string("value", flexible)?,
            source: reader.int8("source")?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version == 4;
        writer::string(out, "name", self.name, flexible)?;
        writer::nullable_string(out, "value", self.value, flexible)?;
        writer::int8(out, self.source);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
