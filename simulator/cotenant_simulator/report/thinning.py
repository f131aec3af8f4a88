"""Fewer points that look the same: a line of 100,000 points is drawn a few hundred points wide. Pure."""

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cotenant_simulator.report import page

COLUMNS: Final = 500
"""Strips of the x axis; of each the first, last, lowest and highest point are kept."""


def thinned(line: page.Series, *, logarithmic: bool) -> page.Series:
    """Return the line itself where it is short."""
    if len(line.x) <= 4 * COLUMNS:
        return line
    x = np.asarray(line.x, dtype=np.float64)
    curves = [np.asarray(curve, dtype=np.float64) for curve in (line.y, line.low, line.high) if curve is not None]
    kept = _kept(np.log(np.maximum(x, _least_positive(x))) if logarithmic else x, curves)
    return dataclasses.replace(
        line,
        x=_of(line.x, kept),
        y=_of(line.y, kept),
        low=None if line.low is None else _of(line.low, kept),
        high=None if line.high is None else _of(line.high, kept),
    )


def _kept(x: NDArray[np.float64], curves: Sequence[NDArray[np.float64]]) -> list[int]:
    strips = np.floor((x - x[0]) / max(x[-1] - x[0], np.finfo(np.float64).tiny) * COLUMNS)
    starts = np.flatnonzero(np.diff(strips, prepend=-1.0))
    kept: set[int] = set()
    for first, end in zip(starts, [*starts[1:], len(x)], strict=True):
        kept.update((int(first), int(end) - 1))
        for curve in curves:
            part = curve[first:end]
            kept.update((int(first + part.argmin()), int(first + part.argmax())))
    return sorted(kept)


def _least_positive(x: NDArray[np.float64]) -> float:
    return float(x[x > 0].min(initial=np.inf)) if (x > 0).any() else 1.0


def _of(values: Sequence[float], kept: Sequence[int]) -> list[float]:
    return [values[index] for index in kept]
