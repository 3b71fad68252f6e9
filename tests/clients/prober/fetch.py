"""Fetch: limits, positions, long polls, epochs, sessions."""
import threading
import time
import uuid

from connection import Closed
from probe import *
from suite import true


def filled(probe, count, value=b"x" * 30, partitions=1):
    """A topic with `count` batches of one record in partition 0, and a connection to its leader."""
    topic = probe.topic(partitions)
    connection = probe.connect(topic)
    for _ in range(count):
        produced(connection, topic, batch([value]))
    return topic, connection


@suite.case("C020-fetch-at-and-past-the-end")
def _(probe):
    topic, connection = filled(probe, 3)
    row = fetch(connection, topic, 3)
    equal((row["ErrorCode"], row["Records"] or b"", row["HighWatermark"], row["LastStableOffset"], row["LogStartOffset"]), (OK, b"", 3, 3, 0), "at the end")
    for offset in (4, 2**62, -1, -2, -(2**63)):
        row = fetch(connection, topic, offset)
        equal((row["ErrorCode"], row["Records"] or b"", row["HighWatermark"]), (OFFSET_OUT_OF_RANGE, b"", -1), f"offset {offset}")


@suite.case("C021-first-batch-comes-whole-and-no-other")
def _(probe):
    topic = probe.topic(8)
    leader = probe.cluster.leader(topic, 0)
    first, second = [p for p in range(8) if probe.cluster.leader(topic, p) == leader][:2]
    with Connection(leader) as connection:
        for partition in (first, second):
            for _ in range(2):
                produced(connection, topic, batch([b"x" * 100_000]), partition=partition)
        for limits in ({"max_bytes": 1, "partition_max_bytes": 1}, {"max_bytes": 0, "partition_max_bytes": 0}, {"max_bytes": 1}):
            reply = connection.call("Fetch", FETCH, fetch_body([(topic, first, 0), (topic, second, 0)], **limits))
            rows = {p["PartitionIndex"]: p for p in reply["Responses"][0]["Partitions"]}
            equal(offsets_of(rows[first]), [(0, 0)], f"{limits}: the first partition")
            equal((rows[second]["ErrorCode"], rows[second]["Records"] or b""), (OK, b""), f"{limits}: the second")
        # Limits that hold one partition's batch and not the next: the second partition waits, an empty first does not count.
        reply = connection.call("Fetch", FETCH, fetch_body([(topic, first, 2), (topic, second, 0)], max_bytes=1, partition_max_bytes=1))
        rows = {p["PartitionIndex"]: p for p in reply["Responses"][0]["Partitions"]}
        equal((offsets_of(rows[first]), offsets_of(rows[second])), ([], [(0, 0)]), "the first non-empty partition")


@suite.case("C022-partition-limit")
def _(probe):
    topic, connection = filled(probe, 10)
    size = len(batch([b"x" * 30]))
    for limit, count in ((size * 2 + size // 2, 2), (size * 3, 3), (size - 1, 1), (size * 100, 10)):
        row = fetch(connection, topic, 0, partition_max_bytes=limit)
        equal(offsets_of(row), [(i, i) for i in range(count)], f"limit {limit}")
        true(len(row["Records"]) <= max(limit, size), f"limit {limit}: {len(row['Records'])} bytes")
    row = fetch(connection, topic, 4, max_bytes=size * 2)
    equal(offsets_of(row), [(4, 4), (5, 5)], "limit of the whole fetch")


@suite.case("C023-offset-inside-a-batch")
def _(probe):
    topic = probe.topic()
    with probe.connect(topic) as connection:
        for _ in range(2):
            produced(connection, topic, batch([b"%d" % i for i in range(10)]))
        equal(offsets_of(fetch(connection, topic, 5)), [(0, 9), (10, 19)], "from 5")
        equal(offsets_of(fetch(connection, topic, 10)), [(10, 19)], "from 10")
        equal(offsets_of(fetch(connection, topic, 19, partition_max_bytes=1)), [(10, 19)], "from 19")


@suite.case("fetch-reads-across-segments")
def _(probe):
    topic = probe.topic(segment_bytes=1048576)
    with probe.connect(topic) as connection:
        for i in range(30):
            equal(produced(connection, topic, batch([b"%d" % i + bytes(100_000)])), i, "base offset")
        offset = 0
        while offset < 30:
            rows = offsets_of(fetch(connection, topic, offset, partition_max_bytes=250_000, max_bytes=250_000))
            equal(rows[0], (offset, offset), "first batch")
            offset = rows[-1][1] + 1


def timed_fetch(connection, topic, offset, **options):
    began = time.monotonic()
    row = fetch(connection, topic, offset, **options)
    return row, (time.monotonic() - began) * 1000


# On a machine with other work, an answer "at once" may take its time: it is one that has not waited for the 5 s that it may. And
# what ends a wait of 0.5 s, or wakes one of 8 s, may be late by as much.
AT_ONCE_MS = SLACK_MS = 2500


@suite.case("C024-long-poll-timings")
def _(probe):
    topic, connection = filled(probe, 1)
    row, took_ms = timed_fetch(connection, topic, 1, max_wait_ms=500, min_bytes=1)
    true(480 <= took_ms < 480 + SLACK_MS and not row["Records"], f"nothing new: {took_ms:.0f} ms of 500")
    for options in ({"max_wait_ms": 5000, "min_bytes": 0}, {"max_wait_ms": 0, "min_bytes": 1}):
        row, took_ms = timed_fetch(connection, topic, 1, **options)
        true(took_ms < AT_ONCE_MS, f"{options}: {took_ms:.0f} ms, want an answer at once")
    row, took_ms = timed_fetch(connection, topic, 0, max_wait_ms=5000, min_bytes=1)
    true(took_ms < AT_ONCE_MS and offsets_of(row) == [(0, 0)], f"data is there: {took_ms:.0f} ms")
    row, took_ms = timed_fetch(connection, topic, 0, max_wait_ms=500, min_bytes=100_000)
    true(480 <= took_ms < 480 + SLACK_MS and offsets_of(row) == [(0, 0)], f"fewer than min bytes: {took_ms:.0f} ms of 500")
    row, took_ms = timed_fetch(connection, topic, 9, max_wait_ms=5000, min_bytes=1)
    true(took_ms < AT_ONCE_MS and row["ErrorCode"] == OFFSET_OUT_OF_RANGE, f"an error: {took_ms:.0f} ms, want it at once")


@suite.case("C024-no-wait-that-brings-no-more")
def _(probe):
    # A limit that no whole batch ends at, and as much wanted at least.
    topic, connection = filled(probe, 20)
    limit = 3 * len(batch([b"x" * 30])) + 10
    row, took_ms = timed_fetch(connection, topic, 0, max_wait_ms=5000, min_bytes=limit, partition_max_bytes=limit)
    true(took_ms < AT_ONCE_MS and offsets_of(row), f"a limit of {limit} bytes is reached: {took_ms:.0f} ms")
    # A segment that is not the last gets no longer.
    topic = probe.topic(1, segment_bytes=1048576)
    connection = probe.connect(topic)
    for _ in range(3):
        produced(connection, topic, batch([b"x" * 700_000]))
    row, took_ms = timed_fetch(connection, topic, 0, max_wait_ms=5000, min_bytes=3_000_000, max_bytes=5_000_000, partition_max_bytes=5_000_000)
    true(took_ms < AT_ONCE_MS and offsets_of(row) == [(0, 0)], f"the first of three segments: {took_ms:.0f} ms")
    row, took_ms = timed_fetch(connection, topic, 2, max_wait_ms=500, min_bytes=3_000_000, max_bytes=5_000_000, partition_max_bytes=5_000_000)
    true(480 <= took_ms < 480 + SLACK_MS and offsets_of(row) == [(2, 2)], f"the last segment: {took_ms:.0f} ms of 500")


def later(seconds, action):
    thread = threading.Timer(seconds, action)
    thread.start()
    return thread


@suite.case("C024-long-poll-wakes-on-produce")
def _(probe):
    topic, connection = filled(probe, 1)
    with probe.connect(topic) as writer:
        timer = later(0.3, lambda: produced(writer, topic, SMALL))
        row, took_ms = timed_fetch(connection, topic, 1, max_wait_ms=8000, min_bytes=1)
        timer.join()
        true(290 <= took_ms < 290 + SLACK_MS and offsets_of(row) == [(1, 1)], f"produce after 300 ms: {took_ms:.0f} ms, {offsets_of(row)}")
        # Too few bytes do not wake it, the second produce does.
        size = len(SMALL)

        def twice():
            produced(writer, topic, SMALL)
            time.sleep(0.3)
            produced(writer, topic, SMALL)
        timer = later(0.2, twice)
        row, took_ms = timed_fetch(connection, topic, 2, max_wait_ms=8000, min_bytes=size + 1)
        timer.join()
        true(480 <= took_ms < 480 + SLACK_MS and offsets_of(row) == [(2, 2), (3, 3)], f"min bytes of two batches: {took_ms:.0f} ms, {offsets_of(row)}")


@suite.case("long-poll-of-many-connections")
def _(probe):
    topic, first = filled(probe, 1)
    waiting = [first] + [probe.connect(topic) for _ in range(30)]
    for connection in waiting:
        connection.send("Fetch", FETCH, fetch_body([(topic, 0, 1)], max_wait_ms=10000, min_bytes=1))
    began = time.monotonic()
    with probe.connect(topic) as writer:
        produced(writer, topic, SMALL)
    for connection in waiting:
        equal(offsets_of(connection.receive("Fetch", FETCH)["Responses"][0]["Partitions"][0]), [(1, 1)], "batches")
        connection.socket.close()
    true(time.monotonic() - began < 3, "the last was woken late")


@suite.case("long-poll-holds-back-later-replies-of-its-connection")
def _(probe):
    topic, connection = filled(probe, 1)
    began = time.monotonic()
    fetch_id = connection.send("Fetch", FETCH, fetch_body([(topic, 0, 1)], max_wait_ms=600, min_bytes=1))
    metadata_id = connection.send("Metadata", 4, {"Topics": []})
    connection.receive("Fetch", FETCH, fetch_id)
    true(time.monotonic() - began >= 0.58, "the fetch was answered before its time")
    connection.receive("Metadata", 4, metadata_id)


@suite.case("long-poll-of-a-connection-that-vanishes")
def _(probe):
    topic, connection = filled(probe, 1)
    connection.send("Fetch", FETCH, fetch_body([(topic, 0, 1)], max_wait_ms=1000, min_bytes=1))
    connection.socket.close()
    with probe.connect(topic) as writer:
        equal(produced(writer, topic, SMALL), 1, "base offset")


@suite.case("fetch-unknown-topic-and-partition")
def _(probe):
    topic, connection = filled(probe, 1)
    for name, partition in ((unique("missing"), 0), (topic, 5), (topic, -1), ("", 0), ("a b", 0)):
        row = fetch(connection, name, 0, partition=partition)
        equal((row["ErrorCode"], row["HighWatermark"], row["Records"] or b""), (UNKNOWN_TOPIC_OR_PARTITION, -1, b""), f"{name!r} {partition}")
    rows = connection.call("Fetch", FETCH, fetch_body([(topic, 0, 0), (topic, 9, 0)]))["Responses"][0]["Partitions"]
    equal(sorted((r["PartitionIndex"], r["ErrorCode"], len(r["Records"] or b"") > 0) for r in rows), [(0, OK, True), (9, UNKNOWN_TOPIC_OR_PARTITION, False)], "rows")


@suite.case("fetch-unknown-topic-id")
def _(probe):
    if not probe.offers("Fetch", 13):
        return
    topic, connection = filled(probe, 1)
    equal(fetch(connection, uuid.UUID(int=12345), 0, version=13)["ErrorCode"], UNKNOWN_TOPIC_ID, "unknown id")
    equal(offsets_of(fetch(connection, probe.topic_id(topic), 0, version=13)), [(0, 0)], "by id")


@suite.case("fetch-leader-epoch")
def _(probe):
    topic, connection = filled(probe, 1)
    epoch = probe.leader_epoch(topic)
    cases = [(-1, OK), (epoch, OK), (epoch + 1, UNKNOWN_LEADER_EPOCH), (epoch + 100, UNKNOWN_LEADER_EPOCH)]
    for given, want in cases + ([(epoch - 1, FENCED_LEADER_EPOCH)] if epoch > 0 else []):
        equal(fetch(connection, topic, 0, epoch=given)["ErrorCode"], want, f"epoch {given}, current {epoch}")
    equal(batches(fetch(connection, topic, 0)["Records"])[0]["leader_epoch"], epoch, "epoch in the batch")


@suite.case("fetch-fenced-epoch-of-a-topic-that-lived-through-a-restart")
def _(probe):
    # A new topic has epoch 0, below which there is none: the case finds its topic only after a restart of the server.
    with probe.connect() as connection:
        found = connection.call("Metadata", 9, {"Topics": None})["Topics"]
    old = [(t["Name"], p["PartitionIndex"], p["LeaderEpoch"]) for t in found for p in t["Partitions"] if p["LeaderEpoch"] > 0 and p["ErrorCode"] == 0]
    for topic, partition, epoch in old[:1]:
        with probe.connect(topic, partition) as connection:
            for given, want in ((epoch - 1, FENCED_LEADER_EPOCH), (0, FENCED_LEADER_EPOCH), (epoch + 1, UNKNOWN_LEADER_EPOCH)):
                equal(fetch(connection, topic, 0, partition=partition, epoch=given)["ErrorCode"], want, f"{topic}-{partition} epoch {given}, current {epoch}")
            code = fetch(connection, topic, 0, partition=partition, epoch=epoch)["ErrorCode"]
            true(code in (OK, OFFSET_OUT_OF_RANGE), f"{topic}-{partition} current epoch {epoch}: error {code}")


def session(connection, rows, session_id, epoch, forgotten=(), **options):
    names = [{"Topic": topic, "Partitions": partitions} for topic, partitions in forgotten]
    return connection.call("Fetch", FETCH, fetch_body(rows, SessionId=session_id, SessionEpoch=epoch, ForgottenTopicsData=names, **options))


def seen(reply):
    """{partition: batches} of the partitions in a session's reply."""
    return {p["PartitionIndex"]: offsets_of(p) for t in reply["Responses"] for p in t["Partitions"]}


@suite.case("fetch-session-incremental")
def _(probe):
    topic = probe.topic(8)
    leader = probe.cluster.leader(topic, 0)
    a, b = [p for p in range(8) if probe.cluster.leader(topic, p) == leader][:2]
    with Connection(leader) as connection:
        produced(connection, topic, SMALL, partition=a)
        first = session(connection, [(topic, a, 0), (topic, b, 0)], 0, 0)
        equal((first["ErrorCode"], seen(first)), (OK, {a: [(0, 0)], b: []}), "full fetch")
        true(first["SessionId"] > 0, f"session id {first['SessionId']}")
        number = first["SessionId"]
        equal(seen(session(connection, [(topic, a, 1)], number, 1)), {}, "nothing new: no partition in the reply")
        produced(connection, topic, SMALL, partition=b)
        second = session(connection, [], number, 2)
        equal((second["SessionId"], seen(second)), (number, {b: [(0, 0)]}), "only the partition with news")
        equal(seen(session(connection, [], number, 3)), {b: [(0, 0)]}, "again from the same offset")
        equal(seen(session(connection, [(topic, b, 1)], number, 4)), {}, "the offset is moved")
        produced(connection, topic, SMALL, partition=a)
        produced(connection, topic, SMALL, partition=b)
        equal(seen(session(connection, [], number, 5, forgotten=[(topic, [b])])), {a: [(1, 1)]}, "a forgotten partition is left out")
        error = session(connection, [(topic, a, 99)], number, 6)
        equal([p["ErrorCode"] for t in error["Responses"] for p in t["Partitions"]], [OFFSET_OUT_OF_RANGE], "an error is in the reply")


@suite.case("fetch-session-errors")
def _(probe):
    topic, connection = filled(probe, 1)
    number = session(connection, [(topic, 0, 0)], 0, 0)["SessionId"]
    for id_, epoch, want in ((number + 12345, 1, FETCH_SESSION_ID_NOT_FOUND), (number, 7, INVALID_FETCH_SESSION_EPOCH), (number, 2, INVALID_FETCH_SESSION_EPOCH)):
        reply = session(connection, [], id_, epoch)
        equal((reply["ErrorCode"], reply["Responses"]), (want, []), f"session {id_} epoch {epoch}")
    equal(session(connection, [], number, 1)["ErrorCode"], OK, "the right epoch")
    closing = session(connection, [(topic, 0, 0)], number, -1)
    equal((closing["ErrorCode"], closing["SessionId"], seen(closing)), (OK, 0, {0: [(0, 0)]}), "the final epoch ends the session and fetches fully")
    equal(session(connection, [], number, 2)["ErrorCode"], FETCH_SESSION_ID_NOT_FOUND, "after the end")


@suite.case("fetch-session-less")
def _(probe):
    topic, connection = filled(probe, 1)
    reply = session(connection, [(topic, 0, 0)], 0, -1)
    equal((reply["SessionId"], seen(reply)), (0, {0: [(0, 0)]}), "no session is made")


@suite.case("fetch-session-begun-anew")
def _(probe):
    topic, connection = filled(probe, 1)
    number = session(connection, [(topic, 0, 0)], 0, 0)["SessionId"]
    again = session(connection, [(topic, 0, 0)], number, 0)
    equal((again["ErrorCode"], seen(again)), (OK, {0: [(0, 0)]}), "epoch 0 with an id")
    true(again["SessionId"] not in (0, number), f"the new session has id {again['SessionId']}, the old {number}")
    equal(session(connection, [], number, 1)["ErrorCode"], FETCH_SESSION_ID_NOT_FOUND, "the old session")


@suite.case("fetch-session-long-poll")
def _(probe):
    topic, connection = filled(probe, 1)
    number = session(connection, [(topic, 0, 1)], 0, 0)["SessionId"]
    with probe.connect(topic) as writer:
        timer = later(0.3, lambda: produced(writer, topic, SMALL))
        began = time.monotonic()
        equal(seen(session(connection, [], number, 1, max_wait_ms=8000, min_bytes=1)), {0: [(1, 1)]}, "woken with")
        timer.join()
    true(0.2 < time.monotonic() - began < 2, f"woken after {time.monotonic() - began:.2f} s, produced after 0.3 s")


@suite.case("fetch-sessions-without-end")
def _(probe):
    # Clients that come and go leave sessions behind; the server keeps a bounded number and serves all the same.
    topic, connection = filled(probe, 1)
    numbers = []
    for _ in range(1500):
        reply = session(connection, [(topic, 0, 0)], 0, 0)
        equal((reply["ErrorCode"], seen(reply)), (OK, {0: [(0, 0)]}), "full fetch")
        numbers.append(reply["SessionId"])
    # Those that were kept (0: none was made) are ended, as other cases want sessions of their own.
    for number in numbers:
        if number:
            session(connection, [(topic, 0, 0)], number, -1)


@suite.case("fetch-negative-limits")
def _(probe):
    topic, connection = filled(probe, 1)
    # Kafka answers UNKNOWN_SERVER_ERROR or treats them as 0; a server must not fall over.
    for limits in ({"max_bytes": -5}, {"partition_max_bytes": -5}, {"min_bytes": -5}, {"max_wait_ms": -5, "min_bytes": 10}):
        try:
            reply = connection.call("Fetch", FETCH, fetch_body([(topic, 0, 0)], **limits))
            row = reply["Responses"][0]["Partitions"][0] if reply["Responses"] else reply
            true(row["ErrorCode"] in (OK, UNKNOWN_SERVER_ERROR, INVALID_REQUEST), f"{limits}: error {row['ErrorCode']}")
        except Closed:
            connection = probe.connect(topic)


@suite.case("fetch-read-committed-and-log-start-offset")
def _(probe):
    topic, connection = filled(probe, 2)
    row = fetch(connection, topic, 0, IsolationLevel=1)
    equal((offsets_of(row), row["LastStableOffset"], row["HighWatermark"], row["LogStartOffset"], row["AbortedTransactions"] or []),
          ([(0, 0), (1, 1)], 2, 2, 0, []), "read_committed without transactions")
