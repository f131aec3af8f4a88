"""How fast jobs really are together: five answers, of which no way to place knows which one holds."""

import enum
from collections.abc import Mapping, Sequence
from typing import Final

from cotenant_predictor.colocation import speeds
from cotenant_predictor.datasets import gavel, joint
from cotenant_simulator.engine import interference
from cotenant_simulator.horus import settings
from cotenant_simulator.philly import population

TAX: Final = 0.08
"""What each neighbour takes beside what the formula says, which slows jobs less than studies saw."""

Pairs = Mapping[tuple[str, str], tuple[float, float]]
"""Speeds of two jobs beside each other, of their speeds alone, by their names in order."""


class Truth(enum.StrEnum):
    """What holds in a run."""

    FORMULA = "formula"
    """Jobs lose by a lack of SM time or memory bandwidth, and in no other way: what packing by speeds asks."""
    TAXED = "formula and 8 %"
    SLICED = "time slicing"
    """GPUs are shared in turns."""
    MEASURED = "measured"
    """Gavel's pairs."""
    AGAIN = "measured again"
    """Gavel's second measurement of the same pairs."""


def speeds_of(truth: Truth) -> interference.Speeds:
    """Return how fast jobs are together where this holds."""
    formula = interference.Interference(speeds.SpeedModel(), interference.MPS)
    if truth is Truth.FORMULA:
        return formula
    if truth is Truth.TAXED:
        return Taxed(formula)
    if truth is Truth.SLICED:
        return interference.Interference(speeds.SpeedModel(), settings.TIME_SLICING)
    return Measured(pairs(gavel.load() if truth is Truth.MEASURED else gavel.load_again()), formula)


def pairs(measured: joint.Joint) -> Pairs:
    """Return the pairs that ran on the GPU model of the experiment."""
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for run in measured.runs:
        names = [measured.jobs[tenant.job].name for tenant in run.tenants]
        if not run.ran or measured.jobs[run.tenants[0].job].gpu_model != population.GPU_MODEL:
            continue
        (first, one), (second, other) = sorted(zip(names, (tenant.speed for tenant in run.tenants), strict=True))
        # Two jobs of one name are as fast as each other.
        found[first, second] = (one, other) if first != second else ((one + other) / 2,) * 2
    return found


class Taxed:
    """What another says, and `TAX` of it less for each neighbour."""

    def __init__(self, before: interference.Speeds) -> None:
        self.mechanism = before.mechanism
        self._before = before

    def together(self, tenants: Sequence[interference.Tenant]) -> interference.Together:
        """See `interference.Speeds`."""
        found = self._before.together(tenants)
        left = (1 - TAX) ** max(len(tenants) - 1, 0)
        return interference.Together(tuple(speed * left for speed in found.speeds), found.utilization * left)


class Measured:
    """Pairs as they were measured, and never faster than alone on the threads that are allowed.

    Pairs that were not measured to run, and more than two jobs, are as fast as another says.
    """

    def __init__(self, pairs: Pairs, otherwise: interference.Speeds) -> None:
        self.mechanism = otherwise.mechanism
        self._pairs, self._otherwise = pairs, otherwise

    def together(self, tenants: Sequence[interference.Tenant]) -> interference.Together:
        """See `interference.Speeds`."""
        order = sorted(range(len(tenants)), key=lambda place: tenants[place].kind)
        found = self._pairs.get((tenants[order[0]].kind, tenants[order[1]].kind)) if len(tenants) == 2 else None
        if found is None:
            return self._otherwise.together(tenants)
        speed = [0.0, 0.0]
        for place, one in zip(order, found, strict=True):
            speed[place] = min(one, *self._otherwise.together([tenants[place]]).speeds)
        busy = sum(one * tenant.real.utilization.q50 / 100 for one, tenant in zip(speed, tenants, strict=True))
        return interference.Together(tuple(speed), min(1.0, busy))
