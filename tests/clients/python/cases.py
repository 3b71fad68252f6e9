"""The kafka-python suite: creates, writes with every codec, reads back and compares byte by byte."""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../raw"))
import kafka.errors as errors
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from connection import Cluster
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from suite import Suite, equal, eventually, expected_brokers, true, unique

suite = Suite("kafka-python")
PARTITIONS = 6
# An hour ago: older than the producer, younger than any retention.
TIMESTAMP_MS = int(time.time() * 1000) - 3_600_000


class Context:
    def __init__(self, options):
        self.bootstrap = options.bootstrap.split(",")
        self.admin = KafkaAdminClient(bootstrap_servers=self.bootstrap, client_id="suite-admin")
        self.served = Cluster(options.bootstrap)
        self.topic = unique("python")

    def create(self, name, partitions=PARTITIONS, **configs):
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, topic_configs=configs or None)
        self.admin.create_topics([topic], timeout_ms=15000, wait_for_metadata=True)
        self.served.wait_until_served(name, partitions)
        return name

    def producer(self, **options):
        return KafkaProducer(bootstrap_servers=self.bootstrap, **options)

    def consumer(self, partitions, **options):
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, group_id=None, enable_auto_commit=False, **options)
        consumer.assign(partitions)
        return consumer

    def read(self, topic, partitions, count, **options):
        """Reads `count` records of the partitions from the beginning, at most 30 s; a list for each partition."""
        assigned = [TopicPartition(topic, p) for p in range(partitions)]
        consumer = self.consumer(assigned, **options)
        consumer.seek_to_beginning()
        found, total, deadline = {p: [] for p in range(partitions)}, 0, time.monotonic() + 30
        try:
            while total < count and time.monotonic() < deadline:
                for where, records in consumer.poll(timeout_ms=500).items():
                    found[where.partition] += records
                    total += len(records)
        finally:
            consumer.close()
        equal(total, count, "records read")
        return found


def sample():
    """(partition, key, value, headers, timestamp) of records that hold every shape."""
    rows = []
    for i in range(120):
        key = [None, b"", b"key-%d" % i, bytes(range(256))][i % 4]
        value = [b"value-%d " % i * (i + 1), None, b"", os.urandom(300), b"a" * 5000][i % 5]
        if key is None and value is None:
            key = b"null value"  # this client refuses a record without both
        headers = [[], [("h", b"1"), ("h", b"2"), ("h", b"")], [("", b""), ("ключ", bytes([0, 255]))]][i % 3]
        rows.append((i % PARTITIONS, key, value, headers, TIMESTAMP_MS + i * 7))
    return rows


def produce(context, topic, rows, **options):
    """Sends the rows in order and checks the partition and offset of every acknowledgement."""
    producer = context.producer(**options)
    try:
        pending = [(row, producer.send(topic, key=row[1], value=row[2], headers=row[3], partition=row[0], timestamp_ms=row[4])) for row in rows]
        producer.flush(timeout=30)
        next_offset = {}
        for row, future in pending:
            got = future.get(timeout=30)
            equal(got.partition, row[0], "partition")
            if options.get("acks") != 0:
                equal(got.offset, next_offset.get(row[0], got.offset), "offset")
                next_offset[row[0]] = got.offset + 1
    finally:
        producer.close(timeout=10)


def compare(found, rows):
    want = {}
    for partition, key, value, headers, timestamp_ms in rows:
        want.setdefault(partition, []).append((key, value, [(n, c) for n, c in headers], timestamp_ms))
    for partition, list_ in want.items():
        got = [(r.key, r.value, [(n, c) for n, c in r.headers], r.timestamp) for r in found[partition]]
        equal(len(got), len(list_), f"records in partition {partition}")
        for i, (one, other) in enumerate(zip(got, list_)):
            equal(one, other, f"record {i} of partition {partition}")
        equal([r.offset for r in found[partition]], list(range(len(list_))), "offsets")


@suite.case("create-topic")
def _(context):
    context.create(context.topic)
    true(context.topic in context.admin.list_topics(), "the new topic is not listed")


@suite.case("metadata-describes-partitions")
def _(context):
    topic = context.admin.describe_topics([context.topic])[0]
    equal(sorted(p["partition_index"] for p in topic["partitions"]), list(range(PARTITIONS)), "partitions")
    for partition in topic["partitions"]:
        equal(partition["replica_nodes"], [partition["leader_id"]], "replicas")
        equal(partition["isr_nodes"], [partition["leader_id"]], "in-sync replicas")
    leaders = {p["leader_id"] for p in topic["partitions"]}
    brokers = context.admin.describe_cluster()["brokers"]
    if expected_brokers():
        equal(len(brokers), expected_brokers(), "brokers")
        equal(len(leaders), expected_brokers(), "brokers that lead a partition")


@suite.case("describe-cluster")
def _(context):
    cluster = context.admin.describe_cluster()
    ids = [b["broker_id"] for b in cluster["brokers"]]
    true(cluster["controller_id"] in ids, f"controller {cluster['controller_id']} is not among {ids}")
    true(cluster["cluster_id"], "no cluster id")


for codec in (None, "gzip", "snappy", "lz4", "zstd"):
    @suite.case(f"produce-{codec or 'none'}-reads-back")
    def _(context, codec=codec):
        topic, rows = context.create(unique(f"python-{codec}")), sample()
        produce(context, topic, rows, compression_type=codec, acks="all", linger_ms=20, batch_size=65536)
        compare(context.read(topic, PARTITIONS, len(rows)), rows)

for acks in (0, 1, "all"):
    @suite.case(f"acks-{acks}")
    def _(context, acks=acks):
        topic, rows = context.create(unique(f"python-acks-{acks}")), sample()[:60]
        produce(context, topic, rows, acks=acks, enable_idempotence=False)
        compare(context.read(topic, PARTITIONS, len(rows)), rows)


@suite.case("idempotent-many-batches-in-flight")
def _(context):
    topic = context.create(unique("python-idempotent"))
    rows = [(i % PARTITIONS, b"%d" % i, b"v%d" % i, [], TIMESTAMP_MS + i) for i in range(3000)]
    produce(context, topic, rows, enable_idempotence=True, acks="all", batch_size=500, linger_ms=0)
    compare(context.read(topic, PARTITIONS, len(rows)), rows)


@suite.case("large-record-900-kb")
def _(context):
    topic = context.create(unique("python-large"))
    rows = [(p, b"k", os.urandom(900_000), [], TIMESTAMP_MS) for p in range(3)]
    produce(context, topic, rows)
    compare(context.read(topic, PARTITIONS, len(rows)), rows)
    # A fetch whose limits are below the record still brings it whole.
    compare(context.read(topic, PARTITIONS, len(rows), max_partition_fetch_bytes=1000, fetch_max_bytes=1000), rows)


@suite.case("many-small-records")
def _(context):
    topic = context.create(unique("python-small"))
    rows = [(i % PARTITIONS, None, b"%d" % i, [], TIMESTAMP_MS + i) for i in range(10000)]
    produce(context, topic, rows, linger_ms=5)
    compare(context.read(topic, PARTITIONS, len(rows)), rows)


@suite.case("offsets-beginning-end-and-seek")
def _(context):
    topic = context.create(unique("python-offsets"), 2)
    rows = [(0, None, b"%d" % i, [], TIMESTAMP_MS + i) for i in range(50)]
    produce(context, topic, rows)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = context.consumer([first, second])
    try:
        equal(consumer.beginning_offsets([first, second]), {first: 0, second: 0}, "beginning")
        equal(consumer.end_offsets([first, second]), {first: 50, second: 0}, "end")
        consumer.seek(first, 37)
        consumer.seek(second, 0)
        got = []
        eventually(lambda: [got.extend(r) for r in consumer.poll(timeout_ms=200).values()] is not None and len(got) >= 13, "13 records")
        equal([(r.offset, r.value) for r in got], [(i, b"%d" % i) for i in range(37, 50)], "records from 37")
    finally:
        consumer.close()


@suite.case("long-poll-wakes-on-produce")
def _(context):
    topic = context.create(unique("python-poll"), 1)
    consumer = context.consumer([TopicPartition(topic, 0)], fetch_max_wait_ms=10000, fetch_min_bytes=1, request_timeout_ms=30000)
    producer = context.producer(linger_ms=0)
    try:
        consumer.seek_to_beginning()
        consumer.poll(timeout_ms=500)  # position known, the fetch is waiting at the server
        sent = []

        def send():
            sent.append(time.monotonic())
            producer.send(topic, b"wake").get(timeout=10)
        timer = threading.Timer(0.5, send)
        timer.start()
        found, deadline = {}, time.monotonic() + 15
        while not found and time.monotonic() < deadline:
            found = consumer.poll(timeout_ms=1000)
        woken_s = time.monotonic() - sent[0]
        timer.join()
        true(found, "nothing read")
        true(woken_s < 3, f"the record came {woken_s:.2f} s after it was sent, the wait is 10 s")
    finally:
        consumer.close()
        producer.close()


@suite.case("describe-configs")
def _(context):
    topic = context.create(unique("python-configs"), 1, **{"retention.ms": "7200000", "max.message.bytes": "500000"})
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    found = context.admin.describe_configs([resource], config_filter="all")
    values = find_configs(found)
    equal(str(values["retention.ms"]), "7200000", "retention.ms")
    equal(str(values["max.message.bytes"]), "500000", "max.message.bytes")
    true("cleanup.policy" in values, "defaults are not listed")


def find_configs(found):
    """{name: value} whatever nesting this client version returns."""
    if isinstance(found, dict):
        if "retention.ms" in found:
            return {k: v["value"] if isinstance(v, dict) else v for k, v in found.items()}
        found = list(found.values())
    if isinstance(found, (list, tuple)):
        for one in found:
            inner = find_configs(one)
            if inner:
                return inner
    return None


def fails_with(wanted, action):
    try:
        action()
    except wanted:
        return
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}, want {wanted}") from error
    raise AssertionError(f"no error, want {wanted}")


@suite.case("error-unknown-topic")
def _(context):
    fails_with((errors.UnknownTopicOrPartitionError, errors.UnknownTopicIdError), lambda: context.admin.delete_topics([unique("missing")]))


@suite.case("error-topic-exists")
def _(context):
    fails_with(errors.TopicAlreadyExistsError, lambda: context.create(context.topic))


@suite.case("error-invalid-topic-name")
def _(context):
    for name in ("a b", "..", "x" * 250, "a/b"):
        fails_with(errors.InvalidTopicError, lambda name=name: context.create(name))


@suite.case("error-unknown-config")
def _(context):
    fails_with(errors.InvalidConfigurationError, lambda: context.create(unique("python"), 1, **{"no.such.config": "1"}))


@suite.case("error-replication-factor")
def _(context):
    topic = NewTopic(unique("python"), num_partitions=1, replication_factor=3)
    fails_with(errors.InvalidReplicationFactorError, lambda: context.admin.create_topics([topic]))


@suite.case("error-record-too-large")
def _(context):
    topic = context.create(unique("python-limit"), 1, **{"max.message.bytes": "1000"})
    fails_with(errors.MessageSizeTooLargeError, lambda: produce(context, topic, [(0, None, b"x" * 2000, [], TIMESTAMP_MS)]))
    produce(context, topic, [(0, None, b"x" * 500, [], TIMESTAMP_MS)])


@suite.case("delete-topic")
def _(context):
    context.admin.delete_topics([context.topic])
    eventually(lambda: context.topic not in context.admin.list_topics(), "the topic is gone")


class Member:
    """A consumer of a group in a thread of its own; `assigned` is what it has."""

    def __init__(self, context, group, topic, **options):
        self.consumer = KafkaConsumer(topic, bootstrap_servers=context.bootstrap, group_id=group, auto_offset_reset="earliest",
                                      enable_auto_commit=False, session_timeout_ms=6000, heartbeat_interval_ms=300, max_poll_interval_ms=6000, **options)
        self.records, self.stopped, self.crashes = [], threading.Event(), False
        self.assigned = frozenset()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stopped.is_set():
            for records in self.consumer.poll(timeout_ms=100).values():
                self.records += records
            if self.records:
                try:
                    self.consumer.commit()
                except (errors.CommitFailedError, errors.RebalanceInProgressError):
                    pass
            self.assigned = frozenset(part.partition for part in self.consumer.assignment())

    def stop(self, leave=True):
        self.stopped.set()
        self.thread.join(20)
        if leave:
            self.consumer.close()


def shared(members, partitions):
    """True where these have all partitions among them, each one once, and nobody has none."""
    got = [p for member in members for p in member.assigned]
    return sorted(got) == list(range(partitions)) and all(member.assigned for member in members)


@suite.case("group-of-three-one-leaves-one-comes-back")
def _(context):
    topic, group = context.create(unique("python-group"), 6), unique("python-group")
    members = [Member(context, group, topic) for _ in range(3)]
    try:
        eventually(lambda: shared(members, 6), "three share six partitions", 40)
        produce(context, topic, [(p, None, b"v%d" % p, [], TIMESTAMP_MS) for p in range(6)])
        eventually(lambda: sorted(r.value for m in members for r in m.records) == [b"v%d" % p for p in range(6)], "all is read once", 20)
        members.pop().stop()
        eventually(lambda: shared(members, 6), "two share six partitions", 40)
        members.append(Member(context, group, topic))
        eventually(lambda: shared(members, 6), "three again", 40)
        equal(members[-1].records, [], "what was committed is not read again")
    finally:
        for member in members:
            member.stop()
    committed = context.admin.list_group_offsets([group]) if hasattr(context.admin, "list_group_offsets") else None
    if committed is None:
        committed = context.admin.list_consumer_group_offsets(group)
        equal({part.partition: found.offset for part, found in committed.items()}, {p: 1 for p in range(6)}, "committed")

if __name__ == "__main__":
    sys.exit(suite.main(Context))
