//! Types and legal values of configs, judged with Kafka's words.

use thiserror::Error;

/// One config that there is: a row of a table.
#[derive(Clone, Copy, Debug)]
pub struct ConfigKey {
    /// Kafka's name, or ours, which begins with `alluvium.`.
    pub name: &'static str,
    /// What its text is read as.
    pub kind: ConfigType,
    /// The value where nobody set it; `None`: null.
    pub default: Option<&'static str>,
    /// The values that it may have.
    pub valid: Valid,
    /// One sentence for DescribeConfigs.
    pub documentation: &'static str,
}

/// Kafka's types of configs, by their codes in DescribeConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ConfigType {
    Boolean = 1,
    String = 2,
    Int = 3,
    Short = 4,
    Long = 5,
    Double = 6,
    List = 7,
}

impl ConfigType {
    /// Kafka's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "BOOLEAN",
            Self::String => "STRING",
            Self::Int => "INT",
            Self::Short => "SHORT",
            Self::Long => "LONG",
            Self::Double => "DOUBLE",
            Self::List => "LIST",
        }
    }
}

/// Which values are legal.
#[derive(Clone, Copy, Debug)]
pub enum Valid {
    /// All of the type.
    Any,
    /// Numbers from here.
    AtLeast(i64),
    /// Numbers from the first to the second.
    Between(i64, i64),
    /// -1, or numbers from the first to the second.
    BetweenOrMinusOne(i64, i64),
    /// These texts, or lists of these.
    OneOf(&'static [&'static str]),
    /// `*`, or `partition:broker` pairs.
    ThrottledReplicas,
}

/// Why a setting is refused: INVALID_CONFIG (40). The text is Kafka's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// No topic config has this name.
    #[error("Unknown topic config name: {name}")]
    UnknownTopicConfig {
        /// The name.
        name: String,
    },
    /// A value that the config cannot have.
    #[error("Invalid value {value} for configuration {name}: {reason}")]
    Invalid {
        /// The config.
        name: String,
        /// The value, as Kafka prints it.
        value: String,
        /// What is wrong.
        reason: InvalidValue,
    },
    /// A comma with nothing beside it.
    #[error("Configuration '{name}' values must not be empty.")]
    EmptyItem {
        /// The config.
        name: String,
    },
    /// Null in place of values.
    #[error("Null value not supported for topic configs: {names}")]
    Null {
        /// The configs, with commas.
        names: String,
    },
    /// Longer than a catalog record can hold.
    #[error("The configuration value cannot be added because it exceeds the maximum value size of {bytes_max} bytes.")]
    TooLong {
        /// The limit.
        bytes_max: usize,
    },
    /// APPEND or SUBTRACT on what is no list.
    #[error("Can't {operation} to key {name} because its type is not LIST.")]
    NotAList {
        /// `APPEND` or `SUBTRACT`.
        operation: &'static str,
        /// The config.
        name: String,
    },
    /// The least lag is above the greatest.
    #[error("conflict topic config setting min.compaction.lag.ms ({min}) > max.compaction.lag.ms ({max})")]
    CompactionLag {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// A tiered topic on a server without a tier.
    #[error(
        "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
    )]
    TierDisabled,
    /// A tiered topic that is compacted.
    #[error(
        "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
    )]
    TierCleanupPolicy,
    /// A topic that is to be tiered no more, while what is in the tier would stay.
    #[error(
        "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data and turn to \
         read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you want to disable remote storage \
         and delete all remote data, please set `remote.storage.enable=false,remote.log.delete.on.disable=true`."
    )]
    TierData,
    /// A tiered topic that copies nothing, but keeps less on local disks than in all.
    #[error(
        "When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and `retention.{unit}` must be set to the \
         identical value because there will be no more logs copied to the remote storage."
    )]
    CopyDisabled {
        /// `ms` or `bytes`.
        unit: &'static str,
    },
}

/// What is wrong with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InvalidValue {
    /// Not a number, or one that the type cannot hold.
    #[error("Not a number of type {kind}")]
    NotANumber {
        /// The type's name.
        kind: &'static str,
    },
    /// Not a boolean.
    #[error("Expected value to be either true or false")]
    NotABoolean,
    /// Too small.
    #[error("Value must be at least {min}")]
    TooSmall {
        /// The least.
        min: i64,
    },
    /// Too large.
    #[error("Value must be no more than {max}")]
    TooLarge {
        /// The greatest.
        max: i64,
    },
    /// Outside a range that -1 is legal beside.
    #[error("Value must be between {min} and {max} or equal to -1")]
    NotBetween {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// None of the texts there are.
    #[error("String must be one of: {}", allowed.join(", "))]
    NotOneOf {
        /// The texts.
        allowed: &'static [&'static str],
    },
    /// No list of replicas.
    #[error(
        "{name} must be the literal '*' or a list of replicas in the following format: \
         [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )]
    NotReplicas {
        /// The config.
        name: &'static str,
    },
    /// More kept on local disks than in all.
    #[error("Value must not be more than retention.{unit} property value: {retention}")]
    AboveRetention {
        /// `ms` or `bytes`.
        unit: &'static str,
        /// The value of `retention.*`.
        retention: i64,
    },
    /// All kept on local disks, but not in all.
    #[error("Value must not be -1 as retention.{unit} value is set as {retention}.")]
    UnlimitedLocal {
        /// `ms` or `bytes`.
        unit: &'static str,
        /// The value of `retention.*`.
        retention: i64,
    },
    /// Copied later than deleted.
    #[error("Value must not exceed local.retention.{unit} (effective value: {local})")]
    CopyLag {
        /// `ms` or `bytes`.
        unit: &'static str,
        /// What `local.retention.*` comes to.
        local: i64,
    },
}

/// The longest value, as in Kafka.
pub const CONFIG_VALUE_BYTES_MAX: usize = 32_767;

/// Judges a value's text.
///
/// # Errors
/// Why the config cannot have it.
pub fn check(key: &ConfigKey, value: &str) -> Result<(), ConfigError> {
    if value.len() > CONFIG_VALUE_BYTES_MAX {
        return Err(ConfigError::TooLong { bytes_max: CONFIG_VALUE_BYTES_MAX });
    }
    let refused = |shown: String, reason| Err(ConfigError::Invalid { name: key.name.to_owned(), value: shown, reason });
    let not_a_number = || refused(value.to_owned(), InvalidValue::NotANumber { kind: key.kind.name() });
    let text = trimmed(value);
    match key.kind {
        ConfigType::Boolean if boolean(text).is_none() => refused(value.to_owned(), InvalidValue::NotABoolean),
        ConfigType::Boolean => Ok(()),
        ConfigType::Int | ConfigType::Short | ConfigType::Long => {
            let number = match key.kind {
                ConfigType::Int => text.parse::<i32>().map(i64::from).ok(),
                ConfigType::Short => text.parse::<i16>().map(i64::from).ok(),
                _ => text.parse::<i64>().ok(),
            };
            let Some(number) = number else {
                return not_a_number();
            };
            key.valid.number(number as f64).map_or(Ok(()), |reason| refused(number.to_string(), reason))
        }
        ConfigType::Double => {
            let Some(number) = double(text) else {
                return not_a_number();
            };
            key.valid.number(number).map_or(Ok(()), |reason| refused(format!("{number:?}"), reason))
        }
        ConfigType::String => match key.valid {
            Valid::OneOf(allowed) if !allowed.contains(&text) => {
                refused(text.to_owned(), InvalidValue::NotOneOf { allowed })
            }
            _ => Ok(()),
        },
        ConfigType::List => check_list(key, value),
    }
}

fn check_list(key: &ConfigKey, value: &str) -> Result<(), ConfigError> {
    let items = list(value);
    let refused = |shown: String, reason| Err(ConfigError::Invalid { name: key.name.to_owned(), value: shown, reason });
    match key.valid {
        Valid::OneOf(_) if items.contains(&"") => Err(ConfigError::EmptyItem { name: key.name.to_owned() }),
        Valid::OneOf(allowed) => match items.iter().find(|item| !allowed.contains(item)) {
            None => Ok(()),
            Some(item) => refused((*item).to_owned(), InvalidValue::NotOneOf { allowed }),
        },
        Valid::ThrottledReplicas if items == ["*"] || items.iter().all(|item| item.is_empty() || is_replica(item)) => {
            Ok(())
        }
        Valid::ThrottledReplicas => {
            refused(format!("[{}]", items.join(", ")), InvalidValue::NotReplicas { name: key.name })
        }
        _ => Ok(()),
    }
}

impl Valid {
    /// What is wrong with a number. `f64` holds every limit exactly, and rounding moves no number across one.
    fn number(self, number: f64) -> Option<InvalidValue> {
        match self {
            Self::AtLeast(min) | Self::Between(min, _) if number < min as f64 => Some(InvalidValue::TooSmall { min }),
            Self::Between(_, max) if number > max as f64 => Some(InvalidValue::TooLarge { max }),
            Self::BetweenOrMinusOne(min, max) if number != -1.0 && !(min as f64..=max as f64).contains(&number) => {
                Some(InvalidValue::NotBetween { min, max })
            }
            _ => None,
        }
    }
}

fn is_replica(item: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    item.split_once(':').is_some_and(|(partition, broker)| digits(partition) && digits(broker))
}

/// A text without the blanks around it, as Java trims: every character up to the space.
#[must_use]
pub fn trimmed(value: &str) -> &str {
    value.trim_matches(|character| character <= ' ')
}

/// The items of a list; an empty text has none.
#[must_use]
pub fn list(value: &str) -> Vec<&str> {
    let text = trimmed(value);
    if text.is_empty() { Vec::new() } else { text.split(',').map(trimmed).collect() }
}

/// A boolean, in any case.
#[must_use]
pub fn boolean(value: &str) -> Option<bool> {
    let text = trimmed(value);
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// A whole number.
#[must_use]
pub fn integer(value: &str) -> Option<i64> {
    trimmed(value).parse().ok()
}

/// A finite number. Java also reads a type suffix, and NaN, which would be legal nowhere.
#[must_use]
pub fn double(value: &str) -> Option<f64> {
    let text = trimmed(value);
    let number: f64 = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text).parse().ok()?;
    number.is_finite().then_some(number)
}
