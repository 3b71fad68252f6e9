//! Kafka's ApiVersions response, versions 0 to 5.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's ApiVersions response, versions 0 to 5.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiVersionsResponse<'a> {
    /// The top-level error code.
    pub error_code: i16,
    /// The APIs supported by the broker.
    pub api_keys: Vec<ApiVersion>,
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota. Since version 1.
    pub throttle_time_ms: i32,
    /// Features supported by the broker. Note: in v0-v3, features with MinSupportedVersion = 0 are omitted. Since
    /// version 3.
    pub supported_features: Vec<SupportedFeatureKey<'a>>,
    /// The monotonically increasing epoch for the finalized features information. Valid values are \>= 0. A value of
    /// -1 is special and represents unknown epoch. Since version 3.
    pub finalized_features_epoch: i64,
    /// List of cluster-wide finalized features. The information is valid only if FinalizedFeaturesEpoch \>= 0. Since
    /// version 3.
    pub finalized_features: Vec<FinalizedFeatureKey<'a>>,
    /// Set by a KRaft controller if the required configurations for ZK migration are present. Since version 3.
    pub zk_migration_ready: bool,
}

impl Default for ApiVersionsResponse<'_> {
    fn default() -> Self {
        Self {
            error_code: 0,
            api_keys: Vec::new(),
            throttle_time_ms: 0,
            supported_features: Vec::new(),
            finalized_features_epoch: -1,
            finalized_features: Vec::new(),
            zk_migration_ready: false,
        }
    }
}

impl<'a> ApiVersionsResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 18;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 5;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ApiVersionsResponse", version });
        }
        let flexible = version >= 3;
        let mut message = Self {
            error_code: reader.int16("error_code")?,
            api_keys: reader.array("api_keys", flexible, 6, |reader| ApiVersion::decode(reader, version))?,
            throttle_time_ms: if version >= 1 { reader.int32("throttle_time_ms")? } else { 0 },
            supported_features: Vec::new(),
            finalized_features_epoch: -1,
            finalized_features: Vec::new(),
            zk_migration_ready: false,
        };
        if flexible {
            reader.tagged_fields(|tag, reader| {
                match tag {
                    0 => {
                        message.supported_features = reader.array("supported_features", flexible, 6, |reader| {
                            SupportedFeatureKey::decode(reader, version)
                        })?
                    }
                    1 => message.finalized_features_epoch = reader.int64("finalized_features_epoch")?,
                    2 => {
                        message.finalized_features = reader.array("finalized_features", flexible, 6, |reader| {
                            FinalizedFeatureKey::decode(reader, version)
                        })?
                    }
                    3 => message.zk_migration_ready = reader.bool("zk_migration_ready")?,
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ApiVersionsResponse", version });
        }
        let flexible = version >= 3;
        writer::int16(out, self.error_code);
        writer::array(out, "api_keys", &self.api_keys, flexible, |out, value| value.encode_body(out, version))?;
        if version >= 1 {
            writer::int32(out, self.throttle_time_ms);
        }
        if flexible {
            let has_supported_features = !self.supported_features.is_empty();
            let has_finalized_features_epoch = self.finalized_features_epoch != -1;
            let has_finalized_features = !self.finalized_features.is_empty();
            let has_zk_migration_ready = self.zk_migration_ready;
            writer::unsigned_varint(
                out,
                u32::from(has_supported_features)
                    + u32::from(has_finalized_features_epoch)
                    + u32::from(has_finalized_features)
                    + u32::from(has_zk_migration_ready),
            );
            if has_supported_features {
                writer::tagged_field(out, 0, |out| {
                    writer::array(out, "supported_features", &self.supported_features, flexible, |out, value| {
                        value.encode_body(out, version)
                    })?;
                    Ok(())
                })?;
            }
            if has_finalized_features_epoch {
                writer::tagged_field(out, 1, |out| {
                    writer::int64(out, self.finalized_features_epoch);
                    Ok(())
                })?;
            }
            if has_finalized_features {
                writer::tagged_field(out, 2, |out| {
                    writer::array(out, "finalized_features", &self.finalized_features, flexible, |out, value| {
                        value.encode_body(out, version)
                    })?;
                    Ok(())
                })?;
            }
            if has_zk_migration_ready {
                writer::tagged_field(out, 3, |out| {
                    writer::bool(out, self.zk_migration_ready);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }
}

/// The APIs supported by the broker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApiVersion {
    /// The API index.
    pub api_key: i16,
    /// The minimum supported version, inclusive.
    pub min_version: i16,
    /// The maximum supported version, inclusive.
    pub max_version: i16,
}

impl ApiVersion {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let message = Self {
            api_key: reader.int16("api_key")?,
            min_version: reader.int16("min_version")?,
            max_version: reader.int16("max_version")?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        writer::int16(out, self.api_key);
        writer::int16(out, self.min_version);
        writer::int16(out, self.max_version);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Features supported by the broker. Note: in v0-v3, features with MinSupportedVersion = 0 are omitted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SupportedFeatureKey<'a> {
    /// The name of the feature.
    pub name: &'a str,
    /// The minimum supported version for the feature.
    pub min_version: i16,
    /// The maximum supported version for the feature.
    pub max_version: i16,
}

impl<'a> SupportedFeatureKey<'a> {
    fn decode(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        let flexible = true;
        let message = Self {
            name: reader.string("name", flexible)?,
            min_version: reader.int16("min_version")?,
            max_version: reader.int16("max_version")?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        let flexible = true;
        writer::string(out, "name", self.name, flexible)?;
        writer::int16(out, self.min_version);
        writer::int16(out, self.max_version);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// List of cluster-wide finalized features. The information is valid only if FinalizedFeaturesEpoch \>= 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FinalizedFeatureKey<'a> {
    /// The name of the feature.
    pub name: &'a str,
    /// The cluster-wide finalized max version level for the feature.
    pub max_version_level: i16,
    /// The cluster-wide finalized min version level for the feature.
    pub min_version_level: i16,
}

impl<'a> FinalizedFeatureKey<'a> {
    fn decode(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        let flexible = true;
        let message = Self {
            name: reader.string("name", flexible)?,
            max_version_level: reader.int16("max_version_level")?,
            min_version_level: reader.int16("min_version_level")?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        let flexible = true;
        writer::string(out, "name", self.name, flexible)?;
        writer::int16(out, self.max_version_level);
        writer::int16(out, self.min_version_level);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
