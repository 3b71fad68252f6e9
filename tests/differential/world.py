"""What one seed plays with: topics of many configurations, what was written to them, and batches of every kind."""
import gzip
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../clients/raw"))
import lz4.frame
import snappy
import zstandard
from batch import HEADER_BYTES, batch, now_ms, record

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
# Kinds of topics, by the configuration that makes them.
KINDS = {
    "plain": {},
    "sparse": {"index.interval.bytes": 4096, "segment.bytes": 1048576},
    "dense": {"index.interval.bytes": 100},
    "small": {"max.message.bytes": 2000},
    "split": {"max.message.bytes": 3000000, "segment.bytes": 1048576},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "bounded": {"message.timestamp.before.max.ms": 7200000, "message.timestamp.after.max.ms": 3600000},
    "compact": {"cleanup.policy": "compact"},
    "as-gzip": {"compression.type": "gzip"},
    "as-zstd": {"compression.type": "zstd"},
    "as-none": {"compression.type": "uncompressed"},
}
XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)


def compress(codec, data):
    if codec == "gzip":
        return gzip.compress(data, 6, mtime=0)
    if codec == "snappy":
        block = snappy.compress(data)
        return XERIAL + struct.pack(">i", len(block)) + block
    if codec == "lz4":
        return lz4.frame.compress(data)
    if codec == "zstd":
        return zstandard.ZstdCompressor().compress(data)
    return data


def decompress(codec, data):
    if codec == "gzip":
        return gzip.decompress(data)
    if codec == "snappy":
        if not data.startswith(XERIAL[:8]):
            return snappy.decompress(data)
        out, at = b"", 16
        while at < len(data):
            size = struct.unpack_from(">i", data, at)[0]
            out += snappy.decompress(data[at + 4 : at + 4 + size])
            at += 4 + size
        return out
    if codec == "lz4":
        return lz4.frame.decompress(data)
    if codec == "zstd":
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data


def records_bytes(one):
    """The records of a fetched batch, decompressed."""
    return decompress(CODECS[one["attributes"] & 7], one["raw"][HEADER_BYTES:])


class Log:
    """What is known of one partition."""

    def __init__(self):
        self.start, self.end, self.timestamps = 0, 0, []
        self.producers = {}  # id -> Producer


class Producer:
    def __init__(self):
        self.epoch, self.next_sequence, self.sent = 0, 0, []


class World:
    def __init__(self, pair, seed, topics=3):
        self.pair, self.seed, self.random = pair, seed, random.Random(seed)
        self.begun_ms = now_ms() - 3_600_000
        self.topics, self.logs, self.sessions = {}, {}, {}
        # Batches are made anew for a topic with a codec of its own since OffsetForLeaderEpoch is served.
        known = sorted(kind for kind in KINDS if not kind.startswith("as-") or pair.versions("OffsetForLeaderEpoch"))
        kinds = ["plain"] + self.random.sample(known, topics - 1)
        for at, kind in enumerate(kinds):
            name = f"differential-{seed}-{at}-{kind}-{now_ms() % 100_000_000}"
            partitions = self.random.choice([1, 2, 3])
            pair.create_topic(name, partitions, KINDS[kind])
            self.topics[name] = (kind, partitions)
            for partition in range(partitions):
                self.logs[name, partition] = Log()

    def partition(self):
        """(topic, partition) of one that is there."""
        return self.random.choice(sorted(self.logs))

    def forget_session(self, side, id_):
        """Nothing more is asked in the session that is `id_` to `side`."""
        for number in [number for number in self.sessions if side.own["session"][number] == id_]:
            del self.sessions[number]

    def kind(self, topic):
        return self.topics[topic][0] if topic in self.topics else "missing"

    def version(self, api, at_least=0):
        """A version of the API that both serve, more often one of the ends; None where there is none."""
        both = self.pair.versions(api)
        if both is None or both[1] < at_least:
            return None
        low, high = max(both[0], at_least), both[1]
        return self.random.choice([low, high, high, self.random.randint(low, high)])

    def offset(self, topic, partition):
        """An offset at, over, below or between the ends."""
        log = self.logs.get((topic, partition), Log())
        choices = [log.start, log.start, log.end, log.end, log.end + 1, log.start - 1, 0, -1, 2**62]
        inside = [self.random.randint(log.start, max(log.start, log.end - 1)) for _ in range(14)]
        return self.random.choice(choices + inside)

    def timestamp(self):
        return self.begun_ms + self.random.randint(0, 1000)

    def batch(self, topic, codec=None, holds=None, size=None, timestamp_ms=None, keyed=None, **options):
        """A batch whose records have times, keys and headers of their own. Returns (bytes, records in it)."""
        rng = self.random
        codec = codec or rng.choice(["none"] * 4 + CODECS)
        count = holds or rng.choice([1, 1, 2, 3, 6])
        base_ms = self.timestamp() if timestamp_ms is None else timestamp_ms
        keyed = keyed if keyed is not None else self.kind(topic) == "compact" or rng.random() < 0.3
        deltas = [rng.choice([0, 0, rng.randint(-20, 60)]) for _ in range(count)] if timestamp_ms is None else [0] * count
        deltas[0] = 0
        values = [rng.randbytes(size if size is not None else rng.choice([0, 3, 10, 30, 100, 400])) for _ in range(count)]
        body = b"".join(record(i, value, b"k%d" % rng.randint(0, 5) if keyed else None,
                               [("h", b"x"), ("", None)] if rng.random() < 0.2 else (), delta)
                        for i, (value, delta) in enumerate(zip(values, deltas)))
        fields = dict(records=compress(codec, body), attributes=CODECS.index(codec), timestamp_ms=base_ms, max_timestamp_ms=base_ms + max(deltas))
        fields["attributes"] |= options.pop("attributes", 0)
        return batch(values, **{**fields, **options}), count
