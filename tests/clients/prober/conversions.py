"""Groups that go from the classic to the consumer protocol and back while they have members; subscriptions by regular expression."""
import struct

from groups import *
from suite import eventually, true

INVALID_REGULAR_EXPRESSION = 128


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


def by_topic(parts):
    return struct.pack(">i", len(parts)) + b"".join(text(t) + struct.pack(f">i{len(p)}i", len(p), *p) for t, p in parts.items())


def subscription(topic, owned=()):
    """What a consumer of the classic protocol says, in version 1."""
    return struct.pack(">hi", 1, 1) + text(topic) + b"\xff\xff\xff\xff" + by_topic({topic: owned} if owned else {})


def assignment(topic, parts):
    return struct.pack(">h", 1) + by_topic({topic: parts} if parts else {}) + b"\xff\xff\xff\xff"


def join(group, topic, member="", owned=(), instance=None, protocol="range"):
    body = group.join_body(9, member=member, instance=instance)
    body["Protocols"] = [{"Name": protocol, "Metadata": subscription(topic, owned)}]
    return group.connection.call("JoinGroup", 9, body)


def classic_group(group, topic, **fields):
    """A classic group of one member, which has all four partitions; its id."""
    reply = join(group, topic, **fields)
    if reply["ErrorCode"] == MEMBER_ID_REQUIRED:
        reply = join(group, topic, member=reply["MemberId"], **fields)
    member = reply["MemberId"]
    equal(group.sync(member, 1, [(member, assignment(topic, [0, 1, 2, 3]))])["ErrorCode"], OK, "a classic group")
    return member


def described(group):
    row = group.connection.call("ConsumerGroupDescribe", 1, {"GroupIds": [group.name], "IncludeAuthorizedOperations": False})["Groups"][0]
    return row["ErrorCode"], row["GroupState"], sorted((m["MemberType"], m["MemberEpoch"], len(m["SubscribedTopicNames"]), m["SubscribedTopicRegex"]) for m in row["Members"])


def until(group, member, epoch, done, **fields):
    """Heartbeats of a consumer, which has at once what it is told to have, until `done(partitions by topic)`; its epoch then."""
    state = {"epoch": epoch, "owned": None}

    def is_done():
        owned = state["owned"] and [{"TopicId": t, "Partitions": p} for t, p in state["owned"].items()]
        error, _, now, parts = beat(group, member, state["epoch"], TopicPartitions=owned if state["owned"] is None else owned or [], **fields)
        equal(error, OK, "a heartbeat")
        state["epoch"] = now
        if parts is not None:
            state["owned"] = parts
        return parts is not None and done(parts)

    eventually(is_done, "the assignment")
    return state["epoch"]


@suite.case("a-classic-group-is-upgraded-while-it-has-members")
def _(probe):
    topic = probe.topic(4)
    topic_id = probe.topic_id(topic)
    with Group(probe) as group:
        old = classic_group(group, topic)
        equal(beat(group, "n", 5)[0], GROUP_ID_NOT_FOUND, "somebody who does not join")
        equal(group.commit(topic, 3, member=old, generation=1), OK, "commit")
        equal(beat(group, "n", 0, SubscribedTopicNames=[topic]), (OK, "n", 2, {}), "a consumer joins")
        equal(described(group), (OK, "Reconciling", [(0, 1, 1, ""), (1, 2, 1, "")]), "both kinds")
        row = group.connection.call("DescribeGroups", 6, {"Groups": [group.name]})["Groups"][0]
        equal((row["ErrorCode"], row["GroupState"]), (GROUP_ID_NOT_FOUND, "Dead"), "for the classic protocol")
        equal(group.heartbeat(old, 1), REBALANCE_IN_PROGRESS, "the old one is told")
        equal([group.commit(topic, 3, member=old, generation=1), group.commit(topic, 3, member=old, generation=0)], [OK, ILLEGAL_GENERATION], "its commits")
        equal(group.sync(old, 1)["ErrorCode"], REBALANCE_IN_PROGRESS, "it has to join again")
        joined = join(group, topic, old, [0, 1, 2, 3])
        equal((joined["ErrorCode"], joined["GenerationId"], joined["ProtocolType"], joined["ProtocolName"], joined["Leader"], joined["Members"]),
              (OK, 1, "consumer", "range", "", []), "it joins with all")
        synced = group.sync(old, 1)
        equal((synced["ErrorCode"], synced["ProtocolType"], synced["ProtocolName"]), (OK, "consumer", "range"), "it is assigned")
        true(synced["Assignment"] in (assignment(topic, [0, 1]), assignment(topic, [2, 3])), f"two of them: {synced}")
        kept = [0, 1] if synced["Assignment"] == assignment(topic, [0, 1]) else [2, 3]
        equal(group.heartbeat(old, 1), REBALANCE_IN_PROGRESS, "it has to give back")
        joined = join(group, topic, old, kept)
        equal((joined["ErrorCode"], joined["GenerationId"]), (OK, 2), "it has given back")
        equal(group.sync(old, 2)["Assignment"], assignment(topic, kept), "it keeps the rest")
        equal(group.heartbeat(old, 2), OK, "all is well")
        equal(beat(group, "n", 1)[0], FENCED_MEMBER_EPOCH, "an epoch that the new one is not in")
        equal(beat(group, "n", 2), (OK, "n", 2, {topic_id: [p for p in range(4) if p not in kept]}), "the new one has the others")
        equal(described(group)[:2], (OK, "Stable"), "stable")
        for bad, what in ((join(group, topic, protocol="other"), "no protocol in common"), (group.join(9, type_="connect"), "another type"), (group.join(9, protocols=()), "no protocols")):
            equal((bad["ErrorCode"], bad["GenerationId"], bad["MemberId"]), (INCONSISTENT_GROUP_PROTOCOL, -1, ""), what)
        equal([group.heartbeat("n", 2), group.sync("n", 2)["ErrorCode"], group.leave("nobody")], [UNKNOWN_MEMBER_ID] * 3, "not for the classic protocol")
        equal(group.leave(old), OK, "the old one leaves")
        equal(described(group)[2][0][0], 1, "the new one stays")


@suite.case("a-group-is-classic-again-when-its-last-consumer-leaves")
def _(probe):
    topic = probe.topic(4)
    topic_id = probe.topic_id(topic)
    with Group(probe) as group:
        equal(beat(group, "n", 0, SubscribedTopicNames=[topic])[3], {topic_id: [0, 1, 2, 3]}, "a consumer")
        given = join(group, topic)
        equal((given["ErrorCode"], given["GenerationId"]), (MEMBER_ID_REQUIRED, -1), "a classic one is given an id")
        member = given["MemberId"]
        joined = join(group, topic, member)
        equal((joined["ErrorCode"], joined["Leader"]), (OK, ""), "it joins")
        generation = joined["GenerationId"]
        equal(group.sync(member, generation, [(member, b"ignored")])["Assignment"], assignment(topic, []), "it has nothing yet")
        equal(beat(group, "n", -1)[:3], (OK, "n", -1), "the consumer leaves")
        equal(described(group)[0], GROUP_ID_NOT_FOUND, "no group of the consumer protocol")
        row = group.connection.call("DescribeGroups", 6, {"Groups": [group.name]})["Groups"][0]
        equal((row["ErrorCode"], row["GroupState"], row["ProtocolType"], len(row["Members"])), (OK, "PreparingRebalance", "consumer", 1), "a classic group")
        equal([group.heartbeat(member, generation), group.sync(member, generation)["ErrorCode"]], [ILLEGAL_GENERATION] * 2, "the old generation")
        joined = join(group, topic, member)
        equal((joined["ErrorCode"], joined["Leader"], len(joined["Members"])), (OK, member, 1), "it leads")
        mine = assignment(topic, [0, 1, 2, 3])
        equal(group.sync(member, joined["GenerationId"], [(member, mine)])["Assignment"], mine, "it has all")
        rows = group.connection.call("ListGroups", 5, {"StatesFilter": [], "TypesFilter": ["classic"]})["Groups"]
        true(any(g["GroupId"] == group.name and g["GroupState"] == "Stable" for g in rows), "listed")


@suite.case("a-static-member-changes-its-protocol-without-a-rebalance")
def _(probe):
    topic = probe.topic(4)
    topic_id = probe.topic_id(topic)
    with Group(probe) as group:
        old = classic_group(group, topic, instance="i")
        equal(beat(group, "n", 0, SubscribedTopicNames=[topic], InstanceId="i"), (OK, "n", 1, {topic_id: [0, 1, 2, 3]}), "it has what the one before had")
        reply = group.connection.call("Heartbeat", 4, {"GroupId": group.name, "GenerationId": 1, "MemberId": old, "GroupInstanceId": "i"})
        equal(reply["ErrorCode"], FENCED_INSTANCE_ID, "the one before")
        back = join(group, topic, instance="i")
        equal((back["ErrorCode"], back["GenerationId"], back["Leader"]), (OK, 1, ""), "and back")
        row = group.connection.call("DescribeGroups", 6, {"Groups": [group.name]})["Groups"][0]
        equal((row["ErrorCode"], row["GroupState"], row["ProtocolData"]), (OK, "Stable", "range"), "a classic group")
        equal(group.sync(back["MemberId"], 1)["Assignment"], assignment(topic, [0, 1, 2, 3]), "what it had")
        equal(beat(group, "n", 1, InstanceId="i")[0], GROUP_ID_NOT_FOUND, "the consumer")


@suite.case("a-classic-group-that-is-not-understood-is-not-upgraded")
def _(probe):
    topic = probe.topic()
    for type_ in ("consumer", "connect"):
        with Group(probe) as group:
            member = group.enter(9, type_=type_)["MemberId"]
            group.sync(member, 1, [(member, b"mine")], type_=type_)
            equal(beat(group, "n", 0, SubscribedTopicNames=[topic])[0], GROUP_ID_NOT_FOUND, f"an assignment that is none, of {type_}")
            equal(group.heartbeat(member, 1), OK, "it stays as it was")


@suite.case("consumers-subscribe-by-regular-expression")
def _(probe):
    prefix = unique("prober-regex")
    names = [f"{prefix}-a", f"{prefix}-b", f"x{prefix}-a"]
    for name in names:
        probe.cluster.create_topic(name, 2)
    ids = {probe.topic_id(name) for name in names[:2]}
    with Group(probe) as group:
        for bad in ("[", "a(", "*", "(?=x)", r"\1", r"\C", ")", "a{2,1}"):
            equal(beat(group, "n", 0, SubscribedTopicRegex=bad)[0], INVALID_REGULAR_EXPRESSION, bad)
        equal(beat(group, "n", 3)[0], GROUP_ID_NOT_FOUND, "who is refused makes no group")
        error, _, epoch, parts = beat(group, "n", 0, SubscribedTopicRegex=prefix + "-.*")
        equal(error, OK, "joins")
        if set(parts) != ids:
            # Kafka looks for the topics meanwhile.
            epoch = until(group, "n", epoch, lambda parts: set(parts) == ids)
        equal(described(group)[2], [(1, epoch, 0, prefix + "-.*")], "described")
        equal(beat(group, "n", epoch, SubscribedTopicRegex="[")[0], INVALID_REGULAR_EXPRESSION, "while it is in")
        equal(beat(group, "n", epoch)[0], OK, "which changes nothing")
        epoch = until(group, "n", epoch, lambda parts: set(parts) == {probe.topic_id(names[0])}, SubscribedTopicRegex=names[0])
        equal(beat(group, "n", -1)[0], OK, "leaves")
    with Group(probe) as group:
        for member, fields in (("e", {"SubscribedTopicNames": []}), ("f", {"SubscribedTopicRegex": ""})):
            error, _, _, parts = beat(group, member, 0, **fields)
            equal((error, parts), (OK, {}), "who reads nothing is in all the same")
