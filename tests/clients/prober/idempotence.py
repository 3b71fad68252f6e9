"""Idempotent producers: ids, sequences, duplicates, epochs."""
from probe import *
from suite import eventually, true


def init_producer_id(connection, version=2, **fields):
    return connection.call("InitProducerId", version, {"TransactionalId": None, "TransactionTimeoutMs": 60000, **fields})


def new_id(probe):
    wait_until_ready(probe)
    with probe.connect() as connection:
        reply = init_producer_id(connection)
    equal((reply["ErrorCode"], reply["ProducerEpoch"]), (OK, 0), "InitProducerId")
    return reply["ProducerId"]


def wait_until_ready(probe):
    # Kafka's first block of ids takes it a moment (COORDINATOR_LOAD_IN_PROGRESS).
    if probe.is_kafka:
        with probe.connect() as connection:
            eventually(lambda: init_producer_id(connection)["ErrorCode"] == OK, "a producer id")


class Producer:
    """One producer id on one partition's leader."""

    def __init__(self, probe, topic=None):
        self.topic = topic or probe.topic()
        self.connection = probe.connect(self.topic)
        self.id = new_id(probe)

    def send(self, sequence, epoch=0, values=(b"v",), id_=None):
        """(error, base offset)"""
        row = produce(self.connection, self.topic, self.batch(sequence, epoch, values, id_))
        return row["ErrorCode"], row["BaseOffset"]

    def batch(self, sequence, epoch=0, values=(b"v",), id_=None):
        return batch(list(values), producer_id=self.id if id_ is None else id_, producer_epoch=epoch, sequence=sequence, timestamp_ms=HOUR_AGO_MS)


@suite.case("producer-ids-are-unique")
def _(probe):
    wait_until_ready(probe)
    ids, addresses = [], [(b["Host"], b["Port"]) for b in probe.cluster.metadata([])["Brokers"]]
    for i in range(40):
        with Connection(addresses[i % len(addresses)]) as connection:
            reply = init_producer_id(connection, version=i % 5)
        equal((reply["ErrorCode"], reply["ProducerEpoch"]), (OK, 0), f"version {i % 5}")
        ids.append(reply["ProducerId"])
    equal(len(set(ids)), len(ids), "different ids")
    true(min(ids) >= 0, f"negative id among {ids}")


@suite.case("producer-id-with-empty-transactional-id")
def _(probe):
    with probe.connect() as connection:
        equal(init_producer_id(connection, TransactionalId="")["ErrorCode"], INVALID_REQUEST, "error")


@suite.case("C110-duplicates-are-answered-with-the-first-offset")
def _(probe):
    producer = Producer(probe)
    for sequence in range(7):
        equal(producer.send(sequence), (OK, sequence), f"sequence {sequence}")
    # The last five batches are remembered.
    for sequence in (6, 2, 4):
        equal(producer.send(sequence), (OK, sequence), f"sequence {sequence} again")
    for sequence in (1, 0):
        equal(producer.send(sequence), (OUT_OF_ORDER_SEQUENCE_NUMBER, -1), f"sequence {sequence} again, older than five batches")
    equal(probe.end(producer.topic), 7, "end offset")
    equal(producer.send(7), (OK, 7), "the next")


@suite.case("C110-duplicates-of-batches-with-many-records")
def _(probe):
    producer = Producer(probe)
    equal(producer.send(0, values=[b"a"] * 3), (OK, 0), "3 records")
    equal(producer.send(3, values=[b"b"] * 4), (OK, 3), "4 records")
    equal(producer.send(3, values=[b"b"] * 4), (OK, 3), "the same again")
    equal(producer.send(3, values=[b"b"] * 2)[0], OUT_OF_ORDER_SEQUENCE_NUMBER, "the same start, fewer records")
    equal(producer.send(2, values=[b"b"] * 2)[0], OUT_OF_ORDER_SEQUENCE_NUMBER, "astride of two batches")
    equal(probe.end(producer.topic), 7, "end offset")


@suite.case("C112-gap")
def _(probe):
    producer = Producer(probe)
    equal(producer.send(0), (OK, 0), "the first")
    for sequence in (2, 100, 2**31 - 1):
        equal(producer.send(sequence), (OUT_OF_ORDER_SEQUENCE_NUMBER, -1), f"sequence {sequence} after 0")
    equal(producer.send(1), (OK, 1), "the right one")


@suite.case("C112-epochs")
def _(probe):
    producer = Producer(probe)
    equal(producer.send(0), (OK, 0), "epoch 0")
    equal(producer.send(5, epoch=1), (OUT_OF_ORDER_SEQUENCE_NUMBER, -1), "epoch 1 does not begin at 0")
    equal(producer.send(0, epoch=1), (OK, 1), "epoch 1")
    equal(producer.send(1, epoch=0), (INVALID_PRODUCER_EPOCH, -1), "epoch 0 afterwards")
    equal(producer.send(0, epoch=0), (INVALID_PRODUCER_EPOCH, -1), "a duplicate of epoch 0")
    equal(producer.send(1, epoch=1), (OK, 2), "epoch 1 goes on")
    equal(probe.end(producer.topic), 3, "end offset")


@suite.case("C112-unknown-producer-begins-anywhere")
def _(probe):
    producer = Producer(probe)
    equal(producer.send(500, id_=987654321), (OK, 0), "sequence 500")
    equal(producer.send(501, id_=987654321), (OK, 1), "sequence 501")
    equal(producer.send(0, id_=987654321)[0], OUT_OF_ORDER_SEQUENCE_NUMBER, "sequence 0")
    equal(producer.send(7, epoch=3, id_=987654322), (OK, 2), "another at epoch 3")


@suite.case("sequences-wrap-at-2-to-31")
def _(probe):
    producer = Producer(probe)
    equal(producer.send(2**31 - 2, values=[b"a"] * 4), (OK, 0), "across the end")
    equal(producer.send(2), (OK, 4), "goes on at 2")
    equal(producer.send(2**31 - 2, values=[b"a"] * 4), (OK, 0), "a duplicate across the end")


@suite.case("producers-and-partitions-are-apart")
def _(probe):
    topic = probe.topic()
    one, other = Producer(probe, topic), Producer(probe, topic)
    for i in range(6):
        equal((one.send(i), other.send(i)), ((OK, 2 * i), (OK, 2 * i + 1)), f"sequence {i}")
    second = Producer(probe)
    equal(second.send(0, id_=one.id), (OK, 0), "the same id begins again in another partition")


@suite.case("five-batches-in-flight-and-resent")
def _(probe):
    producer = Producer(probe)
    for round_ in range(20):
        frames = [producer.connection.frame("Produce", PRODUCE, produce_body(producer.topic, producer.batch(round_ * 5 + i))) for i in range(5)]
        first = producer.connection.correlation - 4
        producer.connection.send_bytes(b"".join(frames))
        # Without waiting, all five again, as after a lost connection.
        again = [producer.connection.frame("Produce", PRODUCE, produce_body(producer.topic, producer.batch(round_ * 5 + i))) for i in range(5)]
        producer.connection.send_bytes(b"".join(again))
        for i in range(10):
            row = producer.connection.receive("Produce", PRODUCE, first + i)["Responses"][0]["PartitionResponses"][0]
            equal((row["ErrorCode"], row["BaseOffset"]), (OK, round_ * 5 + i % 5), f"reply {i}")
    equal(probe.end(producer.topic), 100, "end offset")


@suite.case("a-failed-batch-fails-those-behind-it")
def _(probe):
    producer = Producer(probe)
    bad = bytearray(producer.batch(1))
    bad[-1] ^= 1
    data = [producer.batch(0), bytes(bad), producer.batch(2), producer.batch(3)]
    first = producer.connection.correlation + 1
    producer.connection.send_bytes(b"".join(producer.connection.frame("Produce", PRODUCE, produce_body(producer.topic, one)) for one in data))
    codes = [producer.connection.receive("Produce", PRODUCE, first + i)["Responses"][0]["PartitionResponses"][0]["ErrorCode"] for i in range(4)]
    equal(codes, [OK, CORRUPT_MESSAGE, OUT_OF_ORDER_SEQUENCE_NUMBER, OUT_OF_ORDER_SEQUENCE_NUMBER], "errors")
    for sequence in (1, 2, 3):
        equal(producer.send(sequence), (OK, sequence), f"sequence {sequence} sent again")


@suite.case("acks-0-with-sequences")
def _(probe):
    producer = Producer(probe)
    for sequence in range(5):
        producer.connection.send("Produce", PRODUCE, produce_body(producer.topic, producer.batch(sequence), acks=0))
    equal(producer.send(4), (OK, 4), "a duplicate of one that was sent with acks=0")
    equal(producer.send(5), (OK, 5), "the next")


@suite.case("producer-id-without-sequence")
def _(probe):
    producer = Producer(probe)
    row = produce(producer.connection, producer.topic, producer.batch(-1, 0))
    equal(row["ErrorCode"], INVALID_RECORD, f"sequence -1: error ({row.get('ErrorMessage')})")
    equal(probe.end(producer.topic), 0, "end offset")
