"""The server with a tier, a writer that knows what was acknowledged, and a reader that looks for each record of it."""
import functools
import os
import random
import re
import signal
import struct
import subprocess
import sys
import time

from hdfs import ROOT

sys.path.append(os.path.join(ROOT, "tests/clients/raw"))
from batch import MAGIC_AT, batch, now_ms
from connection import Cluster, Connection
from suite import equal, eventually, true

TOPIC = "t"
# Work is looked for often, and what fails is soon tried again.
OFTEN = {
    "log.initial.task.delay.ms": 0, "log.retention.check.interval.ms": 200, "remote.log.manager.task.interval.ms": 200,
    "remote.log.manager.task.retry.backoff.ms": 100, "remote.log.manager.task.retry.backoff.max.ms": 1000,
}
# What is in the tier goes at once.
TIERED = {"remote.storage.enable": "true", "segment.bytes": 1 << 20, "local.retention.bytes": 1}
SHORT_TIMES = ["--hdfs-conf", "dfs.client.socket-timeout=3000", "--hdfs-conf", "dfs.client.failover.max.attempts=3"]
RECORD_BYTES = 16_000
# About one segment.
SEGMENT_RECORDS = 65


class Broker:
    """`alluvium serve` in a folder that outlives it."""

    def __init__(self, binary, port, folder, tier, *flags, cores=1, environment=None, deadline_ms=5000, watchdog_ms=4500):
        self.binary, self.port, self.folder, self.tier, self.cores = binary, port, folder, tier, cores
        self.flags = ["--tier-deadline", str(deadline_ms), "--tier-watchdog", str(watchdog_ms), *SHORT_TIMES, *flags]
        self.environment = {**os.environ, **(environment or {})}
        self.process = None
        self.log_path = folder + ".log"

    def start(self, **settings):
        rows = {**OFTEN, **settings}
        flags = [flag for key, value in rows.items() for flag in ("--set", f"{key.replace('_', '.')}={value}")]
        self.log_from = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        with open(self.log_path, "a") as log:
            self.process = subprocess.Popen(
                [self.binary, "serve", "--listen", f"127.0.0.1:{self.port}", "--cores", str(self.cores), "--data-dir", self.folder, "--tier", self.tier,
                 *self.flags, *flags], stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True, env=self.environment)
        if not self.process.stdout.readline().startswith("ready"):
            code = self.process.wait(30)
            self.process = None
            raise AssertionError(f"no start, exit code {code}: {self.log()[-1500:]}")
        self.cluster = Cluster(f"127.0.0.1:{self.port}")
        return self

    def log(self):
        """What it has said since its start."""
        with open(self.log_path, errors="replace") as log:
            log.seek(self.log_from)
            return log.read()

    def says(self, pattern, within_s=60):
        eventually(lambda: re.search(pattern, self.log()), f"the log says {pattern!r}", within_s)

    def stop(self):
        if self.process is not None:
            process, self.process = self.process, None
            process.terminate()
            equal(process.wait(60), 0, "exit code of a stop")

    def kill(self):
        if self.process is not None:
            process, self.process = self.process, None
            process.send_signal(signal.SIGKILL)
            process.wait(30)

    def create(self, partitions=1, topic=TOPIC, **configs):
        rows = {**TIERED, **{key.replace("_", "."): value for key, value in configs.items()}}
        self.cluster.create_topic(topic, partitions, **{key.replace(".", "_"): value for key, value in rows.items()})

    def offset(self, timestamp, partition=0, topic=TOPIC):
        """ListOffsets: -1 the end, -2 the beginning, -4 the local beginning, -5 the last one in the tier."""
        address = self.cluster.leader(topic, partition)
        with Connection(address, timeout_s=60) as connection:
            body = {"ReplicaId": -1, "IsolationLevel": 0, "TimeoutMs": 30000, "Topics": [{"Name": topic, "Partitions": [
                {"PartitionIndex": partition, "CurrentLeaderEpoch": -1, "Timestamp": timestamp}]}]}
            row = connection.call("ListOffsets", 11 if timestamp < -4 else 8, body)["Topics"][0]["Partitions"][0]
        equal(row["ErrorCode"], 0, f"ListOffsets {timestamp}")
        return row["Offset"]

    def local_logs(self, partition=0, topic=TOPIC):
        return sorted(name for name in os.listdir(os.path.join(self.folder, f"{topic}-{partition}")) if name.endswith(".log"))

    def local_bytes(self, partitions=1, topic=TOPIC):
        folders = [os.path.join(self.folder, f"{topic}-{one}") for one in range(partitions)]
        return sum(os.path.getsize(os.path.join(folder, name)) for folder in folders for name in os.listdir(folder) if name.endswith(".log"))

    def wait_copied(self, end, within_s=90, partition=0):
        """Waits until the tier has all below `end`."""
        eventually(lambda: self.offset(-5, partition) >= end - 1, f"offsets below {end} are in the tier", within_s)

    def wait_local_gone(self, below, within_s=60, partition=0):
        eventually(lambda: self.offset(-4, partition) >= below, f"nothing below {below} is here any more", within_s)

    def command(self, *words, fails=False):
        """A command of the binary; what it says, standard error last."""
        done = subprocess.run([self.binary, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, env=self.environment)
        text = done.stdout + done.stderr
        if (done.returncode != 0) != fails:
            raise AssertionError(f"alluvium {' '.join(words)}: exit code {done.returncode}, {text[-1500:]}")
        return text

    def verify(self, **options):
        return self.command("tier", "verify", "--data-dir", self.folder, "--tier", self.tier, *self.flags, **options)


@functools.cache
def made(number):
    return batch([f"record {number} ".encode() + random.Random(number).randbytes(RECORD_BYTES)], timestamp_ms=BEGAN_MS)


def batch_of(offset):
    """The batch of one record that stands at this offset. They repeat, so that a test does not spend its time on checksums."""
    return made(offset % 61)


BEGAN_MS = now_ms()


class Writer:
    """Writes records whose numbers are their offsets, each acknowledged before the next, and asks for the newest ones meanwhile."""

    def __init__(self, broker, partition=0, topic=TOPIC):
        self.broker, self.partition, self.topic = broker, partition, topic
        self.end = 0
        self.slowest_produce_s = self.slowest_fetch_s = 0.0

    def connect(self):
        return Connection(self.broker.cluster.leader(self.topic, self.partition), timeout_s=60)

    def write(self, count, connection=None, fetch_each=16):
        """Writes `count` records; raises where one is not acknowledged at the offset that it should have."""
        own = connection or self.connect()
        try:
            for _ in range(count):
                data = batch_of(self.end)
                began = time.monotonic()
                body = {"TransactionalId": None, "Acks": -1, "TimeoutMs": 30000, "TopicData": [{"Name": self.topic, "PartitionData": [
                    {"Index": self.partition, "Records": data}]}]}
                row = own.call("Produce", 7, body)["Responses"][0]["PartitionResponses"][0]
                self.slowest_produce_s = max(self.slowest_produce_s, time.monotonic() - began)
                equal((row["ErrorCode"], row["BaseOffset"]), (0, self.end), "produce")
                self.end += 1
                if self.end % fetch_each == 0:
                    began = time.monotonic()
                    newest = fetch(own, self.topic, self.partition, self.end - 1)
                    self.slowest_fetch_s = max(self.slowest_fetch_s, time.monotonic() - began)
                    equal(newest, [self.end - 1], "the newest record")
        finally:
            if own is not connection:
                own.socket.close()

    def until(self, condition, what, within_s=60, pause_s=0.01):
        """Writes on, slowly, until something has happened."""
        deadline = time.monotonic() + within_s
        with self.connect() as connection:
            while not condition():
                if time.monotonic() > deadline:
                    raise AssertionError(f"not within {within_s} s: {what}")
                self.write(1, connection)
                time.sleep(pause_s)

    def read_all(self, start=0, **options):
        read_all(self.broker, start, self.end, self.partition, self.topic, **options)

    def latency(self):
        return f"slowest produce {self.slowest_produce_s * 1000:.0f} ms, slowest hot fetch {self.slowest_fetch_s * 1000:.0f} ms"


def fetch(connection, topic, partition, offset, bytes_max=4 << 20):
    """Offsets of the whole records that one fetch brings, each with the bytes that were written."""
    body = {"ReplicaId": -1, "MaxWaitMs": 500, "MinBytes": 1, "MaxBytes": bytes_max, "IsolationLevel": 0, "SessionId": 0, "SessionEpoch": -1,
            "Topics": [{"Topic": topic, "Partitions": [{"Partition": partition, "CurrentLeaderEpoch": -1, "FetchOffset": offset, "LogStartOffset": -1,
                                                        "PartitionMaxBytes": bytes_max}]}], "ForgottenTopicsData": [], "RackId": ""}
    row = connection.call("Fetch", 11, body)["Responses"][0]["Partitions"][0]
    if row["ErrorCode"]:
        raise FetchError(row["ErrorCode"])
    data, at, offsets = row["Records"] or b"", 0, []
    while at + MAGIC_AT < len(data):
        base, length = struct.unpack_from(">qi", data, at)
        end = at + 12 + length
        if end > len(data):
            break
        true(data[at + MAGIC_AT : end] == batch_of(base)[MAGIC_AT:], f"record {base} has other bytes")
        offsets.append(base)
        at = end
    return offsets


class FetchError(AssertionError):
    """An error code instead of records."""


def read_all(broker, start, end, partition=0, topic=TOPIC, within_s=60):
    """Reads from `start`: each record up to `end` is there once, in order, with its own bytes."""
    deadline, at = time.monotonic() + within_s, start
    with Connection(broker.cluster.leader(topic, partition), timeout_s=60) as connection:
        while at < end:
            try:
                found = fetch(connection, topic, partition, at)
            except FetchError:
                # The tier may not answer now.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
                continue
            true(found or time.monotonic() < deadline, f"nothing is read at {at} of {end}")
            for offset in found:
                equal(offset, at, "the next offset")
                at += 1
