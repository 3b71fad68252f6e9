"""What every case of the prober gets: topics, connections to leaders, produce and fetch in one call."""
import os
import sys
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../raw"))
from batch import batch, batches, now_ms
from connection import SCHEMAS, Cluster, Connection
from suite import Suite, equal, unique

suite = Suite("prober")
# The versions that most cases use: the last before topic ids, which every client can fall back to.
PRODUCE, FETCH = 9, 12
# Younger than any retention, and the same for each batch, so that a batch sent again has the same bytes.
HOUR_AGO_MS = now_ms() - 3_600_000
SMALL = batch([b"one"], timestamp_ms=HOUR_AGO_MS)
# Error codes by Kafka's names.
OK, UNKNOWN_SERVER_ERROR, OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION = 0, -1, 1, 2, 3
LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, MESSAGE_TOO_LARGE, COORDINATOR_NOT_AVAILABLE, INVALID_TOPIC = 5, 6, 10, 15, 17
RECORD_LIST_TOO_LARGE, INVALID_REQUIRED_ACKS, INVALID_TIMESTAMP, UNSUPPORTED_VERSION, TOPIC_ALREADY_EXISTS = 18, 21, 32, 35, 36
INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_CONFIG, INVALID_REQUEST, OUT_OF_ORDER_SEQUENCE_NUMBER = 37, 38, 40, 42, 45
INVALID_PRODUCER_EPOCH, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH = 47, 53, 70, 71
FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD, UNKNOWN_TOPIC_ID = 74, 75, 76, 87, 100


class Probe:
    def __init__(self, options):
        self.cluster = Cluster(options.bootstrap)
        self.server = options.server
        self.ranges = self.cluster.api_versions()
        self.kept = self.cluster.connect()

    @property
    def is_kafka(self):
        return self.server == "kafka"

    def offers(self, api, version):
        low, high = self.ranges.get(SCHEMAS.keys[api], (1, 0))
        return low <= version <= high

    def topic(self, partitions=1, **configs):
        return self.cluster.create_topic(unique("prober"), partitions, **configs)

    def connect(self, topic=None, partition=0):
        """To the partition's leader, or to any broker."""
        return Connection(self.cluster.leader(topic, partition)) if topic else self.cluster.connect()

    def topic_id(self, name):
        with self.connect() as connection:
            return connection.call("Metadata", 12, {"Topics": [{"Name": name}]})["Topics"][0]["TopicId"]

    def leader_epoch(self, name, partition=0):
        with self.connect() as connection:
            rows = connection.call("Metadata", 12, {"Topics": [{"Name": name}]})["Topics"][0]["Partitions"]
        return next(row["LeaderEpoch"] for row in rows if row["PartitionIndex"] == partition)

    def end(self, topic, partition=0):
        return self.cluster.end_offset(topic, partition)

    def healthy(self):
        """Served: a connection that lives since the start, and a new one."""
        for connection in (self.kept, self.connect()):
            reply = connection.call("Metadata", 4, {"Topics": []})
            if not reply["Brokers"]:
                raise AssertionError("afterwards, Metadata names no broker")
            if connection is not self.kept:
                connection.socket.close()


def produce_body(topic, records, partition=0, acks=-1, timeout_ms=10000):
    return {"Acks": acks, "TimeoutMs": timeout_ms, "TopicData": [{"Name": topic, "PartitionData": [{"Index": partition, "Records": records}]}]}


def produce(connection, topic, records, version=PRODUCE, **options):
    """The partition's row of the reply."""
    reply = connection.call("Produce", version, produce_body(topic, records, **options))
    return reply["Responses"][0]["PartitionResponses"][0]


def produced(connection, topic, records, **options):
    """Produces what must be accepted; returns the base offset."""
    row = produce(connection, topic, records, **options)
    equal(row["ErrorCode"], OK, f"error of a good produce ({row.get('ErrorMessage')})")
    return row["BaseOffset"]


def fetch_body(partitions, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, partition_max_bytes=1 << 20, epoch=-1, **session):
    """`partitions`: rows of (topic, partition, offset)."""
    topics = {}
    for topic, partition, offset in partitions:
        row = {"Partition": partition, "FetchOffset": offset, "PartitionMaxBytes": partition_max_bytes, "CurrentLeaderEpoch": epoch}
        key = "TopicId" if isinstance(topic, uuid.UUID) else "Topic"
        topics.setdefault(topic, {key: topic, "Partitions": []})["Partitions"].append(row)
    body = {"MaxWaitMs": max_wait_ms, "MinBytes": min_bytes, "MaxBytes": max_bytes, "Topics": list(topics.values())}
    return {**body, **session}


def fetch(connection, topic, offset, partition=0, version=FETCH, **options):
    """The partition's row of the reply."""
    reply = connection.call("Fetch", version, fetch_body([(topic, partition, offset)], **options))
    equal(reply["ErrorCode"] if version >= 7 else OK, OK, "fetch")
    return reply["Responses"][0]["Partitions"][0]


def offsets_of(row):
    """(base offset, last offset) of each whole batch in a fetched partition."""
    return [(one["base_offset"], one["last_offset"]) for one in batches(row["Records"] or b"")]


__all__ = [name for name in dir() if name.isupper()] + ["suite", "Probe", "SCHEMAS", "Connection", "batch", "batches", "equal", "fetch", "fetch_body", "now_ms",
                                                        "offsets_of", "produce", "produce_body", "produced", "unique"]
