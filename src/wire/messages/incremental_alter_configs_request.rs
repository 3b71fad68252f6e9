//! Kafka's IncrementalAlterConfigs request, versions 0 to 1.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's IncrementalAlterConfigs request, versions 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IncrementalAlterConfigsRequest<'a> {
    /// The incremental updates for each resource.
    pub resources: Vec<AlterConfigsResource<'a>>,
    /// True if we should validate the request, but not change the configurations.
    pub validate_only: bool,
}

impl<'a> IncrementalAlterConfigsRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 44;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 1;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "IncrementalAlterConfigsRequest", version });
        }
        let flexible = version == 1;
        let message = Self {
            resources: reader
                .array("resources", flexible, 4, |reader| AlterConfigsResource::decode(reader, version))?,
            validate_only: reader.bool("validate_only")?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "IncrementalAlterConfigsRequest", version });
        }
        let flexible = version == 1;
        writer::array(out, "resources", &self.resources, flexible, |out, value| value.encode_body(out, version))?;
        writer::bool(out, self.validate_only);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The incremental updates for each resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterConfigsResource<'a> {
    /// The resource type.
    pub resource_type: i8,
    /// The resource name.
    pub resource_name: &'a str,
    /// The configurations.
    pub configs: Vec<AlterableConfig<'a>>,
}

impl<'a> AlterConfigsResource<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version == 1;
        let message = Self {
            resource_type: reader.int8("resource_type")?,
            resource_name: reader.string("resource_name", flexible)?,
            configs: reader.array("configs", flexible, 4, |reader| AlterableConfig::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version == 1;
        writer::int8(out, self.resource_type);
        writer::string(out, "resource_name", self.resource_name, flexible)?;
        writer::array(out, "configs", &self.configs, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The configurations.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterableConfig<'a> {
    /// The configuration key name.
    pub name: &'a str,
    /// The type (Set, Delete, Append, Subtract) of operation.
    pub config_operation: i8,
    /// The value to set for the configuration key.
    pub value: Option<&'a str>,
}

impl Default for AlterableConfig<'_> {
    fn default() -> Self {
        Self { name: "", config_operation: 0, value: Some("") }
    }
}

impl<'a> AlterableConfig<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version == 1;
        let message = Self {
            name: reader.string("name", flexible)?,
            config_operation: reader.int8("config_operation")?,
            value: reader.nullable_string("value", flexible)?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version == 1;
        writer::string(out, "name", self.name, flexible)?;
        writer::int8(out, self.config_operation);
        writer::nullable_string(out, "value", self.value, flexible)?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
