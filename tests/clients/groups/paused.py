"""A server that stood still over the end of a session hears what lies in its sockets before it ends the session."""
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../raw"))
from connection import Cluster, Connection
from suite import unique

SESSION_MS = 500
# Short of what the server takes for a stall, after which every member gets a whole session again.
PAUSE_S = 0.9
OK, UNKNOWN_MEMBER_ID, MEMBER_ID_REQUIRED = 0, 25, 79
ROUNDS, GROUPS = 2, 10


def until(ask, holds, what, within_s=20):
    end = time.monotonic() + within_s
    while True:
        reply = ask()
        if holds(reply):
            return reply
        assert time.monotonic() < end, f"{what}: {reply}"
        time.sleep(0.02)


class Lone:
    """A group with one member, on a connection of its own."""

    def __init__(self, cluster):
        self.group = unique("paused")
        with Connection(cluster.controller()) as to:
            ask = lambda: to.call("FindCoordinator", 4, {"CoordinatorKeys": [self.group]})["Coordinators"][0]
            at = until(ask, lambda row: row["ErrorCode"] == OK, "a coordinator")
        self.connection = Connection((at["Host"], at["Port"]))
        joined = until(lambda: self.join(""), lambda reply: reply["ErrorCode"] in (OK, MEMBER_ID_REQUIRED), "joins")
        self.member = joined["MemberId"]
        if joined["ErrorCode"] == MEMBER_ID_REQUIRED:
            joined = self.join(self.member)
        self.generation = joined["GenerationId"]
        synced = self.connection.call("SyncGroup", 3, {"GroupId": self.group, "GenerationId": self.generation, "MemberId": self.member, "GroupInstanceId": None,
                                                       "Assignments": [{"MemberId": self.member, "Assignment": b"a"}]})
        assert (joined["ErrorCode"], synced["ErrorCode"]) == (OK, OK), f"{joined} {synced}"

    def join(self, member):
        return self.connection.call("JoinGroup", 5, {"GroupId": self.group, "SessionTimeoutMs": SESSION_MS, "RebalanceTimeoutMs": 20000, "MemberId": member,
                                                     "GroupInstanceId": None, "ProtocolType": "consumer", "Protocols": [{"Name": "range", "Metadata": b"\0\0\0\0\0\0\xff\xff\xff\xff"}]})

    def body(self):
        return {"GroupId": self.group, "GenerationId": self.generation, "MemberId": self.member, "GroupInstanceId": None}

    def heartbeat(self):
        return self.connection.call("Heartbeat", 3, self.body())["ErrorCode"]


class Paused:
    """Stops the server's process again and again; half of the members are heard from meanwhile, and no more than those stay."""

    def __init__(self, server):
        self.name, self.server, self.failure = "paused-server", server, None

    def run(self):
        began = time.monotonic()
        try:
            for round_ in range(ROUNDS):
                self.pause(round_, Cluster(self.server.bootstrap))
        except Exception as error:  # told with the others
            self.failure = f"{type(error).__name__}: {error}"
        self.took_s = time.monotonic() - began

    def pause(self, round_, cluster):
        # Each joined before any is paused: the sessions of the first ones are kept up meanwhile.
        lones = []
        for _ in range(GROUPS):
            lones.append(Lone(cluster))
            for lone in lones:
                assert lone.heartbeat() == OK, f"round {round_}: a session of {SESSION_MS} ms ended before the pause"
        heard, silent = lones[::2], lones[1::2]
        pid = self.server.process.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            sent = [(lone, lone.connection.send("Heartbeat", 3, lone.body())) for lone in heard]
            # The time itself is the subject: every session is over when the server goes on.
            time.sleep(PAUSE_S)
        finally:
            os.kill(pid, signal.SIGCONT)
        codes = [lone.connection.receive("Heartbeat", 3, correlation)["ErrorCode"] for lone, correlation in sent]
        assert codes == [OK] * len(codes), f"round {round_}: heartbeats that lay in the sockets got {codes}"
        for lone in silent:
            describe = lambda: lone.connection.call("DescribeGroups", 5, {"Groups": [lone.group], "IncludeAuthorizedOperations": False})["Groups"][0]
            until(describe, lambda row: row["GroupState"] != "Stable", f"round {round_}: the silent one's session ends")
            code = lone.heartbeat()
            assert code == UNKNOWN_MEMBER_ID, f"round {round_}: a member that was not heard from got {code}"
        for lone in lones:
            lone.connection.__exit__()
