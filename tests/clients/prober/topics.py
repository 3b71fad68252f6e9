"""Metadata, CreateTopics, DeleteTopics, DescribeConfigs, DescribeCluster, ListOffsets."""
import uuid

from connection import Connection
from probe import *
from suite import eventually, expected_brokers, true

MISSING_ID = uuid.UUID("01234567-89ab-4def-8123-456789abcdef")


def metadata(probe, version, topics, **fields):
    """Asks without creating anything, where the version has a word for that."""
    if version >= 4:
        fields = {"AllowAutoTopicCreation": False, **fields}
    with probe.connect() as connection:
        return connection.call("Metadata", version, {"Topics": topics, **fields})


def create(probe, version=5, **topic):
    """The topic's row of the reply."""
    topic = {"NumPartitions": 1, "ReplicationFactor": 1, "Name": unique("prober"), **topic}
    with Connection(probe.cluster.controller()) as connection:
        return connection.call("CreateTopics", version, {"Topics": [topic], "timeoutMs": 15000})["Topics"][0]


@suite.case("C034-metadata-null-is-all-and-empty-is-none")
def _(probe):
    topic = probe.topic()
    for version, topics, wanted in ((1, None, True), (1, [], False), (8, None, True), (8, [], False), (9, None, True), (9, [], False), (0, [], True)):
        names = [t["Name"] for t in metadata(probe, version, topics)["Topics"]]
        equal(topic in names, wanted, f"version {version}, topics {topics}: the topic is listed")
        if not wanted:
            equal(names, [], f"version {version}, topics {topics}")


@suite.case("C035-metadata-brokers-are-never-empty")
def _(probe):
    for topics in ([], None, [{"Name": unique("missing")}], [{"Name": "a b"}]):
        reply = metadata(probe, 8, topics)
        ids = [b["NodeId"] for b in reply["Brokers"]]
        true(reply["ControllerId"] in ids, f"controller {reply['ControllerId']} is not among {ids}")
        true(all(b["Host"] and b["Port"] for b in reply["Brokers"]), f"addresses {reply['Brokers']}")
        if expected_brokers():
            equal(len(ids), expected_brokers(), "brokers")


@suite.case("metadata-of-a-missing-topic")
def _(probe):
    name = unique("missing")
    for version in (4, 8, 9, 12):
        topic = metadata(probe, version, [{"Name": name}])["Topics"][0]
        equal((topic["ErrorCode"], topic["Name"], topic["Partitions"]), (UNKNOWN_TOPIC_OR_PARTITION, name, []), f"version {version}")
    true(name not in [t["Name"] for t in metadata(probe, 1, None)["Topics"]], "asking has created the topic")


@suite.case("C036-metadata-creates-a-topic-only-where-it-may")
def _(probe):
    broker = probe.cluster.metadata([])["Brokers"][0]
    with Connection((broker["Host"], broker["Port"])) as connection:
        rows = [{"ResourceType": 4, "ResourceName": str(broker["NodeId"]), "ConfigurationKeys": ["auto.create.topics.enable"]}]
        configs = connection.call("DescribeConfigs", 4, {"Resources": rows})["Results"][0]["Configs"]
    enabled = [c["Value"] for c in configs] == ["true"]
    for version, fields in ((1, {}), (4, {"AllowAutoTopicCreation": True}), (9, {"AllowAutoTopicCreation": True})):
        name = unique("prober")
        code = metadata(probe, version, [{"Name": name}], **fields)["Topics"][0]["ErrorCode"]
        listed = lambda: name in [t["Name"] for t in metadata(probe, 1, None)["Topics"]]
        if enabled:
            true(code in (OK, UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE), f"version {version}: error {code}")
            eventually(lambda: metadata(probe, 8, [{"Name": name}])["Topics"][0]["ErrorCode"] == OK, f"version {version}: the topic is there")
        else:
            equal((code, listed()), (UNKNOWN_TOPIC_OR_PARTITION, False), f"version {version}: error, and the topic is listed")


@suite.case("metadata-of-bad-names")
def _(probe):
    for name in ("a b", "", "..", "x" * 250):
        topic = metadata(probe, 9, [{"Name": name}])["Topics"][0]
        equal((topic["ErrorCode"], topic["Name"]), (INVALID_TOPIC, name), f"name {name[:10]!r}")


@suite.case("metadata-by-topic-id")
def _(probe):
    if not probe.offers("Metadata", 12):
        return
    topic = probe.topic(2)
    found = metadata(probe, 12, [{"Name": None, "TopicId": probe.topic_id(topic)}, {"Name": None, "TopicId": MISSING_ID}])["Topics"]
    rows = {row["TopicId"]: row for row in found}
    equal((rows[probe.topic_id(topic)]["Name"], len(rows[probe.topic_id(topic)]["Partitions"])), (topic, 2), "known id")
    equal(rows[MISSING_ID]["ErrorCode"], UNKNOWN_TOPIC_ID, "unknown id")


@suite.case("metadata-is-the-same-from-every-broker")
def _(probe):
    topic = probe.topic(4)
    answers = []
    for broker in probe.cluster.metadata([])["Brokers"]:
        with Connection((broker["Host"], broker["Port"])) as connection:
            eventually(lambda: all(p["ErrorCode"] == 0 for p in connection.call("Metadata", 8, {"Topics": [{"Name": topic}]})["Topics"][0]["Partitions"]), "leaders")
            answers.append(connection.call("Metadata", 8, {"Topics": [{"Name": topic}]}))
    for answer in answers:
        equal(answer, answers[0], "Metadata")
    leaders = {p["LeaderId"] for p in answers[0]["Topics"][0]["Partitions"]}
    if expected_brokers():
        equal(len(leaders), expected_brokers(), "brokers that lead a partition")


@suite.case("describe-cluster-agrees-with-metadata")
def _(probe):
    known = metadata(probe, 8, [])
    with probe.connect() as connection:
        found = connection.call("DescribeCluster", 0, {})
    equal((found["ErrorCode"], found["ClusterId"]), (OK, known["ClusterId"]), "cluster id")
    equal(sorted((b["BrokerId"], b["Host"], b["Port"]) for b in found["Brokers"]), sorted((b["NodeId"], b["Host"], b["Port"]) for b in known["Brokers"]), "brokers")
    true(found["ControllerId"] in [b["BrokerId"] for b in found["Brokers"]], f"controller {found['ControllerId']}")


BAD_TOPICS = {
    "name-with-space": ({"Name": "a b"}, INVALID_TOPIC),
    "name-empty": ({"Name": ""}, INVALID_TOPIC),
    "name-dot": ({"Name": "."}, INVALID_TOPIC),
    "name-dot-dot": ({"Name": ".."}, INVALID_TOPIC),
    "name-of-250": ({"Name": "x" * 250}, INVALID_TOPIC),
    "name-with-slash": ({"Name": "../a"}, INVALID_TOPIC),
    "name-not-ascii": ({"Name": "ü"}, INVALID_TOPIC),
    "no-partitions": ({"NumPartitions": 0}, INVALID_PARTITIONS),
    "partitions-minus-2": ({"NumPartitions": -2}, INVALID_PARTITIONS),
    "replication-factor-3": ({"ReplicationFactor": 3}, INVALID_REPLICATION_FACTOR),
    "replication-factor-0": ({"ReplicationFactor": 0}, INVALID_REPLICATION_FACTOR),
    "unknown-config": ({"Configs": [{"Name": "no.such.config", "Value": "1"}]}, INVALID_CONFIG),
    "config-no-number": ({"Configs": [{"Name": "retention.ms", "Value": "soon"}]}, INVALID_CONFIG),
    "config-out-of-range": ({"Configs": [{"Name": "max.message.bytes", "Value": "-1"}]}, INVALID_CONFIG),
    "C060-segment-bytes-over-2-to-31": ({"Configs": [{"Name": "segment.bytes", "Value": "3000000000"}]}, INVALID_CONFIG),
    "segment-bytes-below-1-mib": ({"Configs": [{"Name": "segment.bytes", "Value": "1048575"}]}, INVALID_CONFIG),
    "config-null": ({"Configs": [{"Name": "retention.ms", "Value": None}]}, INVALID_CONFIG),
    "cleanup-policy-unknown": ({"Configs": [{"Name": "cleanup.policy", "Value": "shred"}]}, INVALID_CONFIG),
}
for name, (topic, code) in BAD_TOPICS.items():
    @suite.case(f"create-{name}")
    def _(probe, topic=topic, code=code):
        row = create(probe, **topic)
        equal(row["ErrorCode"], code, f"error ({row['ErrorMessage']})")
        true(row["ErrorMessage"], "no message")


@suite.case("create-topic-exists")
def _(probe):
    equal(create(probe, Name=probe.topic())["ErrorCode"], TOPIC_ALREADY_EXISTS, "error")


@suite.case("create-names-that-collide-in-metrics")
def _(probe):
    name = unique("prober") + ".x_y"
    equal(create(probe, Name=name)["ErrorCode"], OK, "the first")
    equal(create(probe, Name=name.replace(".x_y", "_x.y"))["ErrorCode"], INVALID_TOPIC, "one that differs in dots and underscores only")


@suite.case("create-name-of-249")
def _(probe):
    name = (unique("prober") + "x" * 249)[:249]
    equal(create(probe, Name=name)["ErrorCode"], OK, "error")
    equal(probe.cluster.delete_topic(name), OK, "delete")


@suite.case("create-duplicate-in-one-request")
def _(probe):
    row, other = ({"Name": unique("prober"), "NumPartitions": 1, "ReplicationFactor": 1} for _ in range(2))
    with Connection(probe.cluster.controller()) as connection:
        rows = connection.call("CreateTopics", 5, {"Topics": [row, row, other], "timeoutMs": 15000})["Topics"]
    equal(sorted((r["Name"], r["ErrorCode"]) for r in rows), sorted([(row["Name"], INVALID_REQUEST), (other["Name"], OK)]), "rows")


@suite.case("create-one-good-one-bad")
def _(probe):
    good, bad = unique("prober"), unique("prober")
    rows = [{"Name": good, "NumPartitions": 1, "ReplicationFactor": 1}, {"Name": bad, "NumPartitions": 0, "ReplicationFactor": 1}]
    with Connection(probe.cluster.controller()) as connection:
        got = connection.call("CreateTopics", 5, {"Topics": rows, "timeoutMs": 15000})["Topics"]
    equal(sorted((r["Name"], r["ErrorCode"]) for r in got), sorted([(good, OK), (bad, INVALID_PARTITIONS)]), "rows")


@suite.case("create-defaults-and-the-reply-of-v7")
def _(probe):
    row = create(probe, version=7, NumPartitions=-1, ReplicationFactor=-1, Configs=[{"Name": "retention.ms", "Value": "1000000"}])
    equal((row["ErrorCode"], row["NumPartitions"], row["ReplicationFactor"]), (OK, 1, 1), "error, partitions, replication factor")
    true(row["TopicId"].int != 0, "no topic id")
    equal({c["Name"]: c["Value"] for c in row["Configs"]}["retention.ms"], "1000000", "retention.ms")


@suite.case("create-on-any-broker")
def _(probe):
    for broker in probe.cluster.metadata([])["Brokers"]:
        name = unique("prober")
        with Connection((broker["Host"], broker["Port"])) as connection:
            row = {"Name": name, "NumPartitions": 2, "ReplicationFactor": 1}
            equal(connection.call("CreateTopics", 5, {"Topics": [row], "timeoutMs": 15000})["Topics"][0]["ErrorCode"], OK, "create")
            equal(connection.call("DeleteTopics", 4, {"TopicNames": [name], "TimeoutMs": 15000})["Responses"][0]["ErrorCode"], OK, "delete")


@suite.case("create-answers-when-the-topic-can-be-written")
def _(probe):
    # Kafka answers earlier; a producer that comes at once gets an error for up to a second.
    if probe.is_kafka:
        return
    name = unique("prober")
    equal(create(probe, Name=name, NumPartitions=20)["ErrorCode"], OK, "create")
    for partition in range(20):
        with probe.connect(name, partition) as connection:
            equal(produced(connection, name, SMALL, partition=partition), 0, f"base offset in partition {partition}")


@suite.case("delete-topic-missing-and-by-id")
def _(probe):
    equal(probe.cluster.delete_topic(unique("missing")), UNKNOWN_TOPIC_OR_PARTITION, "missing")
    topic = probe.topic()
    with Connection(probe.cluster.controller()) as connection:
        ids = [{"Name": None, "TopicId": MISSING_ID}, {"Name": None, "TopicId": probe.topic_id(topic)}]
        rows = connection.call("DeleteTopics", 6, {"Topics": ids, "TimeoutMs": 15000})["Responses"]
    equal({r["TopicId"]: r["ErrorCode"] for r in rows}, {MISSING_ID: UNKNOWN_TOPIC_ID, ids[1]["TopicId"]: OK}, "rows")


@suite.case("deleted-topic-refuses-and-comes-back-empty")
def _(probe):
    topic = probe.topic()
    with probe.connect(topic) as connection:
        old_id = probe.topic_id(topic)
        produced(connection, topic, SMALL)
        equal(probe.cluster.delete_topic(topic), OK, "delete")
        eventually(lambda: produce(connection, topic, SMALL)["ErrorCode"] == UNKNOWN_TOPIC_OR_PARTITION, "produce is refused")
        equal(fetch(connection, topic, 0)["ErrorCode"], UNKNOWN_TOPIC_OR_PARTITION, "fetch")
    eventually(lambda: create(probe, Name=topic)["ErrorCode"] == OK, "the name can be used again")
    eventually(lambda: probe.end(topic) == 0, "the new topic is empty")
    true(probe.topic_id(topic) != old_id, "the new topic has the old id")


@suite.case("describe-configs-rows")
def _(probe):
    topic = probe.topic(retention_ms=5000000)
    rows = [{"ResourceType": 2, "ResourceName": topic, "ConfigurationKeys": ["retention.ms", "cleanup.policy", "no.such"]},
            {"ResourceType": 2, "ResourceName": unique("missing"), "ConfigurationKeys": None}]
    with probe.connect() as connection:
        for version in (1, 4):
            found = connection.call("DescribeConfigs", version, {"Resources": rows})["Results"]
            equal([r["ErrorCode"] for r in found], [OK, UNKNOWN_TOPIC_OR_PARTITION], "errors")
            values = {c["Name"]: (c["Value"], c["ConfigSource"]) for c in found[0]["Configs"]}
            equal(values, {"retention.ms": ("5000000", 1), "cleanup.policy": ("delete", 5)}, f"version {version}: value and source")


@suite.case("list-offsets-of-an-empty-and-a-missing-partition")
def _(probe):
    topic = probe.topic()
    with probe.connect(topic) as connection:
        for version in (1, 5, 6, 7):
            rows = [{"PartitionIndex": p, "Timestamp": t} for p, t in ((0, -1), (5, -1))]
            got = connection.call("ListOffsets", version, {"ReplicaId": -1, "Topics": [{"Name": topic, "Partitions": rows}]})["Topics"][0]["Partitions"]
            equal(sorted((r["PartitionIndex"], r["ErrorCode"], r["Offset"]) for r in got), [(0, OK, 0), (5, UNKNOWN_TOPIC_OR_PARTITION, -1)], f"version {version}")
        produced(connection, topic, batch([b"a", b"b"]))
    equal((probe.end(topic), probe.cluster.end_offset(topic, 0, timestamp=-2)), (2, 0), "latest and earliest")


@suite.case("list-offsets-leader-epoch")
def _(probe):
    topic = probe.topic()
    epoch = probe.leader_epoch(topic)
    with probe.connect(topic) as connection:
        for given, want in ((-1, OK), (epoch, OK), (epoch + 1, UNKNOWN_LEADER_EPOCH)) + (((epoch - 1, FENCED_LEADER_EPOCH),) if epoch > 0 else ()):
            row = {"PartitionIndex": 0, "Timestamp": -1, "CurrentLeaderEpoch": given}
            got = connection.call("ListOffsets", 6, {"ReplicaId": -1, "Topics": [{"Name": topic, "Partitions": [row]}]})["Topics"][0]["Partitions"][0]
            equal(got["ErrorCode"], want, f"epoch {given}, current {epoch}")
