"""What a learner sees of one job on one GPU: ratios and logarithms that keep their meaning on another GPU. Pure.

Nothing here names a GPU, an architecture or an operator of one framework.
"""

import numpy as np

from cotenant_api.graph import Graph, Mode, OperatorClass, Phase
from cotenant_predictor.jobs.coefficients import Coefficients
from cotenant_predictor.jobs.roofline import Array
from cotenant_predictor.jobs.step import Step

TARGETS = (
    "utilization",
    "smActivity",
    "dramActivity",
    "memoryUtilization",
    "memoryPeakMiB",
    "stepMilliseconds",
    "powerWatts",
    "threadPercentage",
)
"""Values of a measurement that have an estimate; the first columns hold log(1 + estimate) of each."""

PERCENT_TARGETS = frozenset({"utilization", "smActivity", "dramActivity", "memoryUtilization", "threadPercentage"})
"""Those that cannot exceed 100."""

_CLASSES = tuple(OperatorClass)
NAMES = (
    *(f"log_{name}" for name in TARGETS),
    "launch_to_busy",
    "feed_to_busy",
    "exchange_to_busy",
    "duty",
    "compute_share",
    "filled_share",
    "log_mean_kernel_microseconds",
    "log_kernels",
    "log_flops_to_bytes",
    "log_batch",
    "log_parameters",
    "log_saved_bytes",
    "log_input_bytes",
    "log_critical_path",
    "log_optimizer_tensors",
    "backward_share",
    "trains",
    "compiled",
    "half_precision",
    "data_on_gpu",
    "log_loader_workers",
    "log_replicas",
    "log_memory_to_capacity",
    *(f"time_{cls}" for cls in _CLASSES),
    *(f"kernels_{cls}" for cls in _CLASSES),
)
"""Columns of `rows_of`."""


def estimates(step: Step) -> dict[str, Array]:
    """Return the formula's value of each of `TARGETS`, each of shape (n_devices,); percentages at most 100."""
    return {
        "utilization": np.minimum(100.0, step.utilization),
        "smActivity": np.minimum(100.0, step.sm_activity),
        "dramActivity": np.minimum(100.0, step.dram_activity),
        "memoryUtilization": np.minimum(100.0, step.memory_utilization),
        "memoryPeakMiB": step.memory_mib.astype(np.float64),
        "stepMilliseconds": 1e3 * step.step_seconds,
        "powerWatts": step.power_watts,
        "threadPercentage": step.thread_percentage,
    }


def bounds(step: Step, coefficients: Coefficients) -> dict[str, Array]:
    """Return the formula's upper bound of each of `TARGETS`: a stated factor, for memory that of `memory.needed`."""
    upper = {name: coefficients.widening * value for name, value in estimates(step).items()}
    return {**upper, "memoryPeakMiB": step.safe_memory_mib.astype(np.float64)}


def capped(target: str, values: Array) -> Array:
    """Values of a target; percentages at most 100."""
    return np.minimum(100.0, values) if target in PERCENT_TARGETS else values


def rows_of(step: Step) -> Array:
    """Return the features of a job on each of its devices, shape (n_devices, n_features)."""
    logs = [np.log1p(value) for value in estimates(step).values()]
    busy = np.maximum(step.busy_seconds, 1e-9)  # views alone launch nothing
    capacity = np.array([device.memory_mib for device in step.devices])
    operators = step.operators
    filled = np.minimum(1.0, step.parallel / np.array([[device.sm_count] for device in step.devices]))
    launches = max(1.0, float((operators.repeat * operators.kernels).sum()))
    varying = [
        *logs,
        _ratio(step.launch_seconds / busy),
        _ratio(step.feed_seconds / busy),
        _ratio(step.exchange_seconds / busy),
        step.duty,
        step.compute_seconds / busy,
        (step.operator_seconds * filled).sum(axis=1) / busy,
        np.log(1e6 * busy / launches),
    ]
    same = _of_graph(step.graph, step)
    constant = np.broadcast_to(same, (len(busy), len(same)))
    # More bytes than 64 bits count are an array of Python numbers.
    ends = [np.log(step.memory_mib.astype(np.float64) / capacity), *_time_by_class(step, busy)]
    return np.column_stack(
        [*varying, constant, *ends, np.broadcast_to(_kernels_by_class(step), (len(busy), len(_CLASSES)))]
    )


def _of_graph(graph: Graph, step: Step) -> Array:
    operators = step.operators
    kernels = operators.repeat * operators.kernels
    flops = float((operators.repeat * operators.flops).sum())
    moved = float((operators.repeat * operators.moved_bytes).sum())
    backward = np.array([operator.phase is Phase.BACKWARD for operator in graph.operators])
    return np.array(
        [
            np.log1p(kernels.sum()),
            np.log((1 + flops) / (1 + moved)),
            np.log(graph.batch_size),
            np.log1p(graph.parameters),
            np.log1p(graph.saved_activation_bytes),
            np.log1p(graph.input_bytes_per_step),
            np.log1p(graph.critical_path_operators),
            np.log1p((operators.repeat * operators.optimizer_tensors).sum()),
            float(kernels[backward].sum() / max(1.0, kernels.sum())),
            float(graph.mode is Mode.TRAINING),
            float(graph.compiled),
            float(graph.precision in ("fp16", "bf16", "fp8", "int8")),
            float(graph.host.data_on_gpu),
            np.log1p(graph.host.loader_workers),
            np.log(graph.distributed.replicas),
        ]
    )


def _ratio(values: Array) -> Array:
    """Logarithm of 1 + a ratio of times, which may be zero or very large."""
    return np.log1p(np.minimum(values, 1e6))


def _time_by_class(step: Step, busy: Array) -> list[Array]:
    classes = np.array([operator.operator_class for operator in step.graph.operators])
    return [step.operator_seconds[:, classes == cls].sum(axis=1) / busy for cls in _CLASSES]


def _kernels_by_class(step: Step) -> Array:
    classes = np.array([operator.operator_class for operator in step.graph.operators])
    kernels = step.operators.repeat * step.operators.kernels
    shares: Array = np.array([kernels[classes == cls].sum() for cls in _CLASSES]) / max(1.0, kernels.sum())
    return shares
