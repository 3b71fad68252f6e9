"""The confluent-kafka suite (librdkafka 2.16): transactions, and a loop that consumes, transforms and produces exactly once."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../raw"))
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from connection import Cluster
from suite import Suite, equal, eventually, true, unique

suite = Suite("confluent")
PARTITIONS = 3


class Context:
    def __init__(self, options):
        self.bootstrap, self.cluster = options.bootstrap, Cluster(options.bootstrap)

    def topic(self):
        return self.cluster.create_topic(unique("confluent"), PARTITIONS)

    def producer(self, id_):
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": id_, "linger.ms": 0})
        producer.init_transactions(30)
        return producer

    def read(self, topic, isolation="read_committed"):
        """All values of a topic, up to its ends as the isolation sees them."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "none", "isolation.level": isolation, "enable.auto.commit": False,
                             "enable.partition.eof": True, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 50})
        consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
        values, ended, deadline = [], set(), time.monotonic() + 30
        while len(ended) < PARTITIONS:
            true(time.monotonic() < deadline, f"the ends are not reached: {len(values)} records, {ended}")
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error():
                ended.add(message.partition())
            else:
                values.append(message.value().decode())
        consumer.close()
        return sorted(values)


    def sees(self, topic, want, isolation="read_committed"):
        """The answer to a commit comes before its markers are written everywhere."""
        seen = []

        def is_seen():
            seen[:] = [self.read(topic, isolation)]
            return seen[0] == sorted(want)

        try:
            eventually(is_seen, isolation)
        except AssertionError:
            equal(seen[0], sorted(want), isolation)


@suite.case("transactions-commit-and-abort")
def _(context):
    topic, producer = context.topic(), context.producer(unique("confluent"))
    committed, all_ = [], []
    for number in range(6):
        producer.begin_transaction()
        values = [f"{number}-{i}" for i in range(10)]
        for i, value in enumerate(values):
            producer.produce(topic, value, partition=i % PARTITIONS)
        producer.flush(30)
        all_ += values
        if number % 3 == 1:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            committed += values
    context.sees(topic, committed)
    context.sees(topic, all_, "read_uncommitted")


@suite.case("a-second-producer-of-the-same-id-fences-the-first")
def _(context):
    topic, id_ = context.topic(), unique("confluent")
    first = context.producer(id_)
    first.begin_transaction()
    first.produce(topic, "lost", partition=0)
    first.flush(30)
    second = context.producer(id_)
    second.begin_transaction()
    second.produce(topic, "kept", partition=0)
    second.commit_transaction(30)
    try:
        first.commit_transaction(30)
    except KafkaException as error:
        true(error.args[0].fatal(), f"a fatal error: {error}")
    else:
        raise AssertionError("the first one commits")
    context.sees(topic, ["kept"])


@suite.case("consume-transform-produce-exactly-once")
def _(context):
    source, target, group = context.topic(), context.topic(), unique("confluent")
    plain = Producer({"bootstrap.servers": context.bootstrap})
    for number in range(90):
        plain.produce(source, str(number), partition=number % PARTITIONS)
    plain.flush(30)
    producer = context.producer(unique("confluent"))
    consumer = Consumer({"bootstrap.servers": context.bootstrap, "group.id": group, "isolation.level": "read_committed", "enable.auto.commit": False,
                         "auto.offset.reset": "earliest", "fetch.wait.max.ms": 50})
    consumer.subscribe([source])
    done, rounds, deadline = 0, 0, time.monotonic() + 45
    while done < 90:
        true(time.monotonic() < deadline, f"{done} of 90 in time")
        messages = [message for message in consumer.consume(20, 1) if not message.error()]
        if not messages:
            continue
        rounds += 1
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, message.value(), partition=message.partition())
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
        if rounds % 3 == 2:
            producer.abort_transaction(30)
            for partition in consumer.committed(consumer.assignment(), 30):
                consumer.seek(TopicPartition(source, partition.partition, max(partition.offset, 0)))
        else:
            producer.commit_transaction(30)
            done += len(messages)
    committed = {p.partition: p.offset for p in consumer.committed([TopicPartition(source, p) for p in range(PARTITIONS)], 30)}
    consumer.close()
    equal(committed, {p: 30 for p in range(PARTITIONS)}, "committed offsets")
    context.sees(target, [str(number) for number in range(90)])


if __name__ == "__main__":
    sys.exit(suite.main(Context))
