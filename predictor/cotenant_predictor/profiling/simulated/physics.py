"""What the modelled GPU does with its tenants. Pure. Made up, and only roughly like a GPU: it exercises the harness."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Sequence

from cotenant_predictor.profiling.catalog import Job

TIME_SLICE_OVERHEAD = 0.03
"""Part of the time that switching between contexts takes."""
CONTENTION = 0.15
"""What is lost to a co-tenant that uses all of the memory's bandwidth."""


@dataclasses.dataclass(frozen=True)
class Demand:
    """What a job does alone. Shares are 0..1."""

    step_seconds: float
    busy: float
    sm: float
    dram: float
    memory_mib: int
    copy_seconds: float


@dataclasses.dataclass(frozen=True)
class Load:
    """A running tenant. `context`: MPS clients share one, others have their own; `weight`: of its priority."""

    demand: Demand
    context: str
    share: float = 1.0
    weight: float = 1.0


def demand(job: Job) -> Demand:
    """Return a job's demand, from its name alone: larger batches are busier and need more memory."""
    digest = hashlib.sha256(f"{job.network}{sorted(job.arguments.items())}".encode()).digest()
    heavy, wide, lean, large = (byte / 255 for byte in digest[:4])
    factor = 3.0 if job.training else 1.0
    host = (0.004 + 0.004 * heavy) * (factor / 3)
    gpu = factor * job.batch_size * (2e-5 + 8e-5 * lean)
    step = max(host, gpu) + 0.1 * min(host, gpu)
    busy = min(1.0, gpu / step)
    return Demand(
        step_seconds=step,
        busy=busy,
        sm=busy * (0.3 + 0.6 * wide),
        dram=busy * (0.1 + 0.5 * large),
        memory_mib=round(400 + factor * job.batch_size * (1 + 9 * heavy)),
        copy_seconds=job.batch_size * 2e-6,
    )


def speed(own: Load, others: Sequence[Load]) -> float:
    """Return the tenant's speed beside the others, 0..1 of its speed alone."""
    within = [other for other in others if other.context == own.context]
    return _within_context(own, within) * _between_contexts(own, others)


def utilization(loads: Sequence[Load]) -> float:
    """Part of the time that any kernel runs, 0..1."""
    idle = math.prod(1.0 - load.demand.busy for load in loads)
    return 1.0 - idle if loads else 0.0


def _within_context(own: Load, others: Sequence[Load]) -> float:
    capped = min(1.0, own.share / own.demand.sm) if own.demand.sm else 1.0
    wanted = min(own.demand.sm, own.share)
    total = wanted + sum(min(other.demand.sm, other.share) * other.weight / own.weight for other in others)
    crowded = min(1.0, 1.0 / total) if total else 1.0
    return capped * crowded * (1.0 - CONTENTION * min(1.0, sum(other.demand.dram for other in others)))


def _between_contexts(own: Load, others: Sequence[Load]) -> float:
    contexts = {own.context} | {other.context for other in others}
    if len(contexts) == 1:
        return 1.0
    slice_of_time = (1.0 - TIME_SLICE_OVERHEAD) / len(contexts)
    foreign = sum(other.demand.busy for other in others if other.context != own.context)
    left = max(slice_of_time, 1.0 - foreign - TIME_SLICE_OVERHEAD)
    return min(1.0, left / own.demand.busy) if own.demand.busy else 1.0
