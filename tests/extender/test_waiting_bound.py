"""The bound on waiting that README.md states, on seeded histories: small, large and whole pods come for ever.

With run times of at most R, the pod that is the k-th oldest of its priority when it has waited `maxWaitSeconds` waits
at most `maxWaitSeconds` + k x R, and the time of a pass for each.
"""

import random
from dataclasses import dataclass, field

import pytest

from cotenant_api.names import NodeName, PodUID
from cotenant_extender.ledger import ledger
from extender import builders, queueing
from extender.builders import NOW

MAX_WAIT_SECONDS = 60
RUN_SECONDS = 40
NODES, GPUS = 2, 2


@dataclass
class World:
    """A cluster in which lifted pods are bound at once and run for a while."""

    source: ledger.Ledger
    chance: random.Random
    now: float = NOW
    ends: dict[str, float] = field(default_factory=dict)
    waiting: dict[str, float] = field(default_factory=dict)
    allowed: dict[str, float] = field(default_factory=dict)
    waited: dict[str, float] = field(default_factory=dict)

    def step(self, *, arrivals: float) -> None:
        """A second passes."""
        self.now += 1
        for index in range(NODES):
            self.source.lease(NodeName(f"n{index}"), self.now, now=self.now)
        for name in [name for name, end in self.ends.items() if end <= self.now]:
            del self.ends[name]
            queueing.end(self.source, name)
            self.source.pod_gone(PodUID(f"uid-{name}"))
        for _ in range(int(arrivals) + (self.chance.random() < arrivals % 1)):
            self.come()
        self.mark_the_aged()
        for lift in queueing.run(self.source, now=self.now).lifts:
            if lift.earmark is not None:
                self.bind(lift.record.name, lift.record.share, tuple(gpu.uuid for gpu in lift.earmark.placed.gpus))

    def come(self) -> None:
        """Another pod."""
        name = f"p{len(self.waited) + len(self.waiting)}"
        share = self.chance.choice([10, 30, 50, 70, 90, 100, 200])
        self.waiting[name] = self.now
        builders.put(self.source, builders.pod(name, share, created=self.now), now=self.now)

    def mark_the_aged(self) -> None:
        """Once a pod has waited too long: by when it is placed, by those of its age or older that wait."""
        for name, since in self.waiting.items():
            if name not in self.allowed and self.now - since > MAX_WAIT_SECONDS:
                rank = sum(1 for other in self.waiting.values() if other <= since)
                self.allowed[name] = MAX_WAIT_SECONDS + rank * (RUN_SECONDS + 2)

    def bind(self, name: str, share: int, uuids: tuple[str, ...]) -> None:
        """A lifted pod runs."""
        self.waited[name] = self.now - self.waiting.pop(name)
        self.ends[name] = self.now + self.chance.uniform(5, RUN_SECONDS)
        node = uuids[0].split("-")[1]
        notes = builders.placement(name, node, dict.fromkeys(uuids, min(share, 100)))
        raw = builders.pod(name, share, node=node, annotations=notes, phase="Running", version=2, created=self.now)
        builders.put(self.source, raw, now=self.now)


@pytest.mark.parametrize("order", ["DecreasingShare", "FIFO"])
@pytest.mark.parametrize("seed", range(3))
def test_no_pod_waits_longer_than_the_bound(order: str, seed: int) -> None:
    queue = {"maxWaitSeconds": MAX_WAIT_SECONDS, "scaleUpAfterSeconds": 86400, "order": order}
    source = builders.cluster(nodes=NODES, gpus=GPUS, queue=queue)
    world = World(source, random.Random(seed))  # noqa: S311 - a history that is the same each time
    for _ in range(300):
        world.step(arrivals=0.35)
    while world.waiting:
        world.step(arrivals=0)
        assert world.now < NOW + 100_000
    late = {name: waited for name, waited in world.waited.items() if waited > world.allowed.get(name, MAX_WAIT_SECONDS)}
    assert late == {}
    assert max(world.waited.values()) > MAX_WAIT_SECONDS
