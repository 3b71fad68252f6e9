//! Kafka's Metadata request, versions 0 to 13.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's Metadata request, versions 0 to 13.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataRequest<'a> {
    /// The topics to fetch metadata for.
    pub topics: Option<Vec<MetadataRequestTopic<'a>>>,
    /// If this is true, the broker may auto-create topics that we requested which do not already exist, if it is
    /// configured to do so. Since version 4.
    pub allow_auto_topic_creation: bool,
    /// Whether to include cluster authorized operations. Versions 8 to 10.
    pub include_cluster_authorized_operations: bool,
    /// Whether to include topic authorized operations. Since version 8.
    pub include_topic_authorized_operations: bool,
}

impl Default for MetadataRequest<'_> {
    fn default() -> Self {
        Self {
            topics: Some(Vec::new()),
            allow_auto_topic_creation: true,
            include_cluster_authorized_operations: false,
            include_topic_authorized_operations: false,
        }
    }
}

impl<'a> MetadataRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 3;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 13;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "MetadataRequest", version });
        }
        let flexible = version >= 9;
        let message = Self {
            topics: if version >= 1 {
                reader.nullable_array("topics", flexible, 2, |reader| MetadataRequestTopic::decode(reader, version))?
            } else {
                Some(reader.array("topics", flexible, 2, |reader| MetadataRequestTopic::decode(reader, version))?)
            },
            allow_auto_topic_creation: if version >= 4 { reader.bool("allow_auto_topic_creation")? } else { true },
            include_cluster_authorized_operations: if (8..=10).contains(&version) {
                reader.bool("include_cluster_authorized_operations")?
            } else {
                false
            },
            include_topic_authorized_operations: if version >= 8 {
                reader.bool("include_topic_authorized_operations")?
            } else {
                false
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
            return Err(EncodeError::UnsupportedVersion { message: "MetadataRequest", version });
        }
        let flexible = version >= 9;
        if version >= 1 {
            writer::nullable_array(out, "topics", self.topics.as_deref(), flexible, |out, value| {
                value.encode_body(out, version)
            })?;
        } else {
            writer::array(
                out,
                "topics",
                writer::required("topics", self.topics.as_deref())?,
                flexible,
                |out, value| value.encode_body(out, version),
            )?;
        }
        if version >= 4 {
            writer::bool(out, self.allow_auto_topic_creation);
        } else {
            writer::absent("allow_auto_topic_creation", version, self.allow_auto_topic_creation)?;
        }
        if (8..=10).contains(&version) {
            writer::bool(out, self.include_cluster_authorized_operations);
        } else {
            writer::absent(
                "include_cluster_authorized_operations",
                version,
                !self.include_cluster_authorized_operations,
            )?;
        }
        if version >= 8 {
            writer::bool(out, self.include_topic_authorized_operations);
        } else {
            writer::absent("include_topic_authorized_operations", version, !self.include_topic_authorized_operations)?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The topics to fetch metadata for.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataRequestTopic<'a> {
    /// The topic id. Since version 10.
    pub topic_id: Uuid,
    /// The topic name.
    pub name: Option<&'a str>,
}

impl Default for MetadataRequestTopic<'_> {
    fn default() -> Self {
        Self { topic_id: Uuid::ZERO, name: Some("") }
    }
}

impl<'a> MetadataRequestTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let message = Self {
            topic_id: if version >= 10 { reader.uuid("topic_id")? } else { Uuid::ZERO },
            name: if version >= 10 {
                reader.nullable_string("name", flexible)?
            } else {
                Some(reader.string("name", flexible)?)
            },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        if version >= 10 {
            writer::uuid(out, self.topic_id);
        }
        if version >= 10 {
            writer::nullable_string(out, "name", self.name, flexible)?;
        } else {
            writer::string(out, "name", writer::required("name", self.name)?, flexible)?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
