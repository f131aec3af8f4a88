"""Which GPUs and nodes are broken, as their agents tell it to the extender's ledger."""

from collections import Counter
from collections.abc import Sequence

from cotenant_api import errors
from cotenant_api.names import GPUUID, NodeName
from cotenant_simulator.engine import faults
from cotenant_simulator.twin import leader, sites


class Outages:
    """All that is broken now. Of several faults of one GPU the last repair counts."""

    def __init__(self, nodes: Sequence[sites.Node], told: leader.Leader) -> None:
        self._leader = told
        self._nodes = {str(node.name): node for node in nodes}
        self._node_of = {str(gpu.uuid): node for node in nodes for gpu in node.gpus}
        self._broken: Counter[GPUUID] = Counter()
        self._down: Counter[NodeName] = Counter()

    def gpus(self, fault: faults.Fault) -> list[GPUUID]:
        """Return the GPUs that a fault is about.

        Raises:
            InvalidInputError: there is no such GPU, or node.
        """
        known = self._nodes if fault.what is faults.What.NODE else self._node_of
        if fault.where not in known:
            remedy = "must name a node" if fault.what is faults.What.NODE else "must be the UUID of a GPU"
            raise errors.InvalidInputError(f"fault at {fault.seconds} s: where", fault.where, remedy)
        if fault.what is not faults.What.NODE:
            return [GPUUID(fault.where)]
        return [gpu.uuid for gpu in known[fault.where].gpus]

    def begin(self, fault: faults.Fault, *, now: float) -> None:
        """Begin an outage: it is broken."""
        self._count(fault, 1, now=now)

    def end(self, fault: faults.Fault, *, now: float) -> None:
        """End an outage: it is repaired."""
        self._count(fault, -1, now=now)

    def _count(self, fault: faults.Fault, sign: int, *, now: float) -> None:
        if fault.what is faults.What.NODE:
            node = self._nodes[fault.where]
            self._down[node.name] += sign
        else:
            node = self._node_of[fault.where]
            self._broken[GPUUID(fault.where)] += sign
        unhealthy = [gpu.uuid for gpu in node.gpus if self._broken[gpu.uuid]]
        self._leader.agent(node, ready=not self._down[node.name], unhealthy=unhealthy, now=now)
