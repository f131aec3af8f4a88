"""Speed on a part of a GPU: each measured slice of a job predicted from its other slices, beside two plain rules.

constant    the mean speed of all other jobs on a slice of that size
physics     speed in proportion to the multiprocessors
cotenant    the curve of `colocation.curves`, its one number fitted to the job's other slices
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from cotenant_api import errors
from cotenant_predictor.colocation import curves
from cotenant_predictor.datasets import miso
from cotenant_predictor.datasets.miso import Curve
from cotenant_predictor.evaluation import baselines, jobs, metrics, report
from cotenant_predictor.evaluation.report import Row
from cotenant_predictor.evaluation.splits import Array

TARGET: Final = "sliceSpeed"
LEAVE_SLICE_OUT: Final = "leave-slice-out"


def rows(
    *,
    split: str = LEAVE_SLICE_OUT,
    found: Sequence[Curve] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """Return the scores of the three, over all slices but the whole GPU.

    Args:
        split: `leave-slice-out`.
        found: the measured curves; none: those that ship.
        progress: told what is being done.

    Raises:
        InvalidInputError: another split.
    """
    if split != LEAVE_SLICE_OUT:
        raise errors.InvalidInputError("--split", split, f"is no split of slices: leave it out for {LEAVE_SLICE_OUT}")
    measured_curves = miso.load() if found is None else found
    progress(f"{TARGET}: {len(measured_curves)} jobs")
    parts = [(curve, index) for curve in measured_curves for index in np.flatnonzero(curve.share < 1)]
    measured = np.array([curve.speed[index] for curve, index in parts])
    groups = [curve.model for curve, _ in parts]
    predicted = {
        baselines.CONSTANT: np.array([_mean_of_others(measured_curves, curve, int(index)) for curve, index in parts]),
        baselines.PHYSICS: np.array([curve.share[index] for curve, index in parts]),
        jobs.COTENANT: np.array([_by_curve(curve, int(index)) for curve, index in parts]),
    }
    scores: dict[str, Callable[[Array, Array], float]] = {
        "mae": metrics.mae,
        "rmse": metrics.rmse,
        "mape": metrics.mape,
    }
    return [
        report.scored(
            Row(target=TARGET, split=split, model=model, metric=name, value=0.0, n=0), score, (measured, speeds), groups
        )
        for model, speeds in predicted.items()
        for name, score in scores.items()
    ]


def _mean_of_others(found: Sequence[Curve], own: Curve, index: int) -> float:
    """NaN where no other job was measured on such a slice."""
    share = own.share[index]
    speeds = [curve.speed[curve.share == share] for curve in found if curve is not own]
    together = np.concatenate([np.empty(0), *speeds])
    return float(together.mean()) if len(together) else float("nan")


def _by_curve(curve: Curve, index: int) -> float:
    others = np.arange(len(curve.share)) != index
    knee = curves.knee_of_speeds(curve.share[others], curve.speed[others])
    return float(curves.speed(curve.share[index], np.array(knee)))
