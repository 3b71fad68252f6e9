"""Compares two answers field by field; what must differ from server to server is made equal first."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../clients/raw"))
from batch import batches, now_ms
from pair import CLOSED
from world import records_bytes

# Fields that are any server's own, by name: each is replaced by what this returns of it.
NORMALISED = {
    "ThrottleTimeMs": lambda value: 0,
    "ClusterId": lambda value: value is not None,
    "NodeId": lambda value: "node" if value >= 0 else value,
    "ControllerId": lambda value: "node" if value >= 0 else value,
    "LeaderId": lambda value: "node" if value >= 0 else value,
    "ReplicaNodes": len,
    "IsrNodes": len,
    "Host": lambda value: "host" if value else value,
    "Port": lambda value: "port" if value > 0 else value,
    "SessionId": lambda value: "session" if value > 0 else value,
    # A batch sent again is answered with its own time, which is an hour ago.
    "LogAppendTimeMs": lambda value: "now" if abs(value - now_ms()) < 600_000 else value,
    "ProducerId": lambda value: "id" if value >= 0 else value,
    # Texts for people: whether there is one.
    "ErrorMessage": lambda value: "text" if value else None,
    "BatchIndexErrorMessage": lambda value: "text" if value else None,
    "Documentation": lambda value: "text",
}
# Lists whose order means nothing.
SORTED = {
    "PartitionResponses": lambda row: row["Index"],
    "Partitions": lambda row: row["PartitionIndex"] if "PartitionIndex" in row else row["Partition"],
    "Responses": lambda row: str(row.get("Name")) + str(row.get("TopicId")),
    "Results": lambda row: (row["ResourceType"], row["ResourceName"]),
    "Topics": lambda row: str(row.get("Name") or row.get("TopicId") or row.get("Topic")),
    "Brokers": lambda row: row["NodeId"],
    "Configs": lambda row: row["Name"],
    "Synonyms": lambda row: row["Name"],
}
# In a fetch the order says who was served first.
KEEPS_ORDER = {"Fetch"}
OWN_KEYS = "alluvium."
STAMPED = 8
CONTROL = 32
# Length, attributes, two deltas, the key's length, and the key: its version, and whether it commits.
MARKER_KEY_END = 9


class Difference:
    def __init__(self, path, kafka, alluvium):
        self.path, self.kafka, self.alluvium = path, kafka, alluvium

    def __str__(self):
        return f"{self.path}: kafka {shortened(self.kafka)}, alluvium {shortened(self.alluvium)}"


def shortened(value, limit=300):
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "..."


def differences(pair, api, kinds, answers):
    """`answers`: kafka's and alluvium's; `kinds`: topic -> kind."""
    plain = [normalised(side, api, kinds, answer) for side, answer in zip(pair.sides, answers)]
    out = []
    walk(api, plain[0], plain[1], out)
    return out


def normalised(side, api, kinds, answer):
    if not isinstance(answer, dict):
        return answer
    names = {id_: name for name, id_ in side.own["topic-id"].items()}
    return struct_of(answer, api, names, kinds, None)


def struct_of(body, api, names, kinds, topic):
    topic = topic_of(body, names) or topic
    out = {}
    for name, value in body.items():
        if name == "TopicId":
            out[name] = names.get(value, "zero" if value.int == 0 else "another")
        elif name == "Records":
            out[name] = batches_of(value, kinds.get(topic))
        elif name == "Timestamp" and kinds.get(topic) == "transacted":
            out[name] = "a marker's" if abs(value - now_ms()) < 30_000 else value
        elif name == "Timestamp" and kinds.get(topic) == "stamped":
            out[name] = NORMALISED["LogAppendTimeMs"](value)
        elif name in NORMALISED and value is not None:
            out[name] = NORMALISED[name](value)
        elif name in NORMALISED:
            out[name] = None
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            rows = [struct_of(row, api, names, kinds, topic) for row in value if not str(row.get("Name")).startswith(OWN_KEYS)]
            out[name] = rows if api in KEEPS_ORDER or name not in SORTED else sorted(rows, key=SORTED[name])
        elif isinstance(value, dict):
            out[name] = struct_of(value, api, names, kinds, topic)
        else:
            out[name] = value
    return out


def topic_of(body, names):
    return body.get("Topic") or body.get("Name") or names.get(body.get("TopicId"))


def batches_of(records, kind):
    """Whole batches; the bytes of one cut at the end say nothing. Batches that a server rewrites are compared by what is in them."""
    out = []
    for one in batches(records or b""):
        raw = one.pop("raw")
        if kind == "transacted":
            out.append(transacted(one, raw))
            continue
        rewritten = one["attributes"] & STAMPED or (kind or "").startswith("as-")
        if rewritten:
            try:
                contents = records_bytes({**one, "raw": raw}).hex()
            except Exception as error:  # what cannot be read is a difference
                contents = f"unreadable: {error}"
            if one["attributes"] & STAMPED:
                one["max_timestamp_ms"] = NORMALISED["LogAppendTimeMs"](one["max_timestamp_ms"])
            if one["attributes"] & 7:
                del one["size_bytes"]
            out.append({**one, "contents": contents})
        else:
            out.append({**one, "raw": raw.hex()})
    return out


def cut_differences(pair, kinds, body, answers):
    """What two answers to a fetch differ in by more than a cut batch explains; both have rows.

    Kafka fills a limit to its last byte and counts the bytes of a batch that is cut; alluvium ends between batches where it knows a
    place. So up to the first partition in which either cuts, all is equal. In it alluvium sends the same batches, or fewer, but one at
    least where Kafka does. Behind it the limits that are left differ: what both send is the same, and errors and offsets are. Each
    keeps to the limits.
    """
    kafka, alluvium = (normalised(side, "Fetch", kinds, answer) for side, answer in zip(pair.sides, answers))
    out = []
    walk("Fetch", {**kafka, "Responses": None}, {**alluvium, "Responses": None}, out)
    own = [rows_of(answer) for answer in (kafka, alluvium)]
    raw = [rows_of(normalised_names(side, answer)) for side, answer in zip(pair.sides, answers)]
    is_behind = False
    for key in [*own[0], *(key for key in own[1] if key not in own[0])]:
        path = f"Fetch[{key[0]}-{key[1]}]"
        if any(key not in rows for rows in own):
            # A session tells of a partition that has nothing but records only where there are any.
            there = own[0].get(key) or own[1].get(key)
            if not is_behind or there["ErrorCode"] or not there["Records"]:
                out.append(Difference(path, key in own[0], key in own[1]))
            continue
        one, other = own[0][key], own[1][key]
        is_cut = [cut_bytes(rows[key]) > 0 for rows in raw]
        if not is_behind and not any(is_cut):
            walk(path, one, other, out)
            continue
        batches_, others = one["Records"], other["Records"]
        both = min(len(batches_), len(others))
        walk(path + ".Records", batches_[:both], others[:both], out)
        if not is_behind and (len(others) > len(batches_) or (batches_ and not others)):
            out.append(Difference(path + ".Records.length", len(batches_), len(others)))
        # Transactions are told as far as the records go.
        skipped = ["Records"] + ["AbortedTransactions"] * (len(batches_) != len(others) or is_behind)
        walk(path, *({name: value for name, value in row.items() if name not in skipped} for row in (one, other)), out)
        is_behind = True
    for name, rows in zip(("kafka", "alluvium"), raw):
        lengths = [len(row["Records"] or b"") for row in rows.values()]
        # The first batch of the first partition that has any comes whole.
        served = [length for length in lengths if length]
        if served and sum(served) > max(served[0], body["MaxBytes"]):
            out.append(Difference(f"Fetch.bytes of {name}", body["MaxBytes"], sum(served)))
    return out


def normalised_names(side, answer):
    """The rows as they are, by the topic's name."""
    names = {id_: name for name, id_ in side.own["topic-id"].items()}
    return {"Responses": [{**topic, "Topic": topic_of(topic, names)} for topic in answer["Responses"]]}


def rows_of(answer):
    """(topic, partition) -> row, in the order of the answer."""
    return {(topic.get("Topic") or topic.get("TopicId"), row["PartitionIndex"]): row for topic in answer["Responses"] for row in topic["Partitions"]}


def cut_bytes(row):
    """Bytes of a batch that is cut at the end of a partition's records."""
    records = row["Records"] or b""
    return len(records) - sum(one["size_bytes"] for one in batches(records))


def transacted(one, raw):
    """A batch whose producer id is any server's own; a marker with its time, and the epoch of a coordinator, is too."""
    contents = records_bytes({**one, "raw": raw})
    if one["attributes"] & CONTROL:
        one["first_timestamp_ms"] = one["max_timestamp_ms"] = "now"
        contents = contents[:MARKER_KEY_END]
    return {**one, "producer_id": one["producer_id"] >= 0, "contents": contents.hex()}


def has_cut_batch(answer):
    """Whether a fetch ends a partition's records in the middle of a batch."""
    return isinstance(answer, dict) and any(cut_bytes(row) for topic in answer.get("Responses", []) for row in topic["Partitions"])


def walk(path, kafka, alluvium, out):
    if isinstance(kafka, dict) and isinstance(alluvium, dict):
        for name in [*kafka, *(name for name in alluvium if name not in kafka)]:
            walk(f"{path}.{name}", kafka.get(name), alluvium.get(name), out)
    elif isinstance(kafka, list) and isinstance(alluvium, list):
        if len(kafka) != len(alluvium):
            out.append(Difference(f"{path}.length", len(kafka), len(alluvium)))
        for one, other in zip(kafka, alluvium):
            name = one.get("Name") if path.endswith(("Configs", "Synonyms")) and isinstance(one, dict) else None
            walk(f"{path}[{name or ''}]", one, other, out)
    elif kafka != alluvium:
        out.append(Difference(path, kafka, alluvium))


__all__ = ["CLOSED", "Difference", "cut_differences", "differences", "has_cut_batch"]
