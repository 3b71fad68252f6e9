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
    pub offset_metadata_max_bytes: u32,
    pub offsets_retention_ms: u64,
    pub offsets_retention_check_interval_ms: u64,
}
