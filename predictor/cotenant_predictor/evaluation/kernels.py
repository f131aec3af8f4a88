"""How far off the times of single kernels are on a GPU of which no kernel was seen, beside a constant and a roofline.

constant    the median of roofline / latency on the other GPUs, for every kernel
roofline    the larger of arithmetic at peak and compulsory bytes at peak bandwidth
physics     the formula of `kernels`, fitted on the other GPUs, without what is learned of shapes
cotenant    with it
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from cotenant_api import errors
from cotenant_predictor.datasets import kernels as dataset
from cotenant_predictor.datasets.kernels import Kernels
from cotenant_predictor.evaluation import metrics
from cotenant_predictor.evaluation.report import Row, scored
from cotenant_predictor.kernels.convolutions import Convolutions
from cotenant_predictor.kernels.model import FAMILIES, Family
from cotenant_predictor.training import kernels as training
from cotenant_predictor.training.kernels import KernelLatencyRegressor

Array: TypeAlias = npt.NDArray[Any]

METRIC: Final = "mape"
LEAVE_GPU_OUT: Final = "leave-gpu-out"
RANDOM: Final = "random"
SPLITS: Final = (LEAVE_GPU_OUT, RANDOM)

_FOLDS: Final = 5


def rows(
    *,
    split: str = LEAVE_GPU_OUT,
    families: Sequence[str] = FAMILIES,
    progress: Callable[[str], None] = lambda _: None,
    most_per_fold: int | None = None,
) -> list[Row]:
    """Scores of every family: one row of all GPUs, the mean over them, and one of each.

    Args:
        split: `leave-gpu-out`, or `random` (a fifth of the shapes at random, on GPUs that were seen).
        families: which kernels.
        progress: told what is being fitted.
        most_per_fold: rows to score of each fold; none: all.

    Raises:
        InvalidInputError: another split; kernels have no groups or families of jobs.
    """
    if split not in SPLITS:
        remedy = f"is no split of kernels: {' or '.join(SPLITS)}"
        raise errors.InvalidInputError("--split", split, remedy)
    found: list[Row] = []
    for family in families:
        data = dataset.load()[family]
        found.extend(rows_of(data, split, progress=progress, limit=most_per_fold))
    return found


def rows_of(
    data: Kernels,
    split: str,
    *,
    regressor: KernelLatencyRegressor | None = None,
    progress: Callable[[str], None] = lambda _: None,
    limit: int | None = None,
) -> Iterator[Row]:
    """Scores of one family, learned by `regressor` (by default the one that the product uses)."""
    learner = regressor or KernelLatencyRegressor(family=data.family)
    predicted: dict[str, Array] = {}
    tested = np.zeros(len(data.seconds), dtype=bool)
    for name, train, test in folds(data, split):
        progress(f"{data.family}: {name}")
        scored_rows = test[:limit]
        tested[scored_rows] = True
        for model, seconds in _predictions(data, learner, train, scored_rows).items():
            predicted.setdefault(model, np.full(len(data.seconds), np.nan))[scored_rows] = seconds
    index = np.flatnonzero(tested)
    gpus = np.array([str(device.name) for device in data.devices])[data.device_index]
    for model, seconds in predicted.items():
        yield from _scores(data, model, split, arrays=(data.seconds[index], seconds[index], gpus[index]))


def folds(data: Kernels, split: str) -> Iterator[tuple[str, Array, Array]]:
    """Yield what is held out, and the positions of training and test rows, in a fixed random order."""
    order = np.random.default_rng(0).permutation(len(data.seconds))
    if split == RANDOM:
        shapes = np.unique(training_shapes(data), axis=0, return_inverse=True)[1].ravel()
        fold = np.random.default_rng(1).integers(_FOLDS, size=shapes.max() + 1)[shapes][order]
        yield "random shapes", order[fold != 0], order[fold == 0]
        return
    for position, device in enumerate(data.devices):
        held = data.device_index[order] == position
        yield str(device.name), order[~held], order[held]


def training_shapes(data: Kernels) -> Array:
    """Return the columns of a row that are no property of its GPU."""
    return data.matrix()[:, len(training.CHIP_COLUMNS) :]


def _predictions(data: Kernels, learner: KernelLatencyRegressor, train: Array, test: Array) -> dict[str, Array]:
    matrix = data.matrix()
    regressor = clone(learner).fit(matrix[train], data.seconds[train])
    physics = Family(physics=regressor.model_.physics)
    shapes, chips = training.unpacked(data.family, matrix[test])
    roofline = roofline_seconds(data)
    constant = float(np.median(roofline[train] / data.seconds[train]))
    return {
        "constant": roofline[test] / constant,
        "roofline": roofline[test],
        "physics": physics.benchmark_seconds(shapes, chips),
        "cotenant": regressor.predict(matrix[test]),
    }


def roofline_seconds(data: Kernels) -> Array:
    """Return the larger of arithmetic at peak and compulsory bytes at peak bandwidth, shape (n_rows,)."""
    shapes, chips = data.shapes, data.chips
    product = shapes.product if isinstance(shapes, Convolutions) else shapes
    inputs = product.rows * product.reduction
    if isinstance(shapes, Convolutions):
        inputs = inputs / shapes.taps
    elements = product.batch * (inputs + product.reduction * product.columns + product.rows * product.columns)
    seconds: Array = np.maximum(product.flops / chips.peak_flops, product.item_bytes * elements / chips.bandwidth)
    return seconds


def _scores(data: Kernels, model: str, split: str, *, arrays: tuple[Array, Array, Array]) -> Iterator[Row]:
    measured, predicted, gpus = arrays
    row = Row(
        target=f"kernelLatency/{data.family}", split=split, model=model, metric=METRIC, value=np.nan, n=len(measured)
    )
    yield scored(row, _mean_over_gpus, arrays, list(gpus))
    for gpu in np.unique(gpus):
        mine = gpus == gpu
        value = metrics.mape(measured[mine], predicted[mine])
        yield dataclasses.replace(row, value=value, n=int(mine.sum()), group=str(gpu))


def _mean_over_gpus(measured: Array, predicted: Array, gpus: Array) -> float:
    return float(np.mean([metrics.mape(measured[gpus == gpu], predicted[gpus == gpu]) for gpu in np.unique(gpus)]))
