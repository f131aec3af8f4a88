"""How much GPU memory a job's peak needs, from what is alive at once. Pure arithmetic.

    need     = context + (1 + slack) x (weights + optimizer state + input + step + workspace + idle)
    step     = max(peak, 2 x gradients)      training, where references were followed (`peakActivationBytes`)
               peak                          inference, the same
               max(saved activations + 2 x the largest output, gradients)      training, else
               the largest operator's inputs and outputs                       inference, else
    idle     = share x the largest output    where references were followed, else 0

Weights, gradients and optimizer state are exact. The peak is what a step's references keep alive at once: residuals
and branches, casts of weights, saved activations, gradients as they come. Optimizers make a copy of all gradients, or
of as much, when the step's activations are gone. Libraries hold a workspace for convolutions: copies in their own
layout. The caching allocator rounds sizes up, its slack; and a block that was made for a large tensor stays where
something smaller lives in it: that part is idle when the peak comes, which is most where tensors come and go, as in
inference. What libraries take beside a context differs between their releases: the upper bound has so much more. Where
only single operators are known, it keeps gradients and activations alive together, as
`zero_grad(set_to_none=False)` does.
"""

import dataclasses
import math
from typing import Any

import numpy as np

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
    convolution: float = 0.0
    """What the convolution in fp32 or TF32 moves that moves most."""
    half_convolution: float = 0.0
    """The same in fp16 and bf16."""
    largest: float = 0.0
    """The largest output of an operator, where references were followed."""
    followed: bool = False
    """Whether `estimated` is what references kept alive, gradients and all."""

    def at(self, times: float) -> "Alive":
        """Return the same job with so many times the samples in a step."""
        return dataclasses.replace(
            self,
            estimated=self.gradients + times * (self.estimated - self.gradients),
            convolution=times * self.convolution,
            half_convolution=times * self.half_convolution,
            largest=times * self.largest,
        )


def alive_of(graph: Graph, operators: Operators) -> Alive:
    """Return what the job holds at its peak."""
    state, gradients = _optimizer_bytes(graph)
    peak = graph.peak_activation_bytes
    largest = float(operators.written_bytes[operators.optimizer_tensors == 0].max(initial=0.0))
    if peak is not None:
        step = max(float(peak), 2 * gradients)
    elif graph.mode is Mode.INFERENCE:
        step = float(operators.moved_bytes.max())
    else:
        step = graph.saved_activation_bytes + 2 * largest
    return Alive(
        exact=graph.parameter_bytes + state,
        gradients=gradients,
        estimated=step + graph.input_bytes_per_step,
        convolution=_moved_by_convolution(graph, half=False),
        half_convolution=_moved_by_convolution(graph, half=True),
        largest=0.0 if peak is None else largest,
        followed=peak is not None,
    )


def needed(alive: Alive, device: Device, coefficients: Coefficients) -> MemoryRange:
    """Return the peak in MiB of one process on `device`."""
    slack = (1 + coefficients.allocator_slack) / MIB
    context = _context_mib(device.sm_count, coefficients)
    wide = _workspace_bytes(alive, coefficients, widening=coefficients.workspace_widening)
    if alive.followed:
        held = context + slack * (alive.exact + alive.estimated + wide)
        upper = coefficients.memory_widening * held + slack * coefficients.idle_block_share * alive.largest
        upper += coefficients.library_widening_mib
        return MemoryRange(q50=math.ceil(median_mib(alive, device.sm_count, coefficients)), upper=math.ceil(upper))
    working = alive.estimated + _workspace_bytes(alive, coefficients)
    median = context + slack * (alive.exact + max(working, alive.gradients))
    exact = coefficients.exact_memory_widening * (alive.exact + alive.gradients)
    upper = coefficients.guessed_memory_widening * (context + slack * alive.estimated) + slack * (exact + wide)
    upper += coefficients.library_widening_mib
    return MemoryRange(q50=math.ceil(median), upper=math.ceil(upper))


def median_mib(alive: Alive, sm_count: Any, coefficients: Coefficients) -> Any:
    """Return the median of a job whose references were followed.

    Of many at once where the values are arrays of shape (n,).
    """
    idle = coefficients.idle_block_share * alive.largest
    held = alive.exact + alive.estimated + _workspace_bytes(alive, coefficients) + idle
    return _context_mib(sm_count, coefficients) + (1 + coefficients.allocator_slack) * held / MIB


def _context_mib(sm_count: Any, coefficients: Coefficients) -> Any:
    return coefficients.context_mib + coefficients.context_mib_per_sm * sm_count


def _workspace_bytes(alive: Alive, coefficients: Coefficients, *, widening: float = 1.0) -> Any:
    """Return the most of what convolutions and products hold; `widening` is of what fp32's algorithms differ in."""
    full = np.maximum(coefficients.convolution_workspace * alive.convolution, coefficients.matmul_workspace_mib * MIB)
    return np.maximum(widening * full, coefficients.half_convolution_workspace * alive.half_convolution)


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


def _moved_by_convolution(graph: Graph, *, half: bool) -> float:
    each = (
        op.bytes_read + op.bytes_written
        for op in graph.operators
        if op.operator_class is OperatorClass.CONV and (op.dtype in HALF) is half
    )
    return float(max(each, default=0))
