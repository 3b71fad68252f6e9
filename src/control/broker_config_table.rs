//! The table of broker configs that `--set` takes.

use crate::control::config_value::{ConfigKey, ConfigType, Valid};

/// A broker config of Kafka's, and whether it does anything here.
#[derive(Clone, Copy, Debug)]
pub struct BrokerConfigKey {
    /// Name, type, default, legal values.
    pub key: ConfigKey,
    /// `None`: it works. Else why it is taken and does nothing.
    pub no_meaning: Option<&'static str>,
}

/// The row of a name.
#[must_use]
pub fn broker_config_key(name: &str) -> Option<&'static BrokerConfigKey> {
    BROKER_CONFIGS.iter().find(|row| row.key.name == name)
}

/// Broker configs that are a flag here: (config, flag).
pub const FLAGS: &[(&str, &str)] = &[
    ("listeners", "--listen"),
    ("port", "--listen"),
    ("host.name", "--listen"),
    ("advertised.listeners", "--advertise"),
    ("advertised.host.name", "--advertise"),
    ("advertised.port", "--advertise"),
    ("node.id", "--node-id"),
    ("broker.id", "--node-id"),
    ("broker.rack", "--rack"),
    ("log.dir", "--data-dir"),
    ("log.dirs", "--data-dir"),
    ("remote.log.storage.system.enable", "--tier"),
    ("remote.log.storage.hdfs.base.dir", "--tier"),
    ("remote.log.storage.hdfs.fs.uri", "--tier"),
];

const LONG_MAX: Option<&str> = Some("9223372036854775807");
const INT_MAX: Option<&str> = Some("2147483647");
const NOT_NEGATIVE: Valid = Valid::AtLeast(0);
const POSITIVE: Valid = Valid::AtLeast(1);

const THREADS: Option<&str> = Some("each core is one thread; --cores sets how many");
const ONE_REPLICA: Option<&str> = Some("one machine has one replica of a partition, so nothing replicates");
const CLEANER: Option<&str> = Some("each core compacts its own partitions in the time that its requests leave");
const SOCKETS: Option<&str> = Some("the kernel sizes socket buffers by itself");
const PURGATORY: Option<&str> = Some("waiting requests are dropped at once when they are answered");
const NO_CONTROLLER: Option<&str> = Some("there is no separate controller");
const CHECKPOINTS: Option<&str> = Some("checkpoints are written when what they hold is durable");
const NO_GROUP_CONFIGS: Option<&str> = Some("groups have no settings of their own that it would bound");
const LINGER: Option<&str> = Some("what comes in during one turn of a core is appended together, at once");
const LOADING: Option<&str> = Some("coordinators read their partitions in slices of 1 MiB");
const UNCOMPRESSED: Option<&str> = Some("records of coordinators are not compressed");
const TIER_CACHES: Option<&str> = Some("what was read of the tier is kept while there is room for it in --tier-memory");
const TIER_METADATA: Option<&str> = Some("what is known of remote segments lies beside each partition, not in a topic");
const JMX: Option<&str> = Some("metrics are not JMX's");

const fn works(
    name: &'static str,
    kind: ConfigType,
    default: Option<&'static str>,
    valid: Valid,
    documentation: &'static str,
) -> BrokerConfigKey {
    BrokerConfigKey { key: ConfigKey { name, kind, default, valid, documentation }, no_meaning: None }
}

const fn idle(
    name: &'static str,
    kind: ConfigType,
    default: Option<&'static str>,
    no_meaning: Option<&'static str>,
) -> BrokerConfigKey {
    let documentation = "Taken for compatibility; it has no effect here.";
    BrokerConfigKey { key: ConfigKey { name, kind, default, valid: Valid::Any, documentation }, no_meaning }
}

use ConfigType::{Boolean, Double, Int, List, Long, Short, String};

/// Broker configs that are taken, by name.
#[rustfmt::skip]
pub const BROKER_CONFIGS: &[BrokerConfigKey] = &[
    works("alluvium.durability", String, Some("segment"), super::topic_config_table::DURABILITIES,
        "What an acknowledgement promises: segment: synced; os: in the page cache."),
    works("auto.create.topics.enable", Boolean, Some("true"), Valid::Any, "Whether a client that asks for an unknown topic makes it."),
    idle("auto.leader.rebalance.enable", Boolean, Some("true"), ONE_REPLICA),
    idle("background.threads", Int, Some("10"), THREADS),
    idle("broker.heartbeat.interval.ms", Int, Some("2000"), NO_CONTROLLER),
    idle("broker.session.timeout.ms", Int, Some("9000"), NO_CONTROLLER),
    works("compression.gzip.level", Int, Some("-1"), Valid::BetweenOrMinusOne(1, 9), "The level, where compression.type is gzip."),
    works("compression.lz4.level", Int, Some("9"), Valid::Between(1, 17), "The level, where compression.type is lz4."),
    works("compression.type", String, Some("producer"), Valid::OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]),
        "The codec that batches are kept in; producer: as they come."),
    works("compression.zstd.level", Int, Some("3"), Valid::Between(-131_072, 22), "The level, where compression.type is zstd."),
    works("connections.max.idle.ms", Long, Some("600000"), Valid::Any, "How long a connection may be silent."),
    idle("controlled.shutdown.enable", Boolean, Some("true"), ONE_REPLICA),
    works("default.replication.factor", Int, Some("1"), POSITIVE, "Replicas of a topic whose client does not say."),
    works("delete.topic.enable", Boolean, Some("true"), Valid::Any, "Whether clients may delete topics."),
    works("fetch.max.bytes", Int, Some("57671680"), Valid::AtLeast(1024), "The most bytes of one fetch."),
    idle("fetch.purgatory.purge.interval.requests", Int, Some("1000"), PURGATORY),
    idle("group.consumer.max.heartbeat.interval.ms", Int, Some("15000"), NO_GROUP_CONFIGS),
    idle("group.consumer.max.session.timeout.ms", Int, Some("60000"), NO_GROUP_CONFIGS),
    idle("group.consumer.min.heartbeat.interval.ms", Int, Some("5000"), NO_GROUP_CONFIGS),
    idle("group.consumer.min.session.timeout.ms", Int, Some("45000"), NO_GROUP_CONFIGS),
    idle("group.coordinator.append.linger.ms", Int, Some("-1"), LINGER),
    idle("group.coordinator.threads", Int, Some("4"), THREADS),
    idle("group.consumer.max.assignment.interval.ms", Int, Some("15000"), NO_GROUP_CONFIGS),
    idle("group.consumer.min.assignment.interval.ms", Int, Some("0"), NO_GROUP_CONFIGS),
    works("group.consumer.assignment.interval.ms", Int, Some("1000"), NOT_NEGATIVE, "How often a group of the consumer protocol is assigned anew at most."),
    works("group.consumer.heartbeat.interval.ms", Int, Some("5000"), POSITIVE, "How often members of a group of the consumer protocol report."),
    works("group.consumer.max.size", Int, INT_MAX, POSITIVE, "The most members of a group of the consumer protocol."),
    works("group.consumer.migration.policy", String, Some("bidirectional"), Valid::OneOf(&["bidirectional", "upgrade", "downgrade", "disabled"]),
        "Which way a group with members may go between the classic and the consumer protocol."),
    works("group.consumer.session.timeout.ms", Int, Some("45000"), POSITIVE, "How long a member of a group of the consumer protocol may be silent."),
    works("group.initial.rebalance.delay.ms", Int, Some("3000"), NOT_NEGATIVE, "How long an empty group waits for more members before its first rebalance."),
    works("group.max.session.timeout.ms", Int, Some("1800000"), NOT_NEGATIVE, "The longest session timeout that a member may ask for."),
    works("group.max.size", Int, INT_MAX, POSITIVE, "The most members of a group."),
    works("group.min.session.timeout.ms", Int, Some("6000"), NOT_NEGATIVE, "The shortest session timeout that a member may ask for."),
    idle("leader.imbalance.check.interval.seconds", Long, Some("300"), ONE_REPLICA),
    works("log.cleaner.backoff.ms", Long, Some("15000"), NOT_NEGATIVE, "How often logs are looked at for compaction."),
    works("log.cleaner.dedupe.buffer.size", Long, Some("134217728"), Valid::Any, "The most memory of the machine for the keys of logs that are compacted."),
    works("log.cleaner.delete.retention.ms", Long, Some("86400000"), NOT_NEGATIVE, "How long compaction keeps a tombstone."),
    works("log.cleaner.enable", Boolean, Some("true"), Valid::Any, "Whether logs are compacted."),
    works("log.cleaner.io.buffer.load.factor", Double, Some("0.9"), Valid::Any, "How full the memory for keys may get."),
    works("log.cleaner.io.buffer.size", Int, Some("524288"), NOT_NEGATIVE, "Bytes of the machine that compaction reads and writes at once."),
    works("log.cleaner.io.max.bytes.per.second", Double, Some("1.7976931348623157E308"), Valid::Any,
        "The most bytes a second of the machine that compaction reads and writes."),
    works("log.cleaner.max.compaction.lag.ms", Long, LONG_MAX, POSITIVE, "The age at which a record is compacted at the latest."),
    works("log.cleaner.min.cleanable.ratio", Double, Some("0.5"), Valid::Between(0, 1),
        "The share of a log that is not compacted yet at which compaction begins."),
    works("log.cleaner.min.compaction.lag.ms", Long, Some("0"), NOT_NEGATIVE, "The age before which a record is not compacted."),
    idle("log.cleaner.threads", Int, Some("1"), CLEANER),
    works("log.cleanup.policy", List, Some("delete"), Valid::OneOf(&["compact", "delete"]), "What becomes of old segments."),
    works("log.flush.interval.messages", Long, LONG_MAX, POSITIVE, "Records after which a partition is synced, where durability is os."),
    works("log.flush.interval.ms", Long, None, NOT_NEGATIVE, "Time after which a partition is synced, where durability is os."),
    idle("log.flush.offset.checkpoint.interval.ms", Int, Some("60000"), CHECKPOINTS),
    works("log.flush.scheduler.interval.ms", Long, LONG_MAX, NOT_NEGATIVE, "Stands in for log.flush.interval.ms where that is not set."),
    idle("log.flush.start.offset.checkpoint.interval.ms", Int, Some("60000"), CHECKPOINTS),
    works("log.index.interval.bytes", Int, Some("4096"), NOT_NEGATIVE, "Bytes of log between two entries of its offset index."),
    works("log.index.size.max.bytes", Int, Some("10485760"), Valid::AtLeast(4), "The most bytes of an index."),
    works("log.initial.task.delay.ms", Long, Some("30000"), NOT_NEGATIVE, "The time after the start before segments are first looked at for deletion."),
    works("log.local.retention.bytes", Long, Some("-2"), Valid::AtLeast(-2), "The local size above which copied segments are deleted locally."),
    works("log.local.retention.ms", Long, Some("-2"), Valid::AtLeast(-2), "The age at which a copied segment is deleted locally."),
    works("log.message.timestamp.after.max.ms", Long, Some("3600000"), NOT_NEGATIVE, "How far a record's time may be in the future."),
    works("log.message.timestamp.before.max.ms", Long, LONG_MAX, NOT_NEGATIVE, "How far a record's time may be in the past."),
    works("log.message.timestamp.type", String, Some("CreateTime"), Valid::OneOf(&["CreateTime", "LogAppendTime"]), "Whose time a record has."),
    works("log.preallocate", Boolean, Some("false"), Valid::Any, "Whether a new segment's space is reserved."),
    works("log.remote.copy.lag.bytes", Long, Some("-1"), Valid::AtLeast(-1), "The bytes of newest sealed segments that are not yet copied to the tier."),
    works("log.remote.copy.lag.ms", Long, Some("0"), Valid::AtLeast(-1), "The age before which a sealed segment is not copied to the tier."),
    works("log.retention.bytes", Long, Some("-1"), Valid::Any, "The size of a partition above which its oldest segments are deleted; -1: none."),
    works("log.retention.check.interval.ms", Long, Some("300000"), POSITIVE, "How often segments are looked at for deletion."),
    works("log.retention.hours", Int, Some("168"), Valid::Any, "The age at which a segment is deleted, where neither minutes nor ms are set."),
    works("log.retention.minutes", Int, None, Valid::Any, "The age at which a segment is deleted, where ms is not set."),
    works("log.retention.ms", Long, None, Valid::Any, "The age at which a segment is deleted; -1: none."),
    works("log.roll.hours", Int, Some("168"), POSITIVE, "The age at which a segment is rolled, where ms is not set."),
    works("log.roll.jitter.hours", Int, Some("0"), NOT_NEGATIVE, "The most that is taken off the roll time, where ms is not set."),
    works("log.roll.jitter.ms", Long, None, NOT_NEGATIVE, "The most that is taken off the roll time at random."),
    works("log.roll.ms", Long, None, POSITIVE, "The age at which a segment is rolled even if it is not full."),
    works("log.segment.bytes", Int, Some("1073741824"), Valid::AtLeast(1_048_576), "The size at which a segment is rolled."),
    works("log.segment.delete.delay.ms", Long, Some("60000"), NOT_NEGATIVE, "How long a deleted segment's file stays."),
    works("max.connections", Int, INT_MAX, NOT_NEGATIVE, "Connections of the machine."),
    works("max.connections.per.ip", Int, INT_MAX, NOT_NEGATIVE, "Connections of one address."),
    works("max.decompressed.message.bytes", Int, Some("2147483639"), POSITIVE, "The most bytes that a compressed batch may unpack to."),
    works("max.incremental.fetch.session.cache.slots", Int, Some("1000"), NOT_NEGATIVE, "Fetch sessions of the machine."),
    works("max.request.partition.size.limit", Int, Some("2000"), POSITIVE, "Partitions of one DescribeTopicPartitions answer."),
    works("message.max.bytes", Int, Some("1048588"), NOT_NEGATIVE, "The largest record batch, compressed, that is taken."),
    idle("metric.reporters", List, Some("org.apache.kafka.common.metrics.JmxReporter"), JMX),
    idle("metrics.num.samples", Int, Some("2"), JMX),
    idle("metrics.recording.level", String, Some("INFO"), JMX),
    idle("metrics.sample.window.ms", Long, Some("30000"), JMX),
    works("min.insync.replicas", Int, Some("1"), POSITIVE, "Replicas that must have a record before acks=all is answered."),
    idle("num.io.threads", Int, Some("8"), THREADS),
    idle("num.network.threads", Int, Some("3"), THREADS),
    works("num.partitions", Int, Some("1"), POSITIVE, "Partitions of a topic whose client does not say."),
    idle("num.recovery.threads.per.data.dir", Int, Some("2"), THREADS),
    idle("num.replica.alter.log.dirs.threads", Int, None, THREADS),
    idle("num.replica.fetchers", Int, Some("1"), ONE_REPLICA),
    works("producer.id.expiration.ms", Int, Some("86400000"), POSITIVE, "How long an idempotent producer's state stays after its last batch."),
    idle("producer.purgatory.purge.interval.requests", Int, Some("1000"), PURGATORY),
    works("queued.max.request.bytes", Long, Some("-1"), Valid::Any, "The most bytes of requests that are read and not answered; -1: as --memory allows."),
    works("queued.max.requests", Int, Some("500"), POSITIVE, "The most requests that are read and not answered."),
    works("remote.fetch.max.wait.ms", Int, Some("500"), POSITIVE, "How long a fetch waits for the tier."),
    works("remote.list.offsets.request.timeout.ms", Long, Some("30000"), POSITIVE, "How long a lookup by time waits for the tier."),
    works("remote.log.index.file.cache.total.size.bytes", Long, Some("1073741824"), POSITIVE, "The most memory for indexes of segments in HDFS, within a quarter of --tier-memory; those of a folder are in the page cache."),
    idle("remote.log.index.file.cache.ttl.ms", Long, Some("900000"), TIER_CACHES),
    works("remote.log.manager.copy.max.bytes.per.second", Long, LONG_MAX, POSITIVE, "The most bytes a second that are copied to the tier."),
    idle("remote.log.manager.copy.quota.window.num", Int, Some("11"), Some("the rate is kept for each piece that is sent, without a window")),
    idle("remote.log.manager.copy.quota.window.size.seconds", Int, Some("1"), Some("the rate is kept for each piece that is sent, without a window")),
    idle("remote.log.manager.copier.thread.pool.size", Int, Some("10"), THREADS),
    idle("remote.log.manager.expiration.thread.pool.size", Int, Some("10"), THREADS),
    idle("remote.log.manager.follower.thread.pool.size", Int, Some("2"), THREADS),
    idle("remote.log.manager.fetch.max.bytes.per.second", Long, LONG_MAX, Some("reads of the tier are not limited")),
    idle("remote.log.manager.fetch.quota.window.num", Int, Some("11"), Some("reads of the tier are not limited")),
    idle("remote.log.manager.fetch.quota.window.size.seconds", Int, Some("1"), Some("reads of the tier are not limited")),
    works("remote.log.manager.task.interval.ms", Long, Some("30000"), POSITIVE, "How often partitions are looked at for what is to be copied to the tier or deleted there, besides whenever a segment is sealed."),
    works("remote.log.manager.task.retry.backoff.max.ms", Long, Some("30000"), POSITIVE, "The longest wait after a failure of the tier."),
    works("remote.log.manager.task.retry.backoff.ms", Long, Some("500"), POSITIVE, "The first wait after a failure of the tier; it doubles with each further one."),
    works("remote.log.manager.task.retry.jitter", Double, Some("0.2"), Valid::Any, "The share by which such a wait is shorter or longer."),
    idle("remote.log.manager.thread.pool.size", Int, Some("2"), THREADS),
    idle("remote.log.metadata.consume.wait.ms", Long, Some("120000"), TIER_METADATA),
    idle("remote.log.metadata.custom.metadata.max.bytes", Int, Some("128"), TIER_METADATA),
    idle("remote.log.metadata.manager.class.name", String, Some("org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"), TIER_METADATA),
    idle("remote.log.metadata.manager.class.path", String, None, TIER_METADATA),
    idle("remote.log.metadata.manager.impl.prefix", String, Some("rlmm.config."), TIER_METADATA),
    idle("remote.log.metadata.manager.listener.name", String, None, TIER_METADATA),
    idle("remote.log.reader.max.pending.tasks", Int, Some("100"), THREADS),
    idle("remote.log.reader.threads", Int, Some("10"), THREADS),
    idle("remote.log.storage.manager.class.name", String, None, Some("the tier's stores are built in; --tier names the one to use")),
    idle("remote.log.storage.manager.class.path", String, None, Some("the tier's stores are built in; --tier names the one to use")),
    idle("remote.log.storage.manager.impl.prefix", String, Some("rsm.config."), Some("the tier's stores are built in; --tier names the one to use")),
    idle("remote.log.storage.hdfs.remote.read.bytes", Int, None, Some("HDFS is read in pieces of up to 1 MiB")),
    idle("remote.log.storage.hdfs.remote.read.cache.bytes", Long, None, TIER_CACHES),
    idle("replica.fetch.backoff.ms", Int, Some("1000"), ONE_REPLICA),
    idle("replica.fetch.max.bytes", Int, Some("1048576"), ONE_REPLICA),
    idle("replica.fetch.min.bytes", Int, Some("1"), ONE_REPLICA),
    idle("replica.fetch.response.max.bytes", Int, Some("10485760"), ONE_REPLICA),
    idle("replica.fetch.wait.max.ms", Int, Some("500"), ONE_REPLICA),
    idle("replica.high.watermark.checkpoint.interval.ms", Long, Some("5000"), CHECKPOINTS),
    idle("replica.lag.time.max.ms", Long, Some("30000"), ONE_REPLICA),
    idle("replica.socket.receive.buffer.bytes", Int, Some("65536"), ONE_REPLICA),
    idle("replica.socket.timeout.ms", Int, Some("30000"), ONE_REPLICA),
    idle("request.timeout.ms", Int, Some("30000"), NO_CONTROLLER),
    idle("share.coordinator.state.topic.min.isr", Short, Some("2"), ONE_REPLICA),
    idle("share.coordinator.state.topic.replication.factor", Short, Some("3"), ONE_REPLICA),
    works("offset.metadata.max.bytes", Int, Some("4096"), NOT_NEGATIVE, "The longest text that a client may store with a committed offset."),
    idle("offsets.commit.timeout.ms", Int, Some("5000"), ONE_REPLICA),
    idle("offsets.load.buffer.size", Int, Some("5242880"), LOADING),
    works("offsets.retention.check.interval.ms", Long, Some("600000"), POSITIVE, "How often committed offsets are looked at for expiry."),
    works("offsets.retention.minutes", Int, Some("10080"), POSITIVE, "How long committed offsets stay after their group has become empty."),
    idle("offsets.topic.compression.codec", Int, Some("0"), UNCOMPRESSED),
    works("offsets.topic.num.partitions", Int, Some("50"), POSITIVE, "Partitions that __consumer_offsets is made with."),
    idle("offsets.topic.replication.factor", Short, Some("3"), ONE_REPLICA),
    works("offsets.topic.segment.bytes", Int, Some("104857600"), Valid::AtLeast(1_048_576), "The segment.bytes that __consumer_offsets is made with."),
    works("transaction.abort.timed.out.transaction.cleanup.interval.ms", Int, Some("10000"), POSITIVE, "How often open transactions are looked at for their time-outs."),
    works("transaction.max.timeout.ms", Int, Some("900000"), POSITIVE, "The longest time-out that a transaction may have."),
    works("transaction.remove.expired.transaction.cleanup.interval.ms", Int, Some("3600000"), POSITIVE, "How often transactional ids are looked at for expiry."),
    idle("transaction.state.log.min.isr", Int, Some("2"), ONE_REPLICA),
    works("transaction.state.log.num.partitions", Int, Some("50"), POSITIVE, "Partitions that __transaction_state is made with."),
    idle("transaction.state.log.replication.factor", Short, Some("3"), ONE_REPLICA),
    works("transaction.state.log.segment.bytes", Int, Some("104857600"), Valid::AtLeast(1_048_576), "The segment.bytes that __transaction_state is made with."),
    works("transactional.id.expiration.ms", Int, Some("604800000"), POSITIVE, "How long a transactional id that is not used is known."),
    idle("socket.listen.backlog.size", Int, Some("50"), Some("the backlog is the kernel's largest, net.core.somaxconn")),
    idle("socket.receive.buffer.bytes", Int, Some("102400"), SOCKETS),
    works("socket.request.max.bytes", Int, Some("104857600"), POSITIVE, "The largest request."),
    idle("socket.send.buffer.bytes", Int, Some("102400"), SOCKETS),
    works("unclean.leader.election.enable", Boolean, Some("false"), Valid::Any, "Whether a replica that lacks records may lead; one machine has one replica."),
];
