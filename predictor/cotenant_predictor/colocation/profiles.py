"""What one job is on one GPU, seen by its neighbours: a row of numbers that mean the same on any GPU. Pure.

A row comes from the job's step by the formula, from what was measured of the job alone, or from a stored prediction;
what is not known is NaN, never a guess.
"""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from cotenant_api.prediction import GPUPrediction
from cotenant_predictor.colocation import curves
from cotenant_predictor.jobs.step import Step
from cotenant_predictor.trees import Array

SUMMED: Final = ("utilization", "smActivity", "dramActivity", "memoryUtilization", "memory", "launch", "host")
"""Shares of the GPU's time, of its memory, and of the step that the CPU launches, or waits for input: they add up."""
RATES: Final = ("logKernelsPerSecond", "logInputBytesPerSecond")
"""Logarithms of what adds up."""
OTHERS: Final = ("logStepSeconds", "longKernels", "largeKernels", "compute")
"""What does not: the step, and shares of the busy time in kernels above 1 ms, in kernels too large for the GPU, and in
kernels that arithmetic bounds."""
LEARNED: Final = (*SUMMED, *RATES, *OTHERS)
SETTINGS: Final = ("threads", "priority")
"""The share of the multiprocessors that MPS allows, and the client priority (1: below normal)."""
COLUMNS: Final = (*LEARNED, "knee", *SETTINGS)
INDEX: Final = {name: index for index, name in enumerate(COLUMNS)}

LONG_KERNEL_SECONDS: Final = 1e-3
BLOCKS_PER_SM: Final = 2
"""Thread blocks of a matrix kernel that one multiprocessor holds; a kernel with more needs several waves."""
_SHORTEST: Final = 1e-9
_QUIET_BYTES: Final = 1e3
"""Input per second below which a job counts as having none."""


def of_step(step: Step, index: int, measured: Mapping[str, float] | None = None) -> Array:
    """Return the job on the device at `index` alone with all threads, shape (n_columns,).

    Args:
        step: the job's step by the formula.
        index: of the device.
        measured: what was measured of the job alone there, by name of a measurement's value (`utilization`, percent;
            `memoryPeakMiB`; `stepMilliseconds`; `longKernelShare` ..); it goes before the formula.
    """
    known = measured or {}
    device, busy = step.devices[index], float(step.busy_seconds[index])
    period = float(step.step_seconds[index] / step.duty[index])
    seconds = _period(step, index, period, known)
    slower = period / seconds
    utilization = known.get("utilization", 100 * min(1.0, busy / seconds)) / 100

    def percent(name: str, estimate: float) -> float:
        return min(1.0, known.get(name, min(100.0, estimate * slower)) / 100)

    kernels = float((step.operators.repeat * step.operators.kernels).sum())
    row = {
        "utilization": utilization,
        "smActivity": percent("smActivity", float(step.sm_activity[index])),
        "dramActivity": percent("dramActivity", float(step.dram_activity[index])),
        "memoryUtilization": percent("memoryUtilization", float(step.memory_utilization[index])),
        "memory": known.get("memoryPeakMiB", float(step.memory_mib[index])) / device.memory_mib,
        "launch": min(1.0, float(step.launch_seconds[index]) / seconds),
        "host": max(0.0, 1.0 - utilization),
        "logKernelsPerSecond": math.log(max(kernels, 1.0) / seconds),
        "logInputBytesPerSecond": math.log(step.graph.input_bytes_per_step / seconds + _QUIET_BYTES),
        "logStepSeconds": math.log(seconds),
        "longKernels": known.get("longKernelShare", _share_of_long(step, index)),
        "largeKernels": known.get("largeKernelShare", _share_of_large(step, index)),
        "compute": float(step.compute_seconds[index]) / max(busy, _SHORTEST),
        "knee": float(curves.knee_of_demand(step.thread_percentage[index] / 100)),
    }
    return _row(row)


def of_prediction(prediction: GPUPrediction, gpu_memory_mib: int) -> Array:
    """Return the job as far as a stored prediction says, on a GPU with this memory, shape (n_columns,).

    The rest is NaN.
    """
    utilization = prediction.utilization.q50 / 100
    memory_utilization = prediction.memory_utilization
    row = {
        "utilization": utilization,
        "smActivity": prediction.sm_activity.q50 / 100,
        "dramActivity": prediction.dram_activity.q50 / 100,
        "memoryUtilization": math.nan if memory_utilization is None else memory_utilization.q50 / 100,
        "memory": prediction.memory_mib.q50 / gpu_memory_mib,
        "host": max(0.0, 1.0 - utilization),
        "logStepSeconds": math.log(prediction.step_milliseconds / 1e3),
        "knee": float(curves.knee_of_demand(prediction.thread_percentage / 100)),
    }
    return _row(row)


def with_settings(rows: Array, *, threads: Array, priority: Array) -> Array:
    """Rows of shape (.., n_columns) under these settings, of shape (..): share of the threads, client priority."""
    changed = np.array(rows, dtype=np.float64)
    changed[..., INDEX["threads"]] = threads
    changed[..., INDEX["priority"]] = priority
    return changed


def together(rows: Array, *, absent: int = 0) -> Array:
    """Jobs on one GPU, shape (1, n_jobs + absent, n_columns), from shape (n_jobs, n_columns)."""
    return np.concatenate([rows, np.full((absent, rows.shape[1]), np.nan)])[None]


def present(tenants: Array) -> Array:
    """Which places of shape (n_groups, n_tenants, n_columns) hold a job: those with a utilization."""
    here: Array = np.isfinite(tenants[..., INDEX["utilization"]])
    return here


def _row(values: Mapping[str, float]) -> Array:
    settings = {"threads": 1.0, "priority": 0.0}
    return np.array([{**settings, **values}.get(name, math.nan) for name in COLUMNS])


def _period(step: Step, index: int, period: float, known: Mapping[str, float]) -> float:
    """Seconds from one step to the next: what was measured, but no less than requests leave between two."""
    if "stepMilliseconds" not in known:
        return max(period, _SHORTEST)
    return max(known["stepMilliseconds"] / 1e3, period if step.duty[index] < 1 else 0.0, _SHORTEST)


def _share_of_long(step: Step, index: int) -> float:
    seconds = step.operator_seconds[index]
    each = seconds / (step.operators.repeat * np.maximum(1.0, step.operators.kernels))
    return float(seconds[each > LONG_KERNEL_SECONDS].sum() / max(float(seconds.sum()), _SHORTEST))


def _share_of_large(step: Step, index: int) -> float:
    seconds = step.operator_seconds[index]
    large = step.parallel[index] > BLOCKS_PER_SM * step.devices[index].sm_count
    return float(seconds[large].sum() / max(float(seconds.sum()), _SHORTEST))
