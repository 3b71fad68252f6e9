"""Produce: malformed batches one fault each, sizes, acks, and what is accepted although it is odd."""
import gzip
import struct
import zlib

import batch as layout
from batch import crc32c, record
from probe import *
from suite import true

HOUR_MS = 3_600_000


def with_field(data, at, format_, value):
    """The batch with one field of its header replaced and a CRC that fits."""
    changed = bytearray(data)
    struct.pack_into(format_, changed, at, value)
    struct.pack_into(">I", changed, layout.CRC_AT, crc32c(bytes(changed[layout.ATTRIBUTES_AT:])))
    return bytes(changed)


def whole():
    return batch([b"one", b"two", b"three"])


def body_of(records, **options):
    return batch([b"x"] * options.pop("records_count", 1), records=records, **options)


def message_set(magic):
    """A message of the old format, magic 0 or 1."""
    content = struct.pack(">bb", magic, 0) + (struct.pack(">q", now_ms()) if magic else b"") + struct.pack(">i", -1) + struct.pack(">i", 3) + b"old"
    message = struct.pack(">I", zlib.crc32(content)) + content
    return struct.pack(">qi", 0, len(message)) + message


def wrong_sizes(record_bytes):
    """A record whose own length says one byte more than there is."""
    return bytes([record_bytes[0] + 2]) + record_bytes[1:]


# name -> (the batch, the error). After each, the log's end has not moved.
MALFORMED = {
    "crc-wrong": (lambda: batch([b"one"], crc=0x12345678), CORRUPT_MESSAGE),
    "crc-of-a-flipped-bit": (lambda: whole()[:-1] + bytes([whole()[-1] ^ 1]), CORRUPT_MESSAGE),
    "magic-3": (lambda: batch([b"one"], magic=3), CORRUPT_MESSAGE),
    "magic-minus-1": (lambda: batch([b"one"], magic=-1), CORRUPT_MESSAGE),
    # C040: an old format is refused cleanly, whatever its checksum covers.
    "C040-magic-0": (lambda: message_set(0), INVALID_RECORD),
    "C040-magic-1": (lambda: message_set(1), INVALID_RECORD),
    "length-short": (lambda: batch([b"one"], length=10), CORRUPT_MESSAGE),
    "length-negative": (lambda: batch([b"one"], length=-1), CORRUPT_MESSAGE),
    "length-zero": (lambda: batch([b"one"], length=0), CORRUPT_MESSAGE),
    "length-past-the-end": (lambda: batch([b"one"], length=5000), INVALID_RECORD),
    "cut-in-the-header": (lambda: whole()[:40], INVALID_RECORD),
    "cut-in-the-records": (lambda: whole()[:-5], INVALID_RECORD),
    "12-zero-bytes-after-the-batch": (lambda: whole() + bytes(12), CORRUPT_MESSAGE),
    "no-bytes": (lambda: b"", INVALID_RECORD),
    "ten-bytes": (lambda: bytes(10), INVALID_RECORD),
    "count-0": (lambda: batch([], records=b""), INVALID_RECORD),
    "count-more-than-last-delta": (lambda: batch([b"a", b"b"], count=3), INVALID_RECORD),
    "count-less-than-last-delta": (lambda: batch([b"a", b"b"], count=1), INVALID_RECORD),
    "count-negative": (lambda: batch([b"a"], count=-1, last_delta=-2), INVALID_RECORD),
    "last-delta-negative": (lambda: batch([b"a"], last_delta=-1), INVALID_RECORD),
    "count-and-delta-more-than-inside": (lambda: batch([b"a", b"b"], count=3, last_delta=2), INVALID_RECORD),
    "count-and-delta-less-than-inside": (lambda: batch([b"a", b"b", b"c"], count=2, last_delta=1), INVALID_RECORD),
    "count-of-2-to-31": (lambda: batch([b"a"], count=2**31 - 1, last_delta=2**31 - 2), INVALID_RECORD),
    "two-batches": (lambda: whole() + whole(), INVALID_RECORD),
    "base-offset-1": (lambda: batch([b"one"], base_offset=1), INVALID_RECORD),
    "base-offset-negative": (lambda: batch([b"one"], base_offset=-5), INVALID_RECORD),
    "control-batch": (lambda: batch([b"one"], attributes=0x20), INVALID_RECORD),
    "record-length-past-the-end": (lambda: body_of(wrong_sizes(record(0, b"value"))), INVALID_RECORD),
    "record-length-negative": (lambda: body_of(b"\x01" + record(0, b"value")[1:]), INVALID_RECORD),
    "key-length-past-the-end": (lambda: body_of(b"\x14\0\0\0\x7f" + bytes(6)), INVALID_RECORD),
    "header-count-past-the-end": (lambda: body_of(record(0, b"v")[:-1] + b"\x7e"), INVALID_RECORD),
    "gzip-count-more-than-inside": (lambda: batch([b"a", b"b"], count=3, last_delta=2, compress="gzip"), INVALID_RECORD),
    "gzip-count-less-than-inside": (lambda: batch([b"a", b"b", b"c"], count=2, last_delta=1, compress="gzip"), INVALID_RECORD),
    "gzip-of-garbage": (lambda: body_of(b"this is no gzip", attributes=1), UNKNOWN_SERVER_ERROR),
    "snappy-of-garbage": (lambda: body_of(b"\xff" * 30, attributes=2), UNKNOWN_SERVER_ERROR),
    "lz4-of-garbage": (lambda: body_of(b"\xff" * 30, attributes=3), UNKNOWN_SERVER_ERROR),
    "zstd-of-garbage": (lambda: body_of(b"\xff" * 30, attributes=4), UNKNOWN_SERVER_ERROR),
    "codec-5": (lambda: body_of(record(0, b"v"), attributes=5), UNKNOWN_SERVER_ERROR),
    "codec-7": (lambda: body_of(record(0, b"v"), attributes=7), UNKNOWN_SERVER_ERROR),
    "gzip-deltas-with-a-gap": (lambda: batch([b"a", b"b"], records=record(0, b"a") + record(5, b"b"), compress="gzip"), UNKNOWN_SERVER_ERROR),
    "gzip-cut": (lambda: batch([b"a"], records=gzip.compress(record(0, b"a"))[:-9], attributes=1), UNKNOWN_SERVER_ERROR),
    "C042-timestamp-2-h-ahead": (lambda: batch([b"one"], timestamp_ms=now_ms() + 2 * HOUR_MS), INVALID_TIMESTAMP),
}
for name, (build, code) in MALFORMED.items():
    @suite.case(f"C039-{name}" if not name.startswith("C0") else name)
    def _(probe, build=build, code=code):
        topic = probe.topic()
        with probe.connect(topic) as connection:
            produced(connection, topic, SMALL)
            for version in (8, PRODUCE):
                row = produce(connection, topic, build(), version=version)
                equal(row["ErrorCode"], code, f"error of version {version} ({row.get('ErrorMessage')})")
                equal(row["BaseOffset"], -1, "base offset")
            equal(probe.end(topic), 1, "end offset")
            equal(produced(connection, topic, SMALL), 1, "the next good batch")


def stored(row):
    return [one["raw"] for one in layout.batches(row["Records"])]


def same_but_for_the_broker(got, sent):
    """Base offset and leader epoch are the broker's; every other byte is the client's."""
    return got[8:12] == sent[8:12] and got[16:] == sent[16:]



# Odd, and taken. What follows the batch and is no whole batch is cut off, unless it has a length that no batch can have.
ACCEPTED = {
    "11-bytes-after-the-batch": lambda: whole() + bytes(11),
    "half-a-batch-after-the-batch": lambda: whole() + whole()[:70],
    "deltas-that-repeat": lambda: batch([b"a", b"b"], records=record(0, b"a") + record(0, b"b"), timestamp_ms=HOUR_AGO_MS),
    "deltas-with-a-gap": lambda: batch([b"a", b"b"], records=record(0, b"a") + record(5, b"b"), timestamp_ms=HOUR_AGO_MS),
    "record-attributes": lambda: batch([b"a"], records=record(0, b"a", attributes=0x7F), timestamp_ms=HOUR_AGO_MS),
    "max-timestamp-wrong": lambda: batch([b"a"], max_timestamp_ms=5, timestamp_ms=HOUR_AGO_MS),
    "timestamp-minus-500": lambda: batch([b"a"], timestamp_ms=-500),
    "gzip": lambda: batch([b"a", b"b"], compress="gzip", timestamp_ms=HOUR_AGO_MS),
    "gzip-of-100-mb": lambda: batch([bytes(100 << 20)], compress="gzip", timestamp_ms=HOUR_AGO_MS),
}
for name, build in ACCEPTED.items():
    @suite.case(f"accepted-{name}")
    def _(probe, name=name, build=build):
        topic, data = probe.topic(), build()
        with probe.connect(topic) as connection:
            equal(produced(connection, topic, data), 0, "base offset")
            got = stored(fetch(connection, topic, 0))
            equal(len(got), 1, "batches stored")
            sent = layout.batches(data)[0]["raw"]
            # Kafka mends a maximum timestamp that is not that of the records (and the CRC with it); a server may leave it.
            if "timestamp" in name:
                equal(got[0][layout.HEADER_BYTES:], sent[layout.HEADER_BYTES:], "records")
            else:
                true(same_but_for_the_broker(got[0], sent), f"stored {got[0].hex()}, sent {sent.hex()}")


@suite.case("null-records")
def _(probe):
    topic = probe.topic()
    with probe.connect(topic) as connection:
        if probe.is_kafka:
            # A NullPointerException there, and no answer ever. An answer is better.
            connection.send("Produce", 8, produce_body(topic, None))
            return
        equal(produce(connection, topic, None, version=8)["ErrorCode"], INVALID_RECORD, "error")


@suite.case("transactional-batch-without-a-transactional-id")
def _(probe):
    topic = probe.topic()
    with probe.connect(topic) as connection:
        row = produce(connection, topic, batch([b"one"], attributes=0x10, producer_id=1, producer_epoch=0, sequence=0))
        equal((row["ErrorCode"], row["BaseOffset"]), (TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1), "error")
    equal(probe.end(topic), 0, "end offset")


@suite.case("C041-record-without-key-on-a-compacted-topic")
def _(probe):
    topic = probe.topic(cleanup_policy="compact")
    records = b"".join(record(i, b"v", key=None if i == 1 else b"k") for i in range(3))
    with probe.connect(topic) as connection:
        row = produce(connection, topic, batch([b"v"] * 3, records=records))
        equal((row["ErrorCode"], [e["BatchIndex"] for e in row["RecordErrors"]]), (INVALID_RECORD, [1]), "error and index of the record")
    equal(probe.end(topic), 0, "end offset")


@suite.case("C031-acks")
def _(probe):
    topic = probe.topic()
    with probe.connect(topic) as connection:
        for offset, acks in enumerate((1, -1)):
            equal(produced(connection, topic, SMALL, acks=acks), offset, f"acks={acks}: base offset")
        for acks in (2, 7, -2, 32767):
            row = produce(connection, topic, SMALL, acks=acks)
            equal((row["ErrorCode"], row["BaseOffset"]), (INVALID_REQUIRED_ACKS, -1), f"C031 acks={acks}")
        equal(probe.end(topic), 2, "end offset")


@suite.case("C030-acks-0-has-no-reply")
def _(probe):
    topic = probe.topic()
    with probe.connect(topic) as connection:
        for _ in range(20):
            connection.send("Produce", PRODUCE, produce_body(topic, SMALL, acks=0))
        true(connection.is_silent(), "a reply came")
        true(connection.call("Metadata", 4, {"Topics": []})["Brokers"], "the next reply is that of Metadata")
        equal(produced(connection, topic, SMALL), 20, "acks=0 and acks=all keep their order: base offset")


@suite.case("C030-acks-0-with-an-error-closes")
def _(probe):
    topic = probe.topic()
    for what, name, data in (("bad CRC", topic, batch([b"one"], crc=1)), ("missing topic", unique("missing"), SMALL), ("count", topic, batch([b"a"], count=2))):
        with probe.connect(topic) as connection:
            connection.send("Produce", PRODUCE, produce_body(name, data, acks=0))
            true(connection.is_closed(), f"{what}: the connection stays open")
    equal(probe.end(topic), 0, "end offset")


@suite.case("unknown-topic-and-partition")
def _(probe):
    topic = probe.topic(2)
    with probe.connect(topic) as connection:
        for name, partition in ((unique("missing"), 0), (topic, 2), (topic, -1), (topic, 2**31 - 1), ("", 0), ("a b", 0), ("x" * 300, 0)):
            row = produce(connection, name, SMALL, partition=partition)
            equal((row["ErrorCode"], row["BaseOffset"]), (UNKNOWN_TOPIC_OR_PARTITION, -1), f"{name[:20]!r} {partition}")


@suite.case("wrong-broker-names-the-leader")
def _(probe):
    brokers = probe.cluster.metadata([])["Brokers"]
    if len(brokers) < 2:
        return
    topic = probe.topic(2)
    leader = probe.cluster.leader(topic, 0)
    other = next((b["Host"], b["Port"]) for b in brokers if (b["Host"], b["Port"]) != leader)
    with Connection(other) as connection:
        equal(produce(connection, topic, SMALL)["ErrorCode"], NOT_LEADER_OR_FOLLOWER, "produce")
        row = fetch(connection, topic, 0)
        equal(row["ErrorCode"], NOT_LEADER_OR_FOLLOWER, "fetch")
        got = connection.call("ListOffsets", 6, {"ReplicaId": -1, "Topics": [{"Name": topic, "Partitions": [{"PartitionIndex": 0, "Timestamp": -1}]}]})
        equal(got["Topics"][0]["Partitions"][0]["ErrorCode"], NOT_LEADER_OR_FOLLOWER, "list offsets")
        if probe.offers("Produce", 10):
            reply = connection.call("Produce", 10, produce_body(topic, SMALL))
            named = reply["Responses"][0]["PartitionResponses"][0]["CurrentLeader"]
            nodes = {n["NodeId"]: (n["Host"], n["Port"]) for n in reply["NodeEndpoints"]}
            equal(nodes.get(named["LeaderId"]), leader, "the address of the current leader")
    equal(probe.end(topic), 0, "end offset")


@suite.case("one-bad-partition-leaves-the-others")
def _(probe):
    topic, other = probe.topic(2), unique("missing")
    leader = probe.cluster.leader(topic, 0)
    same = [p for p in (0, 1) if probe.cluster.leader(topic, p) == leader]
    rows = [{"Index": p, "Records": SMALL if p == 0 else batch([b"x"], crc=9)} for p in same] + [{"Index": 7, "Records": SMALL}]
    with Connection(leader) as connection:
        body = {"Acks": -1, "TimeoutMs": 10000, "TopicData": [{"Name": topic, "PartitionData": rows}, {"Name": other, "PartitionData": rows[:1]}]}
        reply = connection.call("Produce", PRODUCE, body)
    got = {(t["Name"], p["Index"]): p["ErrorCode"] for t in reply["Responses"] for p in t["PartitionResponses"]}
    want = {(topic, 0): OK, (topic, 7): UNKNOWN_TOPIC_OR_PARTITION, (other, 0): UNKNOWN_TOPIC_OR_PARTITION}
    equal(got, {**want, **({(topic, 1): CORRUPT_MESSAGE} if 1 in same else {})}, "errors")


@suite.case("C046-batch-over-the-limits")
def _(probe):
    limited = probe.topic(max_message_bytes=1000)
    small, big = batch([b"x" * (1000 - 70)]), batch([b"x" * (1001 - 70)])
    equal((len(small), len(big)), (1000, 1001), "bytes of the batches")
    with probe.connect(limited) as connection:
        equal(produced(connection, limited, small), 0, "1000 bytes of 1000")
        equal(produce(connection, limited, big)["ErrorCode"], MESSAGE_TOO_LARGE, "1001 bytes of 1000")
    segment = probe.topic(segment_bytes=1048576, max_message_bytes=2000000)
    with probe.connect(segment) as connection:
        equal(produce(connection, segment, batch([b"x" * 1_100_000]))["ErrorCode"], RECORD_LIST_TOO_LARGE, "more than a segment")
        equal(produced(connection, segment, batch([b"x" * 1_000_000])), 0, "less than a segment")
        equal(produced(connection, segment, batch([b"x" * 1_000_000])), 1, "the next rolls")


@suite.case("C037-zstd-and-old-versions")
def _(probe):
    topic = probe.topic()
    data = with_field(batch([b"a"]), layout.ATTRIBUTES_AT, ">h", 4)
    with probe.connect(topic) as connection:
        for version in (3, 6):
            for what, records in (("alone", data), ("another batch behind it", data + SMALL)):
                equal(produce(connection, topic, records, version=version)["ErrorCode"], UNSUPPORTED_COMPRESSION_TYPE, f"produce version {version}, {what}")


@suite.case("large-batch-whole")
def _(probe):
    topic, data = probe.topic(), batch([bytes(i % 256 for i in range(900_000))])
    with probe.connect(topic) as connection:
        equal(produced(connection, topic, data), 0, "base offset")
        got = stored(fetch(connection, topic, 0))
        true(len(got) == 1 and same_but_for_the_broker(got[0], data), "the batch did not come back whole")
