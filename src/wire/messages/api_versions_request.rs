//! Kafka's ApiVersions request, versions 0 to 5.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's ApiVersions request, versions 0 to 5.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiVersionsRequest<'a> {
    /// The name of the client. Since version 3.
    pub client_software_name: &'a str,
    /// The version of the client. Since version 3.
    pub client_software_version: &'a str,
    /// The cluster ID the client intends to connect to. Provide both ClusterId and NodeId, if known. Since version 5.
    pub cluster_id: Option<&'a str>,
    /// The node ID the client intends to connect to. Provide both ClusterId and NodeId, if known. Since version 5.
    pub node_id: i32,
}

impl Default for ApiVersionsRequest<'_> {
    fn default() -> Self {
        Self { client_software_name: "", client_software_version: "", cluster_id: None, node_id: -1 }
    }
}

impl<'a> ApiVersionsRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 18;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 5;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ApiVersionsRequest", version });
        }
        let flexible = version >= 3;
        let message = Self {
            client_software_name: if version >= 3 { reader.string("client_software_name", flexible)? } else { "" },
            client_software_version: if version >= 3 {
                reader.string("client_software_version", flexible)?
            } else {
                ""
            },
            cluster_id: if version == 5 { reader.nullable_string("cluster_id", flexible)? } else { None },
            node_id: if version == 5 { reader.int32("node_id")? } else { -1 },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ApiVersionsRequest", version });
        }
        let flexible = version >= 3;
        if version >= 3 {
            writer::string(out, "client_software_name", self.client_software_name, flexible)?;
        }
        if version >= 3 {
            writer::string(out, "client_software_version", self.client_software_version, flexible)?;
        }
        if version == 5 {
            writer::nullable_string(out, "cluster_id", self.cluster_id, flexible)?;
        }
        if version == 5 {
            writer::int32(out, self.node_id);
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
