"""Metadata, CreateTopics and DeleteTopics with their errors, DescribeConfigs."""
import uuid

from pair import Of
from steps import Step, step


@step(4)
def metadata(world):
    version, rng = world.version("Metadata"), world.random
    names = rng.sample(sorted(world.topics), rng.randint(1, len(world.topics)))
    topics, label = [{"Name": name} for name in names], "by name"
    if version >= 12 and rng.random() < 0.4:
        topics, label = [{"TopicId": Of("topic-id", name), "Name": None} for name in names], "by id"
        if rng.random() < 0.3:
            topics.append({"TopicId": uuid.UUID(int=77), "Name": None})
            label = "by id, missing"
    elif rng.random() < 0.4:
        name = rng.choice(["differential-missing", "", ".", "..", "a b", "x" * 249, "x" * 250, "ü"])
        topics.append({"Name": name})
        label = f"name {name[:20]!r}"
    elif rng.random() < 0.1:
        topics.append(dict(topics[0]))
        label = "one twice"
    body = {"Topics": topics}
    if version >= 4:
        body["AllowAutoTopicCreation"] = False
    else:
        # Older versions make topics that are asked for.
        body["Topics"] = [topic for topic in topics if topic["Name"] in world.topics]
    if 8 <= version <= 10 and rng.random() < 0.2:
        body["IncludeClusterAuthorizedOperations"] = True
    if version >= 8 and rng.random() < 0.2:
        body["IncludeTopicAuthorizedOperations"] = True
        label += ", with operations"
    return Step(label, "Metadata", version, body)


@step(4)
def create_topics(world):
    """Only validated, or refused: nothing is made."""
    version, rng = world.version("CreateTopics"), world.random
    name = f"differential-new-{rng.randint(0, 10**9)}"
    fine = {"Name": name, "NumPartitions": 1, "ReplicationFactor": 1}
    odd = {
        "fine": {}, "exists": {"Name": rng.choice(sorted(world.topics))}, "0 partitions": {"NumPartitions": 0}, "-2 partitions": {"NumPartitions": -2},
        "0 replicas": {"ReplicationFactor": 0}, "9 replicas": {"ReplicationFactor": 9}, "-2 replicas": {"ReplicationFactor": -2},
        "empty name": {"Name": ""}, "dot": {"Name": "."}, "blank": {"Name": "a b"}, "long name": {"Name": "x" * 250},
        "longest name": {"Name": "x" * 249}, "internal": {"Name": "__consumer_offsets_"},
        "unknown key": {"Configs": [{"Name": "no.such.key", "Value": "1"}]},
        "no number": {"Configs": [{"Name": "retention.ms", "Value": "x"}]},
        "null value": {"Configs": [{"Name": "retention.ms", "Value": None}]},
        "key twice": {"Configs": [{"Name": "retention.ms", "Value": "1"}, {"Name": "retention.ms", "Value": "2"}]},
        "C060 segment too large": {"Configs": [{"Name": "segment.bytes", "Value": "3000000000"}]},
        "segment too small": {"Configs": [{"Name": "segment.bytes", "Value": "1000"}]},
        "bad policy": {"Configs": [{"Name": "cleanup.policy", "Value": "burn"}]},
        "bad codec": {"Configs": [{"Name": "compression.type", "Value": "rar"}]},
        "configs": {"Configs": [{"Name": "retention.ms", "Value": "100000"}, {"Name": "cleanup.policy", "Value": "compact,delete"}]},
        "retention -2": {"Configs": [{"Name": "retention.ms", "Value": "-2"}]},
        "insync 0": {"Configs": [{"Name": "min.insync.replicas", "Value": "0"}]},
        "assigned and counted": {"Assignments": [{"PartitionIndex": 0, "BrokerIds": [1]}]},
        "gap in assignment": {"NumPartitions": -1, "ReplicationFactor": -1, "Assignments": [{"PartitionIndex": 1, "BrokerIds": [1]}]},
        "no replicas": {"NumPartitions": -1, "ReplicationFactor": -1, "Assignments": [{"PartitionIndex": 0, "BrokerIds": []}]},
        "unknown broker": {"NumPartitions": -1, "ReplicationFactor": -1, "Assignments": [{"PartitionIndex": 0, "BrokerIds": [77]}]},
    }
    label = rng.choice(sorted(odd))
    topics = [{**fine, **odd[label]}]
    if rng.random() < 0.1:
        topics.append(dict(topics[0]))
        label += ", twice"
    if rng.random() < 0.1:
        topics.append({**fine, "Name": name + "-other"})
        label += ", with another"
    return Step(label, "CreateTopics", version, {"Topics": topics, "timeoutMs": 10000, "validateOnly": True})


@step(2)
def delete_topics(world):
    version, rng = world.version("DeleteTopics"), world.random
    if version >= 6:
        topics = [{"Name": "differential-missing"}, {"Name": None, "TopicId": uuid.UUID(int=77)}, {"Name": None},
                  {"Name": rng.choice(sorted(world.topics)), "TopicId": uuid.UUID(int=78)}, {"Name": ""}]
        return Step("missing, by name and id", "DeleteTopics", version, {"Topics": rng.sample(topics, rng.randint(1, 3)), "TimeoutMs": 10000})
    return Step("missing", "DeleteTopics", version, {"TopicNames": ["differential-missing", ""][: rng.randint(1, 2)], "TimeoutMs": 10000})


@step(2)
def describe_configs(world):
    version, rng = world.version("DescribeConfigs", at_least=1), world.random
    name = rng.choice(sorted(world.topics) * 3 + ["differential-missing", "", "a b"])
    keys = rng.choice([None, None, [], ["retention.ms"], ["segment.bytes", "no.such.key", "cleanup.policy"]])
    body = {"Resources": [{"ResourceType": 2, "ResourceName": name, "ConfigurationKeys": keys}], "IncludeSynonyms": rng.choice([True, False])}
    if rng.random() < 0.1:
        body["Resources"].append({"ResourceType": rng.choice([0, 3, 77]), "ResourceName": "x", "ConfigurationKeys": None})
    if version >= 3:
        body["IncludeDocumentation"] = False
    return Step(f"of {world.kind(name)}", "DescribeConfigs", version, body)
