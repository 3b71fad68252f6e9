"""Figures of the tier on HDFS, each beside Hadoop's own tool in the same run, in turns: figures.py BINARY [--rounds N] [--mib N]

Copy of one segment against `hdfs dfs -put` of the same file, and a read of it through the server against `hdfs dfs -cat`; wall clock
and processor seconds of the client's side. Rates depend on the machine and its load: the ratios are what counts.
"""
import argparse
import os
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from broker import Broker
from hdfs import UP, Hdfs
from batch import batch
from connection import Connection
from suite import eventually

MIB = 1 << 20


def cpu_of(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed_tool(hdfs, *arguments):
    """Seconds by the clock, and of the processor, that one of Hadoop's tools takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run([UP, *arguments], check=True, stdout=subprocess.DEVNULL)
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def alter(broker, topic, **configs):
    rows = [{"Name": key.replace("_", "."), "ConfigOperation": 0, "Value": value} for key, value in configs.items()]
    with broker.cluster.connect() as connection:
        reply = connection.call("IncrementalAlterConfigs", 0, {"Resources": [{"ResourceType": 2, "ResourceName": topic, "Configs": rows}], "ValidateOnly": False})
    if reply["Responses"][0]["ErrorCode"]:
        raise AssertionError(reply)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mib", type=int, default=128)
    parser.add_argument("--replication", type=int, default=1)
    parser.add_argument("--port", type=int, default=26600)
    parser.add_argument("--scratch")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        hdfs = Hdfs(options.port, os.path.join(folder, "hdfs"))
        hdfs.start(REPLICATION=str(options.replication))
        broker = Broker(options.binary, options.port + 100, os.path.join(folder, "data"), hdfs.url("/base"), "--hdfs-replication", str(options.replication))
        try:
            measure(options, hdfs, broker.start(remote_log_manager_task_interval_ms=20))
        finally:
            broker.kill()
            hdfs.stop()


def measure(options, hdfs, broker):
    rows = {name: [] for name in ("copy", "put", "read", "cat")}
    hdfs.make_folder("/put")
    for number in range(options.rounds):
        topic = f"f{number}"
        # Sealed by its size: the last record opens the next one. Nothing is copied before its turn.
        broker.create(topic=topic, segment_bytes=options.mib * MIB, remote_log_copy_disable="true", local_retention_bytes=-2, retention_bytes=-1,
                      local_retention_ms=-2, max_message_bytes=2 * MIB)
        produced = produce(broker, topic, options.mib)
        name = broker.local_logs(topic=topic)[0]
        file = os.path.join(broker.folder, f"{topic}-0", name)
        gib = os.path.getsize(file) / (1 << 30)

        before = cpu_of(broker.process.pid)
        began = time.monotonic()
        alter(broker, topic, remote_log_copy_disable="false")
        eventually(lambda: f"copied a segment to the tier topic=\"{topic}\"" in broker.log() or f"copied a segment to the tier topic={topic}" in broker.log(), "it is copied", 120)
        rows["copy"].append((time.monotonic() - began, cpu_of(broker.process.pid) - before, gib))
        rows["put"].append((*timed_tool(hdfs, "fs", hdfs.folder, "-put", file, f"/put/{number}"), gib))
        end = int(broker.local_logs(topic=topic)[1].split(".")[0])
        alter(broker, topic, local_retention_bytes="1")
        eventually(lambda: broker.offset(-4, topic=topic) >= end, "it is in the tier alone", 60)
        before = cpu_of(broker.process.pid)
        began = time.monotonic()
        drain(broker, topic, end)
        rows["read"].append((time.monotonic() - began, cpu_of(broker.process.pid) - before, gib))
        rows["cat"].append((*timed_tool(hdfs, "fs", hdfs.folder, "-cat", f"/put/{number}"), gib))
        print(number, {name: tuple(round(x, 2) for x in values[-1][:2]) for name, values in rows.items()}, produced, flush=True)
    print(f"{options.rounds} rounds of {options.mib} MiB, replication {options.replication}: median MiB/s, processor s/GiB")
    rate = {}
    for name, values in rows.items():
        rate[name] = statistics.median(gib * 1024 / wall for wall, _, gib in values)
        print(f"  {name:5} {rate[name]:7.0f} MiB/s {statistics.median(cpu / gib for _, cpu, gib in values):6.2f} s/GiB")
    print(f"  copy is {rate['copy'] / rate['put']:.2f} times put, read is {rate['read'] / rate['cat']:.2f} times cat")


def produce(broker, topic, mib):
    data = batch([os.urandom(MIB - 200)])
    with Connection(broker.cluster.leader(topic), timeout_s=60) as connection:
        for _ in range(mib + 2):
            body = {"TransactionalId": None, "Acks": 1, "TimeoutMs": 30000, "TopicData": [{"Name": topic, "PartitionData": [{"Index": 0, "Records": data}]}]}
            row = connection.call("Produce", 7, body)["Responses"][0]["PartitionResponses"][0]
            if row["ErrorCode"]:
                raise AssertionError(row)
    return mib + 2


def drain(broker, topic, end):
    """Fetches all below `end` and looks at lengths alone: this side is not to be measured."""
    at = 0
    with Connection(broker.cluster.leader(topic), timeout_s=60) as connection:
        while at < end:
            body = {"ReplicaId": -1, "MaxWaitMs": 500, "MinBytes": 1, "MaxBytes": 8 * MIB, "IsolationLevel": 0, "SessionId": 0, "SessionEpoch": -1,
                    "Topics": [{"Topic": topic, "Partitions": [{"Partition": 0, "CurrentLeaderEpoch": -1, "FetchOffset": at, "LogStartOffset": -1,
                                                                "PartitionMaxBytes": 8 * MIB}]}], "ForgottenTopicsData": [], "RackId": ""}
            row = connection.call("Fetch", 11, body)["Responses"][0]["Partitions"][0]
            data, place = row["Records"] or b"", 0
            while place + 12 <= len(data):
                base, length = struct.unpack_from(">qi", data, place)
                place += 12 + length
                if place <= len(data):
                    at = base + 1


if __name__ == "__main__":
    sys.exit(main())
