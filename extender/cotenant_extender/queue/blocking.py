"""Which pods keep a job away from nodes that kube-scheduler refused: by a host port, or by anti-affinity.

kube-scheduler says that it refused a node, not why. Where a pod on the node explains it, the pod leaves like any other
victim, if it may. Should something else be in the way as well, kube-scheduler refuses the node again, and nothing there
explains it any more.
"""

from collections.abc import Hashable, Mapping

from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import conflicts, view

Blockers = Mapping[NodeName, frozenset[PodUID]]


class Blocking:
    """What keeps pods away, over a ledger that does not change meanwhile; found once for pods that are alike."""

    def __init__(self, source: ledger.Ledger) -> None:
        self._source = source
        self._found: dict[Hashable, Blockers] = {}

    def blockers(self, request: view.Request) -> Blockers:
        """Return the pods that keep a job's pod away, by node; only nodes that kube-scheduler refused for it."""
        verdict, waiting = request.constraints.refused, self._source.pods.get(request.demand.uid)
        if verdict is None or waiting is None:
            return {}
        kind = waiting.namespace, id(waiting.excludes), frozenset(waiting.labels.items())
        found = self._found.get(kind)
        if found is None:
            found = self._found[kind] = _excluding(self._source, waiting)
        return {name: uids for name, uids in found.items() if name in verdict}


def _excluding(source: ledger.Ledger, waiting: records.Pod) -> Blockers:
    """Return the pods that a pod cannot be beside, by node."""
    found: dict[NodeName, set[PodUID]] = {}
    keys = {expression.key for term in waiting.excludes.apart for expression in term.expressions}
    alike: dict[tuple[object, ...], bool] = {}
    anybody = waiting.excludes != conflicts.NOTHING
    for other in source.pods.values():
        if other.node is None or other.finished or not (anybody or other.excludes != conflicts.NOTHING):
            continue
        # What a comparison depends on: there are many pods, and few that differ in this.
        kind = other.namespace, id(other.excludes), *map(other.labels.get, keys)
        excluded = alike.get(kind)
        if excluded is None:
            excluded = alike[kind] = waiting.excluded_by(other)
        if excluded:
            found.setdefault(other.node, set()).add(other.uid)
    return {name: frozenset(uids) for name, uids in found.items()}
