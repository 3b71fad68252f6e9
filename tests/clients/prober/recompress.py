"""compression.type: what becomes of a batch whose codec its topic does not want; and old fetches of zstd topics."""
import zlib

from batch import HEADER_BYTES, record, values_of
from idempotence import wait_until_ready
from probe import *
from suite import true

BITS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
VALUES = [b"value %d " % i * (i % 40) for i in range(60)]


def stored(connection, topic, offset=0, version=FETCH):
    row = fetch(connection, topic, offset, version=version)
    equal(row["ErrorCode"], OK, "fetch")
    return batches(row["Records"])


def plain(one):
    """The records of a stored gzip or plain batch."""
    bits, records = one["attributes"] & 7, one["raw"][HEADER_BYTES:]
    true(bits in (0, 1), f"codec {bits}")
    return zlib.decompress(records, 31) if bits == 1 else records


for target, bits in BITS.items():
    for source in (None, "gzip"):
        @suite.case(f"recompress-{source or 'none'}-to-{target}")
        def _(probe, target=target, bits=bits, source=source):
            topic = probe.topic(compression_type=target)
            with probe.connect(topic) as connection:
                sent = batch(VALUES, timestamp_ms=HOUR_AGO_MS, producer_id=-1, compress=source)
                equal([produced(connection, topic, sent) for _ in range(2)], [0, 60], "base offsets")
                for at, one in enumerate(stored(connection, topic)):
                    equal((one["attributes"], one["crc_fits"], one["base_offset"], one["last_offset"], one["count"]), (bits, True, at * 60, at * 60 + 59, 60), "header")
                    equal((one["first_timestamp_ms"], one["max_timestamp_ms"], one["producer_id"], one["sequence"]), (HOUR_AGO_MS, HOUR_AGO_MS, -1, -1), "times, producer")
                    if bits < 2:
                        equal(plain(one), b"".join(record(i, value) for i, value in enumerate(VALUES)), "records")


@suite.case("recompress-keeps-a-producers-fields-and-finds-its-duplicates")
def _(probe):
    topic = probe.topic(compression_type="uncompressed")
    wait_until_ready(probe)
    with probe.connect() as connection:
        producer = connection.call("InitProducerId", 1, {"TransactionalId": None, "TransactionTimeoutMs": 60000})
    fields = dict(producer_id=producer["ProducerId"], producer_epoch=producer["ProducerEpoch"], timestamp_ms=HOUR_AGO_MS)
    with probe.connect(topic) as connection:
        first, second = (batch(VALUES, sequence=sequence, compress="gzip", **fields) for sequence in (0, 60))
        equal([produced(connection, topic, one) for one in (first, second, first)], [0, 60, 0], "base offsets")
        found = [(one["producer_id"], one["producer_epoch"], one["sequence"], one["attributes"]) for one in stored(connection, topic)]
        equal(found, [(fields["producer_id"], fields["producer_epoch"], sequence, 0) for sequence in (0, 60)], "producers")


@suite.case("recompress-stamps-the-time-of-the-append")
def _(probe):
    topic = probe.topic(compression_type="gzip", message_timestamp_type="LogAppendTime")
    with probe.connect(topic) as connection:
        row = produce(connection, topic, batch(VALUES, timestamp_ms=HOUR_AGO_MS))
        one, = stored(connection, topic)
        equal((row["ErrorCode"], one["attributes"], one["crc_fits"], one["first_timestamp_ms"]), (OK, 1 | 8, True, HOUR_AGO_MS), "batch")
        equal(row["LogAppendTimeMs"], one["max_timestamp_ms"], "time")


@suite.case("recompress-judges-the-size-before-and-after")
def _(probe):
    topic = probe.topic(compression_type="uncompressed", max_message_bytes=5000)
    with probe.connect(topic) as connection:
        row = produce(connection, topic, batch([bytes(20_000)], compress="gzip"))
        equal((row["ErrorCode"], row["BaseOffset"]), (MESSAGE_TOO_LARGE, -1), "too large when it is unpacked")
        equal(produced(connection, topic, batch([bytes(4800)], compress="gzip")), 0, "small enough")
    topic = probe.topic(compression_type="gzip", max_message_bytes=5000)
    with probe.connect(topic) as connection:
        equal(produce(connection, topic, batch([bytes(20_000)]))["ErrorCode"], MESSAGE_TOO_LARGE, "too large as it comes")


@suite.case("recompress-numbers-and-times-records-anew")
def _(probe):
    topic = probe.topic(compression_type="gzip")
    records = record(0, b"a", timestamp_delta=50) + record(0, b"b", timestamp_delta=20, attributes=9)
    with probe.connect(topic) as connection:
        equal(produced(connection, topic, batch([b"a", b"b"], records=records, timestamp_ms=HOUR_AGO_MS)), 0, "base offset")
        one, = stored(connection, topic)
        equal((one["first_timestamp_ms"], one["max_timestamp_ms"]), (HOUR_AGO_MS + 50, HOUR_AGO_MS + 50), "times")
        equal(plain(one), record(0, b"a") + record(1, b"b", timestamp_delta=-30), "records")


@suite.case("recompress-refuses-times-before-1970")
def _(probe):
    topic = probe.topic(compression_type="gzip")
    with probe.connect(topic) as connection:
        row = produce(connection, topic, batch([b"a"], timestamp_ms=-1000))
        equal((row["ErrorCode"], row["BaseOffset"]), (UNKNOWN_SERVER_ERROR, -1), "error")


@suite.case("max-decompressed-message-bytes")
def _(probe):
    topic = probe.topic(max_decompressed_message_bytes=1000)
    with probe.connect(topic) as connection:
        for size, compress, want in ((500, "gzip", OK), (1100, "gzip", INVALID_RECORD), (1100, None, OK)):
            row = produce(connection, topic, batch([b"x", bytes(size)], compress=compress))
            equal(row["ErrorCode"], want, f"{size} bytes, {compress}")


@suite.case("C037-fetch-of-zstd-topics-before-version-10")
def _(probe):
    # Kafka before 4.0 answered 76 here; 4.4.0 serves what is stored, whatever the version.
    topic = probe.topic(compression_type="zstd")
    with probe.connect(topic) as connection:
        produced(connection, topic, SMALL)
        for version in (4, 9, 10):
            one, = stored(connection, topic, version=version)
            equal(one["attributes"], 4, f"version {version}")
