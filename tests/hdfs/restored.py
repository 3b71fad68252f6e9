"""A server that has lost its disks comes back from HDFS alone; the operator's commands look at what is there."""
import json
import os
import pty
import re
import shutil
import subprocess

from batch import batch
from broker import SEGMENT_RECORDS, TOPIC, Writer, batch_of, read_all
from hdfs import ROOT
from stage import TOOLS, started, suite, tool
from suite import equal, eventually, true

RESTORED = {"local_retention_ms": 500, "max_message_bytes": 900_000}


def produce(connection, topic, data):
    """(error, base offset) of a batch."""
    body = {"TransactionalId": None, "Acks": -1, "TimeoutMs": 30000, "TopicData": [{"Name": topic, "PartitionData": [{"Index": 0, "Records": data}]}]}
    row = connection.call("Produce", 7, body)["Responses"][0]["PartitionResponses"][0]
    return row["ErrorCode"], row["BaseOffset"]


def consumer_of(broker, group):
    from kafka import KafkaConsumer
    return KafkaConsumer(bootstrap_servers=f"127.0.0.1:{broker.port}", group_id=group, enable_auto_commit=False)


def in_a_manifest(stage, broker, words, read):
    """True where a manifest in HDFS has these bytes; `read` are those that have been looked at."""
    rows = [name for name, _, is_folder in stage.hdfs.list(f"{broker.base}/.manifests") if is_folder]
    paths = {f"{broker.base}/.manifests/{row}/{name}" for row in rows for name, _, _ in stage.hdfs.list(f"{broker.base}/.manifests/{row}")}
    new = paths - read
    read |= new
    # One may be replaced between the listing and the reading.
    return any(words in (stage.hdfs.read(path) or b"") for path in new)


def restore(broker, *flags):
    shutil.rmtree(broker.folder)
    return broker.command("tier", "restore", "--from", broker.tier, "--data-dir", broker.folder, *broker.flags, *flags)


@suite.case("restored")
def _(stage):
    """All disks lost: topics, settings, offsets, producers and committed offsets come back, consumers read all, produce goes on."""
    from kafka import OffsetAndMetadata, TopicPartition
    broker = stage.broker(cores=2).start()
    broker.create(partitions=2, **RESTORED)
    broker.create(topic="idempotent", **RESTORED)
    writers = [Writer(broker, partition) for partition in range(2)]
    for writer in writers:
        writer.write(3 * SEGMENT_RECORDS)
    with broker.cluster.connect() as connection:
        made = connection.call("InitProducerId", 0, {"TransactionalId": None, "TransactionTimeoutMs": 60000})
    of_producer = [batch([b"of a producer"], producer_id=made["ProducerId"], producer_epoch=made["ProducerEpoch"], sequence=number) for number in range(4)]
    with Writer(broker, 0, "idempotent").connect() as connection:
        equal([produce(connection, "idempotent", data) for data in of_producer[:3]], [(0, 0), (0, 1), (0, 2)], "an idempotent producer")
    committed = {TopicPartition(TOPIC, partition): OffsetAndMetadata(40 + partition, "noted", -1) for partition in range(2)}
    consumer = consumer_of(broker, "restored-group")
    consumer.commit(committed)
    consumer.close()
    # The active segment outlives local retention as well.
    whole = [(TOPIC, 0, writers[0].end), (TOPIC, 1, writers[1].end), ("idempotent", 0, 3)]
    for topic, partition, end in whole:
        eventually(lambda: broker.offset(-4, partition, topic) == end, f"all of {topic}-{partition} is in the tier alone", 60)
    read = set()
    eventually(lambda: in_a_manifest(stage, broker, b"restored-group", read), "the group is in a manifest", 30)
    files = stage.hdfs.segments(broker.base)
    broker.kill()
    said = restore(broker)
    print("  ", " | ".join(said.strip().splitlines()[-4:])[:400], flush=True)
    true("manifests" in said or "restored" in said, said)
    broker.start()
    equal([(topic, partition, broker.offset(-1, partition, topic)) for topic, partition, _ in whole], whole, "where the logs end")
    equal([broker.offset(-2, partition, topic) for topic, partition, _ in whole], [0, 0, 0], "where they begin")
    equal(stage.hdfs.segments(broker.base), files, "the files in HDFS")
    true("max.message.bytes=900000" in tool(broker, "configs", "--describe", "--topic", TOPIC), "the topic's settings")
    consumer = consumer_of(broker, "restored-group")
    equal({part: consumer.committed(part) for part in committed}, {part: wanted.offset for part, wanted in committed.items()}, "committed offsets")
    consumer.close()
    with Writer(broker, 0, "idempotent").connect() as connection:
        equal(produce(connection, "idempotent", of_producer[2]), (0, 2), "what the producer sends again")
        equal(produce(connection, "idempotent", of_producer[3]), (0, 3), "what it sends next")
    for writer in writers:
        writer.read_all()
        writer.write(2 * SEGMENT_RECORDS)
        broker.wait_copied(writer.end, partition=writer.partition)
        writer.read_all()
    broker.stop()
    looked_at(stage, broker)


def looked_at(stage, broker):
    """`tier verify`, `scrub`, `cat` and `dump` on what is there."""
    files = sorted(stage.hdfs.segments(broker.base))
    true(re.search(rf"\b{len(files)} segments, \d+ bytes read back, 0 problems", broker.verify()), "verify")
    true(re.search(r"[\d.]+ \w+/[\d.]+ \w+", on_a_terminal(broker, "tier", "verify", "--data-dir", broker.folder, "--tier", broker.tier, *broker.flags)), "its progress")
    orphan = files[0][:-1] + ("A" if files[0][-1] != "A" else "Q")
    stage.hdfs.write(orphan, b"left by somebody")
    scrub = ["tier", "scrub", "--data-dir", broker.folder, "--tier", broker.tier, *broker.flags]
    name = orphan.rsplit("/", 1)[1]
    true(name in broker.command(*scrub, fails=True), "scrub tells the file that nobody knows")
    broker.command(*scrub, "--delete-orphans", fails=True)
    true(orphan in stage.hdfs.segments(broker.base), "it is too young to be deleted")
    said = broker.command(*scrub, "--delete-orphans", "--older-than", "0")
    true(name in said, said)
    equal(sorted(stage.hdfs.segments(broker.base)), files, "scrub deletes what nobody knows, and nothing else")
    rows = [json.loads(line) for line in broker.command("tier", "ls", "--data-dir", broker.folder, "--output", "json").splitlines()]
    row = next(row for row in rows if row["topic"] == TOPIC and row["partition"] == 1 and row["start_offset"] > 0)
    path = next(path for path in files if path.endswith(row["segment"]))
    said = broker.command("tier", "cat", stage.hdfs.url(path), "--format", "json", *broker.flags)
    offsets = [json.loads(line)["offset"] for line in said.splitlines()]
    equal(offsets, list(range(row["start_offset"], row["end_offset"] + 1)), "tier cat")
    folder = os.path.join(broker.folder + ".copied", path.split("/")[-2])
    os.makedirs(folder)
    with open(os.path.join(folder, row["segment"]), "wb") as copied:
        copied.write(stage.hdfs.read(path))
    said = broker.command("dump", "--deep", copied.name)
    true(re.search(r"(?i)whole", said), said[-500:])


def on_a_terminal(broker, *words):
    """What a command shows on standard error where that is a terminal."""
    ours, its = pty.openpty()
    with subprocess.Popen([broker.binary, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=its, env=broker.environment) as process:
        os.close(its)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 65536)
            except OSError:
                # The terminal's other end is closed: the command has ended.
                break
        os.close(ours)
        equal(process.wait(60), 0, f"exit code of {words}")
    return shown.decode(errors="replace")


@suite.case("read-by-hadoop")
def _(stage):
    """A reader in Java that knows nothing but the format reads the files by Hadoop's own client."""
    broker, writer = started(stage)
    writer.write(4 * SEGMENT_RECORDS)
    broker.wait_copied(3 * SEGMENT_RECORDS - 1)
    end = broker.offset(-5) + 1
    reader = subprocess.run([os.path.join(ROOT, "tests/tier/run"), broker.tier, f"127.0.0.1:{broker.port}", TOPIC], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, timeout=180, env={**os.environ, "ALLUVIUM_TEST_TOOLS": TOOLS, "HADOOP_JARS": os.path.join(TOOLS, "hadoop/libs")})
    read = re.search(r"tier-reader: (\d+) records in \d+ files of 1 partitions agree", reader.stdout)
    true(read and int(read[1]) >= end, reader.stdout[-1500:])
    broker.stop()


@suite.case("two-leaders")
def _(stage):
    """KAFKA-16511: a server that had to be dead goes on beside the one restored: both copy, the later leader's records count."""
    first, writer = started(stage)
    writer.write(4 * SEGMENT_RECORDS)
    first.wait_copied(3 * SEGMENT_RECORDS - 1)
    second = stage.broker(tier=first.tier)
    second.port, second.base = first.port + 10, first.base
    second.command("tier", "restore", "--from", first.tier, "--data-dir", second.folder, *second.flags)
    second.start()
    writer.broker, writer.end = second, second.offset(-1)
    forked_at = writer.end
    # The old one has other records at these offsets, more of them, and copies them too.
    with Writer(first).connect() as connection:
        for number in range(4 * SEGMENT_RECORDS):
            equal(produce(connection, TOPIC, batch_of(number + 7))[0], 0, "produce to the old leader")
    writer.write(3 * SEGMENT_RECORDS)
    for broker in (first, second):
        broker.wait_copied(forked_at + 2 * SEGMENT_RECORDS)
    writer.read_all()
    copied_to = second.offset(-5) + 1
    first.kill()
    second.kill()
    for how in ((), ("--slow",)):
        said = restore(second, *how)
        print("  ", " | ".join(said.strip().splitlines()[-3:])[:400], flush=True)
        second.start()
        end = second.offset(-1)
        true(copied_to <= end <= writer.end, f"the log ends at {end}; the later leader's copies end at {copied_to}")
        read_all(second, 0, end)
        second.kill()
