"""What is free by the trace's own figures, counted apart from packing: the judge of every placement and refusal.

Thousandths of a GPU and the trace's rows, nothing of `cotenant_extender`: what packing gets wrong shows here. Pure
but for its own counts.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cotenant_simulator.openb import trace

NO_GPU = -1
"""What stands in `idle_milli` where a node has no such GPU."""


class Ledger:
    """Free amounts of N nodes with at most G GPUs.

    Attributes:
        free_cpu_millis, free_memory_mib: shape (N,).
        idle_milli: shape (N, G), thousandths of each GPU; `NO_GPU` beyond a node's last.
        tenants: shape (N, G), pods on each GPU.
        allocated_milli: thousandths of GPUs that have been given away.
    """

    def __init__(self, nodes: Sequence[trace.Node], *, max_tenants: int) -> None:
        self.nodes = tuple(nodes)
        self._max_tenants = max_tenants
        gpus = np.array([node.gpus for node in nodes])
        cells = np.arange(gpus.max())[np.newaxis, :] < gpus[:, np.newaxis]
        self.free_cpu_millis = np.array([node.cpu_millis for node in nodes], dtype=np.int64)
        self.free_memory_mib = np.array([node.memory_mib for node in nodes], dtype=np.int64)
        self.idle_milli = np.where(cells, trace.WHOLE_MILLI, NO_GPU).astype(np.int64)
        self.tenants = np.zeros(cells.shape, dtype=np.int64)
        self.allocated_milli = 0
        self._rows = {node.name: row for row, node in enumerate(nodes)}
        self._models = np.array([node.model for node in nodes])
        self._allowed: dict[frozenset[str], NDArray[np.bool_]] = {}

    def row(self, node: str) -> int:
        """Where a node stands."""
        return self._rows[node]

    def takers(self, pod: trace.Pod) -> NDArray[np.bool_]:
        """Which nodes could take the pod now, shape (N,)."""
        fits: NDArray[np.bool_] = (self.free_cpu_millis >= pod.cpu_millis) & (self.free_memory_mib >= pod.memory_mib)
        if not pod.gpus:
            return fits
        free = (self.idle_milli >= pod.milli) & (self.tenants < self._max_tenants)
        fits &= free.sum(axis=1) >= pod.gpus
        fits &= self._of_allowed_models(pod.models)
        return fits

    def place(self, pod: trace.Pod, node: str, gpus: Sequence[int]) -> bool:
        """Count a placement; whether everything that it took was there, in the right number, and allowed."""
        row, cells = self._rows[node], list(gpus)
        lawful = len(set(cells)) == len(cells) == pod.gpus and all(0 <= cell < self.nodes[row].gpus for cell in cells)
        lawful = lawful and (not cells or bool(self._of_allowed_models(pod.models)[row]))
        self.free_cpu_millis[row] -= pod.cpu_millis
        self.free_memory_mib[row] -= pod.memory_mib
        self.idle_milli[row, cells] -= pod.milli
        self.tenants[row, cells] += 1
        self.allocated_milli += pod.milli * len(cells)
        left = min(self.free_cpu_millis[row], self.free_memory_mib[row], *self.idle_milli[row, cells])
        return bool(lawful and left >= 0 and np.all(self.tenants[row, cells] <= self._max_tenants))

    def _of_allowed_models(self, models: frozenset[str]) -> NDArray[np.bool_]:
        found = self._allowed.get(models)
        if found is None:
            allowed = np.isin(self._models, sorted(models)) if models else np.ones(len(self.nodes), dtype=np.bool_)
            found = self._allowed[models] = allowed
        return found
