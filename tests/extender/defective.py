"""A ledger and a queue with a defect that every judge of the extender must notice."""

from dataclasses import replace
from typing import Any

from cotenant_api.names import NodeName
from cotenant_extender.ledger import ledger, nodes
from cotenant_extender.packing import view
from cotenant_extender.queue import planning


class SearchesNobody(planning.Queue):
    """Looks for no victims."""

    def _preempt(self, this: Any) -> None:
        assert this.policy.places


class _CountsOneTooFew(nodes.NodeState):
    """A GPU with tenants has one hundredth more than it has."""

    __slots__ = ()

    def _gpu(self, *arguments: Any) -> view.GPU:
        found = super()._gpu(*arguments)
        return replace(found, share=max(found.share - 1, 0))


class Overbooks(ledger.Ledger):
    """Books one hundredth too much."""

    def _state(self, name: NodeName) -> nodes.NodeState:
        if name not in self.nodes:
            self.nodes[name] = _CountsOneTooFew(name, self._fleets.stale)
        return super()._state(name)
