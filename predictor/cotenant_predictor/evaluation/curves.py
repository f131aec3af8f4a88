"""Score and time to learn against the number of rows that a model learned from."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from cotenant_predictor.evaluation import baselines, jobs, report, scores
from cotenant_predictor.evaluation.jobs import Bench, Learner, Progress
from cotenant_predictor.evaluation.report import Row
from cotenant_predictor.evaluation.splits import Fold
from cotenant_predictor.training import run

SHARES: Final = (0.1, 0.25, 0.5, 1.0)
FOLDS: Final = 2
"""How many folds of the split are learned at each size."""

Clock = Callable[[], float]
"""Seconds, increasing."""


def rows(bench: Bench, kind: str, target: str, *, clock: Clock, progress: Progress = lambda _: None) -> list[Row]:
    """Two rows for each model that learns and each number of training rows: its main score, and `fitSeconds`.

    `fitSeconds` is the mean time of a fold, learning and asking together, on this machine.

    Raises:
        InvalidInputError: the split cannot be made of these lines.
    """
    folds = jobs.folds_of(bench.measurements, kind, target)[:FOLDS]
    found: list[Row] = []
    for model, learner in jobs.learners_of(bench, target).items():
        if model in {baselines.PHYSICS, baselines.PHYSICS_KERNELS}:
            continue
        progress(f"learning curve of {target}, {kind}: {model}")
        for share in SHARES:
            thinned = [_thinned(fold, share) for fold in folds]
            if min(len(fold.train) for fold in thinned) >= run.FEWEST_ROWS:
                found += _pair(
                    bench, target, (kind, model), _timed(bench, target, thinned, learner=learner, clock=clock)
                )
    return found


def _thinned(fold: Fold, share: float) -> Fold:
    """Return the same fold with a part of its training rows: each smaller part lies within each larger."""
    order = np.random.default_rng(0).permutation(len(fold.train))
    return Fold(fold.name, np.sort(fold.train[order[: round(share * len(order))]]), fold.test)


def _timed(
    bench: Bench, target: str, folds: Sequence[Fold], *, learner: Learner, clock: Clock
) -> list[tuple[Fold, scores.Predicted, float]]:
    found = []
    for fold in folds:
        start = clock()
        predicted = learner(bench, target, fold)
        found.append((fold, predicted, clock() - start))
    return found


def _pair(
    bench: Bench, target: str, names: tuple[str, str], parts: Sequence[tuple[Fold, scores.Predicted, float]]
) -> list[Row]:
    scored = jobs.joined(bench, target, names, [(fold, predicted) for fold, predicted, _ in parts])
    known = scored.where(np.isfinite(scored.measured))
    size = round(float(np.mean([len(fold.train) for fold, _, _ in parts])))
    metric = scores.main_metric(target)
    row = Row(target=target, split=names[0], model=names[1], metric=metric, value=0.0, n=0, training_rows=size)
    row = dataclasses.replace(row, simulated=scored.simulated)
    score = report.scored(row, scores.point(target)[metric], (known.measured, known.predicted.median), known.groups)
    seconds = float(np.mean([spent for _, _, spent in parts]))
    return [score, dataclasses.replace(row, metric="fitSeconds", value=seconds, n=len(parts))]
