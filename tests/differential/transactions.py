"""Transactions of both versions, their fencing, and what read_committed sees of them: a walk of its own, with a topic of its own."""
import random
import time

from batch import batch, now_ms
from pair import Of, PerSide
from steps import Step

TRANSACTIONAL = 16
OK, CONCURRENT_TRANSACTIONS = 0, 51


class Transactions:
    """Two transactional ids that write to the partitions of one topic. Producer ids are each side's own, epochs are not."""

    def __init__(self, pair, seed):
        self.pair, self.random = pair, random.Random(-seed)
        self.topic = f"differential-{seed}-transacted-{now_ms() % 100_000_000}"
        self.topics = {self.topic: ("transacted", 2)}
        pair.create_topic(self.topic, 2, {})
        # One of each transaction version: from 2 on partitions are added by writing to them, and an end raises the epoch.
        self.ids = [f"{self.topic}-v{version}" for version in (1, 2)]
        self.producers, self.sequences, self.open = {}, {}, set()
        for side in pair.sides:
            warm_up(side)

    def next_step(self):
        rng = self.random
        id_ = rng.choice(self.ids)
        if id_ not in self.producers:
            return self.init(id_)
        # Who initialises while something is open fences the producer that has it, which does not know, and goes on for a while.
        makers = [self.init] * 2 + [self.add] * 3 + [self.produce] * 6 + [self.end] * 4 + [self.fetch] * 5 + [self.list_offsets] * 4
        return rng.choice(makers)(id_)

    def version(self, api, low, high):
        both = self.pair.versions(api)
        return self.random.randint(max(low, both[0]), min(high, both[1]))

    def who(self, id_):
        """The producer, or one that it was before."""
        known = self.producers[id_]
        epoch = known[-1] if self.random.random() < 0.85 else self.random.choice(known)
        return {"TransactionalId": id_, "ProducerId": Of("producer", id_), "ProducerEpoch": epoch}

    def init(self, id_):
        low = 3 if id_ in self.producers else 0
        body = {"TransactionalId": id_, "TransactionTimeoutMs": self.random.choice([60_000] * 4 + [0, 900_001]), "ProducerId": -1, "ProducerEpoch": -1}
        if low and self.random.random() < 0.5:
            body.update(self.who(id_))

        def learn(*answers):
            if all(answer["ErrorCode"] == OK for answer in answers):
                for side, answer in zip(self.pair.sides, answers):
                    side.own["producer"][id_] = answer["ProducerId"]
                self.began(id_, answers[0]["ProducerEpoch"])
            if any(answer["ErrorCode"] in (OK, CONCURRENT_TRANSACTIONS) for answer in answers):
                self.open.discard(id_)
            self.settle(id_)
        fences = " of what is open" if id_ in self.open else ""
        return Step(f"init of {id_[-2:]}{fences}", "InitProducerId", self.version("InitProducerId", low, 5), body, learn=learn)

    def began(self, id_, epoch):
        known = self.producers.setdefault(id_, [])
        if not known or known[-1] != epoch:
            known.append(epoch)
            self.sequences[id_] = {}

    def add(self, id_):
        who = self.who(id_)
        body = {f"V3AndBelow{name}": value for name, value in who.items()}
        body["V3AndBelowTopics"] = [{"Name": self.topic, "Partitions": [self.random.choice([0, 0, 1, 1, 9])]}]

        def learn(answer, _):
            if answer["ResultsByTopicV3AndBelow"][0]["ResultsByPartition"][0]["PartitionErrorCode"] == OK:
                self.open.add(id_)
        return Step(f"add to {id_[-2:]}", "AddPartitionsToTxn", self.version("AddPartitionsToTxn", 0, 3), body, learn=learn)

    def produce(self, id_):
        who, rng = self.who(id_), self.random
        partition, count = rng.randint(0, 1), rng.choice([1, 2])
        sequences = self.sequences[id_]
        fields = dict(attributes=TRANSACTIONAL, producer_epoch=who["ProducerEpoch"], sequence=sequences.get(partition, 0), timestamp_ms=now_ms() - 60_000)
        values = [rng.randbytes(10) for _ in range(count)]
        data = PerSide(lambda side: batch(values, producer_id=side.own["producer"][id_], **fields))
        if rng.random() < 0.1:
            data, who["TransactionalId"] = batch(values, timestamp_ms=fields["timestamp_ms"]), None
        version = self.version("Produce", 3, 11) if id_.endswith("v1") else 12
        body = {"TransactionalId": who["TransactionalId"], "Acks": -1, "TimeoutMs": 10_000,
                "TopicData": [{"Name": self.topic, "PartitionData": [{"Index": partition, "Records": data}]}]}

        def learn(answer, _):
            if answer["Responses"][0]["PartitionResponses"][0]["ErrorCode"] == OK and who["TransactionalId"]:
                sequences[partition] = sequences.get(partition, 0) + count
                self.open.add(id_)
        return Step(f"in {id_[-2:]} to {partition}" if who["TransactionalId"] else "plain", "Produce", version, body, learn=learn)

    def end(self, id_):
        version = self.version("EndTxn", 0, 4) if id_.endswith("v1") else 5
        commits = self.random.random() < 0.5

        def learn(answer, _):
            if answer["ErrorCode"] == OK:
                self.open.discard(id_)
                if version >= 5:
                    self.began(id_, answer["ProducerEpoch"])
            self.settle(id_)
        return Step(f"{'commit' if commits else 'abort'} of {id_[-2:]}", "EndTxn", version, {**self.who(id_), "Committed": commits}, learn=learn)

    def settle(self, id_):
        """Markers come after the answer: both sides have written them, or the transaction is open."""
        for side in self.pair.sides:
            until = time.monotonic() + 20
            while time.monotonic() < until:
                states = side.connection.call("DescribeTransactions", 0, {"TransactionalIds": [id_]})["TransactionStates"]
                if not states[0]["TransactionState"].startswith("Prepare"):
                    break
                time.sleep(0.005)

    def fetch(self, _):
        rng = self.random
        rows = [{"Partition": partition, "FetchOffset": rng.choice([0, 0, rng.randint(0, 40)]), "PartitionMaxBytes": 1 << 20} for partition in (0, 1)]
        isolation = rng.choice([0, 1, 1, 1])
        body = {"MaxWaitMs": 0, "MinBytes": 0, "MaxBytes": 1 << 20, "IsolationLevel": isolation, "SessionId": 0, "SessionEpoch": -1,
                "Topics": [{"Topic": self.topic, "Partitions": rows}]}
        return Step(f"isolation {isolation}", "Fetch", self.version("Fetch", 4, 12), body)

    def list_offsets(self, _):
        rng = self.random
        isolation, timestamp = rng.choice([0, 1, 1]), rng.choice([-1, -1, -1, -2, -3, now_ms() - 60_500])
        rows = [{"PartitionIndex": partition, "Timestamp": timestamp} for partition in (0, 1)]
        version = self.version("ListOffsets", 7, 9)
        return Step(f"isolation {isolation} of {timestamp}", "ListOffsets", version,
                    {"ReplicaId": -1, "IsolationLevel": isolation, "Topics": [{"Name": self.topic, "Partitions": rows}]})


def warm_up(side):
    """Until the coordinator's topic is there: Kafka takes its time over the first."""
    body = {"TransactionalId": "differential-warm-up", "TransactionTimeoutMs": 60_000, "ProducerId": -1, "ProducerEpoch": -1}
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = side.connection.call("FindCoordinator", 4, {"KeyType": 1, "CoordinatorKeys": [body["TransactionalId"]]})["Coordinators"][0]
        if found["ErrorCode"] == OK and side.connection.call("InitProducerId", 4, body)["ErrorCode"] == OK:
            return
        time.sleep(0.1)
    raise SystemExit(f"{side.name} has no coordinator of transactions within 60 s")
