//! Kafka's DescribeConfigs request, versions 1 to 4.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's DescribeConfigs request, versions 1 to 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeConfigsRequest<'a> {
    /// The resources whose configurations we want to describe.
    pub resources: Vec<DescribeConfigsResource<'a>>,
    /// True if we should include all synonyms.
    pub include_synonyms: bool,
    /// True if we should include configuration documentation. Since version 3.
    pub include_documentation: bool,
}

impl<'a> DescribeConfigsRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 32;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 1;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 4;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DescribeConfigsRequest", version });
        }
        let flexible = version == 4;
        let message = Self {
            resources: reader
                .array("resources", flexible, 4, |reader| DescribeConfigsResource::decode(reader, version))?,
            include_synonyms: reader.bool("include_synonyms")?,
            include_documentation: if version >= 3 { reader.bool("include_documentation")? } else { false },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DescribeConfigsRequest", version });
        }
        let flexible = version == 4;
        writer::array(out, "resources", &self.resources, flexible, |out, value| value.encode_body(out, version))?;
        writer::bool(out, self.include_synonyms);
        if version >= 3 {
            writer::bool(out, self.include_documentation);
        } else {
            writer::absent("include_documentation", version, !self.include_documentation)?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The resources whose configurations we want to describe.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeConfigsResource<'a> {
    /// The resource type.
    pub resource_type: i8,
    /// The resource name.
    pub resource_name: &'a str,
    /// The configuration keys to list, or null to list all configuration keys.
    pub configuration_keys: Option<Vec<&'a str>>,
}

impl Default for DescribeConfigsResource<'_> {
    fn default() -> Self {
        Self { resource_type: 0, resource_name: "", configuration_keys: Some(Vec::new()) }
    }
}

impl<'a> DescribeConfigsResource<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version == 4;
        let message = Self {
            resource_type: reader.int8("resource_type")?,
            resource_name: reader.string("resource_name", flexible)?,
            configuration_keys: reader.nullable_array("configuration_keys", flexible, 1, |reader| {
                reader.string("configuration_keys", flexible)
            })?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version == 4;
        writer::int8(out, self.resource_type);
        writer::string(out, "resource_name", self.resource_name, flexible)?;
        writer::nullable_array(
            out,
            "configuration_keys",
            self.configuration_keys.as_deref(),
            flexible,
            |out, value| writer::string(out, "configuration_keys", value, flexible),
        )?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
