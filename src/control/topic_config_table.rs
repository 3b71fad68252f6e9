//! The table of topic configs: Kafka 4.4.0's, and our own.

use crate::control::config_value::{ConfigKey, ConfigType, Valid};

/// A topic config and where the server's default for it comes from.
#[derive(Clone, Copy, Debug)]
pub struct TopicConfigKey {
    /// Name, type, default, legal values.
    pub key: ConfigKey,
    /// Broker configs of the same meaning, the first that is set wins.
    pub synonyms: &'static [&'static str],
    /// Broker configs of the same meaning in another unit, and the factor; Kafka uses them but does not show them.
    pub scaled: &'static [(&'static str, i64)],
}

/// The row of a name.
#[must_use]
pub fn topic_config_key(name: &str) -> Option<&'static TopicConfigKey> {
    TOPIC_CONFIGS.iter().find(|row| row.key.name == name)
}

const HOUR_MS: i64 = 3_600_000;
const LONG_MAX: Option<&str> = Some("9223372036854775807");
const UNLIMITED: Valid = Valid::AtLeast(-1);
const LOCAL: Valid = Valid::AtLeast(-2);
const NOT_NEGATIVE: Valid = Valid::AtLeast(0);
const POSITIVE: Valid = Valid::AtLeast(1);
const COMPRESSIONS: Valid = Valid::OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]);
const TIMESTAMPS: Valid = Valid::OneOf(&["CreateTime", "LogAppendTime"]);
const CLEANUPS: Valid = Valid::OneOf(&["compact", "delete"]);
/// The journal comes later and is not promised before it works.
pub(super) const DURABILITIES: Valid = Valid::OneOf(&["segment", "os"]);

const fn row(
    name: &'static str,
    kind: ConfigType,
    default: Option<&'static str>,
    valid: Valid,
    synonyms: &'static [&'static str],
    documentation: &'static str,
) -> TopicConfigKey {
    TopicConfigKey { key: ConfigKey { name, kind, default, valid, documentation }, synonyms, scaled: &[] }
}

const fn scaled(row: TopicConfigKey, scaled: &'static [(&'static str, i64)]) -> TopicConfigKey {
    TopicConfigKey { scaled, ..row }
}

use ConfigType::{Boolean, Double, Int, List, Long, String};

/// All topic configs, in the order in which Kafka judges them.
#[rustfmt::skip]
pub const TOPIC_CONFIGS: &[TopicConfigKey] = &[
    row("segment.bytes", Int, Some("1073741824"), Valid::AtLeast(1_048_576), &["log.segment.bytes"],
        "The size at which a segment is rolled."),
    scaled(row("segment.ms", Long, Some("604800000"), POSITIVE, &["log.roll.ms"],
        "The age at which a segment is rolled even if it is not full."), &[("log.roll.hours", HOUR_MS)]),
    scaled(row("segment.jitter.ms", Long, Some("0"), NOT_NEGATIVE, &["log.roll.jitter.ms"],
        "The most that is taken off segment.ms at random, so that segments do not all roll at once."),
        &[("log.roll.jitter.hours", HOUR_MS)]),
    row("segment.index.bytes", Int, Some("10485760"), Valid::AtLeast(4), &["log.index.size.max.bytes"],
        "The most bytes of an index; a segment whose index is full is rolled."),
    row("flush.messages", Long, LONG_MAX, POSITIVE, &["log.flush.interval.messages"],
        "Records after which a partition is synced, where durability is os."),
    row("flush.ms", Long, LONG_MAX, NOT_NEGATIVE, &["log.flush.interval.ms", "log.flush.scheduler.interval.ms"],
        "Time after which a partition is synced, where durability is os."),
    row("retention.bytes", Long, Some("-1"), Valid::Any, &["log.retention.bytes"],
        "The size of a partition above which its oldest segments are deleted; -1: none."),
    scaled(row("retention.ms", Long, Some("604800000"), UNLIMITED, &["log.retention.ms"],
        "The age at which a segment is deleted; -1: none."), &[("log.retention.minutes", 60_000), ("log.retention.hours", HOUR_MS)]),
    row("remote.storage.enable", Boolean, Some("false"), Valid::Any, &[],
        "Whether sealed segments are copied to the tier."),
    row("local.retention.ms", Long, Some("-2"), LOCAL, &["log.local.retention.ms"],
        "The age at which a copied segment is deleted locally; -2: as retention.ms."),
    row("local.retention.bytes", Long, Some("-2"), LOCAL, &["log.local.retention.bytes"],
        "The local size above which copied segments are deleted locally; -2: as retention.bytes."),
    row("remote.copy.lag.ms", Long, Some("0"), UNLIMITED, &["log.remote.copy.lag.ms"],
        "The age before which a sealed segment is not copied to the tier; -1: as local retention."),
    row("remote.copy.lag.bytes", Long, Some("-1"), UNLIMITED, &["log.remote.copy.lag.bytes"],
        "The bytes of newest sealed segments that are not yet copied to the tier; -1: by age alone."),
    row("remote.log.copy.disable", Boolean, Some("false"), Valid::Any, &[],
        "Stops copying to the tier; what is there stays readable."),
    row("remote.log.delete.on.disable", Boolean, Some("false"), Valid::Any, &[],
        "Whether switching the tier off deletes what is in it."),
    row("max.message.bytes", Int, Some("1048588"), NOT_NEGATIVE, &["message.max.bytes"],
        "The largest record batch, compressed, that is taken."),
    row("max.decompressed.message.bytes", Int, Some("2147483639"), POSITIVE, &["max.decompressed.message.bytes"],
        "The most bytes that a compressed batch may unpack to."),
    row("index.interval.bytes", Int, Some("4096"), NOT_NEGATIVE, &["log.index.interval.bytes"],
        "Bytes of log between two entries of its offset index."),
    row("delete.retention.ms", Long, Some("86400000"), NOT_NEGATIVE, &["log.cleaner.delete.retention.ms"],
        "How long compaction keeps a tombstone."),
    row("min.compaction.lag.ms", Long, Some("0"), NOT_NEGATIVE, &["log.cleaner.min.compaction.lag.ms"],
        "The age before which a record is not compacted."),
    row("max.compaction.lag.ms", Long, LONG_MAX, POSITIVE, &["log.cleaner.max.compaction.lag.ms"],
        "The age at which a record is compacted at the latest."),
    row("file.delete.delay.ms", Long, Some("60000"), NOT_NEGATIVE, &["log.segment.delete.delay.ms"],
        "How long a deleted segment's file stays."),
    row("min.cleanable.dirty.ratio", Double, Some("0.5"), Valid::Between(0, 1), &["log.cleaner.min.cleanable.ratio"],
        "The share of a log that is not compacted yet at which compaction begins."),
    row("cleanup.policy", List, Some("delete"), CLEANUPS, &["log.cleanup.policy"],
        "What becomes of old segments: delete, compact, both, or with an empty list nothing."),
    row("unclean.leader.election.enable", Boolean, Some("false"), Valid::Any, &["unclean.leader.election.enable"],
        "Whether a replica that lacks records may lead; one machine has one replica."),
    row("min.insync.replicas", Int, Some("1"), POSITIVE, &["min.insync.replicas"],
        "Replicas that must have a record before acks=all is answered."),
    row("compression.type", String, Some("producer"), COMPRESSIONS, &["compression.type"],
        "The codec that batches are kept in; producer: as they come."),
    row("compression.gzip.level", Int, Some("-1"), Valid::BetweenOrMinusOne(1, 9), &["compression.gzip.level"],
        "The level, where compression.type is gzip."),
    row("compression.lz4.level", Int, Some("9"), Valid::Between(1, 17), &["compression.lz4.level"],
        "The level, where compression.type is lz4."),
    row("compression.zstd.level", Int, Some("3"), Valid::Between(-131_072, 22), &["compression.zstd.level"],
        "The level, where compression.type is zstd."),
    row("preallocate", Boolean, Some("false"), Valid::Any, &["log.preallocate"],
        "Whether a new segment's space is reserved."),
    row("message.timestamp.type", String, Some("CreateTime"), TIMESTAMPS, &["log.message.timestamp.type"],
        "Whether records have their producer's time or the time of their append."),
    row("message.timestamp.before.max.ms", Long, LONG_MAX, NOT_NEGATIVE, &["log.message.timestamp.before.max.ms"],
        "How far a record's time may be in the past."),
    row("message.timestamp.after.max.ms", Long, Some("3600000"), NOT_NEGATIVE, &["log.message.timestamp.after.max.ms"],
        "How far a record's time may be in the future."),
    row("leader.replication.throttled.replicas", List, Some(""), Valid::ThrottledReplicas, &[],
        "Replicas whose leaders send at a limited rate."),
    row("follower.replication.throttled.replicas", List, Some(""), Valid::ThrottledReplicas, &[],
        "Replicas whose followers fetch at a limited rate."),
    row("errors.deadletterqueue.group.enable", Boolean, Some("false"), Valid::Any, &[],
        "Whether share groups may write records here that they could not deliver."),
    row("alluvium.durability", String, Some("segment"), DURABILITIES, &["alluvium.durability"],
        "What an acknowledgement promises: segment: synced; os: in the page cache."),
];
