"""What may differ, each with its reason; an entry that nothing needs any more fails the run."""
import re


class Allowed:
    """`case`: a pattern of "API vN label"; `field`: a pattern of the differing field's path. The sequence goes on behind it."""

    def __init__(self, case, field, reason):
        self.case, self.field, self.reason, self.used = re.compile(case), re.compile(field), reason, 0


ALLOWED = [
    Allowed("Produce", r"\.ErrorMessage$", "Kafka says a text only where single records are to blame; here each refusal says why"),
    Allowed("Produce", r"\.BatchIndexErrorMessage$", "Kafka repeats a text for each record; here the partition's text says it, which clients take where a record has none"),
    Allowed("DescribeConfigs|CreateTopics", r"Configs\[min\.insync\.replicas\]", "KRaft makes it a dynamic setting of the cluster when eligible leader replicas are on; here it is a default"),
    Allowed("DescribeConfigs", r"Configs\[flush\.ms\]\.Synonyms", "Kafka's broker setting has no value by default, and so no synonym"),
]


def find(case, difference):
    for entry in ALLOWED:
        if entry.case.search(case) and entry.field.search(difference.path):
            entry.used += 1
            return entry
    return None
