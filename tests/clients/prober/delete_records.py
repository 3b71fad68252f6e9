"""DeleteRecords: what it takes and refuses, and what is left to read."""
from probe import *
from suite import true

POLICY_VIOLATION = 44


def delete(probe, topic, offset, partition=0, version=2):
    """(error, low watermark)"""
    with probe.connect(topic) as connection:
        return ask(connection, topic, offset, partition, version)


def ask(connection, topic, offset, partition=0, version=2):
    rows = [{"Name": topic, "Partitions": [{"PartitionIndex": partition, "Offset": offset}]}]
    reply = connection.call("DeleteRecords", version, {"Topics": rows, "TimeoutMs": 10000})
    row = reply["Topics"][0]["Partitions"][0]
    equal((reply["Topics"][0]["Name"], row["PartitionIndex"]), (topic, partition), "the row's place")
    return row["ErrorCode"], row["LowWatermark"]


def filled(probe, **configs):
    """A topic with ten batches of two records."""
    topic = probe.topic(**configs)
    with probe.connect(topic) as connection:
        for _ in range(10):
            produced(connection, topic, batch([b"one", b"two"], timestamp_ms=HOUR_AGO_MS))
    return topic


@suite.case("C069-delete-records-edge-arguments")
def _(probe):
    topic = filled(probe)
    for offset, wanted in (
        (21, (OFFSET_OUT_OF_RANGE, -1)), (-2, (OFFSET_OUT_OF_RANGE, -1)), (1 << 62, (OFFSET_OUT_OF_RANGE, -1)), (0, (OK, 0)),
        (7, (OK, 7)), (3, (OK, 7)), (7, (OK, 7)), (-2, (OFFSET_OUT_OF_RANGE, -1)), (20, (OK, 20)), (-1, (OK, 20)), (21, (OFFSET_OUT_OF_RANGE, -1)),
    ):
        equal(delete(probe, topic, offset), wanted, f"delete below {offset}")


@suite.case("C069-delete-records-to-the-high-watermark-in-every-version")
def _(probe):
    for version in (0, 1, 2):
        topic = filled(probe)
        equal(delete(probe, topic, -1, version=version), (OK, 20), f"version {version}")
        with probe.connect(topic) as connection:
            equal(produced(connection, topic, SMALL), 20, f"version {version}: the next offset")
            equal(offsets_of(fetch(connection, topic, 20)), [(20, 20)], f"version {version}: what is left")


@suite.case("C069-delete-records-asks-for-the-policy")
def _(probe):
    for policy in ("compact,delete", ""):
        topic = probe.topic(**{"cleanup.policy": policy})
        equal([delete(probe, topic, offset) for offset in (0, -1, 1)], [(OK, 0), (OK, 0), (OFFSET_OUT_OF_RANGE, -1)], f"policy {policy!r}")
    topic = probe.topic(**{"cleanup.policy": "compact"})
    for offset in (0, -1, 99, -2):
        equal(delete(probe, topic, offset), (POLICY_VIOLATION, -1), f"compact, delete below {offset}")


@suite.case("delete-records-of-what-is-not-there")
def _(probe):
    topic = probe.topic()
    with probe.connect(topic) as connection:
        equal(ask(connection, unique("missing"), 0), (UNKNOWN_TOPIC_OR_PARTITION, -1), "topic")
        for partition in (1, -1):
            equal(ask(connection, topic, 0, partition), (UNKNOWN_TOPIC_OR_PARTITION, -1), f"partition {partition}")
        equal(ask(connection, "a b", 0), (UNKNOWN_TOPIC_OR_PARTITION, -1), "a name that cannot be")
        equal(connection.call("DeleteRecords", 2, {"Topics": [], "TimeoutMs": 1000})["Topics"], [], "no topics")


@suite.case("delete-records-elsewhere")
def _(probe):
    topic = probe.topic(4)
    leaders = {probe.cluster.leader(topic, partition) for partition in range(4)}
    if len(leaders) < 2:
        return
    with probe.connect(topic, 0) as connection:
        other = next(p for p in range(4) if probe.cluster.leader(topic, p) != probe.cluster.leader(topic, 0))
        equal(ask(connection, topic, 0, other), (NOT_LEADER_OR_FOLLOWER, -1), "the wrong broker")


@suite.case("delete-records-moves-the-start-that-is-told")
def _(probe):
    topic = filled(probe)
    equal(delete(probe, topic, 5), (OK, 5), "inside a batch")
    with probe.connect(topic) as connection:
        earliest = [{"Name": topic, "Partitions": [{"PartitionIndex": 0, "CurrentLeaderEpoch": -1, "Timestamp": -2}]}]
        row = connection.call("ListOffsets", 4, {"ReplicaId": -1, "IsolationLevel": 0, "Topics": earliest})["Topics"][0]["Partitions"][0]
        equal((row["ErrorCode"], row["Offset"]), (OK, 5), "earliest")
        row = fetch(connection, topic, 5)
        equal((row["ErrorCode"], row["LogStartOffset"], offsets_of(row)[0]), (OK, 5, (4, 5)), "the batch comes whole")
        equal([fetch(connection, topic, offset)["ErrorCode"] for offset in (0, 4, 21)], [OFFSET_OUT_OF_RANGE] * 3, "outside")


@suite.case("delete-records-answers-a-fetch-that-waits-below")
def _(probe):
    topic = filled(probe)
    with probe.connect(topic) as waiting:
        began = now_ms()
        correlation = waiting.send("Fetch", FETCH, fetch_body([(topic, 0, 2)], max_wait_ms=8000, min_bytes=1 << 20))
        equal(delete(probe, topic, 10), (OK, 10), "deleted meanwhile")
        row = waiting.receive("Fetch", FETCH, correlation)["Responses"][0]["Partitions"][0]
        took_ms = now_ms() - began
        equal(row["ErrorCode"], OFFSET_OUT_OF_RANGE, "error of the fetch")
        # Kafka notices when the wait is over.
        true(took_ms < 4000 or probe.is_kafka, f"answered after {took_ms} ms")


@suite.case("delete-records-twice-in-one-request")
def _(probe):
    topic = filled(probe)
    with probe.connect(topic) as connection:
        rows = [{"PartitionIndex": 0, "Offset": offset} for offset in (3, 8, 5)]
        topics = [{"Name": topic, "Partitions": rows[:2]}, {"Name": topic, "Partitions": rows[2:]}]
        reply = connection.call("DeleteRecords", 2, {"Topics": topics, "TimeoutMs": 10000})["Topics"]
        told = [(row["ErrorCode"], row["LowWatermark"]) for one in reply for row in one["Partitions"]]
        equal(told, [(OK, 5)], "the last one counts")
