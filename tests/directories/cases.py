"""Kafka's directories in alluvium (tests/golden/log-*, written by generate.py), and alluvium's in Kafka (C062).

No server takes another's catalog: the topic is made first, the server stopped, and the partition's files put in place of the new
ones; `partition.metadata`, which has the topic's id, stays.
"""
import argparse
import glob
import json
import os
import re
import shutil
import struct
import sys
import tempfile
import time

from servers import ROOT, Alluvium, Kafka, dump, tool
from batch import HEADER_BYTES, batches, batch, crc32c, now_ms, record
from connection import Connection
from schema import Reader
from suite import Suite, equal, true
from world import CODECS, compress, decompress
from generate import STATES_OF_TRANSACTIONS, TOPICS, Transactional, fetch_committed, produce, records, state_of_transactions

suite = Suite("directories")
GOLDEN = os.path.join(ROOT, "tests/golden")
# Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of the transaction.
SNAPSHOT_ENTRY = ">qhiqiqiq"
LINE = re.compile(r"\| offset: (\d+) (?:CreateTime|LogAppendTime): (-?\d+) keySize: (-?\d+) valueSize: (-?\d+)(?: sequence: (-?\d+))? headerKeys: \[(.*?)\](?: key: (.*?))?(?: payload: (.*))?$")
COMPLAINTS = re.compile(r"mismatch|corrupt|non-?consecutive|invalid|exception|error|not valid|out.of.order|is followed by", re.I)
# The tool says this of the first record of every segment but the first, also of Kafka's own (tests/golden/log-rolled/dump.txt).
OF_EVERY_SEGMENT = re.compile(r"^Non-consecutive offsets in .*\n  -1 is followed by \d+\n", re.M)


def complaints(text):
    return [line for line in OF_EVERY_SEGMENT.sub("", text).splitlines() if COMPLAINTS.search(line)]


def dumped(topic):
    """(offset, timestamp, key, value, names of headers) of each record, as Kafka's tool says."""
    rows = []
    with open(os.path.join(GOLDEN, topic, "dump.txt")) as lines:
        for line in lines:
            found = LINE.match(line.rstrip("\n"))
            if found:
                offset, timestamp, key_bytes, value_bytes, _, headers, key, value = found.groups()
                rows.append((int(offset), int(timestamp), key if int(key_bytes) >= 0 else None, value if int(value_bytes) >= 0 else None, headers))
    true(len(rows) > 20, f"the dump of {topic} has {len(rows)} records")
    return rows


def records_of(one):
    """The same of a fetched batch."""
    reader, rows = Reader(decompress(CODECS[one["attributes"] & 7], one["raw"][HEADER_BYTES:])), []

    def sized():
        size = reader.signed_varint()
        return None if size < 0 else bytes(reader.take(size)).decode()
    for _ in range(one["count"]):
        reader.signed_varint(), reader.take(1)
        timestamp, offset = one["first_timestamp_ms"] + reader.signed_varint(), one["base_offset"] + reader.signed_varint()
        key, value, headers = sized(), sized(), []
        for _ in range(reader.signed_varint()):
            headers.append(sized())
            sized()
        if one["attributes"] & 8:
            timestamp = one["max_timestamp_ms"]
        rows.append((offset, timestamp, key, value, ",".join(headers)))
    return rows


def served(cluster, topic, first=0):
    """All batches from an offset on."""
    out, offset = [], first
    with Connection(cluster.leader(topic)) as connection:
        while True:
            row = {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20}
            body = {"MaxWaitMs": 0, "MinBytes": 0, "MaxBytes": 1 << 20, "Topics": [{"Topic": topic, "Partitions": [row]}], "SessionEpoch": -1}
            reply = connection.call("Fetch", 12, body)["Responses"][0]["Partitions"][0]
            equal(reply["ErrorCode"], 0, f"fetch of {topic} from {offset}")
            found = batches(reply["Records"])
            if not found:
                equal(offset, reply["HighWatermark"], f"{topic}: where the fetches end")
                return out
            out += found
            offset = found[-1]["last_offset"] + 1


def put_in_place(source, target):
    """The partition's files at `target` become those of `source`; the topic's id stays."""
    for name in os.listdir(target):
        if name != "partition.metadata":
            os.remove(os.path.join(target, name))
    for name in os.listdir(source):
        if name != "partition.metadata":
            shutil.copy(os.path.join(source, name), target)


def write_of_today(folder):
    """The producers of the snapshots in `folder` have written just now: a day later they would be forgotten, as they are in Kafka."""
    for path in glob.glob(os.path.join(folder, "*.snapshot")):
        with open(path, "rb") as snapshot:
            head, entries = snapshot.read(10), snapshot.read()
        size = struct.calcsize(SNAPSHOT_ENTRY)
        rows = [struct.unpack_from(SNAPSHOT_ENTRY, entries, at) for at in range(0, len(entries), size)]
        entries = b"".join(struct.pack(SNAPSHOT_ENTRY, *row[:5], now_ms(), *row[6:]) for row in rows)
        body = head[6:] + entries
        with open(path, "wb") as snapshot:
            snapshot.write(head[:2] + struct.pack(">I", crc32c(body)) + body)


class Context:
    def __init__(self, options):
        self.folder = tempfile.mkdtemp(prefix="alluvium-directories-")
        self.binary, self.port = options.bootstrap, options.port
        self.opened = None

    def golden(self):
        """A server with all golden directories, which is started once."""
        if self.opened is None:
            server = Alluvium(self.binary, self.port, os.path.join(self.folder, "golden"))
            cluster = server.start()
            for topic in TOPICS:
                cluster.create_topic(topic)
            server.stop()
            for topic in TOPICS:
                put_in_place(os.path.join(GOLDEN, topic, f"{topic}-0"), os.path.join(server.folder, f"{topic}-0"))
                write_of_today(os.path.join(server.folder, f"{topic}-0"))
            # Nothing is known of these files: they are looked through as after a crash.
            os.remove(os.path.join(server.folder, ".kafka_cleanshutdown"))
            # The records get older each day.
            server.start("log.retention.ms=-1")
            self.opened = server
        return self.opened

    def close(self):
        if self.opened:
            self.opened.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def opens(topic):
    @suite.case(f"opens-{topic}")
    def _(context):
        cluster = context.golden().cluster
        want = dumped(topic)
        first = want[0][0] if topic != "log-records-deleted" else 22
        found = served(cluster, topic, first)
        true(all(one["crc_fits"] for one in found), "a CRC does not fit")
        # Markers are no records to the dump tool.
        got = [row for one in found if not one["attributes"] & 32 for row in records_of(one)]
        want = [row for row in want if row[0] >= got[0][0]]
        true(got[0][0] <= first, f"the first offset is {got[0][0]}")
        equal(len(got), len(want), "records")
        for ours, kafkas in zip(got, want):
            equal(ours, kafkas, f"record {kafkas[0]}")


for name in TOPICS:
    opens(name)


@suite.case("opened-directories-go-on")
def _(context):
    # A producer of before goes on where it was, and its last batch is known.
    cluster = context.golden().cluster
    with Connection(cluster.leader("log-idempotent")) as connection:
        def send(sequence, count=4):
            data = batch([b"v"] * count, producer_id=7001, producer_epoch=1, sequence=sequence, timestamp_ms=now_ms())
            body = {"Acks": -1, "TimeoutMs": 10000, "TopicData": [{"Name": "log-idempotent", "PartitionData": [{"Index": 0, "Records": data}]}]}
            row = connection.call("Produce", 9, body)["Responses"][0]["PartitionResponses"][0]
            return row["ErrorCode"], row["BaseOffset"]
        equal(send(12), (0, 40), "the last batch again")
        equal(send(17)[0], 45, "a gap")
        equal(send(16), (0, 48), "the next batch")


@suite.case("read-committed-is-told-what-kafka-told")
def _(context):
    # Last stable offset, aborted transactions and batches, from each offset of a log with open, committed and aborted ones.
    cluster = context.golden().cluster
    with open(os.path.join(GOLDEN, "log-transactions/fetched.json")) as golden, Connection(cluster.leader("log-transactions")) as connection:
        told = json.load(golden)
        true(any(row["aborted"] for row in told.values()), "Kafka told of aborted transactions")
        true(any(row["last_stable_offset"] < row["high_watermark"] for row in told.values()), "one is open")
        for offset, want in told.items():
            equal(fetch_committed(connection, "log-transactions", int(offset)), want, f"from offset {offset}")


@suite.case("kafka-transactions-finds-and-aborts-a-hanging-transaction")
def _(context):
    # One is open in this log of Kafka's, and no coordinator here knows of it: readers would be held back for ever.
    server = context.golden()
    topic = ("--topic", "log-transactions")

    def ask(*words):
        text = tool("kafka-transactions", "--bootstrap-server", f"127.0.0.1:{server.port}", *words)
        return [line.split() for line in text.splitlines() if line.startswith("log-transactions")]
    found = ask("find-hanging", *topic)
    equal([row[:4] for row in found], [["log-transactions", "0", "2", "0"]], "topic, partition, producer id and epoch")
    start = found[0][5]
    equal(start, "76", "its first offset, which is the last stable one")
    ask("abort", *topic, "--partition", "0", "--start-offset", start)
    equal(ask("find-hanging", *topic), [], "after the abort")
    with Connection(server.cluster.leader("log-transactions")) as connection:
        told = fetch_committed(connection, "log-transactions", 76)
    equal((told["last_stable_offset"], [2, 76] in told["aborted"]), (told["high_watermark"], True), "readers go on")


WRITTEN = {"files-mixed": {}, "files-rolled": {"segment_bytes": 1048576, "index_interval_bytes": 1000}, "files-idempotent": {}}


def write(cluster):
    """Batches of all codecs, segments of 1 MiB, producers in turn. Returns topic -> batches as served."""
    for topic, configs in WRITTEN.items():
        cluster.create_topic(topic, 1, **configs)
    number = 0

    def send(connection, topic, count, codec="none", filler=0, **producer):
        nonlocal number
        number += 1
        first_ms = now_ms() - 600_000 + number * 10
        body = records(number * 10, count) if not filler else None
        fields = dict(records=compress(codec, body), attributes=CODECS.index(codec), max_timestamp_ms=first_ms + (count - 1) * 3) if body else {}
        data = batch([bytes(filler)] * count, timestamp_ms=first_ms, **fields, **producer)
        request = {"Acks": -1, "TimeoutMs": 10000, "TopicData": [{"Name": topic, "PartitionData": [{"Index": 0, "Records": data}]}]}
        equal(connection.call("Produce", 9, request)["Responses"][0]["PartitionResponses"][0]["ErrorCode"], 0, "produce")
    for topic in WRITTEN:
        with Connection(cluster.leader(topic)) as connection:
            for at in range(250):
                if topic == "files-mixed":
                    send(connection, topic, 1 + at % 9, CODECS[at % 5])
                elif topic == "files-rolled":
                    send(connection, topic, 2, filler=6000)
                else:
                    send(connection, topic, 2, producer_id=7000 + at % 3, producer_epoch=at % 3, sequence=at // 3 * 2)
    return {topic: served(cluster, topic) for topic in WRITTEN}


@suite.case("C062-kafka-reads-our-directories")
def _(context):
    ours = Alluvium(context.binary, context.port + 1, os.path.join(context.folder, "ours"))
    want = write(ours.start())
    ours.stop()
    files = [name for topic in WRITTEN for name in sorted(glob.glob(os.path.join(ours.folder, f"{topic}-0", "*.*")))]
    logs, indexes = [name for name in files if name.endswith(".log")], [name for name in files if name.endswith(("index",))]
    true(len(logs) >= 5, f"{len(logs)} segments")
    text = dump(logs + indexes, "--deep-iteration", "--index-sanity-check")
    equal(complaints(text), [], "kafka-dump-log --index-sanity-check")
    equal(text.count("passed sanity check"), len(indexes), "indexes that passed")
    text = dump(indexes, "--verify-index-only")
    equal(complaints(text), [], "kafka-dump-log --verify-index-only")
    kafka = Kafka(context.port + 2, os.path.join(context.folder, "kafka"))
    try:
        cluster = kafka.start()
        for topic, configs in WRITTEN.items():
            cluster.create_topic(topic, 1, **configs)
        kafka.stop()
        for topic in WRITTEN:
            put_in_place(os.path.join(ours.folder, f"{topic}-0"), os.path.join(kafka.logs, f"{topic}-0"))
        cluster = kafka.start()
        for topic in WRITTEN:
            cluster.wait_until_served(topic, 1)
            got = served(cluster, topic)
            equal([one["base_offset"] for one in got], [one["base_offset"] for one in want[topic]], f"{topic}: base offsets")
            true([one["raw"] for one in got] == [one["raw"] for one in want[topic]], f"{topic}: bytes differ")
        with Connection(cluster.leader("files-idempotent")) as connection:
            data = batch([b"v"] * 2, producer_id=7000, producer_epoch=0, sequence=168, timestamp_ms=now_ms())
            body = {"Acks": -1, "TimeoutMs": 10000, "TopicData": [{"Name": "files-idempotent", "PartitionData": [{"Index": 0, "Records": data}]}]}
            row = connection.call("Produce", 9, body)["Responses"][0]["PartitionResponses"][0]
            equal((row["ErrorCode"], row["BaseOffset"]), (0, 500), "a producer goes on")
        with open(os.path.join(kafka.folder, "server.log")) as log:
            bad = [line for line in log if any(topic in line for topic in WRITTEN) and re.search("WARN|ERROR", line)]
        equal(bad, [], "what Kafka complains of")
    finally:
        kafka.stop()


@suite.case("kafka-decodes-our-offsets-and-groups")
def _(context):
    ours = Alluvium(context.binary, context.port + 1, os.path.join(context.folder, "ours-groups"))
    cluster = ours.start()
    cluster.create_topic("read", 2)
    with cluster.connect() as connection:
        rows = connection.call("FindCoordinator", 4, {"CoordinatorKeys": ["classic", "modern"]})["Coordinators"]
    at = {row["Key"]: (row["Host"], row["Port"]) for row in rows}
    with Connection(at["classic"]) as connection:
        join = {"GroupId": "classic", "SessionTimeoutMs": 10000, "RebalanceTimeoutMs": 10000, "MemberId": "", "ProtocolType": "consumer",
                "GroupInstanceId": "instance", "Protocols": [{"Name": "range", "Metadata": b"\0\0\0\0\0\1\0\4read\xff\xff\xff\xff"}]}
        joined = connection.call("JoinGroup", 9, join)
        member = joined["MemberId"]
        sync = {"GroupId": "classic", "GenerationId": 1, "MemberId": member, "GroupInstanceId": "instance", "ProtocolType": "consumer", "ProtocolName": "range",
                "Assignments": [{"MemberId": member, "Assignment": b"\0\0\0\0\0\1\0\4read\0\0\0\1\0\0\0\0\xff\xff\xff\xff"}]}
        equal(connection.call("SyncGroup", 5, sync)["ErrorCode"], 0, "sync")
        part = {"PartitionIndex": 1, "CommittedOffset": 77, "CommittedMetadata": "here", "CommittedLeaderEpoch": 3}
        commit = {"GroupId": "classic", "GenerationIdOrMemberEpoch": 1, "MemberId": member, "GroupInstanceId": "instance", "Topics": [{"Name": "read", "Partitions": [part]}]}
        equal(connection.call("OffsetCommit", 8, commit)["Topics"][0]["Partitions"][0]["ErrorCode"], 0, "commit")
    with Connection(at["modern"]) as connection:
        beat = {"GroupId": "modern", "MemberId": "m", "MemberEpoch": 0, "InstanceId": None, "RackId": None, "RebalanceTimeoutMs": 30000,
                "SubscribedTopicNames": ["read"], "SubscribedTopicRegex": None, "ServerAssignor": "range", "TopicPartitions": []}
        equal(connection.call("ConsumerGroupHeartbeat", 1, beat)["ErrorCode"], 0, "heartbeat")
    ours.stop()
    logs = [name for name in glob.glob(os.path.join(ours.folder, "__consumer_offsets-*", "*.log")) if os.path.getsize(name)]
    text = dump(logs, "--offsets-decoder", "--deep-iteration")
    equal(complaints(text), [], "kafka-dump-log --offsets-decoder")
    for part in ('"type":"1","data":{"group":"classic","topic":"read","partition":1}', '"offset":77,"leaderEpoch":3,"metadata":"here"',
                 '"type":"2","data":{"group":"classic"}', '"groupInstanceId":"instance"', '"type":"3","data":{"groupId":"modern"}',
                 '"type":"5","data":{"groupId":"modern","memberId":"m"}', '"subscribedTopicNames":["read"]', '"type":"6"', '"type":"7"', '"type":"8"'):
        true(part in text, f"{part} is not in the dump: {text[:2000]}")


@suite.case("kafka-decodes-our-transactions")
def _(context):
    ours = Alluvium(context.binary, context.port + 1, os.path.join(context.folder, "ours-transactions"))
    cluster = ours.start()
    cluster.create_topic("written", 2)
    with cluster.connect() as connection:
        state_of_transactions(connection, "written")
    ours.stop()
    logs = [name for name in glob.glob(os.path.join(ours.folder, "__transaction_state-*", "*.log")) if os.path.getsize(name)]
    text = dump(logs, "--transaction-log-decoder", "--deep-iteration")
    equal(complaints(text), [], "kafka-dump-log --transaction-log-decoder")
    states = {}
    for name, value in re.findall(r'"transactionalId":"([^"]+)"}}.*? payload: (.*)$', text, re.M):
        data = json.loads(value)["data"]
        states.setdefault(name, []).append((data["transactionStatus"], data["producerEpoch"]))
    equal(states, STATES_OF_TRANSACTIONS, "status and epoch in each record")


COMPACTED = {
    "compact-plain": {"delete.retention.ms": 86400000},
    "compact-brief": {"delete.retention.ms": 100},
    "compact-grouped": {"delete.retention.ms": 100, "segment.index.bytes": 10485760},
}


class Transactions:
    """Two transactional producers."""

    def __init__(self, cluster):
        self.connection = cluster.connect()
        self.ids = {}
        for name in ("commits-first", "aborts-first"):
            self.until_ready(lambda: self.connection.call("FindCoordinator", 2, {"Key": name, "KeyType": 1}))
            body = {"TransactionalId": name, "TransactionTimeoutMs": 60000, "ProducerId": -1, "ProducerEpoch": -1}
            self.ids[self.until_ready(lambda: self.connection.call("InitProducerId", 3, body))["ProducerId"]] = name

    def until_ready(self, ask):
        while True:
            reply = ask()
            # Not there yet, loading, or the last transaction is still being completed.
            if reply["ErrorCode"] not in (14, 15, 16, 51):
                equal(reply["ErrorCode"], 0, "the coordinator")
                return reply
            time.sleep(0.02)

    def begin(self, producer_id, topic):
        def ask():
            body = {"V3AndBelowTransactionalId": self.ids[producer_id], "V3AndBelowProducerId": producer_id, "V3AndBelowProducerEpoch": 0,
                    "V3AndBelowTopics": [{"Name": topic, "Partitions": [0]}]}
            reply = self.connection.call("AddPartitionsToTxn", 3, body)
            return {"ErrorCode": reply["ResultsByTopicV3AndBelow"][0]["ResultsByPartition"][0]["PartitionErrorCode"]}
        self.until_ready(ask)
        return self.ids[producer_id]

    def end(self, producer_id, commits):
        body = {"TransactionalId": self.ids[producer_id], "ProducerId": producer_id, "ProducerEpoch": 0, "Committed": commits}
        return self.until_ready(lambda: self.connection.call("EndTxn", 3, body))["ErrorCode"]


def compacted(cluster, base_ms):
    """The same dirty log for either server: codecs, tombstones, idempotent producers, transactions of both ends."""
    transactions = Transactions(cluster)
    producer_ids = sorted(transactions.ids)

    def send(connection, topic, number, keys, codec="none", attributes=0, **producer):
        first_ms = base_ms + number * 4000
        body = b"".join(record(at, None if (number + at) % 6 == 5 else b"value %d.%d %s" % (number, at, b"x" * (number * 29 % 300)),
                               b"key %d" % key, [("trace", b"t")] if at % 2 else (), timestamp_delta=at) for at, key in enumerate(keys))
        data = batch([b""] * len(keys), records=compress(codec, body), attributes=CODECS.index(codec) | attributes, timestamp_ms=first_ms,
                     max_timestamp_ms=first_ms + len(keys) - 1, **producer)
        name = None
        if attributes & 16:
            name = transactions.begin(producer["producer_id"], topic)
        request = {"TransactionalId": name, "Acks": -1, "TimeoutMs": 10000, "TopicData": [{"Name": topic, "PartitionData": [{"Index": 0, "Records": data}]}]}
        # NOT_ENOUGH_REPLICAS: the transaction is not verified yet.
        deadline = time.monotonic() + 30
        while (code := connection.call("Produce", 9, request)["Responses"][0]["PartitionResponses"][0]["ErrorCode"]) == 19 and time.monotonic() < deadline:
            time.sleep(0.05)
        equal(code, 0, f"produce {number} to {topic}")

    def end(topic, producer_id, commits):
        before = cluster.end_offset(topic)
        equal(transactions.end(producer_id, commits), 0, "end of a transaction")
        # The marker comes a moment later.
        while cluster.end_offset(topic) == before:
            time.sleep(0.005)

    def fill(topic, numbers):
        with Connection(cluster.leader(topic)) as connection:
            for number in numbers:
                keys = [number * step % 11 for step in (1, 3, 7, 2)][: 1 + number % 4]
                kind = number % 5
                if kind < 2:
                    send(connection, topic, number, keys, CODECS[number // 5 % 5])
                elif kind == 2:
                    send(connection, topic, number, keys[:1], producer_id=7000 + number // 5 % 2, producer_epoch=0, sequence=number // 10)
                else:
                    # Both ends of transactions, of two producers.
                    send(connection, topic, number, keys[:2], attributes=16, producer_id=producer_ids[kind - 3], producer_epoch=0,
                         sequence=sum(min(2, 1 + before % 4) for before in range(kind, number, 5)))
                    end(topic, producer_ids[kind - 3], number // 5 % 2 == kind % 2)
    return fill


def dirty_from(path, topic):
    """Where compaction has come to, as Kafka's checkpoint or a core's own says."""
    try:
        rows = [line.split() for line in open(path)]
    except FileNotFoundError:
        return -1
    return next((int(row[2]) for row in rows if row[0] == topic), -1)


def wait_until_compacted(paths, logs, topic):
    """Until both have compacted all but their active segment."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        active = [max(int(os.path.basename(name)[:20]) for name in glob.glob(os.path.join(folder, f"{topic}-0", "*.log"))) for folder in logs]
        if [dirty_from(path, topic) for path in paths] == active and active[0] == active[1]:
            return
        time.sleep(0.1)
    raise AssertionError(f"{topic}: compacted up to {[dirty_from(path, topic) for path in paths]}, active segments {active}")


@suite.case("C090-the-same-records-survive-as-in-kafka")
def _(context):
    kafka = Kafka(context.port + 2, os.path.join(context.folder, "kafka-compacted"))
    ours = Alluvium(context.binary, context.port + 1, os.path.join(context.folder, "ours-compacted"))
    logs = [kafka.logs, ours.folder]
    paths = [os.path.join(kafka.logs, "cleaner-offset-checkpoint"), os.path.join(ours.folder, "cleaner-offset-checkpoint.core-0")]
    try:
        clusters = [kafka.start("log.cleaner.backoff.ms=100", "transaction.state.log.num.partitions=1"), ours.start("log.cleaner.backoff.ms=100")]
        for topic, configs in COMPACTED.items():
            configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01, "segment.ms": 10000, "index.interval.bytes": 200,
                       "segment.index.bytes": 1024, **configs}
            for cluster in clusters:
                cluster.create_topic(topic, 1, **{key.replace(".", "_"): value for key, value in configs.items()})
        # Ahead of the markers, whose time is the server's: what is rolled by time would never roll again behind one of these.
        base_ms = now_ms() + 1_800_000
        fills = [compacted(cluster, base_ms) for cluster in clusters]
        # The second round drops what the first gave a horizon.
        for numbers in (range(60), range(60, 120)):
            for topic in COMPACTED:
                for fill in fills:
                    fill(topic, numbers)
                wait_until_compacted(paths, logs, topic)
                theirs, mine = ([row for one in served(cluster, topic) if one["attributes"] & 32 == 0 for row in records_of(one)] for cluster in clusters)
                if topic != "compact-plain":
                    # When a tombstone goes depends on when it was first met.
                    theirs, mine = ([row for row in rows if row[3] is not None] for rows in (theirs, mine))
                equal([row[0] for row in mine], [row[0] for row in theirs], f"{topic}: offsets after {numbers}")
                equal(mine, theirs, f"{topic} after {numbers}")
                true(len(mine) < numbers.stop, f"{len(mine)} records are left of {topic}")
                if topic != "compact-plain":
                    continue
                markers = [[one["base_offset"] for one in served(cluster, topic) if one["attributes"] & 32 and one["count"]] for cluster in clusters]
                equal(markers[1], markers[0], f"{topic}: markers after {numbers}")
        ours.stop()
        files = [name for topic in COMPACTED for name in sorted(glob.glob(os.path.join(ours.folder, f"{topic}-0", "*.*")))]
        files = [name for name in files if name.endswith((".log", "index"))]
        text = dump([name for name in files if not name.endswith("txnindex")], "--deep-iteration", "--index-sanity-check")
        equal([line for line in complaints(text) if "onsecutive" not in line and "is followed by" not in line], [], "kafka-dump-log")
    finally:
        kafka.stop()
        ours.stop()


@suite.case("C076: a transaction index that cannot be written moves no offset, and its transactions stay aborted")
def _(context):
    server = Alluvium(context.binary, context.port + 1, os.path.join(context.folder, "no-index"))
    try:
        cluster = server.start()
        cluster.create_topic("t")
        in_the_way = os.path.join(server.folder, "t-0", f"{0:020}.txnindex")
        with Connection(cluster.leader("t")) as connection:
            producer = Transactional(connection, "aborts", "t")
            producer.send(0)
            os.mkdir(in_the_way)
            producer.end(False)
            produce(connection, "t", 1, count=2)
            producer.send(2)
            producer.end(False)
            produce(connection, "t", 3, count=2)
            id_ = producer.producer["producer_id"]
            # Three records, a marker, two; and again.
            want = {"error": 0, "high_watermark": 12, "last_stable_offset": 12, "aborted": [[id_, 0], [id_, 6]], "batches": [0, 3, 4, 6, 9, 10]}
            equal(fetch_committed(connection, "t", 0), want, "with a folder in its place")
        # A start does not guess what was aborted: the partition waits for the operator, the others are served.
        server.stop()
        cluster = server.start()
        with cluster.connect() as connection:
            equal(fetch_committed(connection, "t", 0)["error"], 56, "while the folder is in its place")
            true(in_the_way in open(server.folder + ".log").read(), "the log names what is in the way")
        cluster.create_topic("another")
        with Connection(cluster.leader("another")) as connection:
            produce(connection, "another", 0)
        server.stop()
        os.rmdir(in_the_way)
        cluster = server.start()
        with Connection(cluster.leader("t")) as connection:
            equal(fetch_committed(connection, "t", 0), want, "after a start with its place clear")
        true(os.path.isfile(in_the_way), "the index was made anew")
    finally:
        server.stop()


if __name__ == "__main__":
    arguments = suite.arguments()
    arguments.add_argument("--port", type=int, default=21050, help="port to port + 3 are free")
    contexts = []

    def prepare(options):
        contexts.append(Context(options))
        return contexts[0]
    try:
        code = suite.main(prepare, None, arguments)
    finally:
        for context in contexts:
            context.close()
    sys.exit(code)
