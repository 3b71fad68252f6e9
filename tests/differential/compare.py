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
    # Texts for people, and whether there is one.
    "ErrorMessage": lambda value: "text",
    "BatchIndexErrorMessage": lambda value: "text",
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
        elif name == "Timestamp" and kinds.get(topic) == "stamped":
            out[name] = NORMALISED["LogAppendTimeMs"](value)
        elif name in NORMALISED and value is not None:
            out[name] = NORMALISED[name](value)
        elif name in NORMALISED:
            out[name] = NORMALISED[name](value) if name.endswith("Message") else None
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


def has_cut_batch(answer):
    """Whether a fetch ends a partition's records in the middle of a batch."""
    if not isinstance(answer, dict):
        return False
    rows = [row for topic in answer.get("Responses", []) for row in topic.get("Partitions", [])]
    return any(sum(one["size_bytes"] for one in batches(row["Records"] or b"")) != len(row["Records"] or b"") for row in rows)


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


__all__ = ["CLOSED", "Difference", "differences", "has_cut_batch"]
