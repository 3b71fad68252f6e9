"""Produce and InitProducerId: codecs, acks, sequences, sizes and times at the limits, batches with one thing wrong."""
import struct

from batch import EPOCH_AT, LENGTH_AT, batch, now_ms, record
from pair import CLOSED, Of
from steps import Step, step
from world import CODECS, Producer, compress

HOUR_MS = 3_600_000
LAST_OFFSET_DELTA_AT = 23


@step(20)
def produce(world):
    """One to three partitions with batches of all sorts."""
    version = world.version("Produce", at_least=3)
    rng, rows, labels = world.random, {}, []
    for topic, partition in rng.sample(sorted(world.logs), min(len(world.logs), rng.choice([1, 1, 1, 2, 3]))):
        label, data, sent = rng.choice(MAKERS)(world, topic, partition)
        labels.append(f"{label}@{world.kind(topic)}")
        rows.setdefault(topic, []).append((partition, data, sent))
    if rng.random() < 0.05:
        rows.setdefault("differential-missing", []).append((0, world.batch("plain")[0], None))
        labels.append("missing topic")
    if rng.random() < 0.05:
        topic = rng.choice(sorted(world.topics))
        rows.setdefault(topic, []).append((rng.choice([-1, 9, 2**31 - 1]), world.batch(topic)[0], None))
        labels.append("missing partition")
    acks = rng.choice([-1, -1, -1, 1, 1, 0, rng.choice([2, -2, 32767])])
    if version >= 13 and "differential-missing" in rows:
        del rows["differential-missing"]
    topics = []
    for topic, partitions in rows.items():
        data = [{"Index": partition, "Records": data} for partition, data, _ in partitions]
        topics.append({**named(topic, version >= 13), "PartitionData": data})
    body = {"Acks": acks, "TimeoutMs": 10000, "TopicData": topics}

    def learn(answer, _):
        if not isinstance(answer, dict):
            return
        names = {id_: name for name, id_ in world.pair.kafka.own["topic-id"].items()}
        for reply in answer["Responses"]:
            # Kafka may answer topics and partitions in another order.
            topic = reply.get("Name") or names.get(reply.get("TopicId"))
            by_index = {row["Index"]: row for row in reply["PartitionResponses"]}
            for partition, _, sent in rows[topic]:
                row = by_index.get(partition)
                if row and row["ErrorCode"] == 0 and sent:
                    sent(row["BaseOffset"])
    return Step(f"acks {acks}: " + ", ".join(labels), "Produce", version, body, answered=acks != 0, learn=learn)


def named(topic, by_id):
    return {"TopicId": Of("topic-id", topic)} if by_id else {"Name": topic}


def appended(world, topic, partition, count):
    def sent(base_offset):
        world.logs[topic, partition].end = max(world.logs[topic, partition].end, base_offset + count)
    return sent


def good(world, topic, partition):
    data, count = world.batch(topic)
    return "good", data, appended(world, topic, partition, count)


def sequenced(world, topic, partition):
    """The next batch of a producer, or one that is out of its turn."""
    rng, log = world.random, world.logs[topic, partition]
    id_ = 1_000_000 + rng.randint(0, 2)
    producer = log.producers.setdefault(id_, Producer())
    count = rng.choice([1, 1, 2, 5])
    move = rng.choice(["next"] * 6 + ["again", "again", "older", "gap", "epoch-up", "epoch-up-not-0", "epoch-down", "negative", "overlap", "wrap"])
    epoch, sequence = producer.epoch, producer.next_sequence
    if move in ("again", "older"):
        if not producer.sent:
            move = "next"
        else:
            known = producer.sent[-1] if move == "again" else rng.choice(producer.sent)
            return f"sequence {move}", known, None
    if move == "gap":
        sequence = (sequence + rng.choice([1, 3, 1000])) % 2**31
    elif move == "epoch-up":
        epoch, sequence = epoch + 1, 0
    elif move == "epoch-up-not-0":
        epoch, sequence = epoch + 1, rng.choice([1, 5])
    elif move == "epoch-down":
        epoch -= 1
    elif move == "negative":
        sequence = -1
    elif move == "overlap":
        sequence = max(0, sequence - 1)
    elif move == "wrap" and not producer.sent:
        sequence = 2**31 - rng.randint(1, 3)
    data, count = world.batch(topic, codec="none", holds=count, producer_id=id_, producer_epoch=epoch, sequence=sequence)

    def sent(base_offset):
        appended(world, topic, partition, count)(base_offset)
        producer.sent.append(data)
        producer.epoch, producer.next_sequence = epoch, (sequence + count) % 2**31
    return f"sequence {move}", data, sent


def sized(world, topic, partition):
    """Around the limits of the topic: 2000 bytes, or a segment of 1 MiB."""
    limit = {"small": 2000, "split": 1 << 20}.get(world.kind(topic), 1048588)
    overhead = len(world.batch(topic, codec="none", holds=1, size=limit - 100, keyed=True, timestamp_ms=world.begun_ms, records=None)[0]) - (limit - 100)
    over = world.random.choice([-1, 0, 1, 100])
    data, count = world.batch(topic, codec="none", holds=1, size=limit - overhead + over, keyed=True, timestamp_ms=world.begun_ms)
    return f"size {len(data) - limit:+}", data, appended(world, topic, partition, count)


def timed(world, topic, partition):
    """Times far away, at the limits, and none. The limits are 2 h before and 1 h after where a topic has them."""
    now = now_ms()
    name, timestamp_ms = world.random.choice([
        ("-1", -1), ("-2", -2), ("0", 0), ("1", 1), ("max", 2**63 - 1), ("2 h 1 min ago", now - 2 * HOUR_MS - 60_000),
        ("1 h 59 min ago", now - 2 * HOUR_MS + 60_000), ("in 59 min", now + HOUR_MS - 60_000), ("in 61 min", now + HOUR_MS + 60_000)])
    data, count = world.batch(topic, timestamp_ms=timestamp_ms)
    return f"time {name}", data, appended(world, topic, partition, count)


def keyless(world, topic, partition):
    data, count = world.batch(topic, keyed=False)
    return "keyless", data, appended(world, topic, partition, count)


def some_refused(world, topic, partition):
    """Records of which some have no key, some a bad time, some both: which are named, and by which error."""
    rng, base_ms = world.random, now_ms()
    body = b"".join(record(at, b"value", rng.choice([b"k", b"k", None]), (), rng.choice([0, 0, 2 * HOUR_MS, -3 * HOUR_MS])) for at in range(6))
    codec = rng.choice(["none", "none", "gzip", "zstd"])
    data = batch([b""] * 6, records=compress(codec, body), attributes=CODECS.index(codec), timestamp_ms=base_ms, max_timestamp_ms=base_ms + 2 * HOUR_MS)
    return "some refused", data, appended(world, topic, partition, 6)


def cut_or_extended(world, topic, partition):
    data, _ = world.batch(topic)
    how = world.random.choice(["cut by 1", "cut to 60", "cut to 11", "byte behind", "empty", "two batches"])
    data = {"cut by 1": data[:-1], "cut to 60": data[:60], "cut to 11": data[:11], "byte behind": data + b"\0", "empty": b"",
            "two batches": data + world.batch(topic)[0]}[how]
    return how, data, None


def faulty(world, topic, partition):
    """One field of the header wrong."""
    rng = world.random
    faults = {
        "crc": dict(crc=7), "count 0": dict(count=0), "count -1": dict(count=-1), "count 9": dict(count=9), "last delta 7": dict(last_delta=7),
        "last delta -1": dict(last_delta=-1), "base offset 5": dict(base_offset=5), "base offset -1": dict(base_offset=-1),
        "control": dict(attributes=32), "transactional": dict(attributes=16, producer_id=5, producer_epoch=0, sequence=0),
        "log append time": dict(attributes=8), "delete horizon": dict(attributes=64), "unknown attribute": dict(attributes=128),
        "codec 5": dict(codec="none", attributes=5), "codec 7": dict(codec="none", attributes=7),
        "gzip that is none": dict(codec="none", attributes=1), "zstd that is none": dict(codec="none", attributes=4),
        "magic 1": dict(magic=1), "magic 3": dict(magic=3), "magic -1": dict(magic=-1),
        "length 5 more": dict(length=10_000), "length 0": dict(length=0), "length -1": dict(length=-1),
        "max timestamp wrong": dict(max_timestamp_ms=5), "producer without sequence": dict(producer_id=9, producer_epoch=0, sequence=-1),
        "sequence without producer": dict(producer_id=-1, producer_epoch=0, sequence=3), "producer epoch -1": dict(producer_id=9, producer_epoch=-1, sequence=0),
        "producer -2": dict(producer_id=-2, producer_epoch=0, sequence=0),
    }
    name = rng.choice(sorted(faults))
    data, _ = world.batch(topic, **faults[name])
    count = struct.unpack_from(">i", data, 57)[0]
    return name, data, appended(world, topic, partition, max(count, 0))


def stamped_epoch(world, topic, partition):
    """The leader's epoch is outside the CRC and is the server's to write."""
    data, count = world.batch(topic)
    data = data[:EPOCH_AT] + struct.pack(">i", world.random.choice([0, 7, -5])) + data[EPOCH_AT + 4 :]
    return "leader epoch in the batch", data, appended(world, topic, partition, count)


MAKERS = [good] * 8 + [sequenced] * 5 + [sized, timed, keyless, some_refused, cut_or_extended, faulty, faulty, stamped_epoch]


@step(1)
def init_producer_id(world):
    version = world.version("InitProducerId")
    rng = world.random
    body = {"TransactionalId": None, "TransactionTimeoutMs": rng.choice([60000, 0, -1])}
    if rng.random() < 0.2:
        body["TransactionalId"] = ""
    label = "new"
    if version is not None and version >= 3 and rng.random() < 0.4:
        body["ProducerId"], body["ProducerEpoch"] = rng.choice([(-1, -1), (5, 0), (5, -1), (-1, 3)])
        label = f"id {body['ProducerId']} epoch {body['ProducerEpoch']}"
    return version is not None and Step(label, "InitProducerId", version, body) or None
