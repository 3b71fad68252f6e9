"""Every version that the server offers of the APIs of this stage does its work."""
import uuid

from connection import Connection
from idempotence import wait_until_ready
from probe import *
from suite import true

NO_ID = uuid.UUID(int=0)


def offered(probe, api, lowest=0):
    low, high = probe.ranges[SCHEMAS.keys[api]]
    return range(max(low, lowest), high + 1)


@suite.case("every-version-of-produce")
def _(probe):
    # Kafka refuses 0 to 2, which it offers for old clients to see that it knows compression.
    topic = probe.topic()
    named = {"Name": topic, "TopicId": probe.topic_id(topic)}
    with probe.connect(topic) as connection:
        for offset, version in enumerate(offered(probe, "Produce", 3)):
            body = produce_body(topic, SMALL)
            body["TopicData"][0].update(named)
            reply = connection.call("Produce", version, body)
            topic_row = reply["Responses"][0]
            row = topic_row["PartitionResponses"][0]
            equal((row["ErrorCode"], row["BaseOffset"], row["LogAppendTimeMs"]), (OK, offset, -1), f"version {version}")
            equal(topic_row.get("Name", topic), topic, f"version {version}: name")


@suite.case("every-version-of-fetch")
def _(probe):
    topic = probe.topic()
    id_ = probe.topic_id(topic)
    with probe.connect(topic) as connection:
        produced(connection, topic, SMALL)
        for version in offered(probe, "Fetch"):
            row = fetch(connection, topic if version <= 12 else id_, 0, version=version)
            equal((row["ErrorCode"], row["HighWatermark"], row["LastStableOffset"], offsets_of(row)), (OK, 1, 1, [(0, 0)]), f"version {version}")
            equal(batches(row["Records"])[0]["crc_fits"], True, f"version {version}: CRC")
            row = fetch(connection, topic if version <= 12 else id_, 1, version=version)
            equal((row["ErrorCode"], row["Records"] or b""), (OK, b""), f"version {version} at the end")


@suite.case("every-version-of-list-offsets")
def _(probe):
    topic = probe.topic()
    with probe.connect(topic) as connection:
        produced(connection, topic, SMALL)
        for version in offered(probe, "ListOffsets"):
            for timestamp, want in ((-1, 1), (-2, 0)):
                body = {"ReplicaId": -1, "Topics": [{"Name": topic, "Partitions": [{"PartitionIndex": 0, "Timestamp": timestamp}]}]}
                row = connection.call("ListOffsets", version, body)["Topics"][0]["Partitions"][0]
                equal((row["ErrorCode"], row["Offset"], row["Timestamp"]), (OK, want, -1), f"version {version} timestamp {timestamp}")


@suite.case("every-version-of-metadata")
def _(probe):
    topic = probe.topic(3)
    with probe.connect() as connection:
        for version in offered(probe, "Metadata"):
            reply = connection.call("Metadata", version, {"Topics": [{"Name": topic}]})
            row = reply["Topics"][0]
            equal((row["ErrorCode"], row["Name"], sorted(p["PartitionIndex"] for p in row["Partitions"])), (OK, topic, [0, 1, 2]), f"version {version}")
            ids = {b["NodeId"] for b in reply["Brokers"]}
            true(all(p["LeaderId"] in ids and p["ReplicaNodes"] == p["IsrNodes"] == [p["LeaderId"]] for p in row["Partitions"]), f"version {version}: {row}")
            if version >= 2:
                true(reply["ClusterId"], f"version {version}: no cluster id")
            if version >= 10:
                true(row["TopicId"] != NO_ID, f"version {version}: no topic id")


@suite.case("every-version-of-create-and-delete-topics")
def _(probe):
    with Connection(probe.cluster.controller()) as connection:
        deleting = list(offered(probe, "DeleteTopics"))
        creating = list(offered(probe, "CreateTopics"))
        for i in range(max(len(creating), len(deleting))):
            create, delete, name = creating[i % len(creating)], deleting[i % len(deleting)], unique("prober")
            rows = [{"Name": name, "NumPartitions": 1, "ReplicationFactor": 1}]
            row = connection.call("CreateTopics", create, {"Topics": rows, "timeoutMs": 15000})["Topics"][0]
            equal((row["Name"], row["ErrorCode"]), (name, OK), f"create version {create}")
            body = {"Topics": [{"Name": name}]} if delete >= 6 else {"TopicNames": [name]}
            row = connection.call("DeleteTopics", delete, {**body, "TimeoutMs": 15000})["Responses"][0]
            equal((row["Name"], row["ErrorCode"]), (name, OK), f"delete version {delete}")


@suite.case("every-version-of-init-producer-id")
def _(probe):
    wait_until_ready(probe)
    with probe.connect() as connection:
        for version in offered(probe, "InitProducerId"):
            reply = connection.call("InitProducerId", version, {"TransactionalId": None, "TransactionTimeoutMs": 60000})
            equal((reply["ErrorCode"], reply["ProducerEpoch"]), (OK, 0), f"version {version}")


@suite.case("every-version-of-describe-configs")
def _(probe):
    topic = probe.topic(retention_ms=5000000)
    broker = str(probe.cluster.metadata([])["Brokers"][0]["NodeId"])
    with probe.connect() as connection:
        for version in offered(probe, "DescribeConfigs"):
            rows = [{"ResourceType": 2, "ResourceName": topic, "ConfigurationKeys": None}]
            row = connection.call("DescribeConfigs", version, {"Resources": rows})["Results"][0]
            values = {c["Name"]: c["Value"] for c in row["Configs"]}
            equal((row["ErrorCode"], values["retention.ms"], values["cleanup.policy"]), (OK, "5000000", "delete"), f"version {version}")
    # A broker answers for itself.
    address = next((b["Host"], b["Port"]) for b in probe.cluster.metadata([])["Brokers"] if str(b["NodeId"]) == broker)
    with Connection(address) as connection:
        row = connection.call("DescribeConfigs", 4, {"Resources": [{"ResourceType": 4, "ResourceName": broker, "ConfigurationKeys": None}]})["Results"][0]
        true(row["ErrorCode"] == OK and "log.segment.bytes" in [c["Name"] for c in row["Configs"]], f"broker: error {row['ErrorCode']}")


@suite.case("every-version-of-describe-cluster")
def _(probe):
    with probe.connect() as connection:
        for version in offered(probe, "DescribeCluster"):
            reply = connection.call("DescribeCluster", version, {})
            equal((reply["ErrorCode"], len(reply["Brokers"])), (OK, len(probe.cluster.metadata([])["Brokers"])), f"DescribeCluster version {version}")
