"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""
from steps import Step, step


@step(10)
def list_offsets(world):
    version, rng = world.version("ListOffsets", at_least=1), world.random
    rows, labels = {}, []
    by_time = world.pair.versions("ListOffsets")[1] > 7
    for topic, partition in rng.sample(sorted(world.logs), rng.randint(1, min(3, len(world.logs)))):
        special = rng.random() < 0.5 or not by_time
        timestamp = rng.choice([-1] if not by_time else [-1, -1, -2, -2, -3, -3, -4, -5, -6, -7, -100]) if special else rng.choice([world.timestamp()] * 6 + [0, 1, 2**62, world.begun_ms + 5_000_000])
        labels.append(str(timestamp) if special or timestamp < 2 else "time")
        row = {"PartitionIndex": partition, "Timestamp": timestamp}
        if version >= 4 and rng.random() < 0.15:
            row["CurrentLeaderEpoch"] = rng.choice([0, 1, 7, -2])
        rows.setdefault(topic, []).append(row)
    if rng.random() < 0.05:
        rows["differential-missing"] = [{"PartitionIndex": 0, "Timestamp": -1}]
    if rng.random() < 0.05:
        rows.setdefault(rng.choice(sorted(world.topics)), []).append({"PartitionIndex": rng.choice([9, -1]), "Timestamp": -1})
    body = {"ReplicaId": -1, "Topics": [{"Name": topic, "Partitions": partitions} for topic, partitions in rows.items()]}
    if version >= 2:
        body["IsolationLevel"] = rng.choice([0, 1])
    if version >= 10:
        body["TimeoutMs"] = 5000
    return Step("of " + " ".join(labels), "ListOffsets", version, body)


@step(4)
def offset_for_leader_epoch(world):
    version, rng = world.version("OffsetForLeaderEpoch", at_least=2), world.random
    if version is None:
        return None
    topic, partition = world.partition()
    row = {"Partition": partition, "LeaderEpoch": rng.choice([0, 0, 0, 1, 5, -1, -2, 2**31 - 1]), "CurrentLeaderEpoch": rng.choice([-1, -1, 0, 1, 7])}
    topics = [{"Topic": topic, "Partitions": [row]}]
    if rng.random() < 0.1:
        topics.append({"Topic": "differential-missing", "Partitions": [dict(row)]})
    if rng.random() < 0.1:
        topics[0]["Partitions"].append({**row, "Partition": 9})
    body = {"Topics": topics}
    if version >= 3:
        body["ReplicaId"] = rng.choice([-1, -1, -2])
    return Step(f"epoch {row['LeaderEpoch']} current {row['CurrentLeaderEpoch']}", "OffsetForLeaderEpoch", version, body)


@step(2)
def delete_records(world):
    version, rng = world.version("DeleteRecords"), world.random
    if version is None:
        return None
    topic, partition = world.partition()
    log = world.logs[topic, partition]
    offset = rng.choice([-1, log.start, 0, log.end, log.end + 1, -2, rng.randint(log.start, max(log.start, log.end)), rng.randint(log.start, max(log.start, log.end))])
    topics = [{"Name": topic, "Partitions": [{"PartitionIndex": partition, "Offset": offset}]}]
    if rng.random() < 0.1:
        topics.append({"Name": "differential-missing", "Partitions": [{"PartitionIndex": 0, "Offset": 0}]})
    if rng.random() < 0.1:
        topics[0]["Partitions"].append({"PartitionIndex": 9, "Offset": 0})

    def learn(answer, _):
        for one in answer["Topics"]:
            for row in one["Partitions"]:
                if row["ErrorCode"] == 0 and (one["Name"], row["PartitionIndex"]) in world.logs:
                    world.logs[one["Name"], row["PartitionIndex"]].start = row["LowWatermark"]
    return Step(f"to {'end' if offset == log.end else 'over' if offset > log.end else offset if offset < 0 else 'inside'}@{world.kind(topic)}", "DeleteRecords", version,
                {"Topics": topics, "TimeoutMs": 10000}, learn=learn)
