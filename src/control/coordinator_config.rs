//! The server's settings of groups, offsets and transactions.

use crate::control::broker_config::BrokerConfig;

impl BrokerConfig {
    /// `offsets.topic.num.partitions`.
    #[must_use]
    pub fn offsets_topic_num_partitions(&self) -> i32 {
        i32::try_from(self.integer("offsets.topic.num.partitions")).unwrap_or(1)
    }

    /// `offsets.topic.segment.bytes`.
    #[must_use]
    pub fn offsets_topic_segment_bytes(&self) -> u32 {
        self.count32("offsets.topic.segment.bytes")
    }

    /// `transaction.state.log.num.partitions`.
    #[must_use]
    pub fn transaction_state_log_num_partitions(&self) -> i32 {
        i32::try_from(self.integer("transaction.state.log.num.partitions")).unwrap_or(1)
    }

    /// `transaction.state.log.segment.bytes`.
    #[must_use]
    pub fn transaction_state_log_segment_bytes(&self) -> u32 {
        self.count32("transaction.state.log.segment.bytes")
    }

    /// `transaction.max.timeout.ms`.
    #[must_use]
    pub fn transaction_max_timeout_ms(&self) -> i32 {
        i32::try_from(self.integer("transaction.max.timeout.ms")).unwrap_or(i32::MAX)
    }

    /// `transaction.abort.timed.out.transaction.cleanup.interval.ms`.
    #[must_use]
    pub fn transaction_abort_check_interval_ms(&self) -> u64 {
        u64::from(self.count32("transaction.abort.timed.out.transaction.cleanup.interval.ms"))
    }

    /// `transactional.id.expiration.ms`.
    #[must_use]
    pub fn transactional_id_expiration_ms(&self) -> i64 {
        self.integer("transactional.id.expiration.ms")
    }

    /// `transaction.remove.expired.transaction.cleanup.interval.ms`.
    #[must_use]
    pub fn transactional_id_check_interval_ms(&self) -> u64 {
        u64::from(self.count32("transaction.remove.expired.transaction.cleanup.interval.ms"))
    }

    /// `group.min.session.timeout.ms`.
    #[must_use]
    pub fn group_min_session_timeout_ms(&self) -> u32 {
        self.count32("group.min.session.timeout.ms")
    }

    /// `group.max.session.timeout.ms`.
    #[must_use]
    pub fn group_max_session_timeout_ms(&self) -> u32 {
        self.count32("group.max.session.timeout.ms")
    }

    /// `group.initial.rebalance.delay.ms`.
    #[must_use]
    pub fn group_initial_rebalance_delay_ms(&self) -> u32 {
        self.count32("group.initial.rebalance.delay.ms")
    }

    /// `group.max.size`.
    #[must_use]
    pub fn group_max_size(&self) -> u32 {
        self.count32("group.max.size")
    }

    /// `offset.metadata.max.bytes`.
    #[must_use]
    pub fn offset_metadata_max_bytes(&self) -> u32 {
        self.count32("offset.metadata.max.bytes")
    }

    /// `offsets.retention.minutes`, in milliseconds.
    #[must_use]
    pub fn offsets_retention_ms(&self) -> u64 {
        u64::from(self.count32("offsets.retention.minutes")) * 60_000
    }

    /// `offsets.retention.check.interval.ms`.
    #[must_use]
    pub fn offsets_retention_check_interval_ms(&self) -> u64 {
        u64::try_from(self.integer("offsets.retention.check.interval.ms")).unwrap_or(u64::MAX)
    }

    /// `group.consumer.session.timeout.ms`.
    #[must_use]
    pub fn group_consumer_session_timeout_ms(&self) -> u32 {
        self.count32("group.consumer.session.timeout.ms")
    }

    /// `group.consumer.heartbeat.interval.ms`.
    #[must_use]
    pub fn group_consumer_heartbeat_interval_ms(&self) -> u32 {
        self.count32("group.consumer.heartbeat.interval.ms")
    }

    /// `group.consumer.assignment.interval.ms`.
    #[must_use]
    pub fn group_consumer_assignment_interval_ms(&self) -> u32 {
        self.count32("group.consumer.assignment.interval.ms")
    }

    /// `group.consumer.migration.policy`.
    #[must_use]
    pub fn group_consumer_migration_policy(&self) -> &str {
        self.text("group.consumer.migration.policy").unwrap_or_default()
    }

    /// `group.consumer.max.size`.
    #[must_use]
    pub fn group_consumer_max_size(&self) -> u32 {
        self.count32("group.consumer.max.size")
    }
}
