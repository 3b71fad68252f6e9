//! What a topic's configs mean for its partitions, resolved once.

use crate::control::topic::ConfigOverrides;
use crate::log::partition_log::LogConfig;
use crate::record::check::AppendLimits;
use crate::shard::core::ShardOptions;
use crate::shard::partition::Durability;

/// The configs of one topic as its partitions use them.
#[derive(Clone, Copy, Debug)]
pub struct TopicLimits {
    /// For its logs.
    pub log: LogConfig,
    /// What is accepted; the time is filled in at each batch.
    pub append: AppendLimits,
    /// When an append is safe.
    pub durability: Durability,
    /// `file.delete.delay.ms`
    pub file_delete_delay_ms: u64,
}

impl TopicLimits {
    /// Resolves a topic's own settings over the server's.
    pub fn of(options: &ShardOptions, overrides: &ConfigOverrides) -> Self {
        let config = options.broker_config.topic_config(overrides);
        let log_append_time = config.log_append_time();
        Self {
            log: LogConfig {
                segment_bytes: config.segment_bytes(),
                index_interval_bytes: config.index_interval_bytes(),
                segment_index_bytes: config.segment_index_bytes(),
                log_append_time,
            },
            append: AppendLimits {
                max_message_bytes: config.max_message_bytes(),
                segment_bytes: config.segment_bytes(),
                compact: config.is_compacted(),
                log_append_time,
                timestamp_before_max_ms: config.timestamp_before_max_ms(),
                timestamp_after_max_ms: config.timestamp_after_max_ms(),
                now_ms: 0,
            },
            durability: match config.durability() {
                Some("os") => Durability::Os,
                Some("segment") => Durability::Segment,
                _ => options.durability,
            },
            file_delete_delay_ms: config.file_delete_delay_ms(),
        }
    }
}
