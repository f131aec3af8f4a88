"""How much GPU memory a job's peak needs, from what is alive at once. Pure arithmetic.

    need     = context + slack x (weights + optimizer state + input + step + workspace)
    step     = max(peak, 2 x gradients)      training, where references were followed (`peakActivationBytes`)
               peak                          inference, the same
               max(saved activations + 2 x the largest output, gradients)      training, else
               the largest operator's inputs and outputs                       inference, else

Weights, gradients and optimizer state are exact. The peak is what a step's references keep alive at once: residuals
and branches, casts of weights, saved activations, gradients as they come. Optimizers make a copy of all gradients, or
of as much, when the step's activations are gone. Libraries hold a workspace for convolutions: copies in their own
layout. The caching allocator adds its slack to all but the context. Where only single operators are known, the upper
bound keeps gradients and activations alive together, as `zero_grad(set_to_none=False)` does.
"""

import dataclasses
import math

from cotenant_api.graph import Graph, Mode, OperatorClass, Phase
from cotenant_api.prediction import MemoryRange
from cotenant_predictor.devices import Device
from cotenant_predictor.jobs.coefficients import Coefficients
from cotenant_predictor.jobs.roofline import Operators

MIB = float(1 << 20)

HALF = frozenset({"fp16", "bf16"})
STATE_BYTES_PER_PARAMETER = 8
"""Adam's two moments in fp32, where the graph does not say what its optimizer keeps."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Alive:
    """Bytes of one job, the same on every GPU."""

    exact: float
    """Weights and optimizer state."""
    gradients: float
    estimated: float
    """What a step holds beside these, with its input."""
    workspace: float
    followed: bool = False
    """Whether `estimated` is what references kept alive, gradients and all."""


def alive_of(graph: Graph, operators: Operators, coefficients: Coefficients) -> Alive:
    """What the job holds at its peak."""
    state, gradients = _optimizer_bytes(graph)
    peak = graph.peak_activation_bytes
    if peak is not None:
        step = max(float(peak), 2 * gradients)
    elif graph.mode is Mode.INFERENCE:
        step = float(operators.moved_bytes.max())
    else:
        largest = float(operators.written_bytes[operators.optimizer_tensors == 0].max(initial=0.0))
        step = graph.saved_activation_bytes + 2 * largest
    return Alive(
        exact=graph.parameter_bytes + state,
        gradients=gradients,
        estimated=step + graph.input_bytes_per_step,
        workspace=_workspace_bytes(graph, coefficients),
        followed=peak is not None,
    )


def needed(alive: Alive, device: Device, coefficients: Coefficients) -> MemoryRange:
    """The peak in MiB of one process on `device`."""
    slack = (1 + coefficients.allocator_slack) / MIB
    context = coefficients.context_mib + coefficients.context_mib_per_sm * device.sm_count
    workspace = coefficients.workspace_widening * alive.workspace
    if alive.followed:
        held = alive.exact + alive.estimated
        median = context + slack * (held + alive.workspace)
        upper = coefficients.memory_widening * (context + slack * (held + workspace))
        return MemoryRange(q50=math.ceil(median), upper=math.ceil(upper))
    median = context + slack * (alive.exact + max(alive.estimated + alive.workspace, alive.gradients))
    exact = coefficients.exact_memory_widening * (alive.exact + alive.gradients)
    upper = coefficients.guessed_memory_widening * (context + slack * alive.estimated) + slack * (exact + workspace)
    return MemoryRange(q50=math.ceil(median), upper=math.ceil(upper))


def _optimizer_bytes(graph: Graph) -> tuple[float, float]:
    """State and gradients; both of Adam with as many bytes as weights where the graph does not say."""
    if graph.mode is Mode.INFERENCE:
        return 0.0, 0.0
    sweeps = [op for op in graph.operators if op.phase is Phase.OPTIMIZER and "stateBytes" in op.dims]
    if not sweeps:
        state = 0.0 if graph.optimizer is None else float(graph.parameters * STATE_BYTES_PER_PARAMETER)
        return state, float(graph.parameter_bytes)
    state = float(sum(op.repeat * op.dims["stateBytes"] for op in sweeps))
    return state, float(sum(op.repeat * op.dims.get("gradientBytes", 0) for op in sweeps))


def _workspace_bytes(graph: Graph, coefficients: Coefficients) -> float:
    half, full = coefficients.half_convolution_workspace, coefficients.convolution_workspace
    each = (
        (half if op.dtype in HALF else full) * (op.bytes_read + op.bytes_written)
        for op in graph.operators
        if op.operator_class is OperatorClass.CONV
    )
    return max(max(each, default=0.0), coefficients.matmul_workspace_mib * MIB)
