"""Groups: FindCoordinator, members, committed offsets, administration; each version of each API."""
import uuid

from connection import SCHEMAS, Connection
from probe import *
from suite import eventually, true
from versions import offered

COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, INVALID_GROUP_ID = 14, 16, 22, 23, 24
OFFSET_METADATA_TOO_LARGE, UNKNOWN_MEMBER_ID, INVALID_SESSION_TIMEOUT, REBALANCE_IN_PROGRESS = 12, 25, 26, 27
NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, MEMBER_ID_REQUIRED, FENCED_INSTANCE_ID, GROUP_SUBSCRIBED_TO_TOPIC = 68, 69, 79, 82, 86
NOT_YET = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)
# What a consumer that reads topic "t" says: version 0 of the consumer protocol.
SUBSCRIPTION = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"


class Group:
    """A group of its own, with a connection to its coordinator."""

    def __init__(self, probe, name=None):
        self.name = name or unique("prober-group")
        with probe.connect() as connection:
            found = []

            def is_found():
                found[:] = connection.call("FindCoordinator", 4, {"CoordinatorKeys": [self.name]})["Coordinators"]
                return found[0]["ErrorCode"] == OK

            eventually(is_found, "a coordinator")
            row = found[0]
        self.connection = Connection((row["Host"], row["Port"]))
        # A real broker has the topic a moment before the coordinator.
        eventually(lambda: self.fetch({"t": [0]})["ErrorCode"] not in NOT_YET, "the coordinator is loaded")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.__exit__()

    def join_body(self, version, member="", instance=None, session_ms=10000, type_="consumer", protocols=("range",)):
        body = {"GroupId": self.name, "SessionTimeoutMs": session_ms, "MemberId": member, "ProtocolType": type_,
                "Protocols": [{"Name": p, "Metadata": SUBSCRIPTION} for p in protocols]}
        if version >= 1:
            body["RebalanceTimeoutMs"] = 20000
        if version >= 5:
            body["GroupInstanceId"] = instance
        return body

    def join(self, version=9, **fields):
        return self.connection.call("JoinGroup", version, self.join_body(version, **fields))

    def enter(self, version=9, **fields):
        """Joins as a new member, coming back with its id where it is sent back for that; a reply with error 0."""
        reply = self.join(version, **fields)
        if reply["ErrorCode"] == MEMBER_ID_REQUIRED:
            reply = self.join(version, **{**fields, "member": reply["MemberId"]})
        equal(reply["ErrorCode"], OK, f"JoinGroup version {version}")
        return reply

    def sync(self, member, generation, assignments=(), version=5, type_="consumer", protocol="range"):
        body = {"GroupId": self.name, "GenerationId": generation, "MemberId": member,
                "Assignments": [{"MemberId": m, "Assignment": a} for m, a in assignments]}
        if version >= 3:
            body["GroupInstanceId"] = None
        if version >= 5:
            body.update(ProtocolType=type_, ProtocolName=protocol)
        return self.connection.call("SyncGroup", version, body)

    def heartbeat(self, member, generation, version=4):
        body = {"GroupId": self.name, "GenerationId": generation, "MemberId": member}
        if version >= 3:
            body["GroupInstanceId"] = None
        return self.connection.call("Heartbeat", version, body)["ErrorCode"]

    def leave(self, member, version=5):
        if version < 3:
            return self.connection.call("LeaveGroup", version, {"GroupId": self.name, "MemberId": member})["ErrorCode"]
        row = {"MemberId": member, "GroupInstanceId": None}
        if version >= 5:
            row["Reason"] = "over"
        reply = self.connection.call("LeaveGroup", version, {"GroupId": self.name, "Members": [row]})
        return reply["ErrorCode"] or reply["Members"][0]["ErrorCode"]

    def commit(self, topic, offset, partition=0, member="", generation=-1, version=8, metadata="m"):
        part = {"PartitionIndex": partition, "CommittedOffset": offset, "CommittedMetadata": metadata}
        if version >= 6:
            part["CommittedLeaderEpoch"] = 5
        row = {"Partitions": [part]}
        row.update({"TopicId": topic} if version >= 10 else {"Name": topic})
        body = {"GroupId": self.name, "GenerationIdOrMemberEpoch": generation, "MemberId": member, "Topics": [row]}
        if version >= 7:
            body["GroupInstanceId"] = None
        if version <= 4:
            body["RetentionTimeMs"] = -1
        reply = self.connection.call("OffsetCommit", version, body)
        return reply["Topics"][0]["Partitions"][0]["ErrorCode"]

    def fetch(self, topics, version=9, stable=False):
        """The reply for this group; `topics` maps names (or ids) to partitions, or is None for all."""
        key = "TopicId" if version >= 10 else "Name"
        rows = None if topics is None else [{key: t, "PartitionIndexes": p} for t, p in topics.items()]
        if version >= 8:
            group = {"GroupId": self.name, "Topics": rows}
            if version >= 9:
                group.update(MemberId=None, MemberEpoch=-1)
            return self.connection.call("OffsetFetch", version, {"Groups": [group], "RequireStable": stable})["Groups"][0]
        body = {"GroupId": self.name, "Topics": rows}
        if version >= 7:
            body["RequireStable"] = stable
        return {"ErrorCode": OK, **self.connection.call("OffsetFetch", version, body)}

    def offset(self, topic, partition=0, version=9):
        row = self.fetch({topic: [partition]}, version)["Topics"][0]["Partitions"][0]
        return row["CommittedOffset"], row["ErrorCode"], row["Metadata"]


@suite.case("find-coordinator-in-every-version")
def _(probe):
    with Group(probe) as group, probe.connect() as connection:
        brokers = {b["NodeId"]: (b["Host"], b["Port"]) for b in probe.cluster.metadata([])["Brokers"]}
        for version in offered(probe, "FindCoordinator"):
            reply = connection.call("FindCoordinator", version, {"CoordinatorKeys": [group.name, "g2"]} if version >= 4 else {"Key": group.name})
            for row in reply["Coordinators"] if version >= 4 else [reply]:
                equal((row["ErrorCode"], (row["Host"], row["Port"])), (OK, brokers[row["NodeId"]]), f"version {version}")
        reply = connection.call("FindCoordinator", 3, {"Key": "g", "KeyType": 9})
        equal((reply["ErrorCode"], reply["NodeId"]), (INVALID_REQUEST, -1), "unknown type")
        reply = connection.call("FindCoordinator", 5, {"CoordinatorKeys": ["g"], "KeyType": 2})["Coordinators"][0]
        equal((reply["ErrorCode"], reply["NodeId"]), (INVALID_REQUEST, -1), "share groups before version 6")


@suite.case("C175-join-rules")
def _(probe):
    with Group(probe) as group:
        first = group.join(9)
        equal(first["ErrorCode"], MEMBER_ID_REQUIRED, "version 9 without an id")
        true(first["MemberId"].startswith("prober-") and len(first["MemberId"]) == 7 + 36, f"the id {first['MemberId']}")
        equal(group.join(9, session_ms=100)["ErrorCode"], INVALID_SESSION_TIMEOUT, "session timeout too short")
        equal(group.join(9, session_ms=2000000)["ErrorCode"], INVALID_SESSION_TIMEOUT, "session timeout too long")
        equal(group.join(9, type_="")["ErrorCode"], INCONSISTENT_GROUP_PROTOCOL, "no protocol type")
        equal(group.join(9, protocols=())["ErrorCode"], INCONSISTENT_GROUP_PROTOCOL, "no protocols")
        equal(group.join(9, member="nobody")["ErrorCode"], UNKNOWN_MEMBER_ID, "an id that nobody gave")
        joined = group.join(9, member=first["MemberId"])
        equal((joined["ErrorCode"], joined["GenerationId"], joined["Leader"]), (OK, 1, first["MemberId"]), "joined")
        equal((joined["ProtocolType"], joined["ProtocolName"], [m["Metadata"] for m in joined["Members"]]), ("consumer", "range", [SUBSCRIPTION]), "what the leader sees")
        member = first["MemberId"]
        equal(group.join(9, type_="connect")["ErrorCode"], INCONSISTENT_GROUP_PROTOCOL, "another protocol type")
        equal(group.join(9, protocols=("other",))["ErrorCode"], INCONSISTENT_GROUP_PROTOCOL, "no protocol in common")
        equal(group.commit(probe.topic(), 1, member=member, generation=1), REBALANCE_IN_PROGRESS, "a commit before the assignment")
        equal(group.sync(member, 7)["ErrorCode"], ILLEGAL_GENERATION, "sync of another generation")
        equal(group.sync("nobody", 1)["ErrorCode"], UNKNOWN_MEMBER_ID, "sync of nobody")
        equal(group.sync(member, 1, protocol="x")["ErrorCode"], INCONSISTENT_GROUP_PROTOCOL, "sync with another protocol")
        synced = group.sync(member, 1, [(member, b"mine")])
        equal((synced["ErrorCode"], synced["Assignment"], synced["ProtocolName"]), (OK, b"mine", "range"), "sync")
        equal([group.heartbeat(member, 1), group.heartbeat(member, 0), group.heartbeat("nobody", 1)], [OK, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID], "heartbeats")
        equal([group.leave("nobody"), group.leave(member), group.leave(member)], [UNKNOWN_MEMBER_ID, OK, UNKNOWN_MEMBER_ID], "leave")
        equal(group.heartbeat(member, 1), UNKNOWN_MEMBER_ID, "a heartbeat of who has left")
        empty = Group.__new__(Group)
        empty.name, empty.connection = "", group.connection
        equal((empty.join(9)["ErrorCode"], empty.sync("m", 1)["ErrorCode"], empty.heartbeat("m", 1)), (INVALID_GROUP_ID,) * 3, "no name")


@suite.case("C176-offset-fetch-and-metadata")
def _(probe):
    topic, other = probe.topic(2), probe.topic()
    with Group(probe) as group:
        equal(group.offset(topic), (-1, OK, ""), "nothing committed")
        equal(group.fetch(None)["Topics"], [], "all of nothing")
        equal([group.commit(topic, 7), group.commit(topic, 8, partition=1, metadata=None)], [OK, OK], "commits")
        equal([group.offset(topic), group.offset(topic, 1), group.offset(topic, 5)], [(7, OK, "m"), (8, OK, ""), (-1, OK, "")], "committed")
        rows = {t["Name"]: sorted(p["PartitionIndex"] for p in t["Partitions"]) for t in group.fetch(None)["Topics"]}
        equal(rows, {topic: [0, 1]}, "all")
        equal(group.fetch({"no-such-topic": [0]})["Topics"][0]["Partitions"][0]["CommittedOffset"], -1, "unknown topic")
        equal(group.commit(topic, 9, metadata="x" * 4096), OK, "metadata of 4096")
        equal(group.commit(topic, 10, metadata="x" * 4097), OFFSET_METADATA_TOO_LARGE, "metadata of 4097")
        equal(group.offset(topic)[0], 9, "the refused commit left no trace")
        equal([group.commit("no-such-topic", 1), group.commit(topic, 1, partition=2)], [UNKNOWN_TOPIC_OR_PARTITION] * 2, "commit to nowhere")
        equal(group.commit(topic, 1, member="x", generation=3), UNKNOWN_MEMBER_ID, "commit of a member that is none")
        with Group(probe) as unknown:
            equal(unknown.commit(topic, 1, member="x", generation=3), ILLEGAL_GENERATION, "commit to no group, version 8")
            equal(unknown.commit(topic, 1, member="x", generation=3, version=9), GROUP_ID_NOT_FOUND, "commit to no group, version 9")
        # The topic goes, and what was committed of it.
        equal(group.commit(other, 3), OK, "commit")
        probe.cluster.delete_topic(other)
        eventually(lambda: group.offset(other)[0] == -1, "offsets of a deleted topic are gone")


@suite.case("every-version-of-group-apis")
def _(probe):
    topic = probe.topic()
    topic_id = probe.topic_id(topic)
    for version in offered(probe, "JoinGroup"):
        with Group(probe) as group:
            joined = group.enter(version)
            member, generation = joined["MemberId"], joined["GenerationId"]
            equal((generation, joined["Leader"], len(joined["Members"])), (1, member, 1), f"JoinGroup version {version}")
            synced = group.sync(member, generation, [(member, b"a")], version=min(version, 5))
            equal((synced["ErrorCode"], synced["Assignment"]), (OK, b"a"), f"SyncGroup version {min(version, 5)}")
            equal(group.heartbeat(member, generation, min(version, 4)), OK, f"Heartbeat version {min(version, 4)}")
            if version == 9:
                for commit_version in offered(probe, "OffsetCommit"):
                    at = topic_id if commit_version >= 10 else topic
                    equal(group.commit(at, 100 + commit_version, member=member, generation=generation, version=commit_version), OK, f"OffsetCommit version {commit_version}")
                    for fetch_version in offered(probe, "OffsetFetch"):
                        at = topic_id if fetch_version >= 10 else topic
                        equal(group.offset(at, version=fetch_version)[:2], (100 + commit_version, OK), f"OffsetFetch version {fetch_version}")
                for list_version in offered(probe, "ListGroups"):
                    body = {**({"StatesFilter": ["Stable"]} if list_version >= 4 else {}), **({"TypesFilter": ["classic"]} if list_version >= 5 else {})}
                    rows = {g["GroupId"]: g for g in group.connection.call("ListGroups", list_version, body)["Groups"]}
                    equal(rows[group.name]["ProtocolType"], "consumer", f"ListGroups version {list_version}")
                for describe_version in offered(probe, "DescribeGroups"):
                    row = group.connection.call("DescribeGroups", describe_version, {"Groups": [group.name]})["Groups"][0]
                    equal((row["ErrorCode"], row["GroupState"], row["ProtocolData"], row["Members"][0]["ClientId"], row["Members"][0]["ClientHost"]),
                          (OK, "Stable", "range", "prober", "/127.0.0.1"), f"DescribeGroups version {describe_version}")
            equal(group.leave(member, min(version, 5)), OK, f"LeaveGroup version {min(version, 5)}")
    if probe.offers("OffsetCommit", 10):
        with Group(probe) as group:
            equal(group.commit(uuid.UUID(int=77), 1, version=10), UNKNOWN_TOPIC_ID, "commit to an id of no topic")
            equal(group.offset(uuid.UUID(int=77), version=10)[:2], (-1, UNKNOWN_TOPIC_ID), "offset of an id of no topic")


@suite.case("groups-are-described-deleted-and-lose-offsets")
def _(probe):
    topic = probe.topic()
    with Group(probe) as group:
        def delete(version=2):
            return group.connection.call("DeleteGroups", version, {"GroupsNames": [group.name]})["Results"][0]["ErrorCode"]

        def delete_offset(at):
            reply = group.connection.call("OffsetDelete", 0, {"GroupId": group.name, "Topics": [{"Name": at, "Partitions": [{"PartitionIndex": 0}]}]})
            return reply["ErrorCode"] or reply["Topics"][0]["Partitions"][0]["ErrorCode"]

        def describe(version):
            row = group.connection.call("DescribeGroups", version, {"Groups": [group.name], "IncludeAuthorizedOperations": True})["Groups"][0]
            return row["ErrorCode"], row["GroupState"], row["AuthorizedOperations"]

        equal((delete(), delete_offset(topic)), (GROUP_ID_NOT_FOUND, GROUP_ID_NOT_FOUND), "unknown group")
        equal(describe(5)[:2], (OK, "Dead"), "an unknown group, version 5")
        equal(describe(6)[:2], (GROUP_ID_NOT_FOUND, "Dead"), "an unknown group, version 6")
        joined = group.enter()
        member = joined["MemberId"]
        group.sync(member, 1, [(member, b"a")])
        equal(describe(5), (OK, "Stable", 3400), "described")
        equal(group.commit(topic, 4, member=member, generation=1), OK, "commit")
        equal([delete(), delete_offset("no-such-topic")], [NON_EMPTY_GROUP, UNKNOWN_TOPIC_OR_PARTITION], "with a member")
        equal(delete_offset(topic), OK, "its members read another topic")
        equal(group.offset(topic)[0], -1, "the offset is gone")
        equal(group.commit(topic, 5, member=member, generation=1), OK, "commit")
        equal(group.leave(member), OK, "leave")
        equal([group.offset(topic)[0], delete(), group.offset(topic)[0], delete()], [5, OK, -1, GROUP_ID_NOT_FOUND], "deleted")


@suite.case("a-static-member-comes-back-without-a-rebalance")
def _(probe):
    with Group(probe) as group:
        first = group.join(9, instance="i")
        equal((first["ErrorCode"], first["GenerationId"]), (OK, 1), "a static member joins at once")
        group.sync(first["MemberId"], 1, [(first["MemberId"], b"kept")])
        again = group.join(9, instance="i")
        equal((again["ErrorCode"], again["GenerationId"], again["SkipAssignment"]), (OK, 1, True), "back")
        true(again["MemberId"] != first["MemberId"], "it has a new id")
        equal(group.sync(again["MemberId"], 1)["Assignment"], b"kept", "its assignment")
        reply = group.connection.call("Heartbeat", 4, {"GroupId": group.name, "GenerationId": 1, "MemberId": first["MemberId"], "GroupInstanceId": "i"})
        equal(reply["ErrorCode"], FENCED_INSTANCE_ID, "the old id")


@suite.case("internal-topics-are-closed-to-ordinary-writes")
def _(probe):
    with Group(probe):
        topic = probe.cluster.metadata(["__consumer_offsets"])["Topics"][0]
        equal((topic["IsInternal"], len(topic["Partitions"])), (True, 50), "the topic of groups")
        with probe.connect("__consumer_offsets") as connection:
            equal(produce(connection, "__consumer_offsets", SMALL)["ErrorCode"], INVALID_TOPIC, "produce")


FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, UNSUPPORTED_ASSIGNOR, STALE_MEMBER_EPOCH = 110, 111, 112, 113


def beat(group, member, epoch, version=1, **fields):
    joins = epoch == 0
    body = {"GroupId": group.name, "MemberId": member, "MemberEpoch": epoch, "InstanceId": None, "RackId": None,
            "RebalanceTimeoutMs": 30000 if joins else -1, "SubscribedTopicNames": None, "ServerAssignor": None,
            "TopicPartitions": [] if joins else None}
    if version >= 1:
        body["SubscribedTopicRegex"] = None
    body.update(fields)
    reply = group.connection.call("ConsumerGroupHeartbeat", version, body)
    parts = reply["Assignment"] and {t["TopicId"]: sorted(t["Partitions"]) for t in reply["Assignment"]["TopicPartitions"]}
    return reply["ErrorCode"], reply["MemberId"], reply["MemberEpoch"], parts


@suite.case("consumer-protocol-rules")
def _(probe):
    topic = probe.topic(4)
    topic_id = probe.topic_id(topic)
    with Group(probe) as group:
        equal(beat(group, "a", 3)[0], GROUP_ID_NOT_FOUND, "no such group")
        equal(beat(group, "a", 0)[0], INVALID_REQUEST, "joins without topics")
        equal(beat(group, "a", 0, SubscribedTopicNames=[topic], RebalanceTimeoutMs=-1)[0], INVALID_REQUEST, "joins without a timeout")
        equal(beat(group, "a", 0, SubscribedTopicNames=[topic], TopicPartitions=None)[0], INVALID_REQUEST, "joins without saying what it has")
        equal(beat(group, "a", -3)[0], INVALID_REQUEST, "an epoch that there is not")
        equal(beat(group, "a", -2)[0], INVALID_REQUEST, "leaves as a static member without an instance")
        equal(beat(group, "a", 0, SubscribedTopicNames=[topic], ServerAssignor="x")[0], UNSUPPORTED_ASSIGNOR, "assignor")
        error, member, epoch, parts = beat(group, "a", 0, SubscribedTopicNames=[topic])
        equal((error, member, parts), (OK, "a", {topic_id: [0, 1, 2, 3]}), "joins")
        equal(beat(group, "a", epoch), (OK, "a", epoch, None), "a heartbeat")
        equal([beat(group, "a", epoch + 1)[0], beat(group, "x", epoch)[0]], [FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID], "another epoch, another member")
        equal(group.commit(topic, 4, member="a", generation=epoch, version=9), OK, "commit")
        equal([group.commit(topic, 4, member="a", generation=epoch - 1, version=9), group.commit(topic, 4, member="x", generation=epoch, version=9)],
              [STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID], "commits of another epoch and member")
        equal(group.join(9)["ErrorCode"] in (INCONSISTENT_GROUP_PROTOCOL, MEMBER_ID_REQUIRED), True, "a member of the classic protocol")
        # Another one comes: the first gives two back before the second gets them.
        error, _, second, parts = beat(group, "b", 0, SubscribedTopicNames=[topic])
        equal((error, parts), (OK, {}), "the second waits")
        # (Kafka assigns anew only a second after the last time.)
        told = {}

        def is_told():
            told["first"] = beat(group, "a", epoch)
            return told["first"][3] is not None

        eventually(is_told, "the first is told")
        error, _, epoch, kept = told["first"]
        equal((error, len(kept[topic_id])), (OK, 2), "the first is told to give back")
        error, _, second, parts = beat(group, "b", second)
        equal((error, parts in (None, {})), (OK, True), "the second still waits")
        owned = [{"TopicId": topic_id, "Partitions": kept[topic_id]}]
        error, _, epoch, _ = beat(group, "a", epoch, TopicPartitions=owned)
        equal(error, OK, "the first has given back")
        error, _, second, parts = beat(group, "b", second)
        equal(error, OK, "the second goes on")
        equal(sorted(kept[topic_id] + parts[topic_id]), [0, 1, 2, 3], "the second has the others")
        row = group.connection.call("ConsumerGroupDescribe", 0, {"GroupIds": [group.name], "IncludeAuthorizedOperations": False})["Groups"][0]
        equal((row["ErrorCode"], row["GroupState"], row["AssignorName"], sorted(m["MemberId"] for m in row["Members"])), (OK, "Stable", "uniform", ["a", "b"]), "described")
        rows = group.connection.call("ListGroups", 5, {"StatesFilter": ["stable"], "TypesFilter": ["consumer"]})["Groups"]
        equal([(g["ProtocolType"], g["GroupState"], g["GroupType"]) for g in rows if g["GroupId"] == group.name], [("consumer", "Stable", "consumer")], "listed")
        described = group.connection.call("DescribeGroups", 5, {"Groups": [group.name]})["Groups"][0]
        equal((described["ErrorCode"], described["GroupState"]), (OK, "Dead"), "for the classic protocol it is not there")
        equal([beat(group, "a", -1)[:3], beat(group, "b", -1)[:3]], [(OK, "a", -1), (OK, "b", -1)], "both leave")
        equal(group.commit(topic, 9), OK, "an empty group takes offsets of anybody")
        equal(group.connection.call("DeleteGroups", 2, {"GroupsNames": [group.name]})["Results"][0]["ErrorCode"], OK, "deleted")
        row = group.connection.call("ConsumerGroupDescribe", 0, {"GroupIds": [group.name], "IncludeAuthorizedOperations": False})["Groups"][0]
        equal(row["ErrorCode"], GROUP_ID_NOT_FOUND, "described")


@suite.case("consumer-protocol-static-members")
def _(probe):
    topic = probe.topic(2)
    topic_id = probe.topic_id(topic)
    with Group(probe) as group:
        first = beat(group, "a", 0, SubscribedTopicNames=[topic], InstanceId="i")
        equal((first[0], first[3]), (OK, {topic_id: [0, 1]}), "joins")
        equal(beat(group, "b", 0, SubscribedTopicNames=[topic], InstanceId="i")[0], UNRELEASED_INSTANCE_ID, "another of the same instance")
        equal(beat(group, "a", -2, InstanceId="i")[:3], (OK, "a", -2), "goes, to come back")
        back = beat(group, "b", 0, SubscribedTopicNames=[topic], InstanceId="i")
        equal((back[0], back[3]), (OK, {topic_id: [0, 1]}), "is back")
        equal(beat(group, "a", first[2], InstanceId="i")[0], FENCED_INSTANCE_ID, "the old one")


@suite.case("consumer-protocol-follows-topics")
def _(probe):
    name = unique("prober")
    with Group(probe) as group:
        error, _, epoch, parts = beat(group, "a", 0, SubscribedTopicNames=[name], ServerAssignor="range")
        equal((error, parts), (OK, {}), "a topic that is not there yet")
        probe.cluster.create_topic(name, 3)
        topic_id = probe.topic_id(name)
        seen = []

        def has_all():
            nonlocal epoch
            _, _, epoch, parts = beat(group, "a", epoch, RebalanceTimeoutMs=30000, SubscribedTopicNames=[name], TopicPartitions=[])
            seen.append(parts)
            return (parts or {}).get(topic_id) == [0, 1, 2]

        eventually(has_all, "its partitions are assigned")
