"""Produce: which of several things that are wrong is told, for which partitions, and with which start of the log."""
from connection import Connection
from delete_records import ask as delete_below
from idempotence import init_producer_id, wait_until_ready
from probe import *
from suite import eventually

TRANSACTIONAL, ZSTD, UNKNOWN_CODEC = 16, 4, 5
INVALID_PRODUCER_ID_MAPPING, INVALID_TXN_STATE, TRANSACTION_ABORTABLE = 49, 48, 120
OFFSETS = "__consumer_offsets"


def good():
    return batch([b"one"], timestamp_ms=HOUR_AGO_MS)


def coded(bits):
    """A batch that names a codec; its records are not of it."""
    return batch([b"one"], attributes=bits, timestamp_ms=HOUR_AGO_MS)


# What is sent, by what is wrong with it.
BAD_CRC, BAD_COUNT, TWO, NONE = batch([b"one"], crc=7), batch([b"one"], count=2), good() + good(), b""
# (version, topic or None for the case's own, partition, records, acks) -> error. Each has two things wrong or more.
ORDER = [
    ("no topic, no batch", 9, "missing", 0, NONE, 1, UNKNOWN_TOPIC_OR_PARTITION),
    ("no partition, two batches", 9, None, 9, TWO, 7, UNKNOWN_TOPIC_OR_PARTITION),
    ("no batch, acks", 9, None, 0, NONE, 7, INVALID_RECORD),
    ("two batches, acks", 9, None, 0, TWO, 7, INVALID_RECORD),
    ("old zstd, two batches", 6, None, 0, coded(ZSTD) + good(), 1, UNSUPPORTED_COMPRESSION_TYPE),
    ("old zstd, acks", 6, None, 0, coded(ZSTD), 7, UNSUPPORTED_COMPRESSION_TYPE),
    ("internal topic, two batches", 9, OFFSETS, 0, TWO, 1, INVALID_RECORD),
    ("internal topic, acks", 9, OFFSETS, 0, good(), 7, INVALID_REQUIRED_ACKS),
    ("internal topic, CRC", 9, OFFSETS, 0, BAD_CRC, 1, INVALID_TOPIC),
    ("acks, CRC", 9, None, 0, BAD_CRC, 7, INVALID_REQUIRED_ACKS),
    ("acks, base offset", 9, None, 0, batch([b"one"], base_offset=3), 7, INVALID_REQUIRED_ACKS),
    ("base offset, size", 9, None, 0, batch([b"x" * 3000], base_offset=3), 1, INVALID_RECORD),
    ("size, CRC", 9, None, 0, batch([b"x" * 3000], crc=7), 1, MESSAGE_TOO_LARGE),
    ("CRC, codec", 9, None, 0, batch([b"one"], crc=7, attributes=UNKNOWN_CODEC), 1, CORRUPT_MESSAGE),
    ("codec, count", 9, None, 0, batch([b"one"], count=2, attributes=UNKNOWN_CODEC), 1, UNKNOWN_SERVER_ERROR),
    ("count, time", 9, None, 0, batch([b"one"], count=2, timestamp_ms=now_ms() + 10**8), 1, INVALID_RECORD),
    ("stale epoch, time", 9, None, 0, batch([b"one"], producer_id=77, producer_epoch=0, sequence=0, timestamp_ms=now_ms() + 10**8), 1, INVALID_TIMESTAMP),
]


@suite.case("of-several-faults-kafkas-first-is-told")
def _(probe):
    topic, missing = probe.topic(max_message_bytes=2000), unique("missing")
    offsets_topic(probe)
    with probe.connect(topic) as leader, probe.connect(OFFSETS) as internal:
        produced(leader, topic, batch([b"v"], producer_id=77, producer_epoch=5, sequence=0, timestamp_ms=HOUR_AGO_MS))
        for what, version, name, partition, records, acks, code in ORDER:
            connection = internal if name == OFFSETS else leader
            row = produce(connection, {None: topic, "missing": missing}.get(name, name), records, version=version, partition=partition, acks=acks)
            equal((row["ErrorCode"], row["BaseOffset"]), (code, -1), what)
    equal(probe.end(topic), 1, "end offset")


def offsets_topic(probe):
    """Made when a group's coordinator is asked for."""
    with probe.connect() as connection:
        body = {"KeyType": 0, "CoordinatorKeys": [unique("group")]}
        eventually(lambda: connection.call("FindCoordinator", 4, body)["Coordinators"][0]["ErrorCode"] == OK, "a coordinator")
    eventually(lambda: probe.cluster.leader(OFFSETS) is not None, "a leader of the topic of offsets")


@suite.case("an-unknown-codec-before-version-7-refuses-the-whole-request")
def _(probe):
    topic, missing = probe.topic(2), unique("missing")
    leader = probe.cluster.leader(topic, 0)
    for version, whole in ((3, True), (6, True), (7, False)):
        for what, bad in (("alone", coded(UNKNOWN_CODEC)), ("another batch behind it", coded(7) + good()), ("CRC", batch([b"one"], crc=7, attributes=6))):
            rows = [{"Index": 0, "Records": bad}, {"Index": 9, "Records": good()}]
            body = {"Acks": 1, "TimeoutMs": 10000, "TopicData": [{"Name": missing, "PartitionData": [{"Index": 0, "Records": good()}]}, {"Name": topic, "PartitionData": rows}]}
            with Connection(leader) as connection:
                reply = connection.call("Produce", version, body)
            got = {(t["Name"], p["Index"]): p["ErrorCode"] for t in reply["Responses"] for p in t["PartitionResponses"]}
            alone = {"alone": UNKNOWN_SERVER_ERROR, "another batch behind it": INVALID_RECORD, "CRC": CORRUPT_MESSAGE}[what]
            others = UNKNOWN_SERVER_ERROR if whole else UNKNOWN_TOPIC_OR_PARTITION
            want = {(missing, 0): others, (topic, 9): others, (topic, 0): UNKNOWN_SERVER_ERROR if whole else alone}
            equal(got, want, f"version {version}, {what}")
            # Of a partition that is not there nobody asks for the codec.
            with Connection(leader) as connection:
                equal(produce(connection, missing, bad, version=version)["ErrorCode"], UNKNOWN_TOPIC_OR_PARTITION, f"version {version}, {what}, no topic")
                equal(produce(connection, topic, bad, version=version, partition=9)["ErrorCode"], UNKNOWN_TOPIC_OR_PARTITION, f"version {version}, {what}, no partition")
    equal(probe.end(topic), 0, "end offset")


# -1 where Kafka does not say it.
STARTS = [
    ("two batches", TWO, INVALID_RECORD, -1), ("CRC", BAD_CRC, CORRUPT_MESSAGE, -1), ("size", batch([b"x" * 3000]), MESSAGE_TOO_LARGE, -1),
    ("count", BAD_COUNT, INVALID_RECORD, 1), ("base offset", batch([b"one"], base_offset=3), INVALID_RECORD, 1), ("codec", coded(UNKNOWN_CODEC), UNKNOWN_SERVER_ERROR, 1),
    ("time", batch([b"one"], timestamp_ms=now_ms() + 10**8), INVALID_TIMESTAMP, 1),
    ("gap", batch([b"one"], producer_id=77, producer_epoch=5, sequence=9, timestamp_ms=HOUR_AGO_MS), OUT_OF_ORDER_SEQUENCE_NUMBER, 1),
    ("stale epoch", batch([b"one"], producer_id=77, producer_epoch=4, sequence=0, timestamp_ms=HOUR_AGO_MS), INVALID_PRODUCER_EPOCH, 1),
    ("good", good(), OK, 1),
]


@suite.case("refusals-say-where-the-log-begins-whichever-core-has-it")
def _(probe):
    topic = probe.topic(2, max_message_bytes=2000)
    for partition in (0, 1):
        with probe.connect(topic, partition) as connection:
            produced(connection, topic, batch([b"v"], producer_id=77, producer_epoch=5, sequence=0, timestamp_ms=HOUR_AGO_MS), partition=partition)
            equal(delete_below(connection, topic, 1, partition), (OK, 1), "delete below 1")
            for what, records, code, start in STARTS:
                row = produce(connection, topic, records, partition=partition)
                equal((row["ErrorCode"], row["LogStartOffset"]), (code, start), f"{what}, partition {partition}")


@suite.case("a-stale-epoch-in-a-transaction-is-the-coordinators-to-refuse")
def _(probe):
    topic = probe.topic(2)
    wait_until_ready(probe)
    for partition in (0, 1):
        id_ = unique("prober-txn")
        with transaction_coordinator(probe, id_) as coordinator, probe.connect(topic, partition) as leader:
            first = begin(coordinator, id_)
            producer_id, epoch = first["ProducerId"], first["ProducerEpoch"]

            def send(epoch, version=12, sequence=0):
                data = batch([b"v"], attributes=TRANSACTIONAL, producer_id=producer_id, producer_epoch=epoch, sequence=sequence, timestamp_ms=HOUR_AGO_MS)
                reply = leader.call("Produce", version, {**produce_body(topic, data, partition=partition), "TransactionalId": id_})
                row = reply["Responses"][0]["PartitionResponses"][0]
                return row["ErrorCode"], row["LogStartOffset"]

            def sent(epoch, **options):
                codes = []
                # The markers of the transaction before may be on their way.
                eventually(lambda: codes.append(send(epoch, **options)) or codes[-1][0] not in (51, 19), "the transaction before is over")
                return codes[-1]

            equal(sent(epoch)[0], OK, f"the first batch, partition {partition}")
            ended = coordinator.call("EndTxn", 5, {"TransactionalId": id_, "ProducerId": producer_id, "ProducerEpoch": epoch, "Committed": True})
            equal(ended["ErrorCode"], OK, "the end")
            # The coordinator knows the next epoch; the partition learns of it by the marker, then by a batch.
            eventually(lambda: probe.end(topic, partition) == 2, "the marker")
            equal(sent(epoch, sequence=1), (INVALID_PRODUCER_EPOCH, -1), f"the epoch before, partition {partition}")
            equal(sent(ended["ProducerEpoch"])[0], OK, f"the next epoch, partition {partition}")
            for version in (9, 12):
                equal(send(epoch, version, sequence=1), (INVALID_PRODUCER_EPOCH, -1), f"the epoch before, within the next transaction, version {version}, partition {partition}")


# Batches of a transaction, each with something else wrong with it: acks, then the error where the transaction does not have the
# partition, and the one where it does (from version 12 on, the batch itself adds it).
IN_TRANSACTION = [
    ("two batches", lambda part: part() + part(), -1, INVALID_RECORD, INVALID_RECORD),
    ("acks", lambda part: part(), 7, INVALID_TXN_STATE, INVALID_REQUIRED_ACKS),
    ("CRC", lambda part: part(crc=7), -1, INVALID_TXN_STATE, CORRUPT_MESSAGE),
    ("size", lambda part: part(b"x" * 3000), -1, INVALID_TXN_STATE, MESSAGE_TOO_LARGE),
    ("count", lambda part: part(count=2), -1, INVALID_TXN_STATE, INVALID_RECORD),
    ("time", lambda part: part(timestamp_ms=now_ms() + 10**8), -1, INVALID_TXN_STATE, INVALID_TIMESTAMP),
    ("base offset", lambda part: part(base_offset=3), -1, INVALID_TXN_STATE, INVALID_RECORD),
    ("codec", lambda part: part(attributes=TRANSACTIONAL | UNKNOWN_CODEC), -1, INVALID_TXN_STATE, UNKNOWN_SERVER_ERROR),
    ("a stale epoch, CRC", lambda part: part(stale=1, crc=7), -1, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_EPOCH),
    ("a stale epoch, acks", lambda part: part(stale=1), 7, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_EPOCH),
]


@suite.case("what-the-coordinator-says-of-a-batch-comes-before-what-the-log-says")
def _(probe):
    topic = probe.topic(2, max_message_bytes=2000)
    wait_until_ready(probe)
    for partition in (0, 1):
        id_ = unique("prober-txn")
        with transaction_coordinator(probe, id_) as coordinator, probe.connect(topic, partition) as leader:
            begin(coordinator, id_)
            producer = begin(coordinator, id_)
            equal(producer["ProducerEpoch"], 1, "the epoch of the second start")

            def part(value=b"v", stale=0, **fields):
                fields = {"attributes": TRANSACTIONAL, "timestamp_ms": HOUR_AGO_MS, **fields}
                return batch([value], producer_id=producer["ProducerId"], producer_epoch=1 - stale, sequence=0, **fields)

            for version, is_in in ((9, False), (11, False), (12, True), (9, True), (11, True)):
                for what, records, acks, outside, inside in IN_TRANSACTION:
                    body = {**produce_body(topic, records(part), acks=acks, partition=partition), "TransactionalId": id_}
                    row = leader.call("Produce", version, body)["Responses"][0]["PartitionResponses"][0]
                    what = f"version {version}, in the transaction: {is_in}, partition {partition}: {what}"
                    want = inside if is_in else outside
                    # From version 11 on, clients know a code that tells them to abort.
                    want = TRANSACTION_ABORTABLE if version >= 11 and want == INVALID_TXN_STATE else want
                    equal((row["ErrorCode"], row["BaseOffset"]), (want, -1), what)
        equal(probe.end(topic, partition), 0, "end offset")


@suite.case("one-request-has-one-transactional-producer")
def _(probe):
    topic = probe.topic(2)
    leader = probe.cluster.leader(topic, 0)
    rows = [{"Index": partition, "Records": batch([b"v"], attributes=TRANSACTIONAL, producer_id=90 + partition, producer_epoch=0, sequence=0, timestamp_ms=HOUR_AGO_MS)}
            for partition in (0, 1)]
    body = {"TransactionalId": unique("prober-txn"), "Acks": -1, "TimeoutMs": 10000, "TopicData": [{"Name": topic, "PartitionData": rows}]}
    with Connection(leader) as connection:
        reply = connection.call("Produce", 9, body)
    rows = reply["Responses"][0]["PartitionResponses"]
    equal([(p["ErrorCode"], p["LogStartOffset"], bool(p["ErrorMessage"])) for p in rows], [(INVALID_PRODUCER_ID_MAPPING, -1, True)] * 2, "errors")


def transaction_coordinator(probe, id_):
    found = []

    def is_found():
        with probe.connect() as connection:
            found[:] = connection.call("FindCoordinator", 4, {"KeyType": 1, "CoordinatorKeys": [id_]})["Coordinators"]
        return found[0]["ErrorCode"] == OK

    eventually(is_found, "a coordinator")
    return Connection((found[0]["Host"], found[0]["Port"]))


def begin(coordinator, id_):
    replies = []
    eventually(lambda: replies.append(init_producer_id(coordinator, version=4, TransactionalId=id_, ProducerId=-1, ProducerEpoch=-1)) or replies[-1]["ErrorCode"] == OK, "a producer id")
    return replies[-1]
