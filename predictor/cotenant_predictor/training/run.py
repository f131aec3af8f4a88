"""One training: from checked data to a model. Reads no file and writes none; the same data give the same model."""

from collections.abc import Callable
from typing import Final

import numpy as np

from cotenant_predictor.jobs import features
from cotenant_predictor.jobs.residual import Residual
from cotenant_predictor.jobs.roofline import Array
from cotenant_predictor.training import jobs
from cotenant_predictor.training.table import Table

TARGETS: Final = (
    "utilization",
    "smActivity",
    "dramActivity",
    "memoryUtilization",
    "memoryPeakMiB",
    "stepMilliseconds",
    "powerWatts",
)
"""Values of jobs alone that are learned and scored."""

FEWEST_ROWS: Final = 8
"""With fewer measured rows nothing is learned of a target."""

Progress = Callable[[str], None]


def residual(table: Table, target: str, lines: Array) -> Residual:
    """The correction of one target, learned from the lines at these positions; each has a value.

    Raises:
        ValueError: fewer than two lines, or a value is missing.
    """
    measurements = table.measurements
    regressor = jobs.JobRegressor(physics_column=features.TARGETS.index(target))
    groups = np.array([measurements.groups[line] for line in lines])
    return regressor.fit(table.rows[lines], measurements.values(target)[lines], groups=groups).model_


def residuals(table: Table, *, progress: Progress = lambda _: None) -> dict[str, Residual]:
    """The corrections of all targets that were measured often enough, by target."""
    found = {}
    for target in TARGETS:
        lines = np.flatnonzero(np.isfinite(table.measurements.values(target)))
        if len(lines) >= FEWEST_ROWS:
            progress(f"{target}: {len(lines)} rows")
            found[target] = residual(table, target, lines)
    return found
