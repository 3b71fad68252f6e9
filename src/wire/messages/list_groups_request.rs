//! Kafka's ListGroups request, versions 0 to 5.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's ListGroups request, versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListGroupsRequest<'a> {
    /// The states of the groups we want to list. If empty, all groups are returned with their state. Since version 4.
    pub states_filter: Vec<&'a str>,
    /// The types of the groups we want to list. If empty, all groups are returned with their type. Since version 5.
    pub types_filter: Vec<&'a str>,
}

impl<'a> ListGroupsRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 16;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 5;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ListGroupsRequest", version });
        }
        let flexible = version >= 3;
        let message = Self {
            states_filter: if version >= 4 {
                reader.array("states_filter", flexible, 1, |reader| reader.string("states_filter", flexible))?
            } else {
                Vec::new()
            },
            types_filter: if version == 5 {
                reader.array("types_filter", flexible, 1, |reader| reader.string("types_filter", flexible))?
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
            return Err(EncodeError::UnsupportedVersion { message: "ListGroupsRequest", version });
        }
        let flexible = version >= 3;
        if version >= 4 {
            writer::array(out, "states_filter", &self.states_filter, flexible, |out, value| {
                writer::string(out, "states_filter", value, flexible)
            })?;
        } else {
            writer::absent("states_filter", version, self.states_filter.is_empty())?;
        }
        if version == 5 {
            writer::array(out, "types_filter", &self.types_filter, flexible, |out, value| {
                writer::string(out, "types_filter", value, flexible)
            })?;
        } else {
            writer::absent("types_filter", version, self.types_filter.is_empty())?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
