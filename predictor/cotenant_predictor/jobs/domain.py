"""When a prediction should not be trusted: reserve a whole GPU, or profile the job first. Pure."""

import collections

from cotenant_api.graph import Graph
from cotenant_api.prediction import MemoryRange
from cotenant_predictor.devices import PEAK_TYPES, Device
from cotenant_predictor.jobs.coefficients import Coefficients
from cotenant_predictor.jobs.roofline import MATRIX_CLASSES

_RUNS_AS_FP32 = frozenset({"fp32", "tf32"})
"""Types that a GPU without a rate for them runs as fp32 by itself."""


class Domain:
    """What the formula knows of one graph."""

    def __init__(self, graph: Graph, coefficients: Coefficients) -> None:
        self._bound = coefficients.max_unknown_share
        coverage = graph.coverage
        unknown = sum(coverage.unknown.values()) / max(1, coverage.operators)
        self._is_unknown = unknown > self._bound or coverage.flops_percent < 100 * (1 - self._bound)
        flops: collections.Counter[str] = collections.Counter()
        for operator in graph.operators:
            if operator.operator_class in MATRIX_CLASSES:
                flops[operator.dtype] += operator.flops * operator.repeat
        total = max(1, flops.total())
        self._share_by_type = {dtype: amount / total for dtype, amount in flops.items() if dtype not in _RUNS_AS_FP32}

    def excludes(self, device: Device, memory: MemoryRange) -> bool:
        """Return whether the graph is not known whole, the job does not fit, or the device has no rate for its type."""
        if self._is_unknown or memory.upper > device.memory_mib:
            return True
        rates = device.peak_teraflops.keys() & set(PEAK_TYPES)
        return sum(share for dtype, share in self._share_by_type.items() if dtype not in rates) > self._bound
