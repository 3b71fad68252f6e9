"""A real Kafka broker and alluvium side by side: one request to both, the two answers as values."""
import os
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../clients/raw"))
from connection import SCHEMAS, Closed, Cluster, Connection

CLOSED = "the connection was closed"


class Of:
    """A value of a request that each side has of its own: a topic's id, a session's id."""

    def __init__(self, kind, name):
        self.kind, self.name = kind, name


class PerSide:
    """A value that is made for each side: a batch with a producer id of its own."""

    def __init__(self, make):
        self.make = make


class Side:
    def __init__(self, name, bootstrap):
        self.name, self.cluster = name, Cluster(bootstrap)
        self.address = self.cluster.bootstrap[0]
        self.own = {"topic-id": {}, "session": {}, "producer": {}}
        self.kept = None
        self.ranges = self.cluster.api_versions()

    @property
    def connection(self):
        if self.kept is None:
            self.kept = Connection(self.address, timeout_s=20.0)
        return self.kept

    def wait_for_producer_ids(self, limit_s=60):
        """Kafka's broker answers COORDINATOR_LOAD_IN_PROGRESS until it has a block of ids from its controller."""
        until = time.monotonic() + limit_s
        body = {"TransactionalId": None, "TransactionTimeoutMs": 60000, "ProducerId": -1, "ProducerEpoch": -1}
        with self.cluster.connect() as connection:
            while connection.call("InitProducerId", 4, body)["ErrorCode"] != 0:
                if time.monotonic() > until:
                    raise SystemExit(f"{self.name} gives no producer ids within {limit_s} s")
                time.sleep(0.1)

    def hang_up(self):
        if self.kept is not None:
            self.kept.socket.close()
            self.kept = None

    def create_topic(self, name, partitions, configs):
        self.cluster.create_topic(name, partitions, **{key.replace(".", "_"): value for key, value in configs.items()})
        with self.cluster.connect() as connection:
            row = connection.call("Metadata", 12, {"Topics": [{"Name": name}]})["Topics"][0]
        self.own["topic-id"][name] = row["TopicId"]

    def resolve(self, value):
        if isinstance(value, Of):
            return self.own[value.kind][value.name]
        if isinstance(value, PerSide):
            return value.make(self)
        if isinstance(value, dict):
            return {key: self.resolve(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.resolve(inner) for inner in value]
        return value

    def exchange(self, api, version, body, answered=True):
        """(answer, milliseconds, request). The answer is CLOSED where the server hangs up; None where none is due."""
        frame = self.connection.frame(api, version, self.resolve(body), client_id="differential")
        began = time.monotonic()
        try:
            self.connection.send_bytes(frame)
            if answered:
                answer = self.connection.receive(api, version)
            else:
                answer = None
                self.connection.call("ApiVersions", 0, {})
        except Closed:
            self.hang_up()
            answer = CLOSED
        except (TimeoutError, socket.timeout):
            self.hang_up()
            answer = "no answer in 20 s"
        return answer, (time.monotonic() - began) * 1000, frame


class Pair:
    def __init__(self, kafka, alluvium):
        self.kafka, self.alluvium = Side("kafka", kafka), Side("alluvium", alluvium)
        for side in (self.kafka, self.alluvium):
            side.wait_for_producer_ids()
        self.sides = (self.kafka, self.alluvium)

    def versions(self, api):
        """The range that both serve, or None."""
        key = SCHEMAS.keys[api]
        ranges = [side.ranges.get(key) for side in self.sides]
        if None in ranges:
            return None
        low, high = max(one[0] for one in ranges), min(one[1] for one in ranges)
        return (low, high) if low <= high else None

    def create_topic(self, name, partitions=1, configs=None):
        for side in self.sides:
            side.create_topic(name, partitions, configs or {})

    def ask(self, api, version, body, answered=True):
        return [side.exchange(api, version, body, answered) for side in self.sides]
