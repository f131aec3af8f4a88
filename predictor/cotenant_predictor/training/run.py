"""One training: from checked data to a model. Reads no file and writes none; the same data give the same model."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from cotenant_api import errors
from cotenant_predictor.datasets.measurements import Measurements
from cotenant_predictor.jobs import features
from cotenant_predictor.jobs.residual import Residual
from cotenant_predictor.jobs.roofline import Array
from cotenant_predictor.models.store import Model
from cotenant_predictor.training import jobs, table
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


def learn(
    name: str,
    *,
    sets: Sequence[str] = (),
    measurements: Measurements | None = None,
    progress: Progress = lambda _: None,
) -> Model:
    """Everything that can be learned from shipped sets and from measurements.

    Args:
        name: of the model.
        sets: names of shipped sets.
        measurements: one's own; none: nothing is learned of single jobs.
        progress: told what was learned, and from how many rows.

    Raises:
        InvalidInputError: there is too little to learn anything.
    """
    learned: dict[str, Any] = {"sets": sorted(sets), "simulated": False}
    jobs_part: dict[str, Residual] = {}
    if measurements is not None:
        learned |= {"simulated": measurements.simulated, "lines": len(measurements), "digest": measurements.digest()}
        if alone := measurements.alone():
            jobs_part = residuals(table.of(alone, progress=progress), progress=progress)
            learned["jobs"] = {target: counted(alone, target) for target in jobs_part}
    if not jobs_part:
        remedy = f"holds nothing to learn from: needs {FEWEST_ROWS} lines of jobs alone with the same value, or a set"
        raise errors.InvalidInputError("DATA", ", ".join(sets), remedy)
    return Model(name=name, learned=learned, jobs=jobs_part).sealed()


def counted(measurements: Measurements, target: str) -> dict[str, int]:
    """From how much a target is learned."""
    lines = np.flatnonzero(np.isfinite(measurements.values(target)))
    labels = {"groups": measurements.groups, "gpuModels": measurements.gpu_models}
    return {"rows": len(lines), **{name: len({values[line] for line in lines}) for name, values in labels.items()}}


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
            progress(f"{target}: learning from {len(lines)} rows")
            found[target] = residual(table, target, lines)
    return found
