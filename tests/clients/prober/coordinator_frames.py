"""Ill-formed requests to coordinators: of groups of both protocols, of transactions, of committed offsets."""
from connection import SCHEMAS
from probe import *
from suite import eventually, true

OFFSETS = [{"Name": "t", "Partitions": [{"PartitionIndex": 0, "CommittedOffset": 1, "CommittedLeaderEpoch": -1, "CommittedMetadata": ""}]}]
JOIN = {"GroupId": "frames", "SessionTimeoutMs": 10000, "RebalanceTimeoutMs": 1000, "MemberId": "nobody", "ProtocolType": "consumer",
        "Protocols": [{"Name": "range", "Metadata": b"x"}]}
MEMBER = {"GroupId": "frames", "GenerationId": 1, "MemberId": "m", "GroupInstanceId": None}
PRODUCER = {"TransactionalId": "frames", "ProducerId": 7, "ProducerEpoch": 0}
# Of each API a body that is answered with some code or other, and changes nothing.
BODIES = [
    ("FindCoordinator", 1, {"Key": "frames", "KeyType": 0}), ("FindCoordinator", 6, {"CoordinatorKeys": ["frames"], "KeyType": 1}),
    ("JoinGroup", 2, JOIN), ("JoinGroup", 9, {**JOIN, "GroupInstanceId": None, "Reason": None}),
    ("SyncGroup", 2, {"GroupId": "frames", "GenerationId": 1, "MemberId": "m", "Assignments": [{"MemberId": "m", "Assignment": b"a"}]}),
    ("SyncGroup", 5, {**MEMBER, "ProtocolType": "consumer", "ProtocolName": "range", "Assignments": [{"MemberId": "m", "Assignment": b"a"}]}),
    ("Heartbeat", 3, MEMBER), ("Heartbeat", 4, MEMBER), ("LeaveGroup", 2, {"GroupId": "frames", "MemberId": "m"}),
    ("LeaveGroup", 5, {"GroupId": "frames", "Members": [{"MemberId": "m", "GroupInstanceId": None, "Reason": None}]}),
    ("OffsetCommit", 7, {"GroupId": "frames", "GenerationIdOrMemberEpoch": 3, "MemberId": "m", "GroupInstanceId": None, "Topics": OFFSETS}),
    ("OffsetCommit", 9, {"GroupId": "frames", "GenerationIdOrMemberEpoch": 3, "MemberId": "m", "GroupInstanceId": None, "Topics": OFFSETS}),
    ("OffsetFetch", 5, {"GroupId": "frames", "Topics": [{"Name": "t", "PartitionIndexes": [0]}]}),
    ("OffsetFetch", 9, {"Groups": [{"GroupId": "frames", "MemberId": None, "MemberEpoch": -1, "Topics": [{"Name": "t", "PartitionIndexes": [0]}]}], "RequireStable": False}),
    ("DescribeGroups", 6, {"Groups": ["frames"], "IncludeAuthorizedOperations": False}), ("ListGroups", 5, {"StatesFilter": ["Stable"], "TypesFilter": ["classic"]}),
    ("DeleteGroups", 2, {"GroupsNames": ["frames"]}), ("OffsetDelete", 0, {"GroupId": "frames", "Topics": [{"Name": "t", "Partitions": [{"PartitionIndex": 0}]}]}),
    ("ConsumerGroupHeartbeat", 1, {"GroupId": "frames", "MemberId": "m", "MemberEpoch": 3, "InstanceId": None, "RackId": None, "RebalanceTimeoutMs": -1,
                                   "SubscribedTopicNames": ["t"], "SubscribedTopicRegex": "t", "ServerAssignor": None, "TopicPartitions": []}),
    ("ConsumerGroupDescribe", 1, {"GroupIds": ["frames"], "IncludeAuthorizedOperations": False}),
    ("AddPartitionsToTxn", 2, {"V3AndBelowTransactionalId": "frames", "V3AndBelowProducerId": 7, "V3AndBelowProducerEpoch": 0, "V3AndBelowTopics": [{"Name": "t", "Partitions": [0]}]}),
    ("AddOffsetsToTxn", 4, {**PRODUCER, "GroupId": "frames"}), ("EndTxn", 2, {**PRODUCER, "Committed": True}), ("EndTxn", 5, {**PRODUCER, "Committed": True}),
    ("TxnOffsetCommit", 5, {**PRODUCER, "GroupId": "frames", "GenerationIdOrMemberEpoch": -1, "MemberId": "", "GroupInstanceId": None, "Topics": OFFSETS}),
    ("DescribeTransactions", 0, {"TransactionalIds": ["frames"]}),
    ("ListTransactions", 2, {"StateFilters": ["Ongoing"], "ProducerIdFilters": [7], "DurationFilter": -1, "TransactionalIdPattern": "x"}),
    ("DescribeProducers", 0, {"Topics": [{"Name": "no-such-topic", "PartitionIndexes": [0]}]}),
]
for api, version, body in BODIES:
    @suite.case(f"ill-formed-{api}-v{version}")
    def _(probe, api=api, version=version, body=body):
        whole = SCHEMAS.encode(f"{api}Request", version, body)
        cuts = sorted({0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 1} - {len(whole)})
        # An array or a text of the greatest length, and of a length below nothing.
        for ill in [whole[:size] for size in cuts] + [b"\x7f" * 48, b"\xff" * 48]:
            with probe.connect() as connection:
                connection.send(api, version, ill)
                true(connection.is_closed(), f"{len(ill)} of {len(whole)} bytes, the connection stays open")
        with probe.connect() as connection:
            connection.call(api, version, whole + b"behind")
            connection.call(api, version, whole)


@suite.case("transactions-are-listed-by-a-pattern-of-their-ids")
def _(probe):
    with probe.connect() as connection:
        def listed(pattern, **fields):
            body = {"StateFilters": [], "ProducerIdFilters": [], "DurationFilter": -1, "TransactionalIdPattern": pattern, **fields}
            reply = connection.call("ListTransactions", 2, body)
            return reply["ErrorCode"], reply["UnknownStateFilters"], len(reply["TransactionStates"])

        # While coordinators are loaded the answer is that they are.
        eventually(lambda: listed("no-such-id-.*") == (OK, [], 0), "an answer")
        equal([listed(bad)[0] for bad in ("[", "(", "*")], [INVALID_REGULAR_EXPRESSION] * 3, "no patterns")
        equal(listed("[", StateFilters=["Nonsense"]), (INVALID_REGULAR_EXPRESSION, [], 0), "before anything else")


INVALID_REGULAR_EXPRESSION = 128
