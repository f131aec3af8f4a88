"""Measured jobs as the arrays that estimators learn from: the features of each line, and the formula's own values."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from cotenant_api import errors
from cotenant_api.names import GPUModel, GraphDigest
from cotenant_predictor.datasets import files
from cotenant_predictor.datasets.measurements import Measurements
from cotenant_predictor.jobs import features, prediction
from cotenant_predictor.jobs.prediction import Knowledge
from cotenant_predictor.jobs.roofline import Array

PROGRESS_LINES = 500


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """Lines of jobs alone; the first axis of each array is the line."""

    measurements: Measurements
    rows: Array
    """Shape (n_lines, n_features), columns as `features.NAMES`."""
    medians: Mapping[str, Array]
    """The formula's value of each of `features.TARGETS`."""
    uppers: Mapping[str, Array]
    """The formula's upper bound of each; percentages at most 100."""
    outside: Array
    """Whether the formula says that it does not apply."""
    regimes: tuple[str, ...]
    """What bounds each job by the formula."""


def predictable(measurements: Measurements, *, on_bad: files.OnBad) -> Measurements:
    """Return the lines from whose graphs finite times follow; `on_bad` is told of the others, once a graph."""
    known = measurements.known
    models: dict[GraphDigest, set[GPUModel]] = {}
    for record in measurements.records:
        models.setdefault(record.graph, set()).add(record.gpu_model)
    bad = set()
    for digest, names in models.items():
        try:
            prediction.step_of(measurements.graphs[digest], [known[name] for name in names])
        except errors.InvalidInputError as error:
            bad.add(digest)
            on_bad(error)
    return measurements.where(lambda record: record.graph not in bad)


def of(
    measurements: Measurements,
    *,
    knowledge: Knowledge = prediction.FORMULA,
    progress: Callable[[str], None] = lambda _: None,
) -> Table:
    """Return the table of jobs alone.

    Args:
        measurements: lines of jobs alone, at least one.
        knowledge: what of kernels the formula rests on; corrections in it are not used.
        progress: told now and then how many graphs are done.

    Raises:
        InvalidInputError: a graph holds amounts from which no finite time follows.
    """
    known = measurements.known
    lines: dict[GraphDigest, list[int]] = {}
    for index, record in enumerate(measurements.records):
        lines.setdefault(record.graph, []).append(index)
    order: list[int] = []
    parts: list[tuple[Array, dict[str, Array], dict[str, Array], Array, list[str]]] = []
    for done, (digest, indices) in enumerate(lines.items(), 1):
        gpus = tuple(known[measurements.records[index].gpu_model] for index in indices)
        step = prediction.step_of(measurements.graphs[digest], gpus, knowledge=knowledge)
        medians = features.estimates(step)
        bounds = features.bounds(step, knowledge.coefficients)
        uppers = {name: features.capped(name, value) for name, value in bounds.items()}
        regimes = [str(step.regime(index)) for index in range(len(gpus))]
        parts.append((features.rows_of(step), medians, uppers, step.outside, regimes))
        order.extend(indices)
        if done % PROGRESS_LINES == 0:
            progress(f"{done} of {len(lines)} graphs")
    back = np.argsort(np.array(order))
    return Table(
        measurements=measurements,
        rows=np.concatenate([part[0] for part in parts])[back],
        medians={name: np.concatenate([part[1][name] for part in parts])[back] for name in features.TARGETS},
        uppers={name: np.concatenate([part[2][name] for part in parts])[back] for name in features.TARGETS},
        outside=np.concatenate([part[3] for part in parts])[back],
        regimes=tuple(np.array([regime for part in parts for regime in part[4]])[back].tolist()),
    )
