"""Readers of the tier: groups of every client from the tier into what is local, and one that takes nothing."""
import json
import os
import socket
import subprocess
import sys
import threading

from broker import SEGMENT_RECORDS, TOPIC, Writer, read_all
from connection import Closed
from hdfs import ROOT
from stage import TOOL, TOOLS, ended_well, started, suite
from suite import equal, eventually, true

PYTHON = [sys.executable, os.path.join(ROOT, "tests/clients/groups/member.py")]
GO = [os.path.join(TOOLS, "go/bin/member")]
MEMBERS = {
    "java": [TOOL, "clients.GroupMember", "classic"], "java-848": [TOOL, "clients.GroupMember", "consumer"], "kafka-python": [*PYTHON, "kafka-python"],
    "confluent": [*PYTHON, "confluent"], "franz-go": [*GO, "franz-go"], "sarama": [*GO, "sarama"],
}
PARTITIONS = 3


class Member:
    """A member of a group of its own, and what it has read."""

    def __init__(self, broker, name, command):
        self.name, self.read = name, []
        self.process = subprocess.Popen([*command, f"127.0.0.1:{broker.port}", TOPIC, f"group-{name}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()

    def listen(self):
        for line in self.process.stdout:
            said = json.loads(line)
            if "read" in said:
                self.read.append(tuple(said["read"]))

    def end(self):
        """Leaves its group; ended by force where it does not."""
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.thread.join()


@suite.case("read-without-namenode")
def _(stage):
    """A file that is open costs no call of the NameNode: all of it is read again from the DataNodes while the NameNode hangs."""
    broker, writer = started(stage, "--tier-memory", "8M")
    segments = 20
    writer.write(segments * SEGMENT_RECORDS + 1)
    broker.wait_local_gone(segments * SEGMENT_RECORDS)
    writer.read_all()
    stage.hdfs.control("hang-nn")
    try:
        # More than the memory holds.
        read_all(broker, 0, segments * SEGMENT_RECORDS)
    finally:
        stage.hdfs.control("cont-nn")
    broker.stop()


@suite.case("groups")
def _(stage):
    """A group of each client reads all from the tier into what is local, and when it comes again, what is new alone."""
    broker = stage.broker(cores=2).start(group_initial_rebalance_delay_ms=0)
    broker.create(partitions=PARTITIONS)
    writers = [Writer(broker, partition) for partition in range(PARTITIONS)]
    for writer in writers:
        writer.write(3 * SEGMENT_RECORDS + 20)
        broker.wait_local_gone(2 * SEGMENT_RECORDS, partition=writer.partition)
    begins = [0] * PARTITIONS
    for _ in range(2):
        members = [Member(broker, name, command) for name, command in MEMBERS.items()]
        wanted = sorted((writer.partition, offset) for writer in writers for offset in range(begins[writer.partition], writer.end))
        try:
            eventually(lambda: all(len(member.read) >= len(wanted) for member in members), "each group reads all of it", 120)
        finally:
            print(f"   of {len(wanted)} records:", ", ".join(f"{member.name} {len(member.read)}" for member in members), flush=True)
            for member in members:
                member.end()
        for member in members:
            equal(sorted(member.read), wanted, f"what {member.name} has read")
        begins = [writer.end for writer in writers]
        for writer in writers:
            true(0 < broker.offset(-4, writer.partition) < writer.end, "there is something local, and something that is in the tier alone")
            writer.write(SEGMENT_RECORDS)


def is_closed_early(connection):
    """Takes what was sent to it; true where its connection ends before all that it asked for."""
    connection.socket.settimeout(1)
    try:
        for _ in range(7):
            connection.receive_frame()
    except Closed:
        return True
    except TimeoutError:
        pass
    return False


@suite.case("reader-that-takes-nothing")
def _(stage):
    """Readers that do not take what they asked for hold the tier's memory: others wait, and after 30 s those are closed."""
    # Late answers would bring nothing: these wait until there is memory for what they bring.
    broker, writer = started(stage, "--tier-memory", "16M", remote_fetch_max_wait_ms=60_000)
    # Commands have no such flag.
    broker.flags = broker.flags[:-2]
    writer.write(8 * SEGMENT_RECORDS)
    broker.wait_local_gone(7 * SEGMENT_RECORDS)
    body = {"ReplicaId": -1, "MaxWaitMs": 500, "MinBytes": 1, "MaxBytes": 1 << 20, "IsolationLevel": 0, "SessionId": 0, "SessionEpoch": -1,
            "ForgottenTopicsData": [], "RackId": ""}
    silent = []
    try:
        for number in range(8):
            one = writer.connect()
            # Little of what it does not take lies in its own socket.
            one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            silent.append(one)
            for segment in range(7):
                asked = {"Partition": 0, "CurrentLeaderEpoch": -1, "FetchOffset": segment * SEGMENT_RECORDS + number, "LogStartOffset": -1,
                         "PartitionMaxBytes": 1 << 20}
                one.send("Fetch", 11, {**body, "Topics": [{"Topic": TOPIC, "Partitions": [asked]}]})
        # What is new is written and read meanwhile, also where all of the tier's memory is held.
        writer.until(lambda: "a reply that holds memory of the tier was not taken" in broker.log(), "a reader that takes nothing is closed", 90, pause_s=0.2)
        print("  ", writer.latency(), flush=True)
        true(max(writer.slowest_produce_s, writer.slowest_fetch_s) < 3, writer.latency())
        # Who reads on has the memory then.
        writer.read_all(within_s=90)
        true(any(is_closed_early(one) for one in silent), "its connection has ended")
    finally:
        for one in silent:
            one.socket.close()
    ended_well(stage, broker, writer, 8)
