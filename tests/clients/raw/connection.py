"""A raw connection to one broker, and what is known of the cluster behind a bootstrap address."""
import socket
import struct
import time

from schema import Schemas

SCHEMAS = Schemas()


class Closed(Exception):
    """The server closed the connection."""


def address_of(text):
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


class Connection:
    """One socket. `call` sends a request and reads its reply; `send` and `receive` do half of it each."""

    def __init__(self, address, timeout_s=15.0):
        self.socket = socket.create_connection(address, timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send_bytes(self, data):
        try:
            self.socket.sendall(data)
        except (ConnectionResetError, BrokenPipeError) as error:
            raise Closed(str(error)) from error

    def read_exactly(self, count):
        data = bytearray()
        while len(data) < count:
            try:
                part = self.socket.recv(count - len(data))
            except ConnectionResetError as error:
                raise Closed(str(error)) from error
            if not part:
                raise Closed(f"closed after {len(data)} of {count} bytes")
            data += part
        return bytes(data)

    def frame(self, api, version, body, client_id="prober", key=None):
        """A request's bytes with its length. `body` may be bytes; `client_id` may be None or bytes."""
        self.correlation += 1
        request = f"{api}Request"
        flexible = SCHEMAS.flexible(request, version)
        raw_id = client_id.encode() if isinstance(client_id, str) else client_id
        head = struct.pack(">hhi", SCHEMAS.keys[api] if key is None else key, version, self.correlation)
        head += struct.pack(">h", -1) if raw_id is None else struct.pack(">h", len(raw_id)) + raw_id
        if flexible:
            head += b"\0"
        data = head + (body if isinstance(body, bytes) else SCHEMAS.encode(request, version, body))
        return struct.pack(">i", len(data)) + data

    def send(self, api, version, body, **options):
        self.send_bytes(self.frame(api, version, body, **options))
        return self.correlation

    def receive_frame(self):
        size = struct.unpack(">i", self.read_exactly(4))[0]
        if not 4 <= size <= 200 << 20:
            raise AssertionError(f"a reply of {size} bytes")
        return self.read_exactly(size)

    def receive(self, api, version, correlation=None):
        data = self.receive_frame()
        wanted = self.correlation if correlation is None else correlation
        got = struct.unpack_from(">i", data)[0]
        if got != wanted:
            raise AssertionError(f"the reply is for request {got}, not {wanted}")
        reply = f"{api}Response"
        skip = 4
        if api != "ApiVersions" and SCHEMAS.flexible(reply, version):
            if data[4] != 0:
                raise AssertionError("tagged fields in the reply's header")
            skip = 5
        body, left = SCHEMAS.decode(reply, version, data[skip:])
        if left:
            raise AssertionError(f"{left} bytes after the reply's body")
        return body

    def call(self, api, version, body, **options):
        return self.receive(api, version, self.send(api, version, body, **options))

    def is_closed(self, within_s=15.0):
        """Whether the server closes the connection, without a byte of answer, within the time."""
        self.socket.settimeout(within_s)
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(15.0)
        if data:
            raise AssertionError(f"an answer of {len(data)} bytes: {data[:40].hex()}")
        return True

    def is_silent(self, for_s=0.4):
        """Whether the connection stays open with no byte for the time."""
        return not self.is_closed(for_s)


class Cluster:
    """Metadata, topics and leaders by Metadata v4, CreateTopics v2, DeleteTopics v1: versions that every server has."""

    def __init__(self, bootstrap):
        self.bootstrap = [address_of(one) for one in bootstrap.split(",")]

    def connect(self, **options):
        error = None
        for address in self.bootstrap:
            try:
                return Connection(address, **options)
            except OSError as failed:
                error = failed
        raise error

    def metadata(self, topics=None, version=4):
        with self.connect() as connection:
            names = None if topics is None else [{"Name": name} for name in topics]
            return connection.call("Metadata", version, {"Topics": names, "AllowAutoTopicCreation": False})

    def api_versions(self):
        with self.connect() as connection:
            rows = connection.call("ApiVersions", 0, {})["ApiKeys"]
        return {row["ApiKey"]: (row["MinVersion"], row["MaxVersion"]) for row in rows}

    def controller(self):
        found = self.metadata([])
        return next((b["Host"], b["Port"]) for b in found["Brokers"] if b["NodeId"] == found["ControllerId"])

    def coordinator(self, key, kind=0):
        """Address of the coordinator of a group (kind 0) or a transactional id (1), once there is one."""
        deadline = time.monotonic() + 15
        with Connection(self.controller()) as connection:
            while True:
                row = connection.call("FindCoordinator", 4, {"CoordinatorKeys": [key], "KeyType": kind})["Coordinators"][0]
                if row["ErrorCode"] == 0:
                    return row["Host"], row["Port"]
                if time.monotonic() > deadline:
                    raise AssertionError(f"no coordinator of {key}: error {row['ErrorCode']}")
                time.sleep(0.05)

    def create_topic(self, name, partitions=1, **configs):
        """Creates and waits until every partition has a leader that serves it."""
        rows = [{"Name": key.replace("_", "."), "Value": str(value)} for key, value in configs.items()]
        with Connection(self.controller()) as connection:
            topic = {"Name": name, "NumPartitions": partitions, "ReplicationFactor": 1, "Configs": rows}
            reply = connection.call("CreateTopics", 2, {"Topics": [topic], "timeoutMs": 15000})
        code = reply["Topics"][0]["ErrorCode"]
        if code:
            raise AssertionError(f"CreateTopics {name}: error {code} {reply['Topics'][0].get('ErrorMessage')}")
        self.wait_until_served(name, partitions)
        return name

    def wait_until_served(self, name, partitions):
        """Kafka answers CreateTopics a moment before the partitions can be written."""
        for partition in range(partitions):
            deadline = time.monotonic() + 15
            while self.end_offset(name, partition) is None:
                if time.monotonic() > deadline:
                    raise AssertionError(f"{name}-{partition} is not served 15 s after its creation")
                time.sleep(0.02)

    def delete_topic(self, name):
        with Connection(self.controller()) as connection:
            reply = connection.call("DeleteTopics", 1, {"TopicNames": [name], "TimeoutMs": 15000})
        return reply["Responses"][0]["ErrorCode"]

    def leader(self, topic, partition=0):
        """The address of the leader, or None while there is none."""
        found = self.metadata([topic])
        brokers = {b["NodeId"]: (b["Host"], b["Port"]) for b in found["Brokers"]}
        for row in found["Topics"][0]["Partitions"]:
            if row["PartitionIndex"] == partition and row["ErrorCode"] == 0:
                return brokers.get(row["LeaderId"])
        return None

    def end_offset(self, topic, partition=0, timestamp=-1):
        """The latest offset (or that of another special timestamp), or None while the leader does not serve it."""
        address = self.leader(topic, partition)
        if address is None:
            return None
        with Connection(address) as connection:
            body = {"ReplicaId": -1, "Topics": [{"Name": topic, "Partitions": [{"PartitionIndex": partition, "Timestamp": timestamp}]}]}
            row = connection.call("ListOffsets", 1, body)["Topics"][0]["Partitions"][0]
        return row["Offset"] if row["ErrorCode"] == 0 else None
