//! What DescribeConfigs shows of a config.

use crate::control::config_value::{ConfigKey, ConfigType};

/// One config of a topic or a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigRow {
    /// Its name.
    pub name: &'static str,
    /// The value in force; `None` where it is null or sensitive.
    pub value: Option<String>,
    /// Where that comes from.
    pub source: ConfigSource,
    /// True where it cannot be altered while the server runs.
    pub read_only: bool,
    /// True where the value is not shown. None is: the server takes no secrets as configs.
    pub sensitive: bool,
    /// Every place with a value for it, the one in force first.
    pub synonyms: Vec<ConfigSynonym>,
    /// Its type.
    pub kind: ConfigType,
    /// What it does.
    pub documentation: &'static str,
}

/// A place with a value for a config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// The name there.
    pub name: &'static str,
    /// The value there.
    pub value: String,
    /// Which place.
    pub source: ConfigSource,
}

/// Where a value comes from, by its code in DescribeConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// Set for the topic.
    DynamicTopicConfig = 1,
    /// Set when the server was started.
    StaticBrokerConfig = 4,
    /// Set by nobody.
    DefaultConfig = 5,
}

impl ConfigSource {
    /// Versions 0 of DescribeConfigs have this in place of the source.
    #[must_use]
    pub fn is_default(self) -> bool {
        self == Self::DefaultConfig
    }
}

impl ConfigRow {
    /// A row whose source is that of its first synonym.
    pub(super) fn new(key: &ConfigKey, value: Option<String>, read_only: bool, synonyms: Vec<ConfigSynonym>) -> Self {
        let source = synonyms.first().map_or(ConfigSource::DefaultConfig, |first| first.source);
        let (name, kind, documentation) = (key.name, key.kind, key.documentation);
        Self { name, value, source, read_only, sensitive: false, synonyms, kind, documentation }
    }
}
