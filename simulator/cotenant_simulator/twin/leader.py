"""Pods come, are placed by the extender's queue, and end. Time is a parameter."""

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from cotenant_api import names, placement, pod
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_extender import records, tenures
from cotenant_extender.ledger import earmarks, ledger
from cotenant_extender.packing import constraints, policies, view
from cotenant_extender.queue import cleanup, planning, searches, telling
from cotenant_simulator.twin import sites

NO_HOST_NEED: Final = view.HostNeed(cpu_millis=0, memory_bytes=0)
_ANY_NODE: Final = constraints.Constraints()
_NO_LABELS: Final = MappingProxyType[str, str]({})
LOOK_AGAIN_SECONDS: Final = searches.DELAY_SECONDS
"""The queue looks for victims for one job after the other, so often."""
SPLIT_SECONDS: Final = cleanup.GRACE_SECONDS
"""A gang that is bound in part is evicted whole after this."""
PROMISE_SECONDS: Final = earmarks.UNTRIED_SECONDS
"""A promise to a pod that kube-scheduler leaves alone is taken back after this."""


class Step(NamedTuple):
    """What one pass of the queue did.

    Attributes:
        promised: placements of the pods that were lifted.
        evicted: pods that are to leave; they hold their GPUs until they `end`.
        cut: more can be decided at once.
    """

    promised: list[placement.Placement]
    evicted: list[PodUID]
    cut: bool


class Leader:
    """The queue and the ledger of one cluster.

    Args:
        nodes: all there are.
        policy: in force from beginning to end.

    Attributes:
        waiting: how many pods wait.
    """

    def __init__(self, nodes: Sequence[sites.Node], policy: policies.InForce) -> None:
        self._policy, self._queue = policy, planning.Queue()
        self._ledger = ledger.Ledger()
        self._ledger.policy_changed(policy)
        sites.enter(self._ledger, nodes)
        self.waiting, self._version = 0, 1
        self._wait: Counter[int] = Counter()
        self._hold: Counter[int] = Counter()
        self._guarded: set[PodUID] = set()

    def submit(self, demand: pod.Demand, *, like: Hashable, since: float, priority: int = 0, now: float) -> None:
        """Let a gated pod appear.

        Args:
            demand: what it asks for; its `queued_since` says nothing here.
            like: pods with equal values ask for the same, in one namespace, but for their names.
            since: when its job first asked.
            priority: of the pod.
            now: the time, in seconds.
        """
        request = view.Request(
            demand=demand,
            labels=_NO_LABELS,
            priority=priority,
            since=since,
            host=NO_HOST_NEED,
            constraints=_ANY_NODE,
            fit_key=like,
        )
        record = _gated(request)
        self._ledger.pod(record, now=now)
        self._count(record, 1)

    def step(self, *, now: float, binds: bool = True) -> Step:
        """One pass of the queue; whom it lifts is bound at once, or else promised GPUs until `bind`."""
        plan = self._queue.plan(self._ledger, self._policy, now=now)
        promised = []
        for lift in plan.lifts:
            if lift.earmark is None or not binds:
                self._lift(lift.record, lift.earmark, now=now)
            else:
                self._bind(lift.record, lift.earmark.placed, now=now)
            if lift.earmark is not None:
                promised.append(lift.earmark.placed)
        evicted = [record.uid for eviction in plan.evictions for record in eviction.victims]
        return Step(promised, evicted, plan.cut)

    def bind(self, placed: placement.Placement, *, now: float) -> bool:
        """kube-scheduler has come to a pod; False: its earmark has ended meanwhile, and it waits again."""
        standing = self._ledger.earmarks.get(placed.pod_uid)
        if standing is None or standing.placed is not placed:
            return False
        self._bind(self._ledger.pods[placed.pod_uid], placed, now=now)
        return True

    def end(self, uid: PodUID, *, phase: str = "Succeeded", now: float) -> None:
        """Take out a pod that has finished, and is gone."""
        record = self._ledger.pods[uid]
        self._count(record, -1)
        ended = replace(record.tenure, ended=now)
        self._ledger.pod_gone(uid, last=replace(record, phase=phase, version=record.version + 1, tenure=ended))

    def agent(self, node: sites.Node, *, ready: bool, unhealthy: Collection[GPUUID], now: float) -> None:
        """Let a node's agent tell this from now on."""
        self._version += 1
        told = sites.told(node, self._version, ready=ready, unhealthy=unhealthy)
        self._ledger.gpunode(told, now=now, tells_of=self._ledger.graves.doubtful)

    @property
    def contenders(self) -> int:
        """How many pods that wait have a higher priority than one that is placed, and may be evicted."""
        if not self._hold or not self._wait:
            return 0
        lowest = min(self._hold)
        return sum(count for priority, count in self._wait.items() if priority > lowest)

    @property
    def contested(self) -> bool:
        """Whether there are such."""
        return self.contenders > 0

    def may_be_evicted(self, uid: PodUID) -> None:
        """Note that a pod has run for its `minimum_run_seconds`."""
        self._guarded.remove(uid)
        self._hold[self._ledger.pods[uid].priority] += 1

    def why(self, *, now: float) -> dict[PodUID, str]:
        """Return what those who wait are told: reason and message, a colon between."""
        teller = telling.Teller(self._queue)
        found = {}
        for waiting in teller.waiting(self._ledger):
            reason, message = teller.explain(self._ledger, self._policy, waiting, now=now)
            found[waiting.record.uid] = f"{reason}: {message}"
        return found

    def _lift(self, record: records.Pod, promised: earmarks.Earmark | None, *, now: float) -> None:
        """Its gate is gone; without a promise kube-scheduler finds no node, there is no autoscaler, and it waits on."""
        note = None if promised is None else promised.note().to_json()
        report = record.unschedulable if promised is not None else f"{now} no node was found"
        lifted = replace(record, gates=(), earmark=note, unschedulable=report, version=record.version + 1)
        self._ledger.pod(lifted, now=now)

    def _bind(self, record: records.Pod, placed: placement.Placement, *, now: float) -> None:
        bound = replace(
            record,
            node=NodeName(placed.node),
            phase=records.RUNNING,
            gates=(),
            version=record.version + 1,
            placement=placed,
            started=now,
        )
        self._count(record, -1)
        self._ledger.pod(bound, now=now)
        self._count(bound, 1)

    def _count(self, record: records.Pod, sign: int) -> None:
        """Who waits, and who is placed and may be evicted, by priority."""
        self.waiting += sign if record.pending else 0
        if not record.pending and record.request is not None and record.request.demand.minimum_run_seconds:
            if sign > 0:
                self._guarded.add(record.uid)
                return
            if record.uid in self._guarded:
                self._guarded.remove(record.uid)
                return
        counts = self._wait if record.pending else self._hold
        counts[record.priority] += sign
        if not counts[record.priority]:
            del counts[record.priority]


def _gated(request: view.Request) -> records.Pod:
    demand = request.demand
    return records.Pod(
        uid=demand.uid,
        namespace=demand.namespace,
        name=demand.name,
        version=1,
        node=None,
        phase="Pending",
        deleting=False,
        share=demand.share,
        request=request,
        invalid=None,
        gates=(names.PACKING_GATE,),
        host=request.host,
        priority=request.priority,
        since=request.since,
        earmark=None,
        placement=None,
        labels=_NO_LABELS,
        started=None,
        preempts=True,
        unschedulable=None,
        packed=None,
        tenure=tenures.Tenure(endless=demand.workload_type is pod.WorkloadType.INFERENCE),
    )
