"""What packing sees of the ledger: nodes in strict order, built as they are read."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import view


class View:
    """A re-iterable of the nodes that have a GPUNode, by name; true as long as the ledger does not change.

    Args:
        without: a pod whose own claim is left out.
        among: only these nodes.
        gpus: only these GPUs of them.
    """

    __slots__ = ("_among", "_gpus", "_ledger", "_without")

    def __init__(
        self,
        source: ledger.Ledger,
        *,
        without: PodUID | None = None,
        among: Collection[NodeName] | None = None,
        gpus: Collection[GPUUID] | None = None,
    ) -> None:
        self._ledger, self._without, self._among, self._gpus = source, without, among, gpus

    def __iter__(self) -> Iterator[view.Node]:
        policy = self._ledger.policy
        if policy is None:
            return
        own = None if self._without is None else self._ledger.claims.get(self._without)
        for name in self._names():
            state = self._ledger.nodes[name]
            seen = state.seen(policy, self._ledger.finished, own if own is not None and own.node == name else None)
            yield seen if self._gpus is None else _only(seen, self._gpus)

    def _names(self) -> list[NodeName]:
        """Copied, so that what the reader does to the ledger cannot disturb it."""
        order = self._ledger.order
        if self._among is None:
            return list(order)
        if len(self._among) < len(order) // 8:
            return sorted(name for name in self._among if self._ledger.offers(name))
        among = set(self._among)
        return [name for name in order if name in among]


def _only(node: view.Node, gpus: Collection[GPUUID]) -> view.Node:
    kept = tuple(gpu for gpu in node.gpus if gpu.uuid in gpus)
    return replace(node, gpus=kept, most_free=view.most_free(kept))
