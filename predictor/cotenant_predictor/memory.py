"""How much GPU memory a job's peak needs, from what is alive at once. Pure arithmetic.

    training  = context + weights + optimizer state + max(saved activations + transient, gradients) + workspace
    inference = context + weights + transient + workspace

Weights, gradients and optimizer state are exact; saved activations are what autograd keeps for the backward
pass; transient is the largest output beside its gradient (training) or the largest operator's inputs
and outputs (inference). The caching allocator adds its slack to all but the context. The upper bound keeps
gradients and activations alive together, as `zero_grad(set_to_none=False)` does, and widens what is estimated.
"""

import math

from cotenant_api.graph import Graph, Mode, OperatorClass, Phase
from cotenant_api.prediction import MemoryRange
from cotenant_predictor.coefficients import Coefficients
from cotenant_predictor.devices import Device
from cotenant_predictor.roofline import Operators

MIB = float(1 << 20)

STATE_BYTES_PER_PARAMETER = 8
"""Adam's two moments in fp32, where the graph does not say what its optimizer keeps."""


def needed(graph: Graph, operators: Operators, device: Device, coefficients: Coefficients) -> MemoryRange:
    """The peak in MiB of one process on `device`."""
    exact, estimated, gradients = _alive_bytes(graph, operators, coefficients)
    context = coefficients.context_mib + coefficients.context_mib_per_sm * device.sm_count
    slack = 1 + coefficients.allocator_slack
    median = context + slack * (exact + max(estimated, gradients)) / MIB
    wide_exact = coefficients.exact_memory_widening * (exact + gradients)
    upper = coefficients.memory_widening * context + slack * (wide_exact + coefficients.memory_widening * estimated) / MIB
    return MemoryRange(q50=math.ceil(median), upper=math.ceil(upper))


def _alive_bytes(graph: Graph, operators: Operators, coefficients: Coefficients) -> tuple[float, float, float]:
    """Bytes counted exactly, bytes estimated, and gradients."""
    weights = float(graph.parameter_bytes)
    workspace = _workspace_bytes(graph, coefficients)
    if graph.mode is Mode.INFERENCE:
        transient = float(operators.moved_bytes.max()) + graph.input_bytes_per_step
        return weights, transient + workspace, 0.0
    transient = 2 * float(operators.written_bytes[operators.optimizer_tensors == 0].max(initial=0.0))
    estimated = graph.saved_activation_bytes + transient + graph.input_bytes_per_step + workspace
    return weights + _state_bytes(graph), estimated, weights


def _state_bytes(graph: Graph) -> float:
    sweeps = [op for op in graph.operators if op.phase is Phase.OPTIMIZER and "stateBytes" in op.dims]
    if sweeps:
        return float(sum(op.repeat * op.dims["stateBytes"] for op in sweeps))
    return 0.0 if graph.optimizer is None else float(graph.parameters * STATE_BYTES_PER_PARAMETER)


def _workspace_bytes(graph: Graph, coefficients: Coefficients) -> float:
    largest = max(
        (op.bytes_read + op.bytes_written for op in graph.operators if op.operator_class is OperatorClass.CONV),
        default=0,
    )
    return max(largest * coefficients.convolution_workspace, coefficients.matmul_workspace_mib * MIB)
