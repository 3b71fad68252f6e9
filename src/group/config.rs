//! What groups are bounded by.

/// The settings of all groups, by the names of Kafka's broker configs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is the config of its name")]
pub struct GroupConfig {
    pub group_min_session_timeout_ms: u32,
    pub group_max_session_timeout_ms: u32,
    pub group_initial_rebalance_delay_ms: u32,
    pub group_max_size: u32,
    pub group_consumer_session_timeout_ms: u32,
    pub group_consumer_heartbeat_interval_ms: u32,
    pub group_consumer_max_size: u32,
    pub group_consumer_assignment_interval_ms: u32,
    pub group_consumer_migration_policy: MigrationPolicy,
    pub offset_metadata_max_bytes: u32,
    pub offsets_retention_ms: u64,
    pub offsets_retention_check_interval_ms: u64,
}

/// How a group may go from one protocol to the other while it has members (`group.consumer.migration.policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MigrationPolicy {
    /// Either way.
    #[default]
    Bidirectional,
    /// From the classic protocol to the consumer protocol.
    Upgrade,
    /// From the consumer protocol to the classic protocol.
    Downgrade,
    /// Not at all: nobody joins a group of the consumer protocol with the classic one.
    Disabled,
}

impl MigrationPolicy {
    /// The one of this name, in Kafka's spelling.
    pub fn of(name: &str) -> Option<Self> {
        [Self::Bidirectional, Self::Upgrade, Self::Downgrade, Self::Disabled]
            .into_iter()
            .find(|policy| policy.name().eq_ignore_ascii_case(name))
    }

    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bidirectional => "bidirectional",
            Self::Upgrade => "upgrade",
            Self::Downgrade => "downgrade",
            Self::Disabled => "disabled",
        }
    }

    /// True where a classic group may become one of the consumer protocol.
    pub fn may_upgrade(self) -> bool {
        matches!(self, Self::Bidirectional | Self::Upgrade)
    }

    /// True where a group of the consumer protocol may become a classic one.
    pub fn may_downgrade(self) -> bool {
        matches!(self, Self::Bidirectional | Self::Downgrade)
    }
}
