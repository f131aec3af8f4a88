"""Estimates of groups from a job's graph document, before anything was timed. Pure, but for `read`.

The document (`cotenant extract`) lists the operators of a step with FLOPs, bytes and output elements. Of each
operator class and phase this module returns how much of the device an operator fills, and how long it takes:

    fill     = min(1, output elements / (units * elements that a unit works on at once))
    duration = max(FLOPs / peak, bytes / bandwidth) / fill + launch

Fill is weighted by duration, so that the operators that take the time decide.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cotenant_runtime import layout

MAX_BYTES: Final = 4 * 1024 * 1024
MAX_OPERATORS: Final = 10_000

CLASSES: Final = {
    "Conv": "conv",
    "Linear": "matmul",
    "Bilinear": "matmul",
    "Attention": "attention",
    "Norm": "norm",
    "LSTM": "rnn",
    "GRU": "rnn",
    "RNN": "rnn",
    "Embedding": "embedding",
    "Pool": "pool",
}
"""Part of the name of a torch module -> class of its operators; the first that fits. Others are elementwise."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What a device does at best."""

    units: int
    """SMs, or cores."""
    elements_per_unit: int
    """Output elements that a unit works on at once: resident threads of an SM, one operator's grain of a core."""
    flops_per_second: float
    bytes_per_second: float
    launch_seconds: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A duration and the part of the device that is filled meanwhile."""

    duration_ns: int
    fill: int


def operator_class(module: str) -> str:
    """Return the operator class of a torch module by the name of its type."""
    return next((found for part, found in CLASSES.items() if part in module), "elementwise")


def read(path: Path) -> list[Mapping[str, Any]]:
    """Return the operators of a graph document, gzipped or not.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no graph document, or too large.
    """
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if data[:2] == b"\x1f\x8b":
        with gzip.open(path) as packed:
            data = packed.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"{path}: must be a graph document of at most {MAX_BYTES} bytes")
    document = json.loads(data)
    operators = document.get("operators") if isinstance(document, dict) else None
    if not isinstance(operators, list) or not 1 <= len(operators) <= MAX_OPERATORS:
        raise ValueError(f"{path}: must be a graph document with 1 to {MAX_OPERATORS} operators")
    return [one for one in operators if isinstance(one, dict)]


def estimates(operators: Iterable[Mapping[str, Any]], rates: Rates) -> dict[tuple[str, str], Estimate]:
    """Return the mean estimate of one operator by class and phase ("Forward", "Backward", "Optimizer")."""
    sums: dict[tuple[str, str], tuple[float, float, float]] = {}
    for one in operators:
        key = (str(one.get("class", "other")), str(one.get("phase", "Forward")))
        repeat = max(1.0, _number(one, "repeat"))
        fill = min(1.0, _number(one, "outputElements") / (rates.units * rates.elements_per_unit))
        fill = max(fill, 1 / layout.FULL_FILL)
        work = max(
            _number(one, "flops") / rates.flops_per_second,
            (_number(one, "bytesRead") + _number(one, "bytesWritten")) / rates.bytes_per_second,
        )
        seconds = work / fill + rates.launch_seconds
        count, total, filled = sums.get(key, (0.0, 0.0, 0.0))
        sums[key] = (count + repeat, total + repeat * seconds, filled + repeat * seconds * fill)
    return {key: _mean(*values) for key, values in sums.items()}


def _mean(count: float, seconds: float, filled: float) -> Estimate:
    nanoseconds = min(1e9 * seconds / count, float(layout.MAX_SPAN_NS))
    fill = filled / seconds if seconds else 0.0
    return Estimate(duration_ns=round(nanoseconds), fill=round(layout.FULL_FILL * fill))


def _number(operator: Mapping[str, Any], key: str) -> float:
    value = operator.get(key, 0)
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return min(float(value), 1e18) if known and value > 0 else 0.0
