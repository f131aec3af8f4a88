"""How much of what is idle the usual pods cannot use: the published measure of fragmentation, F.

    F(node) = sum over typical pods of popularity x idle milli of the node that the pod cannot use
    unusable = all idle milli, if the pod asks for no GPU or the node cannot take it (CPU, models, too few such GPUs),
               else the idle milli of GPUs that have less idle than it asks of each

Typical pods are the most frequent (CPU, milli, GPUs, models) of the whole trace, until they are 95 % of its pods;
popularities add up to 1. Weng et al., ATC 2023, section 3. It measures; no placement is told of it. Pure.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cotenant_simulator.openb import ledger, trace

TYPICAL_PERCENT: Final = 95

Kind = tuple[int, int, int, tuple[str, ...]]
"""CPU millis, milli of each GPU, GPUs, models in order."""


def typical(pods: Sequence[trace.Pod]) -> dict[Kind, float]:
    """Popularity of each typical pod; ties in frequency go by the figures."""
    counts = Counter((pod.cpu_millis, pod.milli, pod.gpus, tuple(sorted(pod.models))) for pod in pods)
    kept: dict[Kind, int] = {}
    for kind, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if 100 * sum(kept.values()) >= TYPICAL_PERCENT * len(pods):
            break
        kept[kind] = count
    total = sum(kept.values())
    return {kind: count / total for kind, count in kept.items()}


class Meter:
    """Keeps F of every node; looks again only at nodes that have changed since.

    Args:
        read: the trace whose pods say what is typical.
        nodes: in the order of the ledger that is measured.
    """

    def __init__(self, read: trace.Trace, nodes: Sequence[trace.Node]) -> None:
        kinds = typical(read.pods)
        self._popularity = np.array(list(kinds.values()))
        self._cpu, self._milli, self._gpus = (np.array([kind[place] for kind in kinds]) for place in range(3))
        allowed = [[not kind[3] or node.model in kind[3] for kind in kinds] for node in nodes]
        self._allowed = np.array(allowed, dtype=np.bool_)
        self._of_node = np.zeros(len(nodes))
        self._changed = set(range(len(nodes)))

    def note(self, row: int) -> None:
        """Note that a node is not as it was."""
        self._changed.add(row)

    def milli(self, counts: ledger.Ledger) -> float:
        """F of the cluster, in thousandths of a GPU."""
        if self._changed:
            rows = np.array(sorted(self._changed))
            self._of_node[rows] = self._measured(counts, rows)
            self._changed.clear()
        return float(self._of_node.sum())

    def _measured(self, counts: ledger.Ledger, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """F of some nodes, shape (len(rows),)."""
        idle = np.maximum(counts.idle_milli[rows], 0)[:, np.newaxis, :]
        enough = counts.idle_milli[rows][:, np.newaxis, :] >= self._milli[np.newaxis, :, np.newaxis]
        runs = (counts.free_cpu_millis[rows, np.newaxis] >= self._cpu) & self._allowed[rows]
        runs &= (enough.sum(axis=2) >= self._gpus) & (self._gpus > 0)
        unusable = np.where(runs, (idle * ~enough).sum(axis=2), idle.sum(axis=2))
        return np.asarray((unusable * self._popularity).sum(axis=1))
