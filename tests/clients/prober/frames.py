"""Bytes that are no request: framing, headers, truncated and endless bodies, unknown keys and versions, pipelining."""
import random
import struct

from connection import Closed
from probe import *
from schema import varint
from suite import true

METADATA_V4 = b"\0\0\0\0\0"  # an empty list of topics, no auto-creation
TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(range(192)) + bytes(2)


def framed(data):
    return struct.pack(">i", len(data)) + data


def header(key, version, correlation=7, client_id=b"\0\x03abc"):
    return struct.pack(">hhi", key, version, correlation) + client_id


CLOSING = {
    "length-negative": struct.pack(">i", -1),
    "length-most-negative": struct.pack(">i", -(2**31)),
    "length-zero": struct.pack(">i", 0),
    "length-over-socket-request-max-bytes": struct.pack(">i", 104857601),
    "length-2-to-31": struct.pack(">i", 2**31 - 1),
    "header-cut-after-key": framed(b"\0\x03"),
    "header-cut-in-correlation-id": framed(b"\0\x03\0\x04\0\0"),
    "header-without-client-id": framed(struct.pack(">hhi", 3, 4, 1)),
    "client-id-longer-than-the-frame": framed(header(3, 4, client_id=b"\x7f\xffabc") + METADATA_V4),
    "http-request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls-hello": TLS_HELLO,
    "garbage": random.Random(1).randbytes(4096),
    "C033-unknown-key-9999": framed(header(9999, 0)),
    "unknown-key-negative": framed(header(-5, 0)),
    "inter-broker-key-4": framed(header(4, 0) + bytes(20)),
    "fetch-v3": framed(header(1, 3) + bytes(40)),
    "produce-v2": framed(header(0, 2) + bytes(40)),
    "C033-produce-v99": framed(header(0, 99) + bytes(40)),
    "fetch-v99": framed(header(1, 99) + bytes(40)),
    "metadata-v-1": framed(header(3, -1) + METADATA_V4),
    "metadata-v99": framed(header(3, 99) + METADATA_V4),
    "array-length-2-to-31-metadata": framed(header(3, 4) + struct.pack(">i", 2**31 - 1) + b"\0"),
    "array-length-2-to-31-produce": framed(header(0, 3) + struct.pack(">hhii", -1, 1, 1000, 2**31 - 1)),
    "array-length-2-to-31-fetch": framed(header(1, 4) + struct.pack(">iiiibi", -1, 0, 0, 1, 0, 2**31 - 1)),
    "array-length-2-to-31-create-topics": framed(header(19, 2) + struct.pack(">i", 2**31 - 1)),
    "array-length-compact-2-to-31": framed(header(3, 9) + b"\0" + b"\x80\x80\x80\x80\x08" + b"\0\0\0\0"),
    "varint-endless": framed(header(3, 9) + b"\0" + b"\xff" * 20),
    "varint-endless-in-header-tags": framed(header(3, 9) + b"\xff" * 20),
    "tagged-field-longer-than-the-frame": framed(header(3, 9) + b"\0" + b"\x01\0\0\0" + b"\x01\x64\x7f\0"),
    "string-length-past-the-end": framed(header(3, 4) + struct.pack(">ih", 1, 2000) + b"abc"),
}
for name, data in CLOSING.items():
    @suite.case(f"close-{name}")
    def _(probe, data=data):
        with probe.connect() as connection:
            connection.send_bytes(data)
            true(connection.is_closed(), "the connection stays open")


# Of each API, a good body of one version; every shorter body of the same version must close the connection.
TRUNCATED = [
    ("Produce", 8, produce_body("t", b"x" * 70)), ("Produce", 9, produce_body("t", b"x" * 70)),
    ("Fetch", 11, fetch_body([("t", 0, 0)])), ("Fetch", 12, fetch_body([("t", 0, 0)])),
    ("ListOffsets", 5, {"ReplicaId": -1, "Topics": [{"Name": "t", "Partitions": [{"PartitionIndex": 0, "Timestamp": -1}]}]}),
    ("Metadata", 8, {"Topics": [{"Name": "t"}]}), ("Metadata", 12, {"Topics": [{"Name": "t"}]}),
    ("CreateTopics", 5, {"Topics": [{"Name": "a b", "NumPartitions": 1, "ReplicationFactor": 1}]}),
    ("DeleteTopics", 4, {"TopicNames": ["no-such"]}), ("InitProducerId", 3, {"TransactionalId": None, "TransactionTimeoutMs": 1}),
    ("DescribeConfigs", 4, {"Resources": [{"ResourceType": 2, "ResourceName": "t"}]}), ("FindCoordinator", 3, {"Key": "g"}),
]
for api, version, body in TRUNCATED:
    @suite.case(f"close-truncated-{api}-v{version}")
    def _(probe, api=api, version=version, body=body):
        whole = SCHEMAS.encode(f"{api}Request", version, body)
        for size in sorted({0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 1}):
            with probe.connect() as connection:
                connection.send(api, version, whole[:size])
                true(connection.is_closed(), f"cut to {size} of {len(whole)} bytes, the connection stays open")


@suite.case("close-version-above-the-offered-range")
def _(probe):
    for key, (_, high) in sorted(probe.ranges.items()):
        if key == SCHEMAS.keys["ApiVersions"]:
            continue
        with probe.connect() as connection:
            connection.send_bytes(framed(header(key, high + 1) + bytes(30)))
            true(connection.is_closed(), f"key {key} version {high + 1}: the connection stays open")


def metadata_answers(connection, data, version, correlation=7):
    connection.send_bytes(data)
    return connection.receive("Metadata", version, correlation)


ANSWERED = {
    "trailing-bytes-are-ignored": (4, header(3, 4) + METADATA_V4 + b"trailing"),
    "array-length-minus-7-is-null": (4, header(3, 4) + struct.pack(">i", -7) + b"\0"),
    "unknown-tagged-fields-are-skipped": (9, header(3, 9) + b"\x01\x63\x02hi" + b"\x01\0\0\0" + b"\x02\x64\x03abc\x65\x00"),
    "client-id-null": (4, header(3, 4, client_id=b"\xff\xff") + METADATA_V4),
    "client-id-ill-formed-utf-8": (4, header(3, 4, client_id=b"\0\x03\xff\xc0\x80") + METADATA_V4),
    "client-id-of-32-kb": (4, header(3, 4, client_id=b"\x7f\xff" + b"c" * 32767) + METADATA_V4),
}
for name, (version, data) in ANSWERED.items():
    @suite.case(name)
    def _(probe, version=version, data=data):
        with probe.connect() as connection:
            true(metadata_answers(connection, framed(data), version)["Brokers"], "no brokers")


@suite.case("unfinished-frame-waits")
def _(probe):
    data = framed(header(3, 4) + METADATA_V4)
    with probe.connect() as connection:
        for cut in (2, 6, len(data) - 1):
            connection.send_bytes(data[:cut])
            true(connection.is_silent(0.2), f"{cut} bytes of a frame: closed")
            true(metadata_answers(connection, data[cut:], 4)["Brokers"], "no brokers")


@suite.case("frame-byte-by-byte")
def _(probe):
    data = framed(header(3, 4) + METADATA_V4)
    with probe.connect() as connection:
        for one in data[:-1]:
            connection.send_bytes(bytes([one]))
        true(metadata_answers(connection, data[-1:], 4)["Brokers"], "no brokers")


@suite.case("pipelined-requests-are-answered-in-order")
def _(probe):
    topic = probe.topic()
    with probe.connect(topic) as connection:
        frames, expected = [], []
        for i in range(300):
            api, version, body = [("Metadata", 4, {"Topics": []}), ("Produce", PRODUCE, produce_body(topic, SMALL)), ("ApiVersions", 0, {}),
                                  ("Fetch", FETCH, fetch_body([(topic, 0, 0)])), ("Metadata", 1, {"Topics": [{"Name": topic}]})][i % 5]
            frames.append(connection.frame(api, version, body))
            expected.append((api, version, connection.correlation))
        data = b"".join(frames)
        # In pieces that end inside lengths, headers and bodies.
        for at in range(0, len(data), 777):
            connection.send_bytes(data[at : at + 777])
        for api, version, correlation in expected:
            connection.receive(api, version, correlation)
    equal(probe.end(topic), 60, "end offset")


@suite.case("replies-before-a-bad-frame-arrive")
def _(probe):
    with probe.connect() as connection:
        connection.send_bytes(connection.frame("Metadata", 4, {"Topics": []}) + struct.pack(">i", -1))
        try:
            connection.receive("Metadata", 4)
        except Closed:
            true(probe.is_kafka, "closed before the reply to the good request")
        true(connection.is_closed(), "the connection stays open")


@suite.case("half-closed-connection-gets-its-replies")
def _(probe):
    with probe.connect() as connection:
        connection.send("Metadata", 4, {"Topics": []})
        connection.receive("Metadata", 4)
        connection.socket.shutdown(1)
        true(connection.is_closed(), "the connection stays open after the client's end")


@suite.case("connections-that-vanish")
def _(probe):
    data = framed(header(3, 4) + METADATA_V4)
    for cut in (0, 1, 4, 9, len(data)):
        connection = probe.connect()
        connection.socket.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER 0: a reset instead of an orderly end
        connection.send_bytes(data[:cut])
        connection.socket.close()


@suite.case("tagged-field-twice-in-a-header")
def _(probe):
    # Two unknown tags in the header, the first of 300 bytes: a varint of two bytes is a length like any other.
    tags = b"\x02" + b"\x63" + varint(300) + bytes(300) + b"\x64\x01x"
    with probe.connect() as connection:
        true(metadata_answers(connection, framed(header(3, 9) + tags + b"\x01\0\0\0\0"), 9)["Brokers"], "no brokers")
