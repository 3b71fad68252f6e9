"""Transactions of version 2: each end gives the next epoch, and the next transaction begins while markers are on their way."""
from connection import Connection
from probe import *
from suite import eventually
from idempotence import init_producer_id

CONCURRENT_TRANSACTIONS, NOT_ENOUGH_REPLICAS, TRANSACTIONAL = 51, 19, 16


@suite.case("the-next-transaction-begins-while-markers-are-on-their-way")
def _(probe):
    id_, topic = unique("prober-txn"), probe.topic()
    with probe.connect() as connection:
        found = []

        def is_found():
            found[:] = connection.call("FindCoordinator", 4, {"KeyType": 1, "CoordinatorKeys": [id_]})["Coordinators"]
            return found[0]["ErrorCode"] == OK

        eventually(is_found, "a coordinator")
    with Connection((found[0]["Host"], found[0]["Port"])) as coordinator, probe.connect(topic) as leader:
        replies = []

        def begins():
            replies[:] = [init_producer_id(coordinator, version=4, TransactionalId=id_, ProducerId=-1, ProducerEpoch=-1)]
            return replies[0]["ErrorCode"] == OK

        eventually(begins, "a producer id")
        producer_id, epoch = replies[0]["ProducerId"], replies[0]["ProducerEpoch"]
        for number in range(200):
            data = batch([b"v"], attributes=TRANSACTIONAL, producer_id=producer_id, producer_epoch=epoch, sequence=0)
            body = {**produce_body(topic, data), "TransactionalId": id_}
            codes = [CONCURRENT_TRANSACTIONS]
            # A client sends a batch again that met the transaction before; all else fails the transaction.
            while codes[-1] in (CONCURRENT_TRANSACTIONS, NOT_ENOUGH_REPLICAS):
                row = leader.call("Produce", 12, body)["Responses"][0]["PartitionResponses"][0]
                codes.append(row["ErrorCode"])
            equal(codes[-1], OK, f"the produce of transaction {number} after {codes[1:-1]}")
            reply = coordinator.call("EndTxn", 5, {"TransactionalId": id_, "ProducerId": producer_id, "ProducerEpoch": epoch, "Committed": number % 2 == 0})
            equal((reply["ErrorCode"], reply["ProducerId"], reply["ProducerEpoch"]), (OK, producer_id, epoch + 1), f"the end of transaction {number}")
            epoch = reply["ProducerEpoch"]
    # A record and a marker each.
    eventually(lambda: probe.end(topic) == 400, "the last marker")
