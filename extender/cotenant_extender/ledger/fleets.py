"""The fleet that packing sees, kept up to date node by node, in steps between which the ledger may change.

A fleet is handed out whole and current, or not at all. What changes between two steps is noted as stale, and is written
before the fleet is handed out. Another policy in the middle begins anew.
"""

from collections.abc import Callable, Mapping, Sequence

from cotenant_api.names import NodeName
from cotenant_extender import steps
from cotenant_extender.ledger import nodes
from cotenant_extender.packing import fleet, policies

NODES_PER_STEP = 8
"""A step takes about two milliseconds with eight GPUs a node: filter waits for it."""
MANY = 32
"""Nodes that come and go at once above which all are read again."""


class Fleets:
    """Makes the fleet of a ledger and keeps it current.

    Args:
        known: what is known of each node, as the ledger keeps it.
        order: names of the nodes that have a GPUNode, sorted, as the ledger keeps them.
        explains: whether a pod is known to have finished.
        describe: what else is found out about all nodes of a fleet before it is handed out for the first time.

    Attributes:
        stale: nodes that are otherwise than the fleet has them.
    """

    def __init__(
        self,
        known: Mapping[NodeName, nodes.NodeState],
        order: Sequence[NodeName],
        explains: nodes.Explains,
        describe: Callable[[fleet.Fleet], steps.Steps[None]],
    ) -> None:
        self.stale: set[NodeName] = set()
        self._known, self._order, self._explains, self._describe = known, order, explains, describe
        self._fleet: fleet.Fleet | None = None
        self._work: tuple[policies.InForce, steps.Steps[None]] | None = None

    def behind(self, policy: policies.InForce) -> int:
        """Return how many nodes have yet to be read for this policy."""
        standing = self._fleet
        if standing is None or standing.policy is not policy:
            return len(self._order) + len(self.stale)
        return len(self.stale)

    def current(self, policy: policies.InForce) -> fleet.Fleet:
        """Return the fleet as the ledger is now; what is behind is done at once."""
        while True:
            standing = self._fleet
            if not self.stale and self._work is None and standing is not None and standing.policy is policy:
                return standing
            self.advance(policy)

    def advance(self, policy: policies.InForce) -> None:
        """Do one step of what is behind."""
        if self._work is None or self._work[0] is not policy:
            standing = self._fleet
            usable = standing is not None and standing.policy is policy and not standing.crowded
            if usable and standing is not None and not self._many_are_new(standing):
                self._work = policy, self._catching_up(standing)
            else:
                self._work = policy, self._making(policy)
        try:
            next(self._work[1])
        except StopIteration:
            self._work = None

    def _making(self, policy: policies.InForce) -> steps.Steps[None]:
        """Make a fleet of all nodes. Nodes that change or go after they were read are stale in it."""
        self._fleet = None
        self.stale.clear()
        seen = []
        for count, name in enumerate(list(self._order), start=1):
            state = self._known.get(name)
            if state is not None and state.agent is not None:
                seen.append(state.seen(policy, self._explains))
            if count % NODES_PER_STEP == 0:
                yield
        made = yield from fleet.Fleet.made(seen, policy)
        yield from self._describe(made)
        self._fleet = made

    def _catching_up(self, standing: fleet.Fleet) -> steps.Steps[None]:
        """Write the nodes that are stale now."""
        for count, name in enumerate(sorted(self.stale), start=1):
            self.stale.discard(name)
            state = self._known.get(name)
            if state is None or state.agent is None:
                standing.remove(name)
            else:
                standing.put(state.seen(standing.policy, self._explains))
            if count % NODES_PER_STEP == 0:
                yield

    def _many_are_new(self, standing: fleet.Fleet) -> bool:
        return sum(1 for name in self.stale if self._offers(name) is not (name in standing.rows)) > MANY

    def _offers(self, name: NodeName) -> bool:
        state = self._known.get(name)
        return state is not None and state.agent is not None
