"""The bound on waiting that README.md states, on seeded histories: small, large and whole pods come for ever.

With run times of at most R, the pod that is the k-th oldest of its priority when it has waited `maxWaitSeconds` waits
at most `maxWaitSeconds` + k x 6 R, and the time of a pass for each, whatever is expected of run times: nothing, what
pods like it needed (run times are drawn, so that is wrong), or deadlines that are far too late. Where every deadline is
the very end it is k x R; in these histories also where nothing is known.

Beside GPUs, CPU, memory or pods of nodes are scarce, or the GPUs that a namespace may be on. kube-scheduler may fail to
bind a pod once; each failure adds the two seconds after which it is tried again.
"""

import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import ledger, runs
from extender import builders, queueing
from extender.builders import NOW

Object = dict[str, Any]

MAX_WAIT_SECONDS = 60
RUN_SECONDS = 40
LIMITS = {"nothing": 1, "run times": 6, "deadlines": 6, "ends": 1}
"""By what is known: run times per older pod that the bound allows."""
NODES, GPUS = 2, 2
SHARES = (10, 30, 50, 70, 90, 100, 200)
SMALL = (5, 10, 10, 20)
SCARCE: dict[str, list[tuple[tuple[int, ...], Object]]] = {
    "GPUs": [(SHARES, {})],
    "cpu": [*[(SMALL, {"cpu": "16"})] * 4, ((100,), {"cpu": "60"})],
    "memory": [*[(SMALL, {"memory": "64Gi"})] * 4, ((100,), {"memory": "250Gi"})],
    "pods": [*[(SMALL, {})] * 4, ((100, 200), {})],
    "limit": [(SHARES, {})],
}
"""What a pod may ask for, hundredths and of its node, by what is scarce."""
PODS = 2
"""How many a node takes where pods are scarce."""


@dataclass
class World:
    """A cluster in which lifted pods are bound at once and run for a while."""

    source: ledger.Ledger
    chance: random.Random
    knows: str
    scarce: str = "GPUs"
    fails: float = 0.0
    now: float = NOW
    ends: dict[str, float] = field(default_factory=dict)
    waiting: dict[str, float] = field(default_factory=dict)
    allowed: dict[str, float] = field(default_factory=dict)
    waited: dict[str, float] = field(default_factory=dict)
    tenures: dict[str, Object] = field(default_factory=dict)
    lengths: dict[str, float] = field(default_factory=dict)
    requests: dict[str, Object] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    guests: int = 0

    def step(self, *, arrivals: float) -> None:
        """A second passes."""
        self.now += 1
        for index in range(NODES):
            self.source.lease(NodeName(f"n{index}"), self.now, now=self.now)
        for name in [name for name, end in self.ends.items() if end <= self.now]:
            del self.ends[name]
            self.end(name)
        for _ in range(int(arrivals) + (self.chance.random() < arrivals % 1)):
            self.come()
        self.mark_the_aged()
        for lift in queueing.run(self.source, now=self.now).lifts:
            if lift.earmark is not None:
                uuids = tuple(gpu.uuid for gpu in lift.earmark.placed.gpus)
                self.guests += self.is_guest(lift.record.uid, uuids)
                name = lift.record.name
                if name not in self.failed and self.chance.random() < self.fails:
                    self.fail(lift.record, lift.earmark.note().to_json())
                else:
                    self.bind(name, lift.record.share, uuids)

    def fail(self, record: records.Pod, earmark: str) -> None:
        """kube-scheduler takes up a pod, and its Binding fails."""
        self.failed.add(record.name)
        made = {"created": self.waiting[record.name], "gates": (), "annotations": {names.EARMARK: earmark}}
        made |= self.tenures[record.name]
        for version, report in ((2, {}), (3, {"errored": "binding volumes: timed out"})):
            self.tell(self.pod(record.name, record.share, version=version, **made, **report))

    def is_guest(self, uid: PodUID, uuids: tuple[str, ...]) -> bool:
        """Whether a pod got GPUs that are held for another."""
        kept = {uuid for hold in self.source.holds if uid not in hold.holders for uuid in queueing.held(self.source)}
        return not kept.isdisjoint(uuids)

    def end(self, name: str) -> None:
        """A pod has succeeded."""
        record = self.source.pods[PodUID(f"uid-{name}")]
        tenure = replace(record.tenure, ended=self.now)
        self.source.pod(replace(record, phase="Succeeded", tenure=tenure), now=self.now)
        self.source.pod_gone(record.uid)

    def come(self) -> None:
        """Another pod."""
        name = f"p{len(self.waited) + len(self.waiting)}"
        shares, requests = self.chance.choice(SCARCE[self.scarce])
        share = self.chance.choice(shares)
        self.waiting[name] = self.now
        self.lengths[name] = self.chance.uniform(5, RUN_SECONDS)
        late = self.chance.choice([RUN_SECONDS, 300, 2000]) if self.knows == "deadlines" else self.lengths[name]
        self.tenures[name] = {"activeDeadlineSeconds": late} if self.knows in {"deadlines", "ends"} else {}
        self.requests[name] = {"cpu": "100m", "memory": "64Mi"} | requests
        self.tell(self.pod(name, share, created=self.now, **self.tenures[name]))

    def pod(self, name: str, share: int, **changes: Any) -> Object:
        """A pod as the API server has it."""
        raw = builders.pod(name, share, **changes)
        raw["spec"]["containers"][0]["resources"]["requests"] = self.requests[name]
        return raw

    def tell(self, raw: Object) -> None:
        """The API server shows a pod."""
        if self.knows == "run times":
            raw["metadata"]["ownerReferences"] = [{"kind": "Job", "controller": True}]
        builders.put(self.source, raw, now=self.now)

    def mark_the_aged(self) -> None:
        """Once a pod has waited too long: by when it is placed, by those of its age or older that wait."""
        for name, since in self.waiting.items():
            if name not in self.allowed and self.now - since > MAX_WAIT_SECONDS:
                rank = sum(1 for other in self.waiting.values() if other <= since)
                failing = 3 * (self.fails > 0)
                self.allowed[name] = MAX_WAIT_SECONDS + rank * (LIMITS[self.knows] * RUN_SECONDS + 2 + failing)

    def bind(self, name: str, share: int, uuids: tuple[str, ...]) -> None:
        """A lifted pod runs."""
        self.waited[name] = self.now - self.waiting.pop(name)
        self.ends[name] = self.now + self.lengths[name]
        node = uuids[0].split("-")[1]
        notes = builders.placement(name, node, dict.fromkeys(uuids, min(share, 100)))
        raw = self.pod(
            name,
            share,
            node=node,
            annotations=notes,
            phase="Running",
            version=4,
            created=self.now,
            **self.tenures[name],
        )
        if self.knows != "nothing":
            raw["status"]["startTime"] = builders.timestamp(self.now)
        self.tell(raw)


@pytest.mark.parametrize("knows", LIMITS)
@pytest.mark.parametrize("order", ["DecreasingShare", "FIFO"])
@pytest.mark.parametrize("seed", range(2))
def test_no_pod_waits_longer_than_the_bound(order: str, knows: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Pods run shorter here than a minute, so that many do.
    monkeypatch.setattr(runs, "SHORTEST_SECONDS", 1.0)
    queue = {"maxWaitSeconds": MAX_WAIT_SECONDS, "scaleUpAfterSeconds": 86400, "order": order}
    source = builders.cluster(nodes=NODES, gpus=GPUS, queue=queue)
    world = World(source, random.Random(seed), knows)  # noqa: S311 - a history that is the same each time
    nobody_waits_longer(world, arrivals=0.35, seconds=300)
    assert world.guests > 0


@pytest.mark.parametrize("knows", LIMITS)
@pytest.mark.parametrize("scarce", SCARCE)
@pytest.mark.parametrize("seed", range(1))
def test_no_pod_waits_longer_whatever_is_scarce_and_though_bindings_fail(
    scarce: str, knows: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "SHORTEST_SECONDS", 1.0)
    queue = {"maxWaitSeconds": MAX_WAIT_SECONDS, "scaleUpAfterSeconds": 86400}
    source = builders.cluster(nodes=NODES, gpus=GPUS, queue=queue, maxGPUsPerNamespace=2 if scarce == "limit" else None)
    if scarce == "pods":
        for index in range(NODES):
            raw = builders.node(f"n{index}", gpus=GPUS, allocatable={"pods": str(PODS)})
            source.node(records.node_record(raw))
    chance = random.Random(seed)  # noqa: S311 - a history that is the same each time
    world = World(source, chance, knows, scarce=scarce, fails=0.2)
    nobody_waits_longer(world, arrivals=0.25, seconds=600)
    assert world.failed


def nobody_waits_longer(world: World, *, arrivals: float, seconds: int) -> None:
    """Pods come for so long, and more than one waits for too long; all are placed in time."""
    for _ in range(seconds):
        world.step(arrivals=arrivals)
    while world.waiting:
        world.step(arrivals=0)
        assert world.now < NOW + 100_000
    late = {name: waited for name, waited in world.waited.items() if waited > world.allowed.get(name, MAX_WAIT_SECONDS)}
    assert late == {}
    assert max(world.waited.values()) > MAX_WAIT_SECONDS
