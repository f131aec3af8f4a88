"""Whatever kube-scheduler says of nodes, and whenever: nobody is promised a refused node, and nobody who fits waits."""

from typing import Any

import hypothesis
from hypothesis import strategies as st

from cotenant_api import names
from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import ledger, tries, verdicts
from cotenant_extender.packing import rules
from extender import builders
from extender.builders import NOW
from extender.queueing import run

Object = dict[str, Any]

NODES, PODS = 4, 6
PORTS = [{"hostPort": 80}]
"""Every other pod has this port."""

steps = st.one_of(
    st.tuples(st.just("comes"), st.integers(0, PODS - 1), st.sampled_from([30, 60, 100])),
    st.tuples(st.just("tried"), st.integers(0, PODS - 1), st.sets(st.integers(0, NODES - 1))),
    st.tuples(st.just("bound"), st.integers(0, PODS - 1), st.none()),
    st.tuples(st.just("ends"), st.integers(0, PODS - 1), st.none()),
    st.tuples(st.just("asked"), st.integers(0, PODS - 1), st.none()),
    st.tuples(st.just("flips"), st.integers(0, NODES - 1), st.none()),
    st.tuples(st.just("waits"), st.sampled_from([3, int(tries.EXPIRES_SECONDS)]), st.none()),
)


class World:
    """Nodes with a GPU each, pods, and a kube-scheduler that says what the steps tell it to."""

    def __init__(self) -> None:
        self.now, self.version = NOW, 1
        self.source = builders.cluster(nodes=NODES, gpus=1, queue={"maxWaitSeconds": 86400})
        self.source.hosts.tries.start()
        self.shares: dict[int, int] = {}

    def step(self, kind: str, subject: int, detail: Any) -> None:
        """Do one thing, if it can be done."""
        getattr(self, kind)(subject, detail)

    def comes(self, number: int, share: int) -> None:
        """A pod joins the queue."""
        if number not in self.shares:
            self.shares[number] = share
            self._put(number, gates=(names.PACKING_GATE,))

    def tried(self, number: int, accepted: set[int]) -> None:
        """kube-scheduler tries a pod whose gate was lifted, and finds no node."""
        record = self.source.pods.get(uid(number))
        if record is None or not record.pending:
            return
        self._put(number)
        if accepted:
            named = [NodeName(f"n{index}") for index in sorted(accepted)]
            verdicts.asked(self.source, uid(number), named, left=False, now=self.now)
        reasons = "InsufficientShare: 1 GPU lacks share" if accepted else "node(s) had no free ports"
        self._put(number, unschedulable=f"0/4 nodes are available: 4 {reasons}; try {self.version}")

    def asked(self, number: int, _: None) -> None:
        """kube-scheduler tries a pod that has an earmark, and comes no further."""
        if self.source.earmarks.get(uid(number)) is not None:
            verdicts.asked(self.source, uid(number), list(self.source.order), left=True, now=self.now)

    def bound(self, number: int, _: None) -> None:
        """A pod that was promised a GPU is bound there."""
        earmark = self.source.earmarks.get(uid(number))
        if earmark is not None:
            node = earmark.placed.node
            self.version += 1
            raw = builders.bound(f"p{number}", self.shares[number], node, f"GPU-{node}-0", version=self.version)
            builders.put(self.source, raw, now=self.now)

    def ends(self, number: int, _: None) -> None:
        """A bound pod succeeds."""
        record = self.source.pods.get(uid(number))
        if record is not None and record.node is not None:
            raw = builders.pod(record.name, record.share, node=record.node, phase="Succeeded", version=self.version + 1)
            self.version += 1
            builders.put(self.source, raw, now=self.now)

    def flips(self, index: int, _: None) -> None:
        """A node's agent goes, or comes again."""
        name = NodeName(f"n{index}")
        if self.source.offers(name):
            self.source.gpunode_gone(name)
        else:
            self.version += 1
            raw = builders.gpunode(name, gpus=1, version=self.version)
            self.source.gpunode(records.gpunode_record(raw), now=self.now)

    def waits(self, seconds: int, _: None) -> None:
        """Time passes."""
        self.now += seconds
        for index in range(NODES):
            self.source.lease(NodeName(f"n{index}"), self.now, now=self.now)

    def _put(self, number: int, gates: tuple[str, ...] = (), **changes: Any) -> None:
        self.version += 1
        spec: Object = {}
        if number % 2:
            limits = {names.GPU_SHARE: str(self.shares[number])}
            spec = {"containers": [builders.container({"limits": limits}, ports=PORTS)]}
        raw = builders.pod(f"p{number}", self.shares[number], gates=gates, version=self.version, **spec, **changes)
        builders.put(self.source, raw, now=self.now)


def uid(number: int) -> PodUID:
    return PodUID(f"uid-p{number}")


def fits(source: ledger.Ledger, record: records.Pod) -> bool:
    assert record.request is not None
    return bool(rules.offers(source.seen(), record.request, check_host=True).fits.any())


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(st.lists(steps, max_size=40))
def test_nobody_is_promised_a_refused_node_and_nobody_who_fits_waits(history: list[tuple[str, int, Any]]) -> None:
    world = World()
    source = world.source
    for step in history:
        world.step(*step)
        for lift in run(source, now=world.now).lifts:
            verdict = source.hosts.tries.verdict(lift.record.uid)
            assert verdict is None or lift.earmark is None or lift.earmark.placed.node not in verdict
        for record in source.index.pending.values():
            setback = source.earmarks.setback(record.uid)
            waits = setback is not None and setback.until > world.now
            alone = record.uid in source.earmarks.untried
            if source.earmarks.get(record.uid) is None and not waits and not alone:
                assert not fits(source, record), record.name
