"""Single jobs: every model learned on the training part of each fold and asked about what was held out.

Within a split the predictions of all folds are scored together. Physics learns nothing, and says so by its score.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from cotenant_api import errors
from cotenant_predictor.datasets.measurements import Measurements
from cotenant_predictor.evaluation import baselines, scores, splits
from cotenant_predictor.evaluation.scores import Predicted, Scored
from cotenant_predictor.evaluation.splits import Array, Fold
from cotenant_predictor.jobs import features, prediction
from cotenant_predictor.jobs.guarded import Guarded
from cotenant_predictor.jobs.prediction import Knowledge
from cotenant_predictor.training import baselines as learners
from cotenant_predictor.training import run, table
from cotenant_predictor.training.table import Table

COTENANT: Final = "cotenant"
HORUS_TARGET: Final = "utilization"
"""What the published way predicts."""

Progress = Callable[[str], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench:
    """What is computed once for all models: the same lines with the formula's and with learned kernels."""

    formula: Table
    learned: Table
    hand: Array
    """Shape (n_lines, n_hand_features)."""

    @property
    def measurements(self) -> Measurements:
        """The lines."""
        return self.formula.measurements


Learner = Callable[[Bench, str, Fold], Predicted]
"""From bench and target: what a model that learned from the training rows says of the test rows."""


def bench_of(
    measurements: Measurements, *, knowledge: Knowledge = prediction.FORMULA, progress: Progress = lambda _: None
) -> Bench:
    """Features of all lines of jobs alone; `knowledge` has the learned kernels."""
    formula = table.of(measurements, progress=progress)
    learned = formula if knowledge.kernels is None else table.of(measurements, knowledge=knowledge, progress=progress)
    digests = [record.graph for record in measurements.records]
    by_graph = {digest: baselines.hand_features(measurements.graphs[digest]) for digest in set(digests)}
    return Bench(formula=formula, learned=learned, hand=np.array([by_graph[digest] for digest in digests]))


def measured_targets(measurements: Measurements, wanted: Sequence[str]) -> tuple[str, ...]:
    """Those of `wanted` (none: of `run.TARGETS`) that were measured often enough to be learned and scored.

    Raises:
        InvalidInputError: none was.
    """
    wanted = wanted or run.TARGETS
    enough = tuple(name for name in wanted if np.isfinite(measurements.values(name)).sum() >= run.FEWEST_ROWS)
    if not enough:
        remedy = f"needs at least {run.FEWEST_ROWS} lines of jobs alone with a value"
        raise errors.InvalidInputError("--target", ", ".join(wanted), remedy)
    return enough


def learners_of(bench: Bench, target: str) -> Mapping[str, Learner]:
    """Return the models that are compared for a target, by name."""
    found: dict[str, Learner] = {baselines.CONSTANT: _constant, baselines.PHYSICS: _physics}
    if bench.learned is not bench.formula:
        found[baselines.PHYSICS_KERNELS] = _physics_with_kernels
    if target == HORUS_TARGET:
        found |= {name: _published(name) for name in learners.NAMES}
    return {**found, COTENANT: _cotenant}


def folds_of(measurements: Measurements, kind: str, target: str, *, seed: int = 0) -> tuple[Fold, ...]:
    """Return the folds of one split; rows are positions among all lines.

    Lines without a value are in no fold; of memory, lines that ended out of memory are, but only to be asked about.

    Raises:
        InvalidInputError: the split cannot be made of these lines.
    """
    measured = np.isfinite(measurements.values(target))
    usable = measured | measurements.out_of_memory if target == scores.MEMORY else measured
    lines = np.flatnonzero(usable)
    folds = splits.of_kind(
        kind,
        groups=[measurements.groups[line] for line in lines],
        families=[measurements.families[line] for line in lines],
        gpu_models=[measurements.gpu_models[line] for line in lines],
        seed=seed,
    )
    return tuple(Fold(fold.name, _only(lines[fold.train], measured), lines[fold.test]) for fold in folds)


def evaluate(
    bench: Bench, kind: str, target: str, *, seed: int = 0, progress: Progress = lambda _: None
) -> list[Scored]:
    """Return what every model says of the held-out rows of one split.

    Raises:
        InvalidInputError: the split cannot be made of these lines.
    """
    folds = folds_of(bench.measurements, kind, target, seed=seed)
    found = []
    for model, learner in learners_of(bench, target).items():
        progress(f"{target}, {kind}: {model} on {len(folds)} folds")
        found.append(joined(bench, target, (kind, model), [(fold, learner(bench, target, fold)) for fold in folds]))
    return found


def joined(bench: Bench, target: str, names: tuple[str, str], parts: Sequence[tuple[Fold, Predicted]]) -> Scored:
    """Return the predictions of all folds of a split and model as one value."""
    measurements = bench.measurements
    lines = np.concatenate([fold.test for fold, _ in parts])
    uppers = [part.upper for _, part in parts if part.upper is not None]
    outsides = [part.outside for _, part in parts if part.outside is not None]
    floors = measurements.memory_floor_mib() if target == scores.MEMORY else np.full(len(measurements), np.nan)
    return Scored(
        target=target,
        split=names[0],
        model=names[1],
        measured=measurements.values(target)[lines],
        floor=floors[lines],
        capacity=_capacity(measurements, target)[lines],
        predicted=Predicted(
            median=np.concatenate([part.median for _, part in parts]),
            upper=np.concatenate(uppers) if len(uppers) == len(parts) else None,
            outside=np.concatenate(outsides) if len(outsides) == len(parts) else None,
        ),
        groups=tuple(measurements.groups[line] for line in lines),
        held_out=tuple(fold.name for fold, _ in parts for _ in fold.test),
        regimes=tuple(bench.formula.regimes[line] for line in lines),
        simulated=measurements.simulated,
    )


def _capacity(measurements: Measurements, target: str) -> Array:
    """Return how much of a target the GPU of each line has, shape (n_lines,)."""
    if target == scores.MEMORY:
        return np.array([float(measurements.known[model].memory_mib) for model in measurements.gpu_models])
    return np.full(len(measurements), 100.0 if target in features.PERCENT_TARGETS else np.inf)


def _only(lines: Array, keep: Array) -> Array:
    kept: Array = lines[keep[lines]]
    return kept


def _constant(bench: Bench, target: str, fold: Fold) -> Predicted:
    measured = bench.measurements.values(target)[fold.train]
    value = baselines.constant(measured, percent=target in features.PERCENT_TARGETS)
    return Predicted(median=np.full(len(fold.test), value))


def _physics(bench: Bench, target: str, fold: Fold) -> Predicted:
    return _by_formula(bench.formula, target, fold)


def _physics_with_kernels(bench: Bench, target: str, fold: Fold) -> Predicted:
    return _by_formula(bench.learned, target, fold)


def _by_formula(rows: Table, target: str, fold: Fold) -> Predicted:
    return Predicted(
        median=features.capped(target, rows.medians[target][fold.test]),
        upper=rows.uppers[target][fold.test],
        outside=rows.outside[fold.test],
    )


def _published(name: str) -> Learner:
    def learn(bench: Bench, target: str, fold: Fold) -> Predicted:
        measured = bench.measurements.values(target)[fold.train]
        return Predicted(median=learners.fit(name, bench.hand[fold.train], measured).predict(bench.hand[fold.test]))

    return learn


def _cotenant(bench: Bench, target: str, fold: Fold) -> Predicted:
    corrections = run.guarded(bench.learned, target, fold.train)
    return by_corrections(bench.learned, target, fold, corrections)


def by_corrections(rows: Table, target: str, fold: Fold, corrections: Guarded | None) -> Predicted:
    """Return what corrections say of the test rows; the formula where there are none."""
    if corrections is None:
        return _by_formula(rows, target, fold)
    median, upper = rows.medians[target][fold.test], rows.uppers[target][fold.test]
    said = corrections.of(rows.rows[fold.test], median=median, upper=upper)
    return Predicted(
        median=features.capped(target, said.median),
        upper=features.capped(target, np.maximum(said.median, said.upper)),
        outside=rows.outside[fold.test] | said.outside,
    )
