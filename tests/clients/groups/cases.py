"""Groups of every client: members come, leave, crash and come back, and so does the server; each record is read, none again.

One server for all; each client has a topic and a group of its own, and all go through the same scenes at the same time:

1. one member has all partitions; two, then three share them; one leaves, one is killed, one comes back;
2. what was committed is gone on from when the server was stopped, and when it was killed;
3. a static member that restarts at once disturbs nobody (clients that have static members);
4. a cooperative member keeps what is not taken from it through all of that (clients that rebalance so).

And Java consumers go from the classic protocol to the consumer protocol and back, one at a time. Before all that, clients whose
transactions no other suite tries commit and abort some, with records and offsets; and the server is paused over the end of
sessions (paused.py).
"""
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../raw"))
from batch import batch, batches, values_of
from connection import Cluster, Connection
from paused import Paused
from suite import unique

TOOLS = os.environ.get("ALLUVIUM_TEST_TOOLS", os.path.join(HERE, "../../../target/test-tools"))
PARTITIONS = 6
WITHIN_S = 60.0


def java(protocol):
    return [os.path.join(HERE, "../java/tool"), "clients.GroupMember", protocol]


PYTHON = [os.path.join(TOOLS, "python/bin/python"), os.path.join(HERE, "member.py")]
GO = [os.path.join(TOOLS, "go/bin/member")]
ENVIRONMENT = {**os.environ, "NODE_PATH": os.path.join(TOOLS, "node/node_modules"), "PYTHONUNBUFFERED": "1"}
NODE = ["node", os.path.join(HERE, "node/member.js")]
# name: command, has static members, rebalances cooperatively, tells its assignment
CLIENTS = {
    "java": (java("classic"), True, True, True),
    "java-848": (java("consumer"), True, True, True),
    "confluent": (PYTHON + ["confluent"], True, True, True),
    "confluent-848": (PYTHON + ["confluent-848"], True, True, True),
    "kafka-python": (PYTHON + ["kafka-python"], True, False, True),
    "aiokafka": (PYTHON + ["aiokafka"], False, False, True),
    "franz-go": (GO + ["franz-go"], True, True, True),
    "sarama": (GO + ["sarama"], True, False, True),
    "kafka-go": (GO + ["kafka-go"], False, False, False),
    "kafkajs": (NODE, False, False, True),
}
# Who commits and aborts transactions; those of Java, librdkafka and franz-go have suites of their own.
TRANSACTORS = {
    "kafka-python": [PYTHON[0], os.path.join(HERE, "transactor.py"), "kafka-python"],
    "aiokafka": [PYTHON[0], os.path.join(HERE, "transactor.py"), "aiokafka"],
    "sarama": GO + ["sarama-transactor"],
    "kafkajs": ["node", os.path.join(HERE, "node/transactor.js")],
}


class Server:
    """The server, which can be stopped or killed and started again on its data."""

    def __init__(self, binary, port):
        self.binary, self.port, self.folder = binary, port, tempfile.mkdtemp(prefix="alluvium-groups-")
        self.start()

    def start(self):
        flags = ["group.initial.rebalance.delay.ms=300", "group.consumer.heartbeat.interval.ms=300", "group.consumer.session.timeout.ms=10000",
                 "group.consumer.assignment.interval.ms=300", "group.min.session.timeout.ms=100"]
        self.process = subprocess.Popen(
            [self.binary, "serve", "--listen", f"127.0.0.1:{self.port}", "--cores", "2", "--data-dir", os.path.join(self.folder, "data")]
            + [word for flag in flags for word in ("--set", flag)],
            stdout=subprocess.PIPE, stderr=open(os.path.join(self.folder, "log"), "a"), stdin=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("ready"):
            raise SystemExit(f"the server did not start: see {self.folder}/log")
        self.bootstrap = ",".join(word.partition("=")[2] for word in line.split()[1:])

    def end(self, kill):
        self.process.kill() if kill else self.process.terminate()
        code = self.process.wait(30)
        if not kill and code != 0:
            raise AssertionError(f"the server stopped with {code}")


class Member:
    """A member of a group in a process of its own, and what it has said."""

    def __init__(self, command, bootstrap, topic, group, instance=None):
        words = command + [bootstrap, topic, group] + ([instance] if instance else [])
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ENVIRONMENT)
        self.held, self.history, self.reads, self.errors = [], [], [], []
        self.reader = threading.Thread(target=self.listen, daemon=True)
        self.reader.start()

    def listen(self):
        for line in self.process.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if "assigned" in said:
                self.held = said["assigned"]
                self.history.append(said["assigned"])
            elif "read" in said:
                self.reads.append(tuple(said["read"]))
            else:
                self.errors.append(said.get("error"))

    def leave(self):
        self.process.stdin.close()
        try:
            self.process.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("a member does not end")
        self.reader.join(5)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join(5)


class Scene:
    """One client's group on its topic."""

    def __init__(self, name, server, barrier):
        self.name, self.server, self.barrier = name, server, barrier
        self.command, self.has_static, self.is_cooperative, self.tells = CLIENTS[name]
        self.members, self.past, self.written = [], [], 0
        self.topic, self.group = unique(f"groups-{name}"), unique(f"groups-{name}")
        self.failure, self.took_s = None, 0.0

    def add(self, command=None, instance=None):
        self.members.append(Member(command or self.command, self.server.bootstrap, self.topic, self.group, instance))
        return self.members[-1]

    def drop(self, member, how="leave"):
        getattr(member, how)()
        self.members.remove(member)
        self.past.append(member)

    def until(self, done, what, within_s=WITHIN_S):
        deadline = time.monotonic() + within_s
        while not done():
            if time.monotonic() > deadline:
                shown = [(m.process.poll(), m.held, len(m.reads), m.errors[-2:]) for m in self.members]
                raise AssertionError(f"not within {within_s} s: {what}: {shown}, {len(self.all_reads())} of {self.written} read")
            time.sleep(0.05)

    def all_reads(self):
        return [read for member in self.members + self.past for read in member.reads]

    def shared(self, sizes):
        """Waits until the members have so many partitions each, all of them, none twice; and records come through."""
        def is_shared():
            held = sorted(p for m in self.members for p in m.held)
            return held == list(range(PARTITIONS)) and sorted(len(m.held) for m in self.members) == sorted(sizes)
        if self.tells:
            self.until(is_shared, f"{sizes} partitions")
        self.write()

    def write(self, each=3):
        """Writes to each partition, and waits until all is read and committed."""
        with Connections(self.server) as to:
            for partition in range(PARTITIONS):
                to.produce(self.topic, partition, each)
        self.written += PARTITIONS * each
        self.until(lambda: len(set(self.all_reads())) >= self.written, "all that was written is read")
        self.until(self.is_committed, "all that was read is committed")

    def transact(self):
        """Writes a record to each partition in a transaction, which is committed, and waits until they are read."""
        with Connections(self.server) as to:
            to.transact(self.topic)
        self.written += PARTITIONS
        self.until(lambda: len(set(self.all_reads())) >= self.written, "the records of a transaction are read")

    def is_committed(self):
        """Who commits behind a marker has committed one more than there are records."""
        with Connections(self.server) as to:
            return min(to.committed(self.group, self.topic)) >= self.written // PARTITIONS

    def run(self):
        began = time.monotonic()
        try:
            self.scenes()
        except Exception as error:  # each client's failure is a result, not the end of the run
            self.failure = f"{type(error).__name__}: {error}"
            self.barrier.abort()
        finally:
            for member in list(self.members):
                member.kill()
        self.took_s = time.monotonic() - began

    def meet(self, act=None):
        """Waits for the other clients; one of them acts for all."""
        try:
            if self.barrier.wait(4 * WITHIN_S) == 0 and act:
                act()
            self.barrier.wait(4 * WITHIN_S)
        except threading.BrokenBarrierError:
            raise AssertionError("another client has failed before the server was restarted") from None

    def scenes(self):
        a = self.add()
        self.shared([6])
        b = self.add()
        self.shared([3, 3])
        c = self.add()
        self.shared([2, 2, 2])
        if self.is_cooperative:
            fewest = min(len(held) for held in a.history[a.history.index(list(range(PARTITIONS))):])
            assert fewest >= 2, f"the first member kept fewer than two partitions while others came: {a.history}"
        self.drop(c)
        self.shared([3, 3])
        self.drop(b, "kill")
        self.shared([6])
        self.add()
        self.shared([3, 3])
        # What was committed is known after a stop and a kill; the members stay, and find the server again.
        for kill in (False, True):
            committed, counts = set(self.all_reads()), [len(member.reads) for member in self.members]
            self.meet(lambda: (self.server.end(kill), self.server.start()))
            self.write()
            again = [read for member, count in zip(self.members, counts) for read in member.reads[count:] if read in committed]
            assert not again, f"read again after it was committed: {again[:10]}"
        for member in list(self.members):
            self.drop(member)
        late = self.add()
        self.shared([6])
        assert len(late.reads) == PARTITIONS * 3, f"a new member reads what is new: {late.reads[:20]}"
        # C178: behind what was committed last lies a marker and nothing else; who begins there goes on behind it.
        self.transact()
        self.drop(late)
        late = self.add()
        if self.tells:
            self.until(lambda: len(late.held) == PARTITIONS, "all partitions")
        with Connections(self.server) as to:
            for partition in range(PARTITIONS):
                to.produce(self.topic, partition, 1)
        self.written += PARTITIONS
        self.until(lambda: len(set(self.all_reads())) >= self.written, "what lies behind a marker is read")
        self.drop(late)
        if self.has_static:
            self.static()

    def static(self):
        one, two = self.add(instance="one"), self.add(instance="two")
        self.shared([3, 3])
        held, kept, changes = list(two.held), list(one.held), len(one.history)
        # By KIP-848 who crashed has to be missed first; who says that it comes back need not.
        self.drop(two, "leave" if self.name.endswith("-848") else "kill")
        two = self.add(instance="two")
        self.until(lambda: two.held == held, f"a static member that restarts has {held}, which it had")
        self.write()
        disturbed = [held for held in one.history[changes:] if held != kept]
        assert not disturbed, f"the other one, which had {kept}, was disturbed: {disturbed}"


class Upgrade(Scene):
    """Java consumers: from the classic protocol to the consumer protocol and back, one at a time."""

    def __init__(self, server, barrier):
        super().__init__("java", server, barrier)
        self.name = "java-upgrade"

    def scenes(self):
        classic, consumer = java("classic"), java("consumer")
        first, second = self.add(classic), self.add(classic)
        self.shared([3, 3])
        for protocol, kind in ((consumer, "Consumer"), (classic, "Classic")):
            for old in (first, second):
                self.drop(old)
                new = self.add(protocol)
                self.shared([3, 3])
                first, second = second, new
            with Connections(self.server) as to:
                got = to.group_type(self.group)
            assert got.lower() == kind.lower(), f"a group of type {got}"
        for _ in range(2):
            self.meet()


class Transactor:
    """One client's transactions: two are committed, a third aborted, each with a record for each partition and an offset."""

    def __init__(self, name, server):
        self.name, self.server, self.failure = f"{name}-transactions", server, None
        self.command, self.topic, self.group = TRANSACTORS[name], unique(f"transactions-{name}"), unique(f"transactions-{name}")

    def run(self):
        began = time.monotonic()
        words = self.command + [self.server.bootstrap, self.topic, self.group, str(PARTITIONS)]
        try:
            done = subprocess.run(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT, timeout=WITHIN_S)
            assert done.returncode == 0, done.stdout[-800:]
            self.check()
        except Exception as error:  # as above
            self.failure = f"{type(error).__name__}: {error}"
        self.took_s = time.monotonic() - began

    def check(self):
        with Connections(self.server) as to:
            for partition in range(PARTITIONS):
                found = to.read_committed(self.topic, partition)
                assert found == [b"round 0", b"round 1"], f"read_committed sees {found} of partition {partition}"
            # Its transaction is aborted: what it said of the offset is forgotten.
            offset = until_ok(lambda: to.stable_offset(self.group, self.topic))["CommittedOffset"]
            assert offset == 2, f"the group has committed {offset}"


class Connections:
    """Raw connections to whoever leads; opened as they are needed."""

    def __init__(self, server):
        self.cluster, self.open = Cluster(server.bootstrap), {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in self.open.values():
            connection.__exit__()

    def to(self, address):
        if address not in self.open:
            self.open[address] = Connection(address)
        return self.open[address]

    def produce(self, topic, partition, count, records=None, transactional_id=None):
        records = records or batch([b"v"] * count)
        body = {"TransactionalId": transactional_id, "Acks": -1, "TimeoutMs": 10000, "TopicData": [{"Name": topic, "PartitionData": [{"Index": partition, "Records": records}]}]}
        reply = self.to(self.cluster.leader(topic, partition)).call("Produce", 9, body)
        code = reply["Responses"][0]["PartitionResponses"][0]["ErrorCode"]
        assert code == 0, f"produce: error {code}"

    def transact(self, topic):
        """One record to each partition, and a marker behind it."""
        id_ = unique("groups-transaction")
        coordinator = self.coordinator(id_, 1)
        begun = until_ok(lambda: coordinator.call("InitProducerId", 4, {"TransactionalId": id_, "TransactionTimeoutMs": 60000, "ProducerId": -1, "ProducerEpoch": -1}))
        of = {"TransactionalId": id_, "ProducerId": begun["ProducerId"], "ProducerEpoch": begun["ProducerEpoch"]}
        added = {f"V3AndBelow{key}": value for key, value in of.items()}
        coordinator.call("AddPartitionsToTxn", 3, {**added, "V3AndBelowTopics": [{"Name": topic, "Partitions": list(range(PARTITIONS))}]})
        for partition in range(PARTITIONS):
            records = batch([b"v"], attributes=16, producer_id=of["ProducerId"], producer_epoch=of["ProducerEpoch"], sequence=0)
            self.produce(topic, partition, 1, records, id_)
        until_ok(lambda: coordinator.call("EndTxn", 3, {**of, "Committed": True}))

    def coordinator(self, key, kind=0):
        for _ in range(200):
            row = self.to(self.cluster.controller()).call("FindCoordinator", 4, {"CoordinatorKeys": [key], "KeyType": kind})["Coordinators"][0]
            if row["ErrorCode"] == 0:
                return self.to((row["Host"], row["Port"]))
            time.sleep(0.05)
        raise AssertionError("no coordinator")

    def committed(self, group, topic):
        body = {"Groups": [{"GroupId": group, "Topics": [{"Name": topic, "PartitionIndexes": list(range(PARTITIONS))}]}], "RequireStable": False}
        row = self.coordinator(group).call("OffsetFetch", 8, body)["Groups"][0]
        return [p["CommittedOffset"] for t in row["Topics"] for p in sorted(t["Partitions"], key=lambda p: p["PartitionIndex"])]

    def read_committed(self, topic, partition):
        """The values that a reader of read_committed sees, once nothing is open."""
        at = self.to(self.cluster.leader(topic, partition))
        row = {"Partition": partition, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20}
        body = {"MaxWaitMs": 0, "MinBytes": 0, "MaxBytes": 1 << 20, "IsolationLevel": 1, "Topics": [{"Topic": topic, "Partitions": [row]}], "SessionEpoch": -1}
        for _ in range(200):
            reply = at.call("Fetch", 12, body)["Responses"][0]["Partitions"][0]
            if reply["LastStableOffset"] == reply["HighWatermark"]:
                break
            time.sleep(0.05)
        assert reply["LastStableOffset"] == reply["HighWatermark"], f"a transaction stays open in partition {partition}"
        begins = {(row["ProducerId"], row["FirstOffset"]) for row in reply["AbortedTransactions"] or []}
        values, aborting = [], set()
        for one in batches(reply["Records"]):
            if (one["producer_id"], one["base_offset"]) in begins:
                aborting.add(one["producer_id"])
            if one["attributes"] & 32:
                aborting.discard(one["producer_id"])
            elif one["producer_id"] not in aborting:
                values += values_of(one)
        return values

    def stable_offset(self, group, topic):
        """The row of partition 0, refused while a transaction may still change it."""
        body = {"Groups": [{"GroupId": group, "Topics": [{"Name": topic, "PartitionIndexes": [0]}]}], "RequireStable": True}
        return self.coordinator(group).call("OffsetFetch", 8, body)["Groups"][0]["Topics"][0]["Partitions"][0]

    def group_type(self, group):
        rows = self.coordinator(group).call("ListGroups", 5, {"StatesFilter": [], "TypesFilter": []})["Groups"]
        return next(row["GroupType"] for row in rows if row["GroupId"] == group)


def until_ok(ask):
    for _ in range(200):
        reply = ask()
        if reply["ErrorCode"] == 0:
            return reply
        time.sleep(0.05)
    raise AssertionError(f"error {reply['ErrorCode']}")


def side_by_side(scenes):
    threads = [threading.Thread(target=scene.run) for scene in scenes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    binary, port, only = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    server = Server(binary, port)
    names = [name for name in [*CLIENTS, "java-upgrade"] if not only or name in only]
    barrier = threading.Barrier(len(names))
    scenes = [Upgrade(server, barrier) if name == "java-upgrade" else Scene(name, server, barrier) for name in names]
    cluster = Cluster(server.bootstrap)
    transactors = [Transactor(name, server) for name in TRANSACTORS if not only or name in only]
    for scene in scenes + transactors:
        cluster.create_topic(scene.topic, PARTITIONS)
    alone = [Paused(server)] if not only or "paused-server" in only else []
    try:
        side_by_side(alone)
        # The server is stopped and killed only later.
        side_by_side(transactors)
        side_by_side(scenes)
    finally:
        server.process.kill()
        server.process.wait()
    scenes = alone + transactors + scenes
    for scene in scenes:
        print(f"FAIL {scene.name} {' '.join(scene.failure.split())[:800]}" if scene.failure else f"ok {scene.name} ({scene.took_s:.1f} s)")
    failed = sum(scene.failure is not None for scene in scenes)
    if failed:
        print(f"the server's folder: {server.folder}")
    else:
        subprocess.run(["rm", "-r", server.folder], check=True)
    print(f"clients: {len(scenes) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
