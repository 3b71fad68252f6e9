"""The kcat suite (librdkafka): writes with every codec, reads back and compares byte by byte.

kcat has no admin commands, so topics are made over a raw connection.
"""
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../raw"))
from connection import Cluster
from suite import Suite, equal, eventually, expected_brokers, true, unique

suite = Suite("kcat")
PARTITIONS = 4
FORMAT = "%p\x1f%o\x1f%T\x1f%K\x1f%S\x1f%h\x1f%k\x1f%s\x1e"


class Context:
    def __init__(self, options):
        self.bootstrap = options.bootstrap
        self.cluster = Cluster(options.bootstrap)

    def topic(self, prefix="kcat", partitions=PARTITIONS, **configs):
        return self.cluster.create_topic(unique(prefix), partitions, **configs)

    def kcat(self, *arguments, stdin=b"", fails=False):
        done = subprocess.run(["kcat", "-b", self.bootstrap, *arguments], input=stdin, capture_output=True, timeout=60)
        if (done.returncode != 0) != fails:
            raise AssertionError(f"kcat {' '.join(arguments)}: exit code {done.returncode}: {done.stderr.decode()[:400]}")
        return done.stderr.decode() if fails else done.stdout

    def produce(self, topic, partition, lines, *arguments):
        self.kcat("-P", "-t", topic, "-p", str(partition), *arguments, stdin=b"".join(line + b"\n" for line in lines))

    def read(self, topic, partition, *arguments, offset="beginning"):
        """Each record as a dictionary, to the end of the partition."""
        raw = self.kcat("-C", "-t", topic, "-p", str(partition), "-o", str(offset), "-e", "-q", "-f", FORMAT, "-X", "fetch.wait.max.ms=20", *arguments)
        rows = []
        for part in raw.split(b"\x1e")[:-1]:
            partition_, offset_, timestamp, key_bytes, value_bytes, headers, key, value = part.split(b"\x1f", 7)
            rows.append(dict(partition=int(partition_), offset=int(offset_), timestamp_ms=int(timestamp), headers=headers.decode(),
                             key=None if int(key_bytes) < 0 else key, value=None if int(value_bytes) < 0 else value))
        return rows


@suite.case("metadata")
def _(context):
    topic = context.topic()
    found = json.loads(context.kcat("-L", "-J", "-t", topic))
    rows = found["topics"][0]["partitions"]
    equal(sorted(row["partition"] for row in rows), list(range(PARTITIONS)), "partitions")
    ids = {broker["id"] for broker in found["brokers"]}
    true({row["leader"] for row in rows} <= ids, f"leaders {rows} are not among {ids}")
    true(found["controllerid"] in ids, f"controller {found['controllerid']} is not among {ids}")
    if expected_brokers():
        equal(len(ids), expected_brokers(), "brokers")
        equal(len({row["leader"] for row in rows}), expected_brokers(), "brokers that lead a partition")


for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
    @suite.case(f"produce-{codec}-reads-back")
    def _(context, codec=codec):
        topic = context.topic(f"kcat-{codec}")
        for partition in range(PARTITIONS):
            lines = [b"k%d:%d:%s" % (i, partition, b"abc" * (i % 200)) for i in range(500)]
            before_ms = int(time.time() * 1000)
            context.produce(topic, partition, lines, "-K", ":", "-z", codec)
            rows = context.read(topic, partition)
            equal([(r["key"], r["value"]) for r in rows], [tuple(line.split(b":", 1)) for line in lines], f"records of partition {partition}")
            equal([r["offset"] for r in rows], list(range(500)), "offsets")
            true(all(before_ms <= r["timestamp_ms"] <= int(time.time() * 1000) for r in rows), "timestamps are not those of the client")


for name, options in (("acks-0", ["acks=0"]), ("acks-1", ["acks=1"]), ("acks-all", ["acks=all"]),
                      ("idempotent-many-batches-in-flight", ["enable.idempotence=true", "linger.ms=0", "batch.num.messages=7"])):
    @suite.case(name)
    def _(context, name=name, options=options):
        topic, lines = context.topic(), [b"%d" % i for i in range(3000)]
        context.produce(topic, 1, lines, *[word for option in options for word in ("-X", option)])
        if name == "acks-0":
            # Nobody tells a client when the last of them has been taken in.
            eventually(lambda: len(context.read(topic, 1)) >= len(lines), f"{len(lines)} records")
        equal([r["value"] for r in context.read(topic, 1)], lines, "values")


@suite.case("headers-repeated-keys")
def _(context):
    topic = context.topic()
    context.produce(topic, 0, [b"x"], "-H", "h=1", "-H", "h=2", "-H", "empty=", "-H", "other=3")
    equal(context.read(topic, 0)[0]["headers"], "h=1,h=2,empty=,other=3", "headers")


@suite.case("null-and-empty-keys-and-values")
def _(context):
    topic = context.topic()
    context.produce(topic, 0, [b"key:value", b"key:", b":value"], "-K", ":", "-Z")
    equal([(r["key"], r["value"]) for r in context.read(topic, 0)], [(b"key", b"value"), (b"key", None), (None, b"value")], "with -Z")
    context.produce(topic, 1, [b"key:", b":value"], "-K", ":")
    equal([(r["key"], r["value"]) for r in context.read(topic, 1)], [(b"key", b""), (b"", b"value")], "without -Z")


@suite.case("large-record-900-kb")
def _(context):
    topic, value = context.topic(), bytes(33 + i * 7 % 90 for i in range(900_000))
    context.produce(topic, 0, [value])
    equal(context.read(topic, 0)[0]["value"] == value, True, "the value came back")
    # A fetch whose limits are below the record brings it whole all the same.
    limits = ["-X", "fetch.message.max.bytes=1000", "-X", "message.max.bytes=1000000"]
    equal(context.read(topic, 0, *limits)[0]["value"] == value, True, "the value came back under small limits")


@suite.case("many-small-records")
def _(context):
    topic, lines = context.topic(), [b"%d" % i for i in range(100_000)]
    context.produce(topic, 2, lines)
    equal([r["value"] for r in context.read(topic, 2)] == lines, True, "all values came back in order")


@suite.case("offsets-and-seek")
def _(context):
    topic = context.topic()
    context.produce(topic, 0, [b"%d" % i for i in range(50)])
    ends = context.kcat("-Q", "-t", f"{topic}:0:-1", "-t", f"{topic}:1:-1").decode()
    equal(sorted(re.findall(r"\[(\d)\] offset (\d+)", ends)), [("0", "50"), ("1", "0")], "latest offsets")
    begins = context.kcat("-Q", "-t", f"{topic}:0:-2").decode()
    equal(re.findall(r"\[(\d)\] offset (\d+)", begins), [("0", "0")], "earliest offset")
    equal([r["offset"] for r in context.read(topic, 0, offset=47)], [47, 48, 49], "from offset 47")
    equal([r["offset"] for r in context.read(topic, 0, offset=-3)], [47, 48, 49], "the last three")


@suite.case("long-poll-wakes-on-produce")
def _(context):
    topic = context.topic()
    reader = subprocess.Popen(["kcat", "-b", context.bootstrap, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-c", "1", "-q",
                               "-X", "fetch.wait.max.ms=10000", "-X", "socket.timeout.ms=20000"], stdout=subprocess.PIPE)
    try:
        time.sleep(1)  # the reader's fetch now waits at the server
        began = time.monotonic()
        context.produce(topic, 0, [b"wake"])
        equal(reader.communicate(timeout=15)[0], b"wake\n", "what was read")
        woken_s = time.monotonic() - began
        true(woken_s < 3, f"the record came after {woken_s:.2f} s, the wait is 10 s")
    finally:
        reader.kill()
        reader.wait()


@suite.case("error-unknown-topic-and-partition")
def _(context):
    # librdkafka believes in a missing topic only after the propagation time. A consumer's question creates none.
    soon = ["-X", "topic.message.timeout.ms=5000", "-X", "topic.metadata.propagation.max.ms=300"]
    text = context.kcat("-C", "-t", unique("missing"), "-p", "0", "-e", *soon, fails=True)
    true("nknown topic" in text, f"missing topic: {text[:300]}")
    text = context.kcat("-P", "-t", context.topic(), "-p", "9", *soon, stdin=b"x\n", fails=True)
    true("nknown partition" in text, f"missing partition: {text[:300]}")


@suite.case("error-record-too-large")
def _(context):
    topic = context.topic(max_message_bytes=1000)
    text = context.kcat("-P", "-t", topic, "-p", "0", stdin=b"x" * 2000, fails=True)
    true("too large" in text, f"answer: {text[:300]}")


def members(context, group, topic, count, *arguments):
    """Consumers of one group, each with its lines of output; ended with `stop`."""
    started = []
    for _ in range(count):
        started.append(subprocess.Popen(["kcat", "-b", context.bootstrap, "-G", group, topic, "-q", "-u", "-f", "%p:%s\n",
                                         "-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000",
                                         "-X", "heartbeat.interval.ms=300", "-X", "fetch.wait.max.ms=50", *arguments],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
    return started


def lines_of(process, into):
    import threading

    def read():
        for line in process.stdout:
            into.append(line.rstrip(b"\n"))

    threading.Thread(target=read, daemon=True).start()
    return into


@suite.case("group-of-two-shares-the-work-and-goes-on-when-one-is-killed")
def _(context):
    topic, group = context.topic(), unique("kcat-group")
    first, second = members(context, group, topic, 2)
    read = [lines_of(first, []), lines_of(second, [])]

    def write(round_):
        for partition in range(PARTITIONS):
            context.produce(topic, partition, [b"%d-%d-%d" % (round_, partition, i) for i in range(20)])

    def wait_for(round_, within_s=30.0):
        wanted = {b"%d:%d-%d-%d" % (p, round_, p, i) for p in range(PARTITIONS) for i in range(20)}
        eventually(lambda: wanted <= set(read[0] + read[1]), f"round {round_} is read", within_s)

    try:
        write(0)
        wait_for(0)
        partitions = lambda lines, round_: {line.split(b":")[0] for line in lines if line.split(b":")[1].startswith(b"%d-" % round_)}
        # Both are in by the time that a round is read by both.
        for round_ in range(1, 20):
            write(round_)
            wait_for(round_)
            if partitions(read[0], round_) and partitions(read[1], round_):
                break
        equal([len(partitions(lines, round_)) for lines in read], [2, 2], "partitions of each")
        second.kill()
        second.wait()
        write(50)
        wait_for(50)
    finally:
        for process in (first, second):
            process.kill()
            process.wait()


@suite.case("group-resumes-where-it-stopped")
def _(context):
    topic, group = context.topic(partitions=1), unique("kcat-group")
    read = lambda count: context.kcat("-G", group, topic, "-c", str(count), "-q", "-X", "auto.offset.reset=earliest")
    context.produce(topic, 0, [b"a%d" % i for i in range(30)])
    equal(read(30).split(), [b"a%d" % i for i in range(30)], "the first time")
    context.produce(topic, 0, [b"b%d" % i for i in range(10)])
    equal(read(10).split(), [b"b%d" % i for i in range(10)], "only what is new")

if __name__ == "__main__":
    sys.exit(suite.main(Context))
