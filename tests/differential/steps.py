"""One request of a seed's sequence, and the table of what may come."""


class Step:
    """`label` says what is odd about it; `learn(kafka's answer, alluvium's)` keeps what later steps build on."""

    def __init__(self, label, api, version, body, answered=True, learn=None):
        self.label, self.api, self.version, self.body = label, api, version, body
        self.answered, self.learn = answered, learn


# (how often, maker); filled by the modules of the APIs.
MAKERS = []


def step(often):
    def register(maker):
        MAKERS.append((often, maker))
        return maker
    return register


def next_step(world):
    while True:
        maker = world.random.choices([maker for _, maker in MAKERS], [often for often, _ in MAKERS])[0]
        made = maker(world)
        if made is not None:
            return made
