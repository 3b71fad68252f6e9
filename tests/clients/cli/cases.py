"""The suite of alluvium's own commands: what `produce` writes, kcat reads, and the other way round; `txn` on an open transaction.

The binary is the one that ALLUVIUM_BINARY names, or the newest of this tree's builds.
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../../..")
sys.path.insert(0, os.path.join(HERE, "../raw"))
from batch import batch
from connection import Cluster, Connection
from suite import Suite, equal, eventually, true, unique

suite = Suite("cli")
PARTITIONS = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def binary():
    if os.environ.get("ALLUVIUM_BINARY"):
        return os.environ["ALLUVIUM_BINARY"]
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    built = [path for path in (os.path.join(target, kind, "alluvium") for kind in ("debug", "release")) if os.path.exists(path)]
    if not built:
        raise OSError(f"no alluvium in {target}: build it, or name it in ALLUVIUM_BINARY")
    return max(built, key=os.path.getmtime)


class Context:
    def __init__(self, options):
        self.bootstrap, self.binary = options.bootstrap, binary()
        self.cluster = Cluster(options.bootstrap)

    def topic(self, prefix="cli", partitions=PARTITIONS):
        return self.cluster.create_topic(unique(prefix), partitions)

    def run(self, *command, stdin=b"", fails=False):
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=60)
        if (done.returncode != 0) != fails:
            raise AssertionError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.decode()[:400]}")
        return done.stderr.decode() if fails else done.stdout

    def kcat(self, *arguments, stdin=b""):
        return self.run("kcat", "-b", self.bootstrap, *arguments, stdin=stdin)

    def produce(self, topic, *arguments, stdin=b"", fails=False):
        return self.run(self.binary, "produce", topic, "--bootstrap", self.bootstrap, *arguments, stdin=stdin, fails=fails)

    def consume(self, topic, *arguments, fails=False):
        return self.run(self.binary, "consume", topic, "--bootstrap", self.bootstrap, "--exit-at-end", *arguments, fails=fails)

    def txn(self, *arguments):
        return self.run(self.binary, "txn", *arguments, "--bootstrap", self.bootstrap).decode()


for codec in CODECS:
    @suite.case(f"kcat-reads-what-is-produced-{codec}")
    def _(context, codec=codec):
        topic = context.topic()
        lines = [b"k%d:v%d:%s" % (i, i, b"abc" * (i % 50)) for i in range(2000)]
        context.produce(topic, "--key-separator", ":", "--partition", "1", "--compression", codec, "--batch-bytes", "20K", "--header", "h=1",
                        stdin=b"\n".join(lines) + b"\n")
        read = context.kcat("-C", "-t", topic, "-p", "1", "-o", "beginning", "-e", "-q", "-f", "%k:%s\n")
        equal(read.split(b"\n")[:-1], lines, "records")
        headers = context.kcat("-C", "-t", topic, "-p", "1", "-o", "beginning", "-e", "-q", "-f", "%h\n")
        equal(set(headers.split(b"\n")[:-1]), {b"h=1"}, "headers")

    @suite.case(f"kcat-writes-what-is-consumed-{codec}")
    def _(context, codec=codec):
        topic = context.topic()
        lines = [b"k%d:v%d:%s" % (i, i, b"abc" * (i % 50)) for i in range(2000)]
        context.kcat("-P", "-t", topic, "-p", "2", "-K", ":", "-z", codec, "-H", "a=b", stdin=b"\n".join(lines) + b"\n")
        read = context.consume(topic, "--format", "template", "--template", "%k:%v|%h|%o\\n")
        equal(read.split(b"\n")[:-1], [b"%s|a=b|%d" % (line, i) for i, line in enumerate(lines)], "records")
        report = json.loads(context.consume(topic, "--verify", "--output", "json"))
        equal((report["records"], report["problems"]), (2000, 0), "records and problems")


@suite.case("keys-go-where-the-java-client-puts-them")
def _(context):
    ours, theirs = context.topic(), context.topic()
    lines = b"".join(b"key-%d:x\n" % i for i in range(500))
    context.produce(ours, "--key-separator", ":", stdin=lines)
    context.kcat("-P", "-t", theirs, "-K", ":", "-X", "partitioner=murmur2_random", stdin=lines)
    pairs = [sorted(context.consume(topic, "--format", "template", "--template", "%p %k\\n").split(b"\n")) for topic in (ours, theirs)]
    equal(pairs[0], pairs[1], "partitions of keys")


@suite.case("json-there-and-back")
def _(context):
    old, new = context.topic(), context.topic()
    rows = [{"key": None if i % 5 == 0 else f"k{i}", "value": None if i % 7 == 0 else {"base64": "/wAB"} if i % 3 == 0 else f"tschüß {i}",
             "headers": [{"key": "a", "value": str(i)}, {"key": "a", "value": None}], "partition": i % PARTITIONS, "timestamp": 1000 + i}
            for i in range(100)]
    context.produce(old, "--format", "json", stdin="".join(json.dumps(row) + "\n" for row in rows).encode())
    copied = context.consume(old, "--format", "json")
    context.produce(new, "--format", "json", "--compression", "zstd", stdin=copied)

    def read(topic):
        got = [json.loads(line) for line in context.consume(topic, "--format", "json").split(b"\n")[:-1]]
        return sorted(({name: row[name] for name in ("key", "value", "headers", "partition", "timestamp")} for row in got), key=lambda row: row["timestamp"])
    equal(read(old), rows, "records written")
    equal(read(new), rows, "records copied")


@suite.case("ranges-and-counts")
def _(context):
    topic = context.topic()
    context.produce(topic, "--partition", "0", stdin=b"".join(b"%d\n" % i for i in range(50)))
    for arguments, want in ((("--offset", "47"), [47, 48, 49]), (("--offset", "-2"), [48, 49]), (("--offset", "latest"), []),
                            (("--offset", "10", "--count", "3"), [10, 11, 12])):
        equal(context.consume(topic, "--partition", "0", *arguments).split(b"\n")[:-1], [b"%d" % i for i in want], " ".join(arguments))
    error = context.consume(topic, "--partition", "0", "--offset", "51", fails=True)
    true("0 to 50" in error, error)


@suite.case("mistakes-are-sentences")
def _(context):
    topic = context.topic()
    true("there is no topic" in context.produce(unique("none"), stdin=b"x\n", fails=True), "an unknown topic")
    true("has 3" in context.produce(topic, "--partition", "9", stdin=b"x\n", fails=True), "an unknown partition")
    error = context.produce(topic, "--format", "json", stdin=b'{"value":"a"}\n{"valeu":"b"}\n', fails=True)
    true("line 2" in error and "valeu" in error, error)
    equal(context.consume(topic), b"a\n", "what came before the mistake")


@suite.case("an-open-transaction-is-listed-described-and-aborted")
def _(context):
    topic, id_ = context.topic(), unique("cli-txn")
    context.produce(topic, "--partition", "1", stdin=b"before\n")
    with Connection(context.cluster.coordinator(id_, 1)) as coordinator, Connection(context.cluster.leader(topic, 1)) as leader:
        begun = {}

        def is_begun():
            begun.update(coordinator.call("InitProducerId", 4, {"TransactionalId": id_, "TransactionTimeoutMs": 60000, "ProducerId": -1, "ProducerEpoch": -1}))
            return begun["ErrorCode"] == 0

        eventually(is_begun, "the coordinator is loaded")
        added = {"V3AndBelowTransactionalId": id_, "V3AndBelowProducerId": begun["ProducerId"], "V3AndBelowProducerEpoch": begun["ProducerEpoch"],
                 "V3AndBelowTopics": [{"Name": topic, "Partitions": [1]}]}
        coordinator.call("AddPartitionsToTxn", 3, added)
        records = batch([b"open"], attributes=16, producer_id=begun["ProducerId"], producer_epoch=begun["ProducerEpoch"], sequence=0)
        reply = leader.call("Produce", 9, {"TransactionalId": id_, "Acks": -1, "TimeoutMs": 10000,
                                           "TopicData": [{"Name": topic, "PartitionData": [{"Index": 1, "Records": records}]}]})
        equal(reply["Responses"][0]["PartitionResponses"][0]["ErrorCode"], 0, "Produce")

        def ends():
            body = {"MaxWaitMs": 0, "MinBytes": 0, "MaxBytes": 1 << 20, "IsolationLevel": 1, "SessionEpoch": -1,
                    "Topics": [{"Topic": topic, "Partitions": [{"Partition": 1, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20}]}]}
            row = leader.call("Fetch", 12, body)["Responses"][0]["Partitions"][0]
            return row["LastStableOffset"], row["HighWatermark"]

        def begins():
            rows = json.loads(context.txn("describe", "--topic", topic, "--output", "json"))
            return [row["transaction_start_offset"] for row in rows if row["transaction_start_offset"] is not None]

        equal(ends(), (1, 2), "last stable offset and high watermark while it is open")
        true(id_ in context.txn("list", "--state", "Ongoing"), "it is listed")
        true(topic in context.txn("describe", id_), "its partitions are told")
        equal(begins(), [1], "where it begins")
        context.txn("abort", "--topic", topic, "--partition", "1", "--start-offset", "1")
        equal(ends(), (3, 3), "last stable offset and high watermark when it is aborted")
        equal(begins(), [], "what is open")
        error = context.run(context.binary, "txn", "abort", "--topic", topic, "--partition", "1", "--start-offset", "1", "--bootstrap", context.bootstrap, fails=True)
        true("no transaction is open" in error, error)


if __name__ == "__main__":
    sys.exit(suite.main(Context))
