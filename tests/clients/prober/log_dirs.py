"""DescribeLogDirs and OffsetForLeaderEpoch."""
from probe import *
from suite import true


def offered(probe, api):
    low, high = probe.ranges[SCHEMAS.keys[api]]
    return range(low, high + 1)


@suite.case("every-version-of-describe-log-dirs")
def _(probe):
    topic = probe.topic(2)
    with probe.connect(topic) as connection:
        produced(connection, topic, SMALL)
        for version in offered(probe, "DescribeLogDirs"):
            for topics in (None, [{"Topic": topic, "Partitions": [0, 7]}, {"Topic": unique("absent"), "Partitions": [0]}]):
                reply = connection.call("DescribeLogDirs", version, {"Topics": topics})
                equal(reply.get("ErrorCode", OK), OK, f"version {version}")
                rows = {(t["Name"], p["PartitionIndex"]): p for d in reply["Results"] for t in d["Topics"] for p in t["Partitions"]}
                row = rows[topic, 0]
                equal((row["PartitionSize"], row["OffsetLag"], row["IsFutureKey"]), (len(SMALL), 0, False), f"version {version}")
                if topics:
                    equal(list(rows), [(topic, 0)], f"version {version}: only what was asked for")
                for one in reply["Results"]:
                    true(one["ErrorCode"] == OK and one["LogDir"].startswith("/"), f"version {version}: {one['LogDir']}")
                    if version >= 4:
                        true(one["TotalBytes"] >= one["UsableBytes"] > 0, f"version {version}: {one['TotalBytes']} {one['UsableBytes']}")
                    if version >= 5:
                        equal(one["IsCordoned"], False, "cordoned")
        reply = connection.call("DescribeLogDirs", 4, {"Topics": []})
        equal([t for d in reply["Results"] for t in d["Topics"]], [], "an empty list asks for none")


def epoch_end(connection, topic, epoch, version=4, current=-1, partition=0):
    body = {"ReplicaId": -1, "Topics": [{"Topic": topic, "Partitions": [{"Partition": partition, "CurrentLeaderEpoch": current, "LeaderEpoch": epoch}]}]}
    if version < 3:
        del body["ReplicaId"]
    row = connection.call("OffsetForLeaderEpoch", version, body)["Topics"][0]["Partitions"][0]
    equal(row["Partition"], partition, "partition")
    return row["ErrorCode"], row["LeaderEpoch"], row["EndOffset"]


@suite.case("every-version-of-offset-for-leader-epoch")
def _(probe):
    topic = probe.topic()
    now = probe.leader_epoch(topic)
    with probe.connect(topic) as connection:
        for version in offered(probe, "OffsetForLeaderEpoch"):
            equal(epoch_end(connection, topic, now, version), (OK, now, 0 if version == 2 else 2), f"version {version}")
            if version == 2:
                # An empty log: the current epoch ends where it begins, and no other is known.
                for epoch in (now + 1, now + 50, -1):
                    equal(epoch_end(connection, topic, epoch, version), (OK, -1, -1), f"epoch {epoch} of an empty log")
                for _ in range(2):
                    produced(connection, topic, SMALL)
            for epoch in (now + 1, -1):
                equal(epoch_end(connection, topic, epoch, version), (OK, -1, -1), f"version {version} epoch {epoch}")
            for current, want in ((now, OK), (now + 1, UNKNOWN_LEADER_EPOCH)) + (((now - 1, FENCED_LEADER_EPOCH),) if now > 0 else ()):
                answer = epoch_end(connection, topic, now, version, current)
                equal(answer, (OK, now, 2) if want == OK else (want, -1, -1), f"version {version} current epoch {current}")
            for name, partition in ((unique("absent"), 0), (topic, 9)):
                equal(epoch_end(connection, name, now, version, partition=partition), (UNKNOWN_TOPIC_OR_PARTITION, -1, -1), f"{name}-{partition}")


@suite.case("fetch-with-a-last-fetched-epoch-that-is-unknown")
def _(probe):
    topic = probe.topic()
    now = probe.leader_epoch(topic)
    with probe.connect(topic) as connection:
        produced(connection, topic, SMALL)
        for last, offset, want in ((now, 1, OK), (-1, 1, OK), (now + 1, 1, OFFSET_OUT_OF_RANGE)):
            body = fetch_body([(topic, 0, offset)])
            body["Topics"][0]["Partitions"][0]["LastFetchedEpoch"] = last
            row = connection.call("Fetch", 12, body)["Responses"][0]["Partitions"][0]
            equal(row["ErrorCode"], want, f"last fetched epoch {last}")
