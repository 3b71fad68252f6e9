"""Writes tests/golden/log-*: directories as a real Kafka 4.4.0 leaves them, each with what kafka-dump-log says of it.

    tests/directories/generate [PORT]      PORT and PORT+1 are free

Each has the partition's folder and the checkpoints beside it. The files differ from run to run (times, ids): commit them as a whole.
"""
import glob
import json
import os
import re
import shutil
import sys
import tempfile
import time

from servers import ROOT, Kafka, dump
from batch import batch, batches, now_ms, record
from world import CODECS, compress

SMALL_INDEX = {"segment.index.bytes": 1024, "index.interval.bytes": 200}
TOPICS = {
    "log-plain": {},
    "log-codecs": {"index.interval.bytes": 200},
    "log-idempotent": {},
    "log-append-time": {"message.timestamp.type": "LogAppendTime"},
    "log-rolled": {"segment.ms": 10000, **SMALL_INDEX},
    "log-epochs": {},
    "log-records-deleted": {"segment.ms": 10000, **SMALL_INDEX},
    "log-unclean": {"segment.ms": 10000, **SMALL_INDEX},
    "log-transactions": {"segment.ms": 10000, **SMALL_INDEX},
}
CHECKPOINTS = ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"]


def records(first, count, keyed=True):
    out = b""
    for at in range(count):
        key = None if at % 3 == 2 or not keyed else b"key-%d" % (first + at)
        headers = [("trace", b"t%d" % at), ("empty", None)] if at % 2 else ()
        out += record(at, None if at % 7 == 6 else b"value %d %s" % (first + at, b"x" * (at * 13 % 80)), key, headers, timestamp_delta=at * 3)
    return out


def produce(connection, topic, number, count=4, codec="none", step_ms=1000, **producer):
    first_ms = now_ms() - 600_000 + number * step_ms
    data = batch([b""] * count, records=compress(codec, records(number * 10, count)), attributes=CODECS.index(codec), timestamp_ms=first_ms,
                 max_timestamp_ms=first_ms + (count - 1) * 3, **producer)
    body = {"Acks": -1, "TimeoutMs": 10000, "TopicData": [{"Name": topic, "PartitionData": [{"Index": 0, "Records": data}]}]}
    row = connection.call("Produce", 9, body)["Responses"][0]["PartitionResponses"][0]
    if row["ErrorCode"] != 0:
        raise SystemExit(f"produce to {topic}: {row}")
    return data


def fill(connection):
    for number in range(12):
        produce(connection, "log-plain", number)
        produce(connection, "log-codecs", number, codec=CODECS[number % 5], count=8)
        id_ = number % 3
        produce(connection, "log-idempotent", number, producer_id=7000 + id_, producer_epoch=id_, sequence=number // 3 * 4)
        produce(connection, "log-append-time", number, codec=CODECS[number % 2])
        produce(connection, "log-epochs", number)
        for topic in ("log-rolled", "log-records-deleted"):
            produce(connection, topic, number, step_ms=6000)
    rows = [{"Name": "log-records-deleted", "Partitions": [{"PartitionIndex": 0, "Offset": 22}]}]
    connection.call("DeleteRecords", 2, {"Topics": rows, "TimeoutMs": 10000})


class Transactional:
    """A transactional producer of one partition, by raw requests (transaction version 1)."""

    def __init__(self, connection, name, topic):
        self.connection, self.name, self.topic, self.sequence = connection, name, topic, 0
        self.again("FindCoordinator", 2, {"Key": name, "KeyType": 1})
        body = {"TransactionalId": name, "TransactionTimeoutMs": 900000, "ProducerId": -1, "ProducerEpoch": -1}
        reply = self.again("InitProducerId", 4, body)
        self.producer = {"producer_id": reply["ProducerId"], "producer_epoch": reply["ProducerEpoch"]}

    def again(self, api, version, body, code=lambda reply: reply["ErrorCode"]):
        """Asks until the coordinator is there, and has done with the transaction before."""
        for _ in range(600):
            reply = self.connection.call(api, version, body)
            if code(reply) not in (14, 15, 16, 51):
                if code(reply) != 0:
                    raise SystemExit(f"{api}: {reply}")
                return reply
            time.sleep(0.05)
        raise SystemExit(f"{api}: {reply}")

    def add(self, partition):
        ids = {"V3AndBelowTransactionalId": self.name, "V3AndBelowProducerId": self.producer["producer_id"],
               "V3AndBelowProducerEpoch": self.producer["producer_epoch"], "V3AndBelowTopics": [{"Name": self.topic, "Partitions": [partition]}]}
        self.again("AddPartitionsToTxn", 3, ids,
                   lambda reply: reply["ResultsByTopicV3AndBelow"][0]["ResultsByPartition"][0]["PartitionErrorCode"])

    def send(self, number, count=3):
        self.add(0)
        first_ms = now_ms() - 600_000 + number * 2500
        data = batch([b""] * count, records=records(number * 10, count), attributes=16, timestamp_ms=first_ms,
                     max_timestamp_ms=first_ms + (count - 1) * 3, sequence=self.sequence, **self.producer)
        self.sequence += count
        body = {"TransactionalId": self.name, "Acks": -1, "TimeoutMs": 10000,
                "TopicData": [{"Name": self.topic, "PartitionData": [{"Index": 0, "Records": data}]}]}
        row = self.connection.call("Produce", 9, body)["Responses"][0]["PartitionResponses"][0]
        if row["ErrorCode"] != 0:
            raise SystemExit(f"produce to {self.topic}: {row}")

    def end(self, committed):
        before = fetch_committed(self.connection, self.topic, 0)["high_watermark"]
        self.again("EndTxn", 3, {"TransactionalId": self.name, "ProducerId": self.producer["producer_id"],
                                 "ProducerEpoch": self.producer["producer_epoch"], "Committed": committed})
        while fetch_committed(self.connection, self.topic, 0)["high_watermark"] == before:
            time.sleep(0.02)


def fetch_committed(connection, topic, offset):
    """What a reader of read_committed is told from an offset on."""
    row = {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20}
    body = {"MaxWaitMs": 0, "MinBytes": 0, "MaxBytes": 1 << 20, "IsolationLevel": 1, "Topics": [{"Topic": topic, "Partitions": [row]}],
            "SessionEpoch": -1}
    reply = connection.call("Fetch", 12, body)["Responses"][0]["Partitions"][0]
    aborted = reply["AbortedTransactions"]
    return {"error": reply["ErrorCode"], "high_watermark": reply["HighWatermark"], "last_stable_offset": reply["LastStableOffset"],
            "aborted": None if aborted is None else [[row["ProducerId"], row["FirstOffset"]] for row in aborted],
            "batches": [one["base_offset"] for one in batches(reply["Records"])]}


def transactions(connection, topic="log-transactions"):
    """Three producers in turn, committed and aborted across segments; the last transaction of one stays open."""
    first, second, third = (Transactional(connection, f"{topic}-{number}", topic) for number in range(3))
    for number in range(0, 24, 6):
        first.send(number)
        second.send(number + 1)
        first.send(number + 2)
        second.end(number % 12 == 0)
        third.send(number + 3)
        first.end(number % 12 != 0)
        produce(connection, topic, number + 4, step_ms=2500)
        third.end(False)
    third.send(24)
    first.send(25)
    first.end(False)
    second.send(26)
    second.end(True)


# Status and epoch of each record that `state_of_transactions` leaves, by transactional id.
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT = "Empty", "Ongoing", "PrepareCommit", "PrepareAbort"
COMPLETE_COMMIT, COMPLETE_ABORT = "CompleteCommit", "CompleteAbort"
STATES_OF_TRANSACTIONS = {
    "version-1": [(EMPTY, 0), (ONGOING, 0), (PREPARE_COMMIT, 0), (COMPLETE_COMMIT, 0), (ONGOING, 0), (PREPARE_ABORT, 0), (COMPLETE_ABORT, 0)],
    "version-2": [(EMPTY, 0), (ONGOING, 0), (PREPARE_COMMIT, 1), (COMPLETE_COMMIT, 1), (PREPARE_ABORT, 2), (COMPLETE_ABORT, 2)],
    "fenced": [(EMPTY, 0), (ONGOING, 0), (PREPARE_ABORT, 1), (COMPLETE_ABORT, 1), (EMPTY, 2)],
    "open": [(EMPTY, 0), (ONGOING, 0), (ONGOING, 0)],
}


def state_of_transactions(connection, topic):
    """Transactions of both versions: committed, aborted, fenced, aborted with nothing in it, and one that stays open."""
    def end(one, committed, version):
        body = {"TransactionalId": one.name, "ProducerId": one.producer["producer_id"], "ProducerEpoch": one.producer["producer_epoch"], "Committed": committed}
        reply = one.again("EndTxn", version, body)
        if version >= 5:
            one.producer.update(producer_id=reply["ProducerId"], producer_epoch=reply["ProducerEpoch"])
        # The marker follows the answer.
        one.again("DescribeTransactions", 0, {"TransactionalIds": [one.name]},
                  lambda reply: 51 if reply["TransactionStates"][0]["TransactionState"].startswith("Prepare") else 0)

    first, second, fenced, open_ = (Transactional(connection, name, topic) for name in STATES_OF_TRANSACTIONS)
    for committed in (True, False):
        first.add(0)
        end(first, committed, 3)
    second.add(0)
    end(second, True, 5)
    end(second, False, 5)
    fenced.add(1)
    Transactional(connection, "fenced", topic)
    open_.add(0)
    open_.add(1)


def keep_state_of_transactions(kafka):
    """The segments of `__transaction_state`, one behind the other."""
    logs = [name for name in sorted(glob.glob(os.path.join(kafka.logs, "__transaction_state-*", "*.log"))) if os.path.getsize(name)]
    with open(os.path.join(ROOT, "tests/golden/groups/transactions.log"), "wb") as out:
        for name in logs:
            with open(name, "rb") as log:
                out.write(log.read())


def generate_state_of_transactions(port, folder):
    kafka = Kafka(port, folder)
    try:
        cluster = kafka.start()
        cluster.create_topic("written", 2)
        with cluster.connect() as connection:
            state_of_transactions(connection, "written")
        kafka.stop()
        keep_state_of_transactions(kafka)
    finally:
        kafka.stop("KILL")
        shutil.rmtree(folder, ignore_errors=True)


def keep(kafka, topics):
    for topic in topics:
        golden = os.path.join(ROOT, "tests/golden", topic)
        shutil.rmtree(golden, ignore_errors=True)
        shutil.copytree(os.path.join(kafka.logs, f"{topic}-0"), os.path.join(golden, f"{topic}-0"))
        for name in CHECKPOINTS:
            with open(os.path.join(kafka.logs, name)) as whole:
                version, _, *rows = whole.read().splitlines()
            rows = [row for row in rows if row.startswith(topic + " ")]
            with open(os.path.join(golden, name), "w") as out:
                out.write("\n".join([version, str(len(rows)), *rows]) + "\n")
        logs = sorted(glob.glob(os.path.join(golden, f"{topic}-0", "*.log")))
        text = dump(logs, "--deep-iteration", "--print-data-log")
        with open(os.path.join(golden, "dump.txt"), "w") as out:
            out.write(re.sub(re.escape(ROOT) + "/", "", text))


def main():
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 21040
    folder = tempfile.mkdtemp(prefix="kafka-golden-")
    kafka = Kafka(port, folder)
    try:
        cluster = kafka.start()
        for topic, configs in TOPICS.items():
            cluster.create_topic(topic, 1, **{key.replace(".", "_"): value for key, value in configs.items()})
        with cluster.connect() as connection:
            fill(connection)
        for number in (20, 30):
            # Each start of the broker is a new leader epoch.
            kafka.stop()
            with kafka.start().connect() as connection:
                kafka.cluster.wait_until_served("log-epochs", 1)
                for more in range(3):
                    produce(connection, "log-epochs", number + more)
        with kafka.cluster.connect() as connection:
            kafka.cluster.wait_until_served("log-transactions", 1)
            transactions(connection)
            end = fetch_committed(connection, "log-transactions", 0)["high_watermark"]
            told = {offset: fetch_committed(connection, "log-transactions", offset) for offset in range(end + 1)}
        kafka.stop()
        keep(kafka, [topic for topic in TOPICS if topic != "log-unclean"])
        generate_state_of_transactions(port, folder + "-transactions")
        with open(os.path.join(ROOT, "tests/golden/log-transactions/fetched.json"), "w") as out:
            out.write("{\n" + ",\n".join(f'"{offset}": {json.dumps(row)}' for offset, row in told.items()) + "\n}\n")
        with kafka.start().connect() as connection:
            kafka.cluster.wait_until_served("log-unclean", 1)
            for number in range(12):
                produce(connection, "log-unclean", number, step_ms=6000, producer_id=7000, producer_epoch=0, sequence=number * 4)
        kafka.stop("KILL")
        keep(kafka, ["log-unclean"])
    finally:
        kafka.stop("KILL")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
