"""What a job that ran out of GPU memory gets next, as a DLJob's default `oomPolicy` has it. Pure.

The operator's rule (`life/growing.py`): the larger of measured peak and booked memory x `growthPercent`, at most
`maxResubmissions` times or as much as a GPU can book; then a GPU to itself; then a larger GPU, if there is one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cotenant_api import dljob
from cotenant_api.names import GPUModel

POLICY: Final = dljob.OOMPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """What a job has shown to need.

    Attributes:
        count: how many attempts ended for want of memory.
        memory_mib: needed at least; of an exclusive one: by its GPU.
        exclusive: whether it gets a GPU to itself.
    """

    count: int = 0
    memory_mib: int = 0
    exclusive: bool = False


NOTHING: Final = Grown()


def shared(before: Grown, *, booked_mib: int, largest_mib: int) -> Grown:
    """After an attempt that shared a GPU; `largest_mib`: what a shared GPU that it may use can book at most."""
    wanted = math.ceil(max(booked_mib, before.memory_mib) * POLICY.growth_percent / 100)
    exclusive = before.count >= POLICY.max_resubmissions or wanted > largest_mib
    return Grown(count=before.count + 1, memory_mib=wanted, exclusive=exclusive)


def alone(before: Grown, *, gpu_mib: int, usable: Mapping[GPUModel, int]) -> Grown | None:
    """After an attempt that had a GPU of so much memory to itself; None: none that it may use has more."""
    if not any(mib > gpu_mib for mib in usable.values()):
        return None
    return Grown(count=before.count + 1, memory_mib=gpu_mib + 1, exclusive=True)


def roomy(grown: Grown, usable: Mapping[GPUModel, int]) -> frozenset[GPUModel]:
    """Return the GPU models that have the memory that is needed; the largest where none has."""
    wanted = min(grown.memory_mib, max(usable.values(), default=0))
    return frozenset(model for model, mib in usable.items() if mib >= wanted)
