//! What a topic's configs mean for its partitions, resolved once.

use crate::control::topic::ConfigOverrides;
use crate::control::topic_config::{self, TimestampType};
use crate::log::partition_log::LogConfig;
use crate::log::retention::RetentionLimits;
use crate::record::record_tally::AppendLimits;
use crate::shard::options::ShardOptions;

/// When an append counts as safe, and may be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After fdatasync of the segment; many appends share one.
    Segment,
    /// As soon as the page cache has it: a crash of the machine may lose it.
    Os,
}

/// The configs of one topic as its partitions use them.
#[derive(Clone, Copy, Debug)]
pub struct TopicLimits {
    /// For its logs.
    pub log: LogConfig,
    /// What is accepted; the time is filled in at each batch.
    pub append: AppendLimits,
    /// When an append is safe.
    pub durability: Durability,
    /// `flush.messages`: under `os`, this many records without a sync are synced in the background.
    pub flush_messages: u64,
    /// `flush.ms`: under `os`, a record is synced in the background by then.
    pub flush_ms: u64,
    /// What is kept.
    pub retention: RetentionLimits,
    /// `file.delete.delay.ms`
    pub file_delete_delay_ms: u64,
}

impl TopicLimits {
    /// Resolves a topic's own settings over the server's.
    pub fn of(options: &ShardOptions, overrides: &ConfigOverrides) -> Self {
        let config = topic_config::resolve(overrides, &options.broker_config);
        let log_append_time = config.message_timestamp_type == TimestampType::LogAppendTime;
        Self {
            log: LogConfig {
                segment_bytes: config.segment_bytes,
                index_interval_bytes: config.index_interval_bytes,
                segment_index_bytes: config.segment_index_bytes,
                segment_ms: config.segment_ms,
                segment_jitter_ms: config.segment_jitter_ms,
                log_append_time,
            },
            append: AppendLimits {
                max_message_bytes: config.max_message_bytes,
                segment_bytes: config.segment_bytes,
                compact: config.cleanup_policy.compact,
                log_append_time,
                timestamp_before_max_ms: saturated(config.message_timestamp_before_max_ms),
                timestamp_after_max_ms: saturated(config.message_timestamp_after_max_ms),
                now_ms: 0,
            },
            durability: match config.durability {
                // Kafka syncs each append before its answer then: so do we.
                topic_config::Durability::Os if config.flush_messages <= 1 => Durability::Segment,
                topic_config::Durability::Os => Durability::Os,
                topic_config::Durability::Segment => Durability::Segment,
            },
            flush_messages: config.flush_messages,
            flush_ms: config.flush_ms,
            retention: RetentionLimits {
                delete: config.cleanup_policy.delete,
                retention_ms: config.retention_ms,
                retention_bytes: config.retention_bytes,
            },
            file_delete_delay_ms: config.file_delete_delay_ms,
        }
    }
}

fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
