"""A server that stood still over the end of a session hears what lies in its sockets before it ends the session."""
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../raw"))
from connection import Cluster, Connection
from suite import eventually, unique

# Long enough for all to join on a busy machine; the pause ends well before what the server takes for a stall, after which every
# member gets a whole session again.
SESSION_MS, PAUSE_S = 4000, 4.5
OK, UNKNOWN_MEMBER_ID, MEMBER_ID_REQUIRED = 0, 25, 79
ROUNDS, GROUPS = 2, 10


class Lone:
    """A group with one member, on a connection of its own."""

    def __init__(self, cluster):
        self.group = unique("paused")
        self.connection = Connection(cluster.coordinator(self.group))
        joined = {}

        def is_in():
            joined.update(self.join(""))
            return joined["ErrorCode"] in (OK, MEMBER_ID_REQUIRED)

        eventually(is_in, "the coordinator is loaded")
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

    def has_lost_it(self):
        """True where the group has lost its member."""
        rows = self.connection.call("DescribeGroups", 5, {"Groups": [self.group], "IncludeAuthorizedOperations": False})["Groups"]
        return rows[0]["GroupState"] != "Stable"

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
        # All at once: each waits for the delay of a new group.
        with ThreadPoolExecutor(GROUPS) as pool:
            lones = list(pool.map(Lone, [cluster] * GROUPS))
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
            eventually(lone.has_lost_it, f"round {round_}: the silent one's session ends")
            code = lone.heartbeat()
            assert code == UNKNOWN_MEMBER_ID, f"round {round_}: a member that was not heard from got {code}"
        for lone in lones:
            lone.connection.__exit__()
