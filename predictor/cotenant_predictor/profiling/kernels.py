"""What a profiler's trace says of kernels: which run long, which do not fit onto the GPU at once. Pure.

Both are the published measures of how a job stands in the way of others: a kernel of more than a millisecond holds
what it has for that long; one whose blocks do not all fit leaves no room while it runs. Shares are of the time of
all kernels.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LONG_MICROSECONDS = 1000.0
Dimensions = tuple[int, int, int]
Shape = tuple[str, Dimensions, Dimensions, int, int]
"""Name, grid, block, registers of a thread, shared bytes of a block."""
MAX_ROWS = 1000
MAX_NAME = 256
_BLOCKS_PER_SM = {(7, 5): 16, (8, 6): 16, (8, 7): 16, (8, 9): 24}
_RESERVED_SHARED = 1024
"""Bytes of shared memory that each block takes beside its own, since compute capability 8.0."""
_REGISTER_UNIT = 256
"""Registers are given out by this many for each warp."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """What bounds the blocks of a multiprocessor."""

    sm_count: int
    threads_per_sm: int = 2048
    registers_per_sm: int = 65_536
    shared_bytes_per_sm: int = 233_472
    blocks_per_sm: int = 32
    warp: int = 32

    @classmethod
    def of_capability(cls, capability: Sequence[int], **known: int) -> Limits:
        """With the number of blocks that this compute capability allows."""
        blocks = _BLOCKS_PER_SM.get((capability[0], capability[1]), 32 if capability[0] >= 5 else 16)
        return cls(blocks_per_sm=blocks, **known)


@dataclasses.dataclass(frozen=True)
class Launch:
    """A kernel with one shape: how often, and how long in all."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    shared_bytes: int
    count: int
    microseconds: float
    long_microseconds: float

    def to_object(self) -> dict[str, Any]:
        """As a row of the measurement document."""
        return {
            "name": self.name,
            "count": self.count,
            "microseconds": round(self.microseconds, 3),
            "grid": list(self.grid),
            "block": list(self.block),
            "registers": self.registers,
            "sharedBytes": self.shared_bytes,
        }


def launches(trace: Mapping[str, Any]) -> tuple[Launch, ...]:
    """Return the kernels of a Chrome trace as torch.profiler writes it, those with most time first."""
    found: dict[Shape, list[float]] = {}
    for event in trace["traceEvents"]:
        if event.get("cat") == "kernel" and event.get("ph", "X") == "X":
            found.setdefault(_key(event), []).append(float(event["dur"]))
    rows = [
        Launch(*key, count=len(times), microseconds=math.fsum(times), long_microseconds=_long(times))
        for key, times in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.microseconds, row.name, row.grid)))


def resident_blocks(row: Launch, limits: Limits) -> int:
    """Return how many blocks of this kernel one multiprocessor holds at once; at least 1, as it did run."""
    warps = -(-math.prod(row.block) // limits.warp)
    registers = -(-row.registers * limits.warp // _REGISTER_UNIT) * _REGISTER_UNIT * warps
    bounds = [limits.blocks_per_sm, limits.threads_per_sm // (warps * limits.warp)]
    if registers:
        bounds.append(limits.registers_per_sm // registers)
    bounds.append(limits.shared_bytes_per_sm // (row.shared_bytes + _RESERVED_SHARED))
    return max(1, min(bounds))


def is_large(row: Launch, limits: Limits) -> bool:
    """Return whether its blocks do not all fit onto an empty GPU."""
    return math.prod(row.grid) > limits.sm_count * resident_blocks(row, limits)


def shares(rows: Iterable[Launch], limits: Limits) -> dict[str, float | None]:
    """Shares of kernel time, 0..1: in long kernels, and in those too large to fit; none where no kernel ran."""
    every = list(rows)
    total = math.fsum(row.microseconds for row in every)
    if not total:
        return {"longKernelShare": None, "largeKernelShare": None}
    large = math.fsum(row.microseconds for row in every if is_large(row, limits))
    return {
        "longKernelShare": math.fsum(row.long_microseconds for row in every) / total,
        "largeKernelShare": large / total,
    }


def _long(times: Iterable[float]) -> float:
    return math.fsum(time for time in times if time > LONG_MICROSECONDS)


def _key(event: Mapping[str, Any]) -> Shape:
    known = event.get("args", {})
    return (
        str(event["name"])[:MAX_NAME],
        _dimensions(known.get("grid")),
        _dimensions(known.get("block")),
        int(known.get("registers per thread", 0)),
        int(known.get("shared memory", 0)),
    )


def _dimensions(value: Sequence[float] | None) -> Dimensions:
    x, y, z = value or (1, 1, 1)
    return int(x), int(y), int(z)
