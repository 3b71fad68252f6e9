//! What a topic's configs mean for its partitions, resolved once.

use crate::control::topic::ConfigOverrides;
use crate::control::topic_config::{self, CompressionType, TimestampType, TopicConfig};
use crate::log::clean_plan::CleaningLimits;
use crate::log::partition_log::LogConfig;
use crate::log::retention::RetentionLimits;
use crate::record::compression::Compression;
use crate::record::compressor::Codec;
use crate::record::offset::Offset;
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
    /// What is kept, in both tiers together.
    pub retention: RetentionLimits,
    /// What is compacted.
    pub cleaning: CleaningLimits,
    /// What is in the tier.
    pub tier: TierLimits,
    /// `file.delete.delay.ms`
    pub file_delete_delay_ms: u64,
}

/// What of a topic is in the tier, and what is here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierLimits {
    /// `remote.storage.enable`
    pub enabled: bool,
    /// `remote.log.copy.disable`: nothing more is copied.
    pub copy_disabled: bool,
    /// `remote.log.delete.on.disable`: where the topic is tiered no more, what is in the tier goes.
    pub delete_on_disable: bool,
    /// What `local.retention.ms` comes to; `None`: no limit.
    pub local_retention_ms: Option<u64>,
    /// What `local.retention.bytes` comes to; `None`: no limit.
    pub local_retention_bytes: Option<u64>,
}

impl TopicLimits {
    /// What is deleted of the local log. `copied_below`: all below it is in the tier.
    pub fn local_retention(&self, copied_below: Offset) -> RetentionLimits {
        // As in Kafka: where nothing more is copied, the local log is kept like one without a tier.
        if !self.tier.enabled || self.tier.copy_disabled {
            return self.retention;
        }
        RetentionLimits {
            retention_ms: self.tier.local_retention_ms,
            retention_bytes: self.tier.local_retention_bytes,
            copied_below: Some(copied_below),
            ..self.retention
        }
    }

    /// Resolves a topic's own settings over the server's.
    pub fn of(options: &ShardOptions, overrides: &ConfigOverrides) -> Self {
        let config = topic_config::resolve(overrides, &options.broker_config);
        let log_append_time = config.message_timestamp_type == TimestampType::LogAppendTime;
        Self {
            log: LogConfig {
                segment_bytes: config.segment_bytes,
                index_interval_bytes: config.index_interval_bytes,
                segment_index_bytes: config.segment_index_bytes,
                // As in Kafka: what is rolled too late could not be compacted in time.
                segment_ms: match config.cleanup_policy.compact && config.max_compaction_lag_ms > 0 {
                    true => config.segment_ms.min(config.max_compaction_lag_ms),
                    false => config.segment_ms,
                },
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
                codec: codec(&config),
                record_bytes_max: config.max_decompressed_message_bytes,
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
                copied_below: None,
            },
            tier: TierLimits {
                enabled: config.remote_storage_enable,
                copy_disabled: config.remote_log_copy_disable,
                delete_on_disable: config.remote_log_delete_on_disable,
                local_retention_ms: config.local_retention_ms,
                local_retention_bytes: config.local_retention_bytes,
            },
            cleaning: CleaningLimits {
                compact: config.cleanup_policy.compact,
                dirty_ratio_min: config.min_cleanable_dirty_ratio,
                lag_min_ms: config.min_compaction_lag_ms,
                lag_max_ms: Some(config.max_compaction_lag_ms).filter(|lag_ms| *lag_ms < i64::MAX.cast_unsigned()),
                delete_retention_ms: config.delete_retention_ms,
            },
            file_delete_delay_ms: config.file_delete_delay_ms,
        }
    }
}

/// What `compression.type` and its level ask for.
fn codec(config: &TopicConfig) -> Option<Codec> {
    let (compression, level) = match config.compression_type {
        CompressionType::Producer => return None,
        CompressionType::Uncompressed => (Compression::None, 0),
        CompressionType::Gzip => (Compression::Gzip, config.compression_gzip_level),
        CompressionType::Snappy => (Compression::Snappy, 0),
        CompressionType::Lz4 => (Compression::Lz4, config.compression_lz4_level),
        CompressionType::Zstd => (Compression::Zstd, config.compression_zstd_level),
    };
    Some(Codec { compression, level })
}

fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
