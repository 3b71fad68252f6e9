//! The server's own settings: `--set key=value` over Kafka's defaults.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::control::broker_config_table::{BROKER_CONFIGS, FLAGS, broker_config_key};
use crate::control::config_rows::{ConfigRow, ConfigSource, ConfigSynonym};
use crate::control::config_value::{self, ConfigError, boolean, double, integer};
use crate::control::topic_config_table::TopicConfigKey;

/// What was set when the server was started. Values are checked when they are set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerConfig {
    set: BTreeMap<&'static str, String>,
    tier_enabled: bool,
}

/// Why a `--set` is refused; each is a sentence for the operator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BrokerConfigError {
    /// No `=`.
    #[error("--set takes key=value, and {text:?} has no '='")]
    NoValue {
        /// What was given.
        text: String,
    },
    /// A flag does it.
    #[error("the config {name} is the flag {flag} here")]
    IsFlag {
        /// The config.
        name: String,
        /// The flag.
        flag: &'static str,
    },
    /// No such config, or one that this server has not.
    #[error("the config {name} is not one that this server takes{}", nearest.map(|nearest| format!("; the nearest is {nearest}")).unwrap_or_default())]
    Unknown {
        /// The config.
        name: String,
        /// One that is spelled much like it.
        nearest: Option<&'static str>,
    },
    /// A value that it cannot have.
    #[error(transparent)]
    Value(#[from] ConfigError),
}

/// What a setting does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It works.
    Works,
    /// It is taken so that Kafka's scripts work, and does nothing: say why.
    NoMeaning {
        /// A clause.
        why: &'static str,
    },
}

impl BrokerConfig {
    /// Takes one `--set`; a later one of the same key wins.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn set_pair(&mut self, pair: &str) -> Result<Effect, BrokerConfigError> {
        let (name, value) = pair.split_once('=').ok_or_else(|| BrokerConfigError::NoValue { text: pair.to_owned() })?;
        self.set(name.trim(), value)
    }

    /// Sets a config.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn set(&mut self, name: &str, value: &str) -> Result<Effect, BrokerConfigError> {
        if let Some((_, flag)) = FLAGS.iter().find(|(config, _)| *config == name) {
            return Err(BrokerConfigError::IsFlag { name: name.to_owned(), flag });
        }
        let Some(row) = broker_config_key(name) else {
            return Err(BrokerConfigError::Unknown { name: name.to_owned(), nearest: nearest(name) });
        };
        config_value::check(&row.key, value)?;
        self.set.insert(row.key.name, value.to_owned());
        Ok(row.no_meaning.map_or(Effect::Works, |why| Effect::NoMeaning { why }))
    }

    /// Says that the server has a tier.
    pub fn enable_tier(&mut self) {
        self.tier_enabled = true;
    }

    /// True where topics may be tiered.
    #[must_use]
    pub fn tier_enabled(&self) -> bool {
        self.tier_enabled
    }

    /// Partitions of a topic whose client does not say.
    #[must_use]
    pub fn num_partitions(&self) -> i32 {
        i32::try_from(self.integer("num.partitions")).unwrap_or(1)
    }

    /// Replicas of a topic whose client does not say.
    #[must_use]
    pub fn default_replication_factor(&self) -> i16 {
        i16::try_from(self.integer("default.replication.factor")).unwrap_or(i16::MAX)
    }

    /// `auto.create.topics.enable`.
    #[must_use]
    pub fn auto_create_topics_enable(&self) -> bool {
        self.flag("auto.create.topics.enable")
    }

    /// `delete.topic.enable`.
    #[must_use]
    pub fn delete_topic_enable(&self) -> bool {
        self.flag("delete.topic.enable")
    }

    /// `log.retention.check.interval.ms`.
    #[must_use]
    pub fn log_retention_check_interval_ms(&self) -> u64 {
        u64::try_from(self.integer("log.retention.check.interval.ms")).unwrap_or(u64::MAX)
    }

    /// `log.initial.task.delay.ms`: before the first look for what is to be deleted.
    #[must_use]
    pub fn log_initial_task_delay_ms(&self) -> u64 {
        u64::try_from(self.integer("log.initial.task.delay.ms")).unwrap_or(u64::MAX)
    }

    /// `log.cleaner.enable`.
    #[must_use]
    pub fn log_cleaner_enable(&self) -> bool {
        self.flag("log.cleaner.enable")
    }

    /// `log.cleaner.backoff.ms`.
    #[must_use]
    pub fn log_cleaner_backoff_ms(&self) -> u64 {
        u64::try_from(self.integer("log.cleaner.backoff.ms")).unwrap_or(0)
    }

    /// `log.cleaner.dedupe.buffer.size`, of the machine.
    #[must_use]
    pub fn log_cleaner_dedupe_buffer_size(&self) -> u64 {
        u64::try_from(self.integer("log.cleaner.dedupe.buffer.size")).unwrap_or(0)
    }

    /// `log.cleaner.io.buffer.load.factor`.
    #[must_use]
    pub fn log_cleaner_io_buffer_load_factor(&self) -> f64 {
        self.double("log.cleaner.io.buffer.load.factor")
    }

    /// `log.cleaner.io.buffer.size`, of the machine.
    #[must_use]
    pub fn log_cleaner_io_buffer_size(&self) -> u32 {
        self.count32("log.cleaner.io.buffer.size")
    }

    /// `log.cleaner.io.max.bytes.per.second`, of the machine.
    #[must_use]
    pub fn log_cleaner_io_max_bytes_per_second(&self) -> f64 {
        self.double("log.cleaner.io.max.bytes.per.second")
    }

    /// `socket.request.max.bytes`.
    #[must_use]
    pub fn socket_request_max_bytes(&self) -> u32 {
        self.count32("socket.request.max.bytes")
    }

    /// `max.connections`, of the machine.
    #[must_use]
    pub fn max_connections(&self) -> u32 {
        self.count32("max.connections")
    }

    /// `max.connections.per.ip`, of the machine.
    #[must_use]
    pub fn max_connections_per_ip(&self) -> u32 {
        self.count32("max.connections.per.ip")
    }

    /// `connections.max.idle.ms`; `None`: a connection may be silent for ever.
    #[must_use]
    pub fn connections_max_idle_ms(&self) -> Option<u64> {
        u64::try_from(self.integer("connections.max.idle.ms")).ok()
    }

    /// `fetch.max.bytes`.
    #[must_use]
    pub fn fetch_max_bytes(&self) -> u32 {
        self.count32("fetch.max.bytes")
    }

    /// `max.incremental.fetch.session.cache.slots`, of the machine.
    #[must_use]
    pub fn fetch_session_slots_max(&self) -> u32 {
        self.count32("max.incremental.fetch.session.cache.slots")
    }

    /// `max.request.partition.size.limit`.
    #[must_use]
    pub fn max_request_partition_size_limit(&self) -> u32 {
        self.count32("max.request.partition.size.limit")
    }

    /// `producer.id.expiration.ms`.
    #[must_use]
    pub fn producer_id_expiration_ms(&self) -> u32 {
        self.count32("producer.id.expiration.ms")
    }

    /// `remote.fetch.max.wait.ms`.
    #[must_use]
    pub fn remote_fetch_wait_ms_max(&self) -> u64 {
        u64::try_from(self.integer("remote.fetch.max.wait.ms")).unwrap_or(u64::MAX)
    }

    /// `remote.list.offsets.request.timeout.ms`.
    #[must_use]
    pub fn remote_list_offsets_ms_max(&self) -> u64 {
        u64::try_from(self.integer("remote.list.offsets.request.timeout.ms")).unwrap_or(u64::MAX)
    }

    /// `remote.log.index.file.cache.total.size.bytes`, of the machine.
    #[must_use]
    pub fn remote_index_cache_bytes(&self) -> u64 {
        u64::try_from(self.integer("remote.log.index.file.cache.total.size.bytes")).unwrap_or(u64::MAX)
    }

    /// `remote.log.manager.task.interval.ms`.
    #[must_use]
    pub fn remote_task_interval_ms(&self) -> u64 {
        u64::try_from(self.integer("remote.log.manager.task.interval.ms")).unwrap_or(u64::MAX)
    }

    /// `remote.log.manager.task.retry.backoff.ms`.
    #[must_use]
    pub fn remote_retry_backoff_ms(&self) -> u64 {
        u64::try_from(self.integer("remote.log.manager.task.retry.backoff.ms")).unwrap_or(0)
    }

    /// `remote.log.manager.task.retry.backoff.max.ms`.
    #[must_use]
    pub fn remote_retry_backoff_ms_max(&self) -> u64 {
        u64::try_from(self.integer("remote.log.manager.task.retry.backoff.max.ms")).unwrap_or(0)
    }

    /// `remote.log.manager.task.retry.jitter`, in thousandths.
    #[must_use]
    pub fn remote_retry_jitter_permille(&self) -> u32 {
        let jitter = self.text("remote.log.manager.task.retry.jitter").and_then(config_value::double).unwrap_or(0.0);
        (jitter.clamp(0.0, 0.5) * 1000.0) as u32
    }

    /// `remote.log.manager.copy.max.bytes.per.second`, of the machine.
    #[must_use]
    pub fn remote_copy_bytes_per_second(&self) -> u64 {
        u64::try_from(self.integer("remote.log.manager.copy.max.bytes.per.second")).unwrap_or(u64::MAX)
    }

    /// `queued.max.requests`, of the machine.
    #[must_use]
    pub fn queued_max_requests(&self) -> u32 {
        self.count32("queued.max.requests")
    }

    /// `queued.max.request.bytes`, of the machine; `None`: no limit of its own.
    #[must_use]
    pub fn queued_max_request_bytes(&self) -> Option<u64> {
        u64::try_from(self.integer("queued.max.request.bytes")).ok().filter(|bytes| *bytes > 0)
    }

    /// What was set, by name.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.set.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// All broker configs that are taken, as DescribeConfigs shows them, in name order.
    #[must_use]
    pub fn describe(&self) -> Vec<ConfigRow> {
        let mut rows: Vec<ConfigRow> = BROKER_CONFIGS
            .iter()
            .map(|row| {
                ConfigRow::new(
                    &row.key,
                    self.text(row.key.name).map(str::to_owned),
                    true,
                    self.synonyms(&[row.key.name]),
                )
            })
            .collect();
        rows.sort_by_key(|row| row.name);
        rows
    }

    /// Places with a value for any of `names`: first those set, then the defaults.
    pub(super) fn synonyms(&self, names: &[&'static str]) -> Vec<ConfigSynonym> {
        let set = names
            .iter()
            .filter_map(|name| Some((*name, self.set.get(name)?.as_str(), ConfigSource::StaticBrokerConfig)));
        let defaults = names.iter().filter_map(|name| Some((*name, default_of(name)?, ConfigSource::DefaultConfig)));
        set.chain(defaults)
            .map(|(name, value, source)| ConfigSynonym { name, value: value.to_owned(), source })
            .collect()
    }

    /// What a topic without an override has.
    pub(super) fn topic_default(&self, row: &TopicConfigKey) -> String {
        if let Some(value) = row.synonyms.iter().find_map(|name| self.set.get(name)) {
            return value.clone();
        }
        let scaled = row.scaled.iter().find_map(|(name, factor)| Some((integer(self.set.get(name)?)?, factor)));
        match scaled {
            // Any negative number of hours means no limit.
            Some((value, _)) if value < 0 => "-1".to_owned(),
            Some((value, factor)) => value.saturating_mul(*factor).to_string(),
            None => row.key.default.unwrap_or_default().to_owned(),
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.set.get(name).map(String::as_str).or_else(|| default_of(name))
    }

    pub(super) fn integer(&self, name: &str) -> i64 {
        self.text(name).and_then(integer).unwrap_or(0)
    }

    pub(super) fn count32(&self, name: &str) -> u32 {
        u32::try_from(self.integer(name)).unwrap_or(0)
    }

    fn double(&self, name: &str) -> f64 {
        self.text(name).and_then(double).unwrap_or(0.0)
    }

    fn flag(&self, name: &str) -> bool {
        self.text(name).and_then(boolean).unwrap_or(false)
    }
}

fn default_of(name: &str) -> Option<&'static str> {
    broker_config_key(name)?.key.default
}

/// The name in the tables that is spelled most like this one, where one is.
fn nearest(name: &str) -> Option<&'static str> {
    let names = BROKER_CONFIGS.iter().map(|row| row.key.name).chain(FLAGS.iter().map(|(config, _)| *config));
    // Without this, the name of a whole other config would be "like" any text that an operator pastes.
    let likeness_min = 0.75;
    names
        .map(|known| (strsim::normalized_damerau_levenshtein(name, known), known))
        .filter(|(likeness, _)| *likeness >= likeness_min)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, known)| known)
}
