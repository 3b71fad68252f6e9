"""ListOffsets by time and by special timestamps, DeleteRecords. What a server does not offer yet is not asked."""
from batch import record
from probe import *

POLICY_VIOLATION = 44
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5


def by_time(probe):
    return probe.offers("ListOffsets", 8)


def offset_of(connection, topic, timestamp, version=7, partition=0, **row):
    """(error, timestamp, offset)"""
    rows = [{"PartitionIndex": partition, "Timestamp": timestamp, **row}]
    found = connection.call("ListOffsets", version, {"ReplicaId": -1, "Topics": [{"Name": topic, "Partitions": rows}]})["Topics"][0]["Partitions"][0]
    return found["ErrorCode"], found["Timestamp"], found["Offset"]


def stored(codec, data):
    """`data` as a frame of the codec that compresses nothing: no library is needed."""
    if codec == "lz4":
        return bytes.fromhex("04224d18604082") + (len(data) | 1 << 31).to_bytes(4, "little") + data + bytes(4)
    if codec == "zstd":
        return bytes.fromhex("28b52ffd20") + bytes([len(data)]) + (len(data) << 3 | 1).to_bytes(3, "little") + data
    return data


def timed(timestamps, codec="none"):
    """One batch of a record for each timestamp."""
    body = b"".join(record(i, b"v", timestamp_delta=one - timestamps[0]) for i, one in enumerate(timestamps))
    fields = dict(timestamp_ms=timestamps[0], max_timestamp_ms=max(timestamps), records=stored(codec, body))
    return batch([b"v"] * len(timestamps), attributes={"none": 0, "gzip": 1, "lz4": 3, "zstd": 4}[codec], compress="gzip" if codec == "gzip" else None, **fields)


def with_batches(probe, *batches_):
    # Times of long ago, which retention would remove.
    topic = probe.topic(retention_ms=-1)
    connection = probe.connect(topic)
    for one in batches_:
        produced(connection, topic, one)
    return topic, connection


@suite.case("C001-first-record-not-before-the-time")
def _(probe):
    if not by_time(probe):
        return
    topic, connection = with_batches(probe, *[timed([one]) for one in (2, 4, 6, 8)])
    for timestamp, want in ((2, (2, 0)), (3, (4, 1)), (4, (4, 1)), (5, (6, 2)), (7, (8, 3)), (8, (8, 3)), (9, (-1, -1)), (0, (2, 0))):
        equal(offset_of(connection, topic, timestamp), (OK, *want), f"time {timestamp}")


@suite.case("C003-a-record-inside-a-batch")
def _(probe):
    if not by_time(probe):
        return
    for codec in ("none", "gzip", "lz4", "zstd"):
        topic, connection = with_batches(probe, timed(list(range(100, 105)), codec), timed(list(range(103, 108)), codec))
        for timestamp, want in ((100, (100, 0)), (102, (102, 2)), (104, (104, 4)), (105, (105, 7)), (107, (107, 9)), (108, (-1, -1))):
            equal(offset_of(connection, topic, timestamp), (OK, *want), f"{codec}: time {timestamp}")


@suite.case("C001-times-out-of-order")
def _(probe):
    if not by_time(probe):
        return
    topic, connection = with_batches(probe, timed([50, 10, 70]), timed([20]), timed([60, 90, 30]))
    for timestamp, want in ((10, (50, 0)), (51, (70, 2)), (70, (70, 2)), (71, (90, 5)), (90, (90, 5)), (91, (-1, -1))):
        equal(offset_of(connection, topic, timestamp), (OK, *want), f"time {timestamp}")


@suite.case("C005-max-timestamp-is-of-the-first-record-that-has-it")
def _(probe):
    if not by_time(probe):
        return
    for batches_ in ([timed([10, 50, 20, 50])], [timed([one]) for one in (10, 50, 20, 50)]):
        topic, connection = with_batches(probe, *batches_)
        equal(offset_of(connection, topic, MAX_TIMESTAMP), (OK, 50, 1), f"{len(batches_)} batches")
    topic, connection = with_batches(probe)
    equal(offset_of(connection, topic, MAX_TIMESTAMP), (OK, -1, -1), "an empty log")


@suite.case("C009-special-timestamps")
def _(probe):
    if not by_time(probe):
        return
    topic, connection = with_batches(probe, timed([10]), timed([20]))
    for version in (8, 9, 10, 11):
        if probe.offers("ListOffsets", version):
            equal(offset_of(connection, topic, EARLIEST_LOCAL, version), (OK, -1, 0), f"earliest local, v{version}")
            equal(offset_of(connection, topic, EARLIEST, version), (OK, -1, 0), f"earliest, v{version}")
            equal(offset_of(connection, topic, LATEST, version), (OK, -1, 2), f"latest, v{version}")
    for timestamp, since in ((EARLIEST_LOCAL, 8), (LATEST_TIERED, 9)):
        equal(offset_of(connection, topic, timestamp, since - 1), (UNSUPPORTED_VERSION, -1, -1), f"{timestamp} in v{since - 1}")
    if probe.offers("ListOffsets", 9):
        equal(offset_of(connection, topic, LATEST_TIERED, 9), (OK, -1, -1), "latest tiered without a tier")


def delete_records(connection, topic, offset, partition=0):
    """(error, low watermark)"""
    rows = [{"Name": topic, "Partitions": [{"PartitionIndex": partition, "Offset": offset}]}]
    row = connection.call("DeleteRecords", 1, {"Topics": rows, "TimeoutMs": 10000})["Topics"][0]["Partitions"][0]
    return row["ErrorCode"], row["LowWatermark"]


@suite.case("C012-nothing-is-found-after-all-is-deleted")
def _(probe):
    if not by_time(probe) or not probe.offers("DeleteRecords", 1):
        return
    topic, connection = with_batches(probe, timed([10, 20]), timed([30]))
    equal(delete_records(connection, topic, -1), (OK, 3), "delete all")
    for timestamp in (0, 10, 30, 31, 2**62):
        equal(offset_of(connection, topic, timestamp), (OK, -1, -1), f"time {timestamp}")
    equal((offset_of(connection, topic, EARLIEST)[2], offset_of(connection, topic, LATEST)[2]), (3, 3), "both ends")


@suite.case("C069-delete-records-arguments")
def _(probe):
    if not probe.offers("DeleteRecords", 1):
        return
    topic, connection = with_batches(probe, *[timed([10, 20, 30]) for _ in range(3)])
    cases = [(4, (OK, 4)), (2, (OK, 4)), (10, (OFFSET_OUT_OF_RANGE, -1)), (-2, (OFFSET_OUT_OF_RANGE, -1)), (5, (OK, 5)), (-1, (OK, 9)), (9, (OK, 9))]
    for offset, want in cases:
        equal(delete_records(connection, topic, offset), want, f"offset {offset}")
        if offset == 4:
            # A start inside a batch: the batch comes whole, what lies before is out of range.
            equal(offsets_of(fetch(connection, topic, 4))[0], (3, 5), "from the new start")
            equal(fetch(connection, topic, 3)["ErrorCode"], OFFSET_OUT_OF_RANGE, "before the new start")
    equal(delete_records(connection, topic, 0, partition=7)[0], UNKNOWN_TOPIC_OR_PARTITION, "a partition that is not there")
    compact = probe.topic(cleanup_policy="compact")
    with probe.connect(compact) as other:
        equal(delete_records(other, compact, 0), (POLICY_VIOLATION, -1), "a topic without the delete policy")


@suite.case("offset-for-leader-epoch")
def _(probe):
    if not probe.offers("OffsetForLeaderEpoch", 4):
        return
    topic, connection = with_batches(probe, timed([10, 20, 30]))
    current = probe.leader_epoch(topic)
    for epoch, known, want in ((current, -1, (OK, current, 3)), (current + 1, -1, (OK, -1, -1)), (current, current, (OK, current, 3)),
                               (current, current + 1, (UNKNOWN_LEADER_EPOCH, -1, -1)), (-1, -1, (OK, -1, -1))):
        rows = [{"Topic": topic, "Partitions": [{"Partition": 0, "LeaderEpoch": epoch, "CurrentLeaderEpoch": known}]}]
        row = connection.call("OffsetForLeaderEpoch", 4, {"ReplicaId": -1, "Topics": rows})["Topics"][0]["Partitions"][0]
        equal((row["ErrorCode"], row["LeaderEpoch"], row["EndOffset"]), want, f"epoch {epoch}, current {known}")
