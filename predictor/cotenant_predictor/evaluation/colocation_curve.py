"""Jobs together: error and time to learn against the number of measured speeds that the model learned from."""

import dataclasses
from collections.abc import Callable
from typing import Final

import numpy as np

from cotenant_predictor.datasets.joint import Joint
from cotenant_predictor.evaluation import colocation, metrics, report
from cotenant_predictor.evaluation.colocation import Bench, Fold
from cotenant_predictor.evaluation.report import Row
from cotenant_predictor.training import colocation as training

SHARES: Final = (0.1, 0.25, 0.5, 1.0)
FOLDS: Final = 2
"""How many folds of the split are learned at each size."""

Clock = Callable[[], float]
"""Seconds, increasing."""


def rows(joint: Joint, *, split: str, clock: Clock) -> list[Row]:
    """For each mechanism and GPU model and each number of training rows: the error of the speed, and `fitSeconds`.

    Raises:
        InvalidInputError: the split cannot be made of these runs.
    """
    benches = colocation.splittable(joint, split)
    return [
        row
        for bench in benches
        for share in SHARES
        for row in _rows_of(bench, split, share, clock=clock, group=bench.name if len(benches) > 1 else None)
    ]


def _rows_of(bench: Bench, split: str, share: float, *, clock: Clock, group: str | None) -> list[Row]:
    measured, predicted, groups, seconds, sizes = [], [], [], [], []
    labels = bench.joint.labels("group")
    for fold in list(colocation.folds(bench, split, shuffles=1))[:FOLDS]:
        train = _thinned(fold, share)
        size = int(np.isfinite(train.speeds()).sum())
        if size < training.MIN_ROWS:
            return []
        start = clock()
        model = training.learn(train, [bench.mechanism])
        seconds.append(clock() - start)
        sizes.append(size)
        held = bench.joint.take(fold.runs)
        known = held.speeds()
        there = np.isfinite(known)
        runs, places = np.nonzero(there)
        measured.append(known[there])
        predicted.append(model.predict(held.tenants(), bench.mechanism).speed[there])
        groups += [labels[run][place] for run, place in zip(fold.runs[runs], places, strict=True)]
    row = Row(
        target=colocation.SPEED,
        split=split,
        model=colocation.COTENANT,
        metric="mae",
        value=0.0,
        n=0,
        group=group,
        training_rows=round(float(np.mean(sizes))),
        simulated=bench.joint.simulated,
    )
    error = report.scored(row, metrics.mae, (np.concatenate(measured), np.concatenate(predicted)), groups)
    spent = dataclasses.replace(row, metric="fitSeconds", value=float(np.mean(seconds)), n=len(seconds))
    return [error, spent]


def _thinned(fold: Fold, share: float) -> Joint:
    """Return a part of the runs to learn from: each smaller part lies within each larger."""
    order = np.random.default_rng(0).permutation(len(fold.train.runs))
    return fold.train.take(np.sort(order[: round(share * len(order))]))
