"""When a prediction should not be trusted: reserve a whole GPU, or profile the job first. Pure."""

from cotenant_api.graph import Graph
from cotenant_api.prediction import MemoryRange
from cotenant_predictor.coefficients import Coefficients
from cotenant_predictor.devices import PEAK_TYPES, Device
from cotenant_predictor.roofline import MATRIX_CLASSES

_RUNS_AS_FP32 = frozenset({"fp32", "tf32"})
"""Types that a GPU without a rate for them runs as fp32 by itself."""


def is_outside(graph: Graph, device: Device, memory: MemoryRange, coefficients: Coefficients) -> bool:
    """Whether the extractor did not know the graph, the job does not fit, or its type has no rate on the device."""
    bound = coefficients.max_unknown_share
    unknown = sum(graph.coverage.unknown.values())
    if unknown > bound * max(1, graph.coverage.operators) or graph.coverage.flops_percent < 100 * (1 - bound):
        return True
    return memory.upper > device.memory_mib or _share_without_rate(graph, device) > bound


def _share_without_rate(graph: Graph, device: Device) -> float:
    """Share of the matrix FLOPs in a type that the device has no rate for."""
    total, without = 0, 0
    for operator in graph.operators:
        if operator.operator_class not in MATRIX_CLASSES:
            continue
        flops = operator.flops * operator.repeat
        total += flops
        if operator.dtype not in _RUNS_AS_FP32 and not (
            operator.dtype in PEAK_TYPES and operator.dtype in device.peak_teraflops
        ):
            without += flops
    return without / total if total else 0.0
