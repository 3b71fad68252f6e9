"""ListOffsets: by time, the largest time, the special values, versions, errors."""
from batch import record
from probe import *

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
NONE = (OK, -1, -1, -1)
BASE_MS = HOUR_AGO_MS // 1000 * 1000


def asked(connection, topic, timestamps, version=11, epoch=-1, partition=0, replica=-1, isolation=0):
    """Error, offset, time (from BASE_MS on), epoch for each timestamp, each asked alone."""
    rows = []
    for timestamp in timestamps:
        row = {"PartitionIndex": partition, "CurrentLeaderEpoch": epoch, "Timestamp": timestamp}
        body = {"ReplicaId": replica, "IsolationLevel": isolation, "Topics": [{"Name": topic, "Partitions": [row]}], "TimeoutMs": 5000}
        got = connection.call("ListOffsets", version, body)["Topics"][0]["Partitions"][0]
        time = got["Timestamp"] if got["Timestamp"] < 0 else got["Timestamp"] - BASE_MS
        rows.append((got["ErrorCode"], got["Offset"], time, got.get("LeaderEpoch", -1)))
    return rows


def at(*times, compress=None):
    """A batch whose records have these times after BASE_MS."""
    values = [b"value %d" % time for time in times]
    records = b"".join(record(i, value, timestamp_delta=time - times[0]) for i, (value, time) in enumerate(zip(values, times)))
    return batch(values, records=records, compress=compress, timestamp_ms=BASE_MS + times[0], max_timestamp_ms=BASE_MS + max(times))


def of_times(probe, *batches_, **configs):
    topic = probe.topic(**configs)
    connection = probe.connect(topic)
    for times in batches_:
        produced(connection, topic, at(*times))
    return topic, connection


@suite.case("C001-the-first-record-at-or-after-a-time")
def _(probe):
    topic, connection = of_times(probe, (2,), (4,), (6,), (8,))
    epoch = probe.leader_epoch(topic)
    got = asked(connection, topic, [BASE_MS + time for time in (2, 3, 4, 5, 7, 8, 9)])
    want = [(OK, offset, time, epoch) for offset, time in ((0, 2), (1, 4), (1, 4), (2, 6), (3, 8), (3, 8))] + [NONE]
    equal(got, want, "rising times")
    equal(asked(connection, topic, [0, 2**63 - 1]), [(OK, 0, 2, epoch), NONE], "the ends of time")


@suite.case("C003-the-record-inside-the-batch")
def _(probe):
    for codec in (None, "gzip"):
        topic, connection = of_times(probe)
        for times in ((100, 101, 102, 103, 104), (90, 120, 110, 120)):
            produced(connection, topic, at(*times, compress=codec))
        epoch = probe.leader_epoch(topic)
        got = asked(connection, topic, [BASE_MS + time for time in (102, 104, 105, 115, 120, 121)])
        want = [(OK, offset, time, epoch) for offset, time in ((2, 102), (4, 104), (6, 120), (6, 120), (6, 120))] + [NONE]
        equal(got, want, f"inside batches of codec {codec}")


@suite.case("times-out-of-order-and-repeated")
def _(probe):
    topic, connection = of_times(probe, (50,), (10, 20), (50, 50), (5,), (70, 60), (60,))
    epoch = probe.leader_epoch(topic)
    got = asked(connection, topic, [BASE_MS + time for time in (1, 20, 50, 51, 60, 70, 71)])
    want = [(OK, offset, time, epoch) for offset, time in ((0, 50), (0, 50), (0, 50), (6, 70), (6, 70), (6, 70))] + [NONE]
    equal(got, want, "times")


@suite.case("times-over-many-segments-and-index-entries")
def _(probe):
    topic = probe.topic(segment_bytes=1048576, index_interval_bytes=100)
    with probe.connect(topic) as connection:
        for i in range(60):
            produced(connection, topic, batch([b"%d" % i + bytes(60_000)], timestamp_ms=BASE_MS + 10 * i))
        epoch = probe.leader_epoch(topic)
        for i in (0, 1, 16, 17, 18, 30, 35, 36, 58, 59):
            got = asked(connection, topic, [BASE_MS + 10 * i - 3, BASE_MS + 10 * i])
            equal(got, [(OK, i, 10 * i, epoch)] * 2, f"record {i}")
        equal(asked(connection, topic, [BASE_MS + 591, MAX_TIMESTAMP]), [NONE, (OK, 59, 590, epoch)], "past the last")


@suite.case("C005-the-largest-time")
def _(probe):
    topic, connection = of_times(probe)
    equal(asked(connection, topic, [MAX_TIMESTAMP]), [NONE], "an empty log")
    topic, connection = of_times(probe, (10, 50, 20, 50))
    epoch = probe.leader_epoch(topic)
    equal(asked(connection, topic, [MAX_TIMESTAMP]), [(OK, 1, 50, epoch)], "in one batch")
    topic, connection = of_times(probe, (10,), (50,), (20,), (50,))
    epoch = probe.leader_epoch(topic)
    equal(asked(connection, topic, [MAX_TIMESTAMP]), [(OK, 1, 50, epoch)], "in four batches")
    equal(asked(connection, topic, [MAX_TIMESTAMP], version=7), [(OK, 1, 50, epoch)], "version 7")


@suite.case("the-largest-log-append-time")
def _(probe):
    topic = probe.topic(message_timestamp_type="LogAppendTime")
    with probe.connect(topic) as connection:
        row = produce(connection, topic, at(1, 2, 3))
        time = row["LogAppendTimeMs"] - BASE_MS
        epoch = probe.leader_epoch(topic)
        got = asked(connection, topic, [MAX_TIMESTAMP, BASE_MS + 4, BASE_MS + time + 1])
        equal(got, [(OK, 0, time, epoch), (OK, 0, time, epoch), NONE], "the time of the append is every record's")


@suite.case("records-without-a-time")
def _(probe):
    topic = probe.topic()
    with probe.connect(topic) as connection:
        produced(connection, topic, batch([b"a", b"b"], timestamp_ms=-1))
        epoch = probe.leader_epoch(topic)
        equal(asked(connection, topic, [MAX_TIMESTAMP, 0, BASE_MS]), [(OK, 0, -1, epoch), NONE, NONE], "no record has a time")
        produced(connection, topic, at(5))
        equal(asked(connection, topic, [MAX_TIMESTAMP, 0]), [(OK, 2, 5, epoch)] * 2, "one has")


@suite.case("C009-special-values-by-version")
def _(probe):
    topic, connection = of_times(probe, (1,), (2,))
    epoch = probe.leader_epoch(topic)
    unsupported = (UNSUPPORTED_VERSION, -1, -1, -1)
    answers = {LATEST: (1, (OK, 2, -1, epoch)), EARLIEST: (1, (OK, 0, -1, epoch)), MAX_TIMESTAMP: (7, (OK, 1, 2, epoch)),
               EARLIEST_LOCAL: (8, (OK, 0, -1, epoch)), LATEST_TIERED: (9, NONE), EARLIEST_PENDING_UPLOAD: (11, NONE)}
    for version in range(1, probe.ranges[SCHEMAS.keys["ListOffsets"]][1] + 1):
        for timestamp, (since, answer) in answers.items():
            want = answer if version >= since else unsupported
            want = want if version >= 4 else (*want[:3], -1)
            equal(asked(connection, topic, [timestamp], version=version), [want], f"{timestamp} in version {version}")
        equal(asked(connection, topic, [-7, -(2**63)], version=version), [unsupported] * 2, f"version {version}")
    equal(asked(connection, topic, [LATEST, BASE_MS, MAX_TIMESTAMP], replica=-2), [(OK, 2, -1, epoch), (OK, 0, 1, epoch), (OK, 1, 2, epoch)], "a debugging replica")


@suite.case("C007-read-committed-without-transactions")
def _(probe):
    topic, connection = of_times(probe, (1,), (2,))
    epoch = probe.leader_epoch(topic)
    got = asked(connection, topic, [LATEST, EARLIEST, BASE_MS + 2, MAX_TIMESTAMP], isolation=1)
    equal(got, [(OK, 2, -1, epoch), (OK, 0, -1, epoch), (OK, 1, 2, epoch), (OK, 1, 2, epoch)], "all is stable")


@suite.case("special-values-of-an-empty-log")
def _(probe):
    topic = probe.topic()
    with probe.connect(topic) as connection:
        epoch = probe.leader_epoch(topic)
        got = asked(connection, topic, [LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD, 0])
        equal(got[0], (OK, 0, -1, epoch), "latest")
        equal(got[1:], [(OK, 0, -1, epoch), NONE, (OK, 0, -1, epoch), NONE, NONE, NONE], "the others")


@suite.case("C010-version-0-is-not-offered")
def _(probe):
    equal(probe.ranges[SCHEMAS.keys["ListOffsets"]], (1, 11), "the versions of Kafka 4.4")


@suite.case("C012-nothing-found-is-no-error")
def _(probe):
    topic = probe.topic()
    with probe.connect(topic) as connection:
        equal(asked(connection, topic, [0, BASE_MS, 2**62], version=5), [NONE] * 3, "an empty log")


@suite.case("list-offsets-errors")
def _(probe):
    topic, connection = of_times(probe, (1,))
    epoch = probe.leader_epoch(topic)
    for timestamp in (LATEST, EARLIEST, MAX_TIMESTAMP, BASE_MS):
        equal(asked(connection, topic, [timestamp], epoch=epoch)[0][0], OK, f"{timestamp}: the epoch")
        equal(asked(connection, topic, [timestamp], epoch=epoch + 1), [(UNKNOWN_LEADER_EPOCH, -1, -1, -1)], f"{timestamp}: a later epoch")
        if epoch > 0:
            equal(asked(connection, topic, [timestamp], epoch=epoch - 1), [(FENCED_LEADER_EPOCH, -1, -1, -1)], f"{timestamp}: an old epoch")
        equal(asked(connection, topic, [timestamp], partition=7), [(UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1)], f"{timestamp}: no such partition")
        equal(asked(connection, unique("none"), [timestamp]), [(UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1)], f"{timestamp}: no such topic")
    equal(asked(connection, unique("none"), [-9]), [(UNSUPPORTED_VERSION, -1, -1, -1)], "the timestamp is judged first")


@suite.case("a-partition-asked-twice")
def _(probe):
    topic, connection = of_times(probe, (1,), partitions=2)
    rows = [{"PartitionIndex": 0, "CurrentLeaderEpoch": -1, "Timestamp": timestamp} for timestamp in (LATEST, -9)]
    reply = connection.call("ListOffsets", 11, {"ReplicaId": -1, "Topics": [{"Name": topic, "Partitions": rows}], "TimeoutMs": 5000})
    errors = [row["ErrorCode"] for one in reply["Topics"] for row in one["Partitions"]]
    equal(set(errors), {INVALID_REQUEST}, f"{reply}")


@suite.case("many-partitions-in-one-request")
def _(probe):
    topic = probe.topic(60)
    leader = probe.cluster.leader(topic, 0)
    mine = [p for p in range(60) if probe.cluster.leader(topic, p) == leader]
    with Connection(leader) as connection:
        for partition in mine:
            for time in range(3):
                produced(connection, topic, at(partition + 100 * time), partition=partition)
        rows = [{"PartitionIndex": p, "CurrentLeaderEpoch": -1, "Timestamp": BASE_MS + p + 50} for p in mine]
        reply = connection.call("ListOffsets", 11, {"ReplicaId": -1, "Topics": [{"Name": topic, "Partitions": rows}], "TimeoutMs": 5000})
        got = {row["PartitionIndex"]: (row["ErrorCode"], row["Offset"], row["Timestamp"] - BASE_MS) for row in reply["Topics"][0]["Partitions"]}
        equal(got, {p: (OK, 1, p + 100) for p in mine}, "each partition's own answer")
