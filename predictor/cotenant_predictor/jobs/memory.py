"""How much GPU memory a job's peak needs, from what is alive at once. Pure arithmetic.

    training  = context + weights + optimizer state + max(saved activations + transient, gradients) + workspace
    inference = context + weights + transient + workspace

Weights, gradients and optimizer state are exact; saved activations are what autograd keeps for the backward
pass; transient is the largest output beside its gradient (training) or the largest operator's inputs
and outputs (inference). The caching allocator adds its slack to all but the context. The upper bound keeps
gradients and activations alive together, as `zero_grad(set_to_none=False)` does, and widens what is estimated.
"""

import dataclasses
import math

from cotenant_api.graph import Graph, Mode, OperatorClass, Phase
from cotenant_api.prediction import MemoryRange
from cotenant_predictor.devices import Device
from cotenant_predictor.jobs.coefficients import Coefficients
from cotenant_predictor.jobs.roofline import Operators

MIB = float(1 << 20)

STATE_BYTES_PER_PARAMETER = 8
"""Adam's two moments in fp32, where the graph does not say what its optimizer keeps."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Alive:
    """Bytes of one job, the same on every GPU."""

    exact: float
    """Weights and optimizer state."""
    gradients: float
    estimated: float
    """Saved activations, transient, input and workspace."""


def alive_of(graph: Graph, operators: Operators, coefficients: Coefficients) -> Alive:
    """What the job holds at its peak."""
    weights = float(graph.parameter_bytes)
    workspace = _workspace_bytes(graph, coefficients) + graph.input_bytes_per_step
    if graph.mode is Mode.INFERENCE:
        return Alive(exact=weights, gradients=0.0, estimated=float(operators.moved_bytes.max()) + workspace)
    transient = 2 * float(operators.written_bytes[operators.optimizer_tensors == 0].max(initial=0.0))
    sweeps = [op for op in graph.operators if op.phase is Phase.OPTIMIZER and "stateBytes" in op.dims]
    state = float(sum(op.repeat * op.dims["stateBytes"] for op in sweeps))
    gradients = float(sum(op.repeat * op.dims.get("gradientBytes", 0) for op in sweeps))
    if not sweeps:
        state = 0.0 if graph.optimizer is None else float(graph.parameters * STATE_BYTES_PER_PARAMETER)
        gradients = weights
    estimated = graph.saved_activation_bytes + transient + workspace
    return Alive(exact=weights + state, gradients=gradients, estimated=estimated)


def needed(alive: Alive, device: Device, coefficients: Coefficients) -> MemoryRange:
    """The peak in MiB of one process on `device`."""
    slack = (1 + coefficients.allocator_slack) / MIB
    context = coefficients.context_mib + coefficients.context_mib_per_sm * device.sm_count
    median = context + slack * (alive.exact + max(alive.estimated, alive.gradients))
    exact = coefficients.exact_memory_widening * (alive.exact + alive.gradients)
    upper = coefficients.memory_widening * (context + slack * alive.estimated) + slack * exact
    return MemoryRange(q50=math.ceil(median), upper=math.ceil(upper))


def _workspace_bytes(graph: Graph, coefficients: Coefficients) -> float:
    largest = max(
        (op.bytes_read + op.bytes_written for op in graph.operators if op.operator_class is OperatorClass.CONV),
        default=0,
    )
    return max(largest * coefficients.convolution_workspace, coefficients.matmul_workspace_mib * MIB)
