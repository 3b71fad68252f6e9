"""The tier on a real HDFS: the walk with Kafka's own tools, and each fault that HDFS has, on the real cluster.

After each fault: whatever was acknowledged is read once, in order, with its own bytes; produce and fetch of the newest records went
on meanwhile; nothing local went that the tier had not; the backlog moves when HDFS is back; `tier verify` finds nothing wrong.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time

from broker import SEGMENT_RECORDS, TOPIC, Broker, FetchError, read_all
from stage import TOOL, Stage, ended_well, started, suite, tool
from suite import equal, eventually, true

# These register their cases.
import companions  # noqa: F401, isort: skip
import kerberos  # noqa: F401, isort: skip
import readers  # noqa: F401, isort: skip
import restored  # noqa: F401, isort: skip
# The others take longer, or a cluster of their own.
SHORT = {"walk", "C160-killed-at-any-step", "read-without-namenode", "datanode-killed", "namenode-hung", "changed-behind-its-back", "unreachable-at-the-start"}


@suite.case("walk")
def _(stage):
    """The quick tour of README, with fewer records: every consumer reads all of them, from wherever it begins."""
    broker = stage.broker(cores=2)
    # The topic is that of the tour; a minute is too long for a test.
    broker.start(log_retention_check_interval_ms=500, remote_log_manager_task_interval_ms=500)
    tool(broker, "topics", "--create", "--topic", "tieredstorage", "--replication-factor", "1", "--partitions", "5", "--config",
         "local.retention.ms=1000", "--config", "segment.bytes=1048576", "--config", "remote.storage.enable=true")
    records = 1500
    subprocess.run([TOOL, "producer-perf-test", "--topic", "tieredstorage", "--num-records", str(records), "--throughput", "1000", "--record-size", "10240",
                    "--producer-props", f"bootstrap.servers=127.0.0.1:{broker.port}", "linger.ms=0"], check=True, stdout=sys.stderr, timeout=180)
    ends = [broker.offset(-1, partition, "tieredstorage") for partition in range(5)]
    equal(sum(ends), records, "records written")
    # The active segment outlives local retention as well.
    for partition, end in enumerate(ends):
        eventually(lambda: broker.offset(-4, partition, "tieredstorage") == end, f"all of partition {partition} is in the tier alone", 60)
    eventually(lambda: broker.local_bytes(5, "tieredstorage") == 0, "the local disk shrinks", 20)
    files = stage.hdfs.segments(broker.base)
    log = broker.log()
    equal(len(re.findall("copied a segment to the tier", log)), len(files), "log lines and files")
    true(len(files) >= records // 110 and all(length > 5000 for length in files.values()), f"one file a segment: {files}")
    for path, length in files.items():
        equal(stage.hdfs.status(path)["blockSize"], max(1 << 20, -(-length // 512) * 512), f"one block for {length} bytes")
    equal(broker.command("tier", "ls", "--data-dir", broker.folder, "--output", "json").count('"segment"'), len(files), "tier ls")
    true("answers, and may be written to" in broker.command("tier", "check", "--tier", broker.tier, *broker.flags), "tier check")
    # All from the beginning, by each client; by group; by offset; by time.
    said = tool(broker, "console-consumer", "--topic", "tieredstorage", "--from-beginning", "--group", "walk", "--max-messages", str(records), "--timeout-ms", "60000")
    true(f"Processed a total of {records} messages" in said, said[-300:])
    kcat = ["kcat", "-C", "-b", f"127.0.0.1:{broker.port}", "-t", "tieredstorage", "-e", "-q", "-f", "%p %o %S\n"]
    seen = subprocess.run([*kcat, "-o", "beginning"], check=True, stdout=subprocess.PIPE, text=True, timeout=120).stdout.split("\n")[:-1]
    equal(sorted(seen), sorted(f"{partition} {offset} 10240" for partition, end in enumerate(ends) for offset in range(end)), "kcat, from the beginning")
    seen = subprocess.run([*kcat, "-p", "3", "-o", "7"], check=True, stdout=subprocess.PIPE, text=True, timeout=120).stdout.split("\n")[:-1]
    equal(seen, [f"3 {offset} 10240" for offset in range(7, ends[3])], "kcat, from an offset")
    from kafka import KafkaConsumer, TopicPartition
    consumer = KafkaConsumer(bootstrap_servers=f"127.0.0.1:{broker.port}", group_id=None, enable_auto_commit=False)
    whole = [TopicPartition("tieredstorage", partition) for partition in range(5)]
    consumer.assign(whole)
    consumer.seek_to_beginning()
    found, deadline = {}, time.monotonic() + 60
    while len(found) < records and time.monotonic() < deadline:
        for rows in consumer.poll(timeout_ms=500).values():
            for row in rows:
                true((row.partition, row.offset) not in found, f"{row.partition} {row.offset} twice")
                found[row.partition, row.offset] = row.timestamp
    equal(len(found), records, "kafka-python, from the beginning")
    middle = found[2, ends[2] // 2]
    first = min(offset for (partition, offset), timestamp in found.items() if partition == 2 and timestamp >= middle)
    equal(consumer.offsets_for_times({whole[2]: middle})[whole[2]].offset, first, "the offset of a time")
    consumer.close()
    broker.stop()
    true(f"{len(files)} segments" in broker.verify(), "verify")


@suite.case("C160-killed-at-any-step")
def _(stage):
    """kill -9 between COPY_SEGMENT_STARTED and the local deletion, at many moments of it: a name stands for a whole file."""
    # A copy takes a third of a second, so that the moments differ.
    broker, writer = started(stage, remote_log_manager_copy_max_bytes_per_second=3 << 20)
    for after_s in (0.0, 0.05, 0.12, 0.2, 0.3, 0.4, 0.5):
        copies = len(re.findall("copying a segment", broker.log()))
        writer.until(lambda: len(re.findall("copying a segment", broker.log())) > copies, "a copy has begun", pause_s=0.002)
        time.sleep(after_s)
        broker.kill()
        broker.start(remote_log_manager_copy_max_bytes_per_second=3 << 20)
        equal(broker.offset(-1), writer.end, f"the end after a kill {after_s} s into a copy")
        writer.read_all(max(0, writer.end - 300))
    # A copy that a kill cut off begins again at the start, without another record: how many segments there are by now is chance.
    writer.write(3 * SEGMENT_RECORDS)
    broker.stop()
    broker.start()
    ended_well(stage, broker, writer, 5)


@suite.case("datanode-killed")
def _(stage):
    """A DataNode of three dies while segments are copied to two of them; the NameNode does not know it yet."""
    broker, writer = started(stage, "--hdfs-replication", "2", remote_log_manager_copy_max_bytes_per_second=4 << 20)
    writer.write(3 * SEGMENT_RECORDS)
    broker.says("copied a segment")
    stage.hdfs.control("kill-dn", 1)
    try:
        before = writer.end
        writer.write(5 * SEGMENT_RECORDS)
        broker.wait_copied(before)
        writer.read_all()
    finally:
        stage.hdfs.control("start-dn", 1)
    stage.hdfs.control("wait")
    ended_well(stage, broker, writer, 8)


@suite.case("datanode-killed-single-copy")
def _(stage):
    """Its only DataNode dies mid-copy: the copy is begun anew elsewhere; what is on the dead one waits for it."""
    broker, writer = started(stage, "--hdfs-replication", "1", remote_log_manager_copy_max_bytes_per_second=2 << 20)
    writer.write(3 * SEGMENT_RECORDS)
    for number in (1, 2):
        broker.says("copying a segment")
        stage.hdfs.control("kill-dn", number)
        writer.write(2 * SEGMENT_RECORDS)
        stage.hdfs.control("start-dn", number)
    stage.hdfs.control("wait")
    ended_well(stage, broker, writer, 6)


@suite.case("datanode-hung")
def _(stage):
    """A DataNode that takes connections and says nothing: each call has its deadline, reads go to another one."""
    broker, writer = started(stage, "--hdfs-replication", "2")
    writer.write(4 * SEGMENT_RECORDS)
    broker.wait_local_gone(2 * SEGMENT_RECORDS)
    stage.hdfs.control("hang-dn", 2)
    try:
        writer.write(4 * SEGMENT_RECORDS)
        # Every record can be read all the while.
        writer.read_all(within_s=90)
        writer.until(lambda: "the tier's work on a partition failed" in broker.log(), "a copy has met the one that hangs", 90)
        writer.read_all(within_s=90)
    finally:
        stage.hdfs.control("cont-dn", 2)
    stage.hdfs.control("wait")
    ended_well(stage, broker, writer, 7)


def away(stage, broker, writer, leave, come_back, says="the tier's work on a partition failed"):
    """HDFS is away for a while: nothing local goes, everything local is served, and the backlog moves when it is back."""
    writer.write(4 * SEGMENT_RECORDS)
    broker.wait_local_gone(2 * SEGMENT_RECORDS)
    leave()
    try:
        writer.until(lambda: says in broker.log(), f"the log says {says!r}")
        # What was copied before has gone by then, or goes.
        eventually(lambda: broker.offset(-4) == broker.offset(-5) + 1, "the local log begins where the tier ends", 10)
        local_from = broker.offset(-4)
        before = broker.offset(-5)
        writer.write(5 * SEGMENT_RECORDS)
        equal(broker.offset(-5), before, "the last offset in the tier")
        equal(broker.offset(-4), local_from, "the local beginning")
        writer.read_all(local_from)
        # Told long before the disk is full, with what waits and what room is left.
        broker.says(r"segments (that )?wait for the tier.* waiting_bytes=[1-9]\d* free_bytes=[1-9]", 20)
    finally:
        come_back()
    stage.hdfs.control("wait")
    ended_well(stage, broker, writer, 8)


@suite.case("namenode-restarted")
def _(stage):
    broker, writer = started(stage)
    away(stage, broker, writer, lambda: stage.hdfs.control("kill-nn"), lambda: stage.hdfs.control("start-nn"))


@suite.case("namenode-hung")
def _(stage):
    broker, writer = started(stage, broker=stage.broker(deadline_ms=1500))
    away(stage, broker, writer, lambda: stage.hdfs.control("hang-nn"), lambda: stage.hdfs.control("cont-nn"))


@suite.case("C163-safe-mode")
def _(stage):
    """No false finish, no local deletion; reads of what is in HDFS go on."""
    broker, writer = started(stage)

    def leave():
        stage.hdfs.control("dfsadmin", "-safemode", "enter")
        writer.read_all()
    away(stage, broker, writer, leave, lambda: stage.hdfs.control("dfsadmin", "-safemode", "leave"))


@suite.case("C164-datanodes-full")
def _(stage):
    """No DataNode has space for a block: what is there is read, and the backlog moves when there is space."""
    broker, writer = started(stage)

    def reserve(reserved_bytes):
        path = os.path.join(stage.hdfs.conf, "hdfs-site.xml")
        with open(path) as conf:
            kept = re.sub("  <property><name>dfs.datanode.du.reserved</name>.*\n", "", conf.read())
        row = f"  <property><name>dfs.datanode.du.reserved</name><value>{reserved_bytes}</value></property>\n"
        with open(path, "w") as conf:
            conf.write(kept.replace("</configuration>", row + "</configuration>"))
        for number in (1, 2, 3):
            stage.hdfs.control("kill-dn", number)
            stage.hdfs.control("start-dn", number)

    def leave():
        # More than any disk has.
        reserve(1 << 60)
        writer.read_all(within_s=60)
    away(stage, broker, writer, leave, lambda: reserve(0), says="could only be written to 0 of the")


@suite.case("C164-quota")
def _(stage):
    """No room for another name, then no room for bytes; each is said, retried, and over when there is room."""
    broker, writer = started(stage)
    for quota in ({"names": 6}, {"space_bytes": 1}):
        away_from = writer.end
        writer.write(2 * SEGMENT_RECORDS)
        broker.wait_copied(away_from)
        stage.hdfs.set_quota(broker.base, **quota)
        try:
            writer.write(3 * SEGMENT_RECORDS)
            broker.says("QuotaExceededException")
            local_from = broker.offset(-4)
            writer.read_all(local_from)
        finally:
            stage.hdfs.set_quota(broker.base)
    ended_well(stage, broker, writer, 8)


@suite.case("permission-denied")
def _(stage):
    """Its folder may not be written to: said at the start, and again when it happens later; over when it may."""
    stage.number += 1
    base = f"/private{stage.number}"
    stage.hdfs.make_folder(base, "755")
    flags = ("--hdfs-user", "bob")
    broker = stage.broker(*flags, tier=stage.hdfs.url(base))
    broker.base = base
    broker, writer = started(stage, broker=broker)
    broker.says("(?s)the tier does not answer.*AccessControlException|AccessControlException.*bob")
    writer.write(3 * SEGMENT_RECORDS)
    equal(broker.offset(-4), 0, "the local beginning")
    refused = broker.command("tier", "check", "--tier", broker.tier, *broker.flags, fails=True)
    true("AccessControlException" in refused and "bob" in refused, refused)
    stage.hdfs.set_permission(base, "777")
    broker.wait_copied(2 * SEGMENT_RECORDS)
    equal({stage.hdfs.status(path)["owner"] for path in stage.hdfs.segments(base)}, {"bob"}, "the owner of the files")
    ended_well(stage, broker, writer, 3)


@suite.case("changed-behind-its-back")
def _(stage):
    """A file removed, one cut short, one with a bit flipped: verify tells each; whatever else there is, is read."""
    broker, writer = started(stage)
    writer.write(7 * SEGMENT_RECORDS)
    broker.wait_local_gone(5 * SEGMENT_RECORDS)
    broker.stop()
    rows = [json.loads(line) for line in broker.command("tier", "ls", "--data-dir", broker.folder, "--output", "json").splitlines()]
    path_of = {path.rsplit("/", 1)[1]: path for path in stage.hdfs.segments(broker.base)}
    removed, cut, flipped = rows[0], rows[2], rows[3]
    stage.hdfs.remove(path_of[removed["segment"]])
    stage.hdfs.write(path_of[cut["segment"]], stage.hdfs.read(path_of[cut["segment"]])[:-1000])
    data = bytearray(stage.hdfs.read(path_of[flipped["segment"]]))
    data[len(data) // 2] ^= 4
    stage.hdfs.write(path_of[flipped["segment"]], bytes(data))
    unknown = path_of[removed["segment"]][:-1] + "_"
    stage.hdfs.write(unknown, b"left by somebody")
    said = broker.verify(fails=True)
    for name, what in ((removed["segment"], "not in the store"), (cut["segment"], "(bytes|cut short)"), (flipped["segment"], "damaged"), (unknown.rsplit("/", 1)[1], "nobody knows")):
        true(re.search(f"{re.escape(name)}: .*{what}", said), f"{name}: {what}: {said}")
    true("4 problems" in said, said)
    broker.start()
    # Each of the three is an error of its partition, and no end of the server; what is whole is read.
    read_all(broker, rows[1]["start_offset"], rows[1]["end_offset"] + 1)
    read_all(broker, rows[4]["start_offset"], writer.end)
    for row in (removed, cut):
        try:
            read_all(broker, row["start_offset"], row["start_offset"] + 1, within_s=1)
        except FetchError as error:
            equal(error.args[0], -1, "UNKNOWN_SERVER_ERROR, as Kafka answers a failed read of its tier")
        else:
            raise AssertionError(f"{row} was read")
    writer.write(SEGMENT_RECORDS)
    broker.stop()


@suite.case("name-taken")
def _(stage):
    """A file stands where the partition's folder should be: nothing is lost, and it goes on when the name is free."""
    broker, writer = started(stage)
    with open(os.path.join(broker.folder, "t-0", "partition.metadata")) as metadata:
        topic_id = re.search("topic_id: (.*)", metadata.read())[1]
    path = f"{broker.base}/{TOPIC}-0-{topic_id}"
    stage.hdfs.write(path, b"in the way")
    writer.write(3 * SEGMENT_RECORDS)
    broker.says("the tier's work on a partition failed")
    equal(broker.offset(-4), 0, "the local beginning")
    equal(stage.hdfs.read(path), b"in the way", "what is there")
    stage.hdfs.remove(path)
    ended_well(stage, broker, writer, 4)


@suite.case("another-owner")
def _(stage):
    """A base folder of another cluster's is refused with both ids; so is one that lost its owner's file."""
    broker, writer = started(stage)
    writer.write(2 * SEGMENT_RECORDS)
    broker.wait_copied(SEGMENT_RECORDS - 1)
    other = stage.broker(tier=broker.tier)
    broker.stop()
    try:
        other.start()
    except AssertionError as refused:
        true("belongs to cluster" in str(refused) and "choose another folder for --tier" in str(refused), refused)
    else:
        raise AssertionError("a folder of another cluster was taken")
    files = stage.hdfs.segments(broker.base)
    true(files, "what is there stays")
    broker.start()
    writer.read_all()
    ended_well(stage, broker, writer, 3)


@suite.case("unreachable-at-the-start")
def _(stage):
    """No NameNode: the server starts and says so, or, where the tier is required, does not start and says so."""
    nowhere = f"hdfs://127.0.0.1:{stage.options.port + 99}/base"
    required = stage.broker("--tier-required", deadline_ms=2000, tier=nowhere)
    try:
        required.start()
    except AssertionError as refused:
        true("exit code 1" in str(refused) and str(stage.options.port + 99) in str(refused), refused)
    else:
        raise AssertionError("it started without its tier")
    broker, writer = started(stage, broker=stage.broker(deadline_ms=2000, tier=nowhere))
    broker.says("the tier does not answer")
    writer.write(2 * SEGMENT_RECORDS)
    equal(broker.offset(-4), 0, "the local beginning")
    broker.stop()
    writer.broker = broker = Broker(stage.binary, broker.port, broker.folder, stage.hdfs.url("/late"))
    stage.brokers.append(broker)
    broker.base = "/late"
    broker.start()
    ended_well(stage, broker, writer, 3)


@suite.case("C163-failover")
def _(stage):
    """Two NameNodes behind a name of --hadoop-conf; the active one is killed mid-copy, then the next one hangs."""
    hdfs = stage.cluster("ha", HA="1", DATANODES="2", REPLICATION="2")
    broker = stage.broker("--hadoop-conf", hdfs.conf, tier="hdfs://alluvium-ns/base", deadline_ms=2500)
    broker.base = "/base"
    broker, writer = started(stage, broker=broker, remote_log_manager_copy_max_bytes_per_second=2 << 20)
    # As Hadoop's own tools are told.
    broker.environment["HADOOP_CONF_DIR"] = hdfs.conf
    true("answers, and may be written to" in broker.command("tier", "check", "--tier", broker.tier), "tier check by HADOOP_CONF_DIR")
    writer.write(3 * SEGMENT_RECORDS)
    broker.says("copying a segment")
    hdfs.control("kill-nn", 1)
    before = writer.end
    writer.write(2 * SEGMENT_RECORDS)
    hdfs.control("active", 2)
    writer.write(SEGMENT_RECORDS)
    broker.wait_copied(before)
    writer.read_all()
    hdfs.control("start-nn", 1)
    hdfs.control("standby", 1)
    hdfs.control("hang-nn", 2)
    before = writer.end
    writer.write(3 * SEGMENT_RECORDS)
    hdfs.control("active", 1)
    # It would be active in its own eyes when it went on.
    broker.wait_copied(before + SEGMENT_RECORDS)
    hdfs.control("kill-nn", 2)
    hdfs.web_ports = hdfs.web_ports[:1]
    whole = stage.hdfs
    stage.hdfs = hdfs
    try:
        ended_well(stage, broker, writer, 8)
    finally:
        stage.hdfs = whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the server")
    parser.add_argument("only", nargs="*", help="patterns of case names; these run whether they are long or not")
    parser.add_argument("--long", action="store_true", help="all cases, not the short ones alone")
    parser.add_argument("--port", type=int, default=26300, help="this port and some after it are taken")
    parser.add_argument("--scratch", help="where folders are made")
    parser.add_argument("--keep", action="store_true", help="leave the logs")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--verbose", action="store_true", help="times, and a trace for each failure")
    options = parser.parse_args()
    parser.parse_intermixed_args = lambda: options
    if not options.long and not options.only:
        suite.cases = [(name, function) for name, function in suite.cases if name in SHORT]
    stage = None

    def prepare(_):
        nonlocal stage
        stage = Stage(options)
        return stage
    try:
        # What a case leaves is ended before the next one, also where it has failed.
        suite.cases = [(name, lambda one, run=function: run_case(one, run)) for name, function in suite.cases]
        return suite.main(prepare, arguments=parser)
    finally:
        if stage is not None:
            stage.end()


def run_case(stage, function):
    try:
        function(stage)
    finally:
        stage.after_case()


if __name__ == "__main__":
    sys.exit(main())
