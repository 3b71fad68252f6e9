"""What may differ, each with its reason; an entry that nothing needs any more fails the run."""
import re


class Allowed:
    """`case`: a pattern of "API vN label"; `field`: a pattern of the differing field's path; `same_state`: the sequence may go on."""

    def __init__(self, case, field, reason):
        self.case, self.field, self.reason, self.used = re.compile(case), re.compile(field), reason, 0


ALLOWED = []


def find(case, difference):
    for entry in ALLOWED:
        if entry.case.search(case) and entry.field.search(difference.path):
            entry.used += 1
            return entry
    return None
