"""What was measured, and whether it meets the bar. Pure."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from cotenant_e2e.space_time import mechanisms
from cotenant_e2e.space_time.arrivals import Arrivals

ATTAINMENT = 0.99
SLOWDOWN_RATIO = 0.5
MULTIPLES = {"cpu": 1.35, "cuda": 1.22}
"""Most that a training batch may take, as a multiple of alone. On a GPU: what Herald has published."""


@dataclass(frozen=True)
class Cell:
    """One training job beside one stream of requests under one mechanism."""

    training: str
    arrivals: str
    mechanism: str
    is_split: bool
    is_ours: bool
    latencies: list[float]
    """Seconds from each arrival to its answer."""
    deadline: float
    steps: list[float]
    """Seconds of each training step."""
    alone: float
    """Seconds of a training step alone."""
    waited_ratio: float | None = None
    """Part of the time that training spent at the gate."""

    @property
    def attainment(self) -> float:
        """Return the part of the requests that met the deadline."""
        return sum(one <= self.deadline for one in self.latencies) / len(self.latencies)

    @property
    def multiple(self) -> float:
        """Return the mean time of a training step, as a multiple of alone."""
        return sum(self.steps) / len(self.steps) / self.alone

    @property
    def holds(self) -> bool:
        """Return whether enough requests met the deadline."""
        return self.attainment >= ATTAINMENT

    def percentile(self, percent: float) -> float:
        """Return a percentile of the latencies: the smallest one that so many do not exceed."""
        return percentile(self.latencies, percent)


@dataclass(frozen=True)
class Run:
    """A whole measurement."""

    device: str
    """cpu or cuda."""
    conditions: dict[str, Any]
    service: float
    """Median seconds of a request on the idle device."""
    deadline: float
    per_second: float
    quick: bool
    alone: dict[str, list[float]] = field(default_factory=dict)
    """Latencies of the requests without training, by arrivals."""
    cells: list[Cell] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """What could not be measured, each with its reason."""

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"v": 1, **asdict(self)}


@dataclass(frozen=True)
class Verdict:
    """Ours against the best static split, for one training job and one stream of requests."""

    training: str
    arrivals: str
    split: Cell | None
    """The split with the fastest training of those that hold the SLO."""
    ours: Cell
    most: float
    """Most multiple of alone that ours may have; infinite where no split holds the SLO."""

    @property
    def met(self) -> bool:
        """Return whether ours meets the bar; where no split holds the SLO, there is none."""
        return self.split is None or (self.ours.holds and self.ours.multiple <= self.most)


def of_object(found: dict[str, Any]) -> Run:
    """Return the run in a JSON object."""
    content = {key: value for key, value in found.items() if key != "v"}
    return Run(**{**content, "cells": [Cell(**one) for one in content["cells"]]})


def verdicts(run: Run) -> list[Verdict]:
    """Judge each training job with each stream of requests.

    The slowdown is the multiple less one. The bar: at most half of the slowdown under the best split, and at most
    the multiple of `MULTIPLES`.
    """
    found = []
    for training in dict.fromkeys(cell.training for cell in run.cells):
        for kind in Arrivals:
            cells = [cell for cell in run.cells if (cell.training, cell.arrivals) == (training, kind.value)]
            ours = next((cell for cell in cells if cell.is_ours), None)
            if ours is None:
                continue
            holding = [cell for cell in cells if cell.is_split and cell.holds]
            best = min(holding, key=lambda cell: cell.multiple, default=None)
            most = math.inf
            if best is not None:
                most = min(MULTIPLES[run.device], 1 + SLOWDOWN_RATIO * max(0.0, best.multiple - 1))
            found.append(Verdict(training, kind.value, best, ours, most))
    return found


def passes(run: Run) -> bool:
    """Return whether some comparison was possible, and each that was meets the bar."""
    found = verdicts(run)
    return any(one.split is not None for one in found) and all(one.met for one in found)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that so many percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def order(cells: Sequence[Cell]) -> list[str]:
    """Return the mechanisms in the order of measuring, ours last."""
    names = dict.fromkeys(cell.mechanism for cell in cells)
    return [*(name for name in names if name != mechanisms.OURS), *(name for name in names if name == mechanisms.OURS)]
