"""Pods come, are placed by the extender's queue, and end. Time is a parameter."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from cotenant_api import names, placement, pod
from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import constraints, policies, view
from cotenant_extender.queue import planning
from cotenant_simulator.twin import sites

NO_HOST_NEED: Final = view.HostNeed(cpu_millis=0, memory_bytes=0)
_ANY_NODE: Final = constraints.Constraints()
_NO_LABELS: Final = MappingProxyType[str, str]({})


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
        self.waiting = 0

    def submit(self, demand: pod.Demand, *, like: Hashable, since: float, priority: int = 0, now: float) -> None:
        """A gated pod appears.

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
        self._ledger.pod(_gated(request), now=now)
        self.waiting += 1

    def place(self, *, now: float) -> list[placement.Placement]:
        """Lift and bind all whom the queue places now."""
        placed = []
        cut = True
        while cut:
            plan = self._queue.plan(self._ledger, self._policy, now=now)
            cut = plan.cut
            for lift in plan.lifts:
                if lift.earmark is not None:
                    self._bind(lift.record, lift.earmark.placed, now=now)
                    placed.append(lift.earmark.placed)
        return placed

    def end(self, uid: PodUID) -> None:
        """A pod has finished, and is gone."""
        record = self._ledger.pods[uid]
        self.waiting -= 1 if record.pending else 0
        self._ledger.pod_gone(uid, last=replace(record, phase="Succeeded", version=record.version + 1))

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
        self._ledger.pod(bound, now=now)
        self.waiting -= 1


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
        preempts=False,
        unschedulable=None,
        packed=None,
    )
