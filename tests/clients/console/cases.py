"""The suite of Kafka's own command line tools (kafka-topics, console producer and consumer, and so on).

The console consumer runs with --partition where no group is meant: it then assigns by itself and asks for no coordinator.
"""
import json
import os
import re
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../raw"))
from connection import Cluster
from suite import Suite, equal, eventually, expected_brokers, true, unique

suite = Suite("console")
PARTITIONS = 2
TOOL = os.path.join(HERE, "../java/tool")


class Context:
    def __init__(self, options):
        self.bootstrap = options.bootstrap
        self.cluster = Cluster(options.bootstrap)
        self.topic = unique("console")

    def tool(self, name, *arguments, stdin=b"", fails=False):
        """Runs a tool; returns its output, standard error last."""
        done = subprocess.run([TOOL, name, "--bootstrap-server", self.bootstrap, *arguments], input=stdin, capture_output=True, timeout=60)
        text = done.stdout.decode() + done.stderr.decode()
        # Some tools exit 0 whatever happens, so an error is looked for in what they say as well.
        failed = done.returncode != 0 or "Exception" in text
        if failed != fails:
            raise AssertionError(f"kafka-{name} {' '.join(arguments)}: exit code {done.returncode}, {text[:400]}")
        return done.stdout.decode() if not fails else text

    def consume(self, topic, partition, count, *arguments, offset="earliest"):
        text = self.tool("console-consumer", "--topic", topic, "--partition", str(partition), "--offset", str(offset),
                         "--max-messages", str(count), "--timeout-ms", "20000", *arguments)
        return text.split("\n")[:-1]


@suite.case("topics-create")
def _(context):
    text = context.tool("topics", "--create", "--topic", context.topic, "--partitions", str(PARTITIONS), "--replication-factor", "1",
                        "--config", "retention.ms=7200000")
    equal(text.strip().split("\n")[-1], f"Created topic {context.topic}.", "output")


@suite.case("topics-list")
def _(context):
    true(context.topic in context.tool("topics", "--list").split("\n"), "the new topic is not listed")


@suite.case("topics-describe")
def _(context):
    text = context.tool("topics", "--describe", "--topic", context.topic)
    true(f"PartitionCount: {PARTITIONS}" in text and "ReplicationFactor: 1" in text, text)
    true("retention.ms=7200000" in text, f"the topic's config is not shown: {text}")
    leaders = re.findall(r"Partition: \d+\s+Leader: (\d+)\s+Replicas: (\d+)\s+Isr: (\d+)", text)
    equal(len(leaders), PARTITIONS, "partitions with a leader")
    for leader, replicas, isr in leaders:
        equal((replicas, isr), (leader, leader), "replicas and ISR")
    if expected_brokers():
        equal(len({row[0] for row in leaders}), expected_brokers(), "brokers that lead a partition")


@suite.case("configs-describe")
def _(context):
    text = context.tool("configs", "--describe", "--all", "--entity-type", "topics", "--entity-name", context.topic)
    true("retention.ms=7200000" in text and "cleanup.policy=delete" in text, text)


@suite.case("console-producer-consumer-keys-and-nulls")
def _(context):
    lines = "".join(f"k{i}\tvalue {i}\n" for i in range(40)) + "last\tNULL\n"
    context.tool("console-producer", "--topic", context.topic, "--reader-property", "parse.key=true", "--reader-property", "null.marker=NULL",
                 stdin=lines.encode())
    ends = dict(row.split(":")[1:] for row in context.tool("get-offsets", "--topic", context.topic).split())
    counts = {p: int(ends[str(p)]) for p in range(PARTITIONS)}
    equal(sum(counts.values()), 41, "records by kafka-get-offsets")
    got = []
    for partition, count in counts.items():
        if count:
            rows = context.consume(context.topic, partition, count, "--formatter-property", "print.key=true", "--formatter-property", "print.offset=true")
            equal([row.split("\t")[0] for row in rows], [f"Offset:{i}" for i in range(count)], f"offsets of partition {partition}")
            got += [tuple(row.split("\t")[1:]) for row in rows]
    equal(sorted(got), sorted([(f"k{i}", f"value {i}") for i in range(40)] + [("last", "null")]), "records")


# The codecs are those of kafka-clients, which the Java suite tries one by one.
for codec in ("gzip", "zstd"):
    @suite.case(f"console-producer-{codec}")
    def _(context, codec=codec):
        topic = context.cluster.create_topic(unique(f"console-{codec}"))
        lines = [f"line {i} " + "ü" * (i % 50) for i in range(500)]
        context.tool("console-producer", "--topic", topic, "--compression-codec", codec, "--command-property", "acks=all",
                     stdin="".join(line + "\n" for line in lines).encode())
        equal(context.consume(topic, 0, 500), lines, "lines")


@suite.case("console-consumer-from-an-offset")
def _(context):
    topic = context.cluster.create_topic(unique("console-offset"))
    context.tool("console-producer", "--topic", topic, "--command-property", "enable.idempotence=false", "--command-property", "acks=1",
                 stdin=b"".join(b"%d\n" % i for i in range(20)))
    equal(context.consume(topic, 0, 5, offset=15), [str(i) for i in range(15, 20)], "lines from offset 15")


@suite.case("broker-api-versions")
def _(context):
    text = context.tool("broker-api-versions")
    true("Produce(0): 0 to " in text and "Fetch(1): 4 to " in text, text[:300])
    if expected_brokers():
        equal(len(re.findall(r"\(id: \d+ rack", text)), expected_brokers(), "brokers")


@suite.case("log-dirs-describe")
def _(context):
    topic = context.cluster.create_topic(unique("console-dirs"), 2)
    context.tool("console-producer", "--topic", topic, stdin=b"one\n")
    text = context.tool("log-dirs", "--describe", "--topic-list", topic)
    found = json.loads(next(line for line in text.split("\n") if line.startswith("{")))
    dirs = [one for broker in found["brokers"] for one in broker["logDirs"]]
    equal({one["error"] for one in dirs}, {None}, "errors")
    rows = [row for one in dirs for row in one["partitions"]]
    equal(sorted(row["partition"] for row in rows), [f"{topic}-0", f"{topic}-1"], "partitions")
    true(sum(row["size"] for row in rows) > 60 and all(row["offsetLag"] == 0 and not row["isFuture"] for row in rows), str(rows))


@suite.case("errors-name-the-cause")
def _(context):
    for arguments, words in (
        (("--topic", "a b"), "a b"),
        (("--topic", unique("console"), "--config", "no.such.config=1"), "no.such.config"),
    ):
        text = context.tool("topics", "--create", *arguments, fails=True)
        true(words in text, f"{arguments}: {words!r} is not in: {text[:300]}")


@suite.case("topics-delete")
def _(context):
    context.tool("topics", "--delete", "--topic", context.topic)
    names = [topic["Name"] for topic in context.cluster.metadata()["Topics"]]
    true(context.topic not in names, "the topic is still listed")


@suite.case("groups-consume-describe-reset-delete")
def _(context):
    topic, group = context.cluster.create_topic(unique("console-group"), 2), unique("console-group")
    groups = lambda *arguments, **options: context.tool("consumer-groups", *arguments, **options)

    def consume(count):
        text = context.tool("console-consumer", "--topic", topic, "--group", group, "--max-messages", str(count), "--timeout-ms", "30000",
                            "--from-beginning")
        return sorted(text.split())

    context.tool("console-producer", "--topic", topic, stdin=b"".join(b"line%02d\n" % i for i in range(20)))
    equal(consume(20), [f"line{i:02d}" for i in range(20)], "the first time")
    text = groups("--describe", "--group", group)
    rows = [line.split() for line in text.split("\n") if line.startswith(group)]
    equal((sum(int(row[3]) for row in rows), {row[5] for row in rows}), (20, {"0"}), f"committed, and lag: {text}")
    true(re.search(rf"{group}\s+Empty|{group}.*Empty", groups("--list", "--state")), "the group is listed as empty")
    groups("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    equal(consume(20), [f"line{i:02d}" for i in range(20)], "after the reset")
    true("successful" in groups("--delete", "--group", group), "delete")
    true(group not in groups("--list"), "the group is gone")


def rebalances(context, *arguments):
    """Two Java consumers share four partitions; the first keeps what it may."""
    topic, group = context.cluster.create_topic(unique("console-group"), 4), unique("console-group")
    started = []

    def start():
        process = subprocess.Popen([TOOL, "verifiable-consumer", "--bootstrap-server", context.bootstrap, "--topic", topic, "--group-id", group,
                                    *arguments],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        events = []

        def read():
            for line in process.stdout:
                events.append(json.loads(line))

        threading.Thread(target=read, daemon=True).start()
        started.append((process, events))
        return events

    def held(events):
        """What it has by its own account."""
        parts = set()
        for event in events:
            if event["name"] == "partitions_assigned":
                parts |= {p["partition"] for p in event["partitions"]}
            if event["name"] == "partitions_revoked":
                parts -= {p["partition"] for p in event["partitions"]}
        return parts

    try:
        first = start()
        eventually(lambda: held(first) == {0, 1, 2, 3}, "the first has all", 60)
        second = start()
        eventually(lambda: len(held(first)) == 2 and held(first) | held(second) == {0, 1, 2, 3}, "two each", 60)
        revoked = [p["partition"] for event in first if event["name"] == "partitions_revoked" for p in event["partitions"]]
        equal(len(revoked), 2, "the first gave only away what the second got")
    finally:
        for process, _ in started:
            process.kill()
            process.wait()
    return group


@suite.case("groups-of-the-consumer-protocol")
def _(context):
    group = rebalances(context, "--group-protocol", "consumer")
    true(group in context.tool("groups", "--list", "--consumer"), "the group is listed")
    true(group in context.tool("consumer-groups", "--describe", "--members", "--group", group), "the group is described")


@suite.case("groups-of-java-consumers-rebalance-cooperatively")
def _(context):
    group = rebalances(context, "--assignment-strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor", "--session-timeout", "6000")
    # Both are gone without a word.
    eventually(lambda: "Empty" in context.tool("consumer-groups", "--describe", "--state", "--group", group), "the group is empty", 30)

if __name__ == "__main__":
    sys.exit(suite.main(Context))
