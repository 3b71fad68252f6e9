"""Fetch: positions, limits, epochs, waits, and sessions."""
import uuid

from pair import Of
from steps import Step, step

LIMITS = [0, 1, 60, 61, 100, 250, 600, 1000, 5000, 100_000, 1 << 20, 1 << 20, 1 << 20, 50 << 20]


def named(topic, by_id):
    if isinstance(topic, uuid.UUID):
        return {"TopicId": topic}
    return {"TopicId": Of("topic-id", topic)} if by_id else {"Topic": topic}


def row_of(world, topic, partition, odd):
    rng = world.random
    row = {"Partition": partition, "FetchOffset": world.offset(topic, partition), "PartitionMaxBytes": rng.choice(LIMITS)}
    if odd and rng.random() < 0.3:
        row["CurrentLeaderEpoch"] = rng.choice([0, 0, 1, 7, -2])
    if odd and rng.random() < 0.2:
        row["LastFetchedEpoch"] = rng.choice([0, 0, 1, 7, -2])
    if odd and rng.random() < 0.1:
        row["LogStartOffset"] = rng.choice([0, 5])
    return row


def grouped(rows, by_id):
    topics = {}
    for topic, row in rows:
        topics.setdefault(topic, {**named(topic, by_id), "Partitions": []})["Partitions"].append(row)
    return list(topics.values())


def limits(world):
    rng = world.random
    # Long enough to tell from an answer at once on a slow machine, and seldom.
    wait_ms = rng.choice([0] * 15 + [400])
    return {"MaxWaitMs": wait_ms, "MinBytes": rng.choice([0, 1, 1, 400, 100_000]), "MaxBytes": rng.choice(LIMITS), "IsolationLevel": rng.choice([0, 0, 1])}


def some_partitions(world):
    return world.random.sample(sorted(world.logs), world.random.randint(1, min(4, len(world.logs))))


@step(16)
def fetch(world):
    """Without a session."""
    version, rng = world.version("Fetch", at_least=4), world.random
    rows = [(topic, row_of(world, topic, partition, True)) for topic, partition in some_partitions(world)]
    label = "sessionless"
    if rng.random() < 0.07:
        topic = uuid.UUID(int=77) if version >= 13 else "differential-missing"
        rows.append((topic, {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 100}))
        label += ", missing topic"
    if rng.random() < 0.07:
        topic = rng.choice(sorted(world.topics))
        rows.append((topic, {"Partition": rng.choice([-1, 9]), "FetchOffset": 0, "PartitionMaxBytes": 100}))
        label += ", missing partition"
    body = {**limits(world), "Topics": grouped(rows, version >= 13), "SessionId": 0, "SessionEpoch": -1}
    if rng.random() < 0.03:
        body["MaxBytes"] = rng.choice([-1, -(2**31)])
    if rng.random() < 0.03:
        rows[0][1]["PartitionMaxBytes"] = rng.choice([-1, -(2**31)])
    if rng.random() < 0.03:
        body["MinBytes"] = -1
    if rng.random() < 0.03:
        body["MaxWaitMs"] = -1
    return Step(label, "Fetch", version, body)


@step(1)
def fetch_much(world):
    """Wants more at least than is left of the segment, or than a limit lets through between two batches: who waits, and who does not."""
    version, rng = world.version("Fetch", at_least=4), world.random
    filled = [key for key, log in world.logs.items() if log.end > log.start]
    rolled = [key for key in filled if world.logs[key].end > 1 and world.kind(key[0]) == "split"]
    if not filled:
        return None
    topic, partition = rng.choice(sorted(rolled or filled))
    log = world.logs[topic, partition]
    row = {"Partition": partition, "FetchOffset": rng.choice([log.start, log.start, log.end - 1, log.end, rng.randint(log.start, log.end)]),
           "PartitionMaxBytes": rng.choice([100, 250, 1000, 1 << 20, 5 << 20])}
    least = rng.choice([row["PartitionMaxBytes"], row["PartitionMaxBytes"], 3 << 20])
    body = {"MaxWaitMs": 400, "MinBytes": least, "MaxBytes": rng.choice([least, 5 << 20]), "IsolationLevel": rng.choice([0, 1]),
            "Topics": grouped([(topic, row)], version >= 13), "SessionId": 0, "SessionEpoch": -1}
    return Step("much at least", "Fetch", version, body)


@step(2)
def open_session(world):
    version = world.version("Fetch", at_least=7)
    wanted = {key: row_of(world, *key, False) for key in some_partitions(world)}
    number = len(world.sessions)
    body = {**limits(world), "Topics": grouped([(topic, row) for (topic, _), row in wanted.items()], version >= 13), "SessionId": 0, "SessionEpoch": 0}
    if world.random.random() < 0.05:
        body["Topics"] = []
        wanted = {}
    return Step("session opened", "Fetch", version, body, learn=opened(world, number, version, wanted))


def opened(world, number, version, wanted):
    def learn(*answers):
        if all(isinstance(answer, dict) and answer["SessionId"] > 0 for answer in answers):
            for side, answer in zip(world.pair.sides, answers):
                side.own["session"][number] = answer["SessionId"]
            world.sessions[number] = {"epoch": 1, "version": version, "wanted": wanted}
    return learn


@step(14)
def in_session(world):
    """A step of a session, or what no session may do."""
    if not world.sessions:
        return open_session(world)
    rng = world.random
    number = rng.choice(sorted(world.sessions))
    session = world.sessions[number]
    by_id = session["version"] >= 13
    move = rng.choice(["on"] * 16 + ["add", "add", "forget", "forget", "epoch", "unknown id", "close", "anew", "other naming", "forget all"])
    low, high = world.pair.versions("Fetch")
    version = rng.randint(13, high) if by_id else rng.randint(7, min(12, high))
    rows, forgotten, epoch, id_ = {}, [], session["epoch"], Of("session", number)
    if move == "on":
        for key in session["wanted"]:
            if rng.random() < 0.4:
                rows[key] = row_of(world, *key, False)
    elif move == "add":
        for key in some_partitions(world):
            rows[key] = row_of(world, *key, False)
    elif move in ("forget", "forget all"):
        forgotten = rng.sample(sorted(session["wanted"]), len(session["wanted"]) if move == "forget all" else min(1, len(session["wanted"])))
    elif move == "epoch":
        epoch = rng.choice([session["epoch"] + 1, max(1, session["epoch"] - 1), 9999, 2**31 - 1])
    elif move == "unknown id":
        id_ = 987_654_321
    elif move == "close":
        epoch = -1
    elif move == "anew":
        epoch = 0
        rows = {key: row_of(world, *key, False) for key in some_partitions(world)}
    elif move == "other naming":
        version = rng.randint(7, 12) if by_id else rng.randint(13, high)
        by_id = not by_id
    gone = {}
    for topic, partition in forgotten:
        gone.setdefault(topic, {**named(topic, by_id), "Partitions": []})["Partitions"].append(partition)
    body = {**limits(world), "Topics": grouped([(topic, row) for (topic, _), row in rows.items()], by_id), "SessionId": id_, "SessionEpoch": epoch,
            "ForgottenTopicsData": list(gone.values())}

    def learn(*answers):
        if move == "anew":
            world.sessions.pop(number, None)
            opened(world, len(world.sessions) + 1000, version, rows)(*answers)
            return
        if move == "close" or any(not isinstance(answer, dict) or answer["SessionId"] == 0 for answer in answers):
            if move not in ("epoch", "unknown id", "other naming"):
                world.sessions.pop(number, None)
            return
        session["epoch"] += 1
        session["wanted"].update(rows)
        for key in forgotten:
            session["wanted"].pop(key, None)
    return Step(f"session {move}", "Fetch", version, body, learn=learn)
