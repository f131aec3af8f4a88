"""How far off step times and memory of whole image models are, as timm measured them, beside what else one could say.

    flops        FLOPs over the peak of the data sheet
    roofline     the same, or bytes over the bandwidth, whichever is more, operator by operator
    constant     one time per image: the geometric mean of the families that are not scored
    linear       a linear model of FLOPs, bytes and parameters per image
    boosting     gradient boosting on the same columns, the image's edge and the batch
    physics      the formula without learned kernels
    physics-kernels  with kernels learned from single kernels on other GPUs; no row of the set is learned from
    cotenant     the same with rates learned from the set

The three in the middle learn, for each table (a GPU model, a version of torch, a layout) by itself, with a family of
models held out each time. Their columns are the graph's: of training none are published. `cotenant` learns from all
tables at once, with a family, or a GPU model, held out; training was measured on one GPU model alone.

Memory is judged by brackets: a batch that ran, and the next larger one that a run tried before, which did not fit.
Activations of the latter are those of the former in proportion. What a kernel's limit may have stopped is left out.
Here `cotenant` has the formula's constants from other families of models, `shipped` from all.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

from cotenant_api.graph import Graph
from cotenant_predictor import devices
from cotenant_predictor.datasets import timm
from cotenant_predictor.datasets.timm import Published, Run
from cotenant_predictor.devices import Device
from cotenant_predictor.evaluation import metrics, peaks, splits
from cotenant_predictor.evaluation.report import Row, scored
from cotenant_predictor.jobs import coefficients as constants
from cotenant_predictor.jobs import memory, roofline
from cotenant_predictor.jobs import step as steps
from cotenant_predictor.jobs.coefficients import Coefficients
from cotenant_predictor.jobs.memory import Alive
from cotenant_predictor.kernels.model import KernelModel
from cotenant_predictor.training import memory as training
from cotenant_predictor.training import rates

Array: TypeAlias = npt.NDArray[Any]
Learner: TypeAlias = Callable[[Array, Array, Array], Array]
"""Columns and times per image of the rows to learn from, and columns of those to score: their times."""

STEP: Final = "stepMilliseconds"
BRACKET: Final = "memoryBracket"
FOLDS: Final = 5
"""Of families, where rates are learned: each takes some seconds."""
UNTOUCHED: Final = "nothing-learned"
"""No row of the set was learned from."""


def rows(model: KernelModel | None, *, progress: Callable[[str], None] = lambda _: None) -> list[Row]:
    """Scores of each kind of step over all tables, and of each table.

    Args:
        model: the learned kernels; without them no row of step times is of them, nor of rates.
        progress: told what is being predicted.
    """
    runs = timm.load()
    progress(f"{len(runs)} steps of {len({run.row.model for run in runs})} image models")
    learned = {} if model is None else learned_rates(runs, model, progress=progress)
    found: list[Row] = []
    for kind in dict.fromkeys(_kind(run.row) for run in runs):
        progress(kind)
        found += rows_of(kind, runs, model, learned)
    return found


def rows_of(
    kind: str, runs: Sequence[Run], model: KernelModel | None, learned: Mapping[str, Array] = MappingProxyType({})
) -> list[Row]:
    """Return the scores of one kind of step: a mode and a layout, compiled or not.

    Args:
        kind: as `_kind` names it.
        runs: all steps.
        model: the learned kernels.
        learned: of `learned_rates` of the same steps.
    """
    mine = np.array([_kind(run.row) == kind for run in runs])
    members = [run for run, is_mine in zip(runs, mine, strict=True) if is_mine]
    held_out = {split: values[mine] for split, values in learned.items()}
    return [*_step_rows(kind, members, model, held_out), *_bracket_rows(kind, members)]


def learned_rates(
    runs: Sequence[Run], model: KernelModel, *, progress: Callable[[str], None] = lambda _: None
) -> dict[str, Array]:
    """Milliseconds by rates that were learned without the families, or the GPU model, that are predicted; by split.

    Where nothing that is left could have taught a kind of step its rates, there is none: NaN.
    """
    steps_there, measured = rates.steps_of(runs, model), rates.seconds_of(runs)
    kinds = np.array([_kind(run.row).split()[0] for run in runs])
    labels = {
        splits.LEAVE_FAMILY_OUT: [run.row.family for run in runs],
        splits.LEAVE_GPU_OUT: [str(run.row.gpu_model) for run in runs],
    }
    found = {}
    for split, of_rows in labels.items():
        progress(f"rates, {split}")
        values = np.full(len(runs), np.nan)
        for fold in splits.leave_out(of_rows, kind=split, max_folds=FOLDS):
            keep = np.zeros(len(runs), dtype=np.bool_)
            keep[fold.train] = True
            taught = fold.test[np.isin(kinds[fold.test], kinds[fold.train])]
            values[taught] = 1e3 * steps_there.seconds(rates.fitted(steps_there, measured, keep=keep))[taught]
        found[split] = values
    return found


def _kind(row: Published) -> str:
    mode = "training" if row.training else "inference"
    return f"{mode} {'NHWC' if row.channels_last else 'NCHW'}{' compiled' if row.compiled else ''}"


def _step_rows(
    kind: str, runs: Sequence[Run], model: KernelModel | None, learned: Mapping[str, Array]
) -> Iterator[Row]:
    measured = np.array([1e3 * run.row.step_seconds for run in runs])
    family = splits.LEAVE_FAMILY_OUT
    predicted = [(name, UNTOUCHED, values) for name, values in _untouched(runs, model).items()]
    predicted += [(name, family, _held_out(runs, measured, learn)) for name, learn in LEARNERS.items()]
    predicted += [("cotenant", split, values) for split, values in learned.items() if not np.isnan(values).any()]
    tables = np.array([run.row.table for run in runs])
    everywhere = np.ones(len(runs), dtype=np.bool_)
    parts = {None: everywhere} | {str(name): tables == name for name in dict.fromkeys(tables.tolist())}
    families = np.array([run.row.family for run in runs])
    for name, split, values in predicted:
        for table, keep in parts.items():
            row = Row(target=f"{STEP}/{kind}", split=split, model=name, metric="mape", value=0.0, n=0, group=table)
            arrays, groups = (measured[keep], values[keep]), families[keep].tolist()
            yield scored(row, metrics.mape, arrays, groups)
            if table is None:
                bias = dataclasses.replace(row, metric="bias")
                yield scored(bias, metrics.over_reservation_factor, arrays, groups)


def _untouched(runs: Sequence[Run], model: KernelModel | None) -> dict[str, Array]:
    """Milliseconds by those that learn nothing of the set."""
    known = devices.load()
    found = [milliseconds_by(run.graph, known[run.row.gpu_model], model) for run in runs]
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def milliseconds_by(graph: Graph, device: Device, model: KernelModel | None) -> dict[str, float]:
    """Return the time of a step by everything that learns nothing of whole models, by name."""
    operators = roofline.operators_of(graph, constants.FORMULA_1)
    peaks = roofline.devices_of([device]).peak[0][operators.type_index]
    compute = operators.repeat * operators.flops / peaks
    moving = operators.repeat * operators.moved_bytes / (device.memory_gigabytes_per_second * 1e9)
    found = {
        "flops": compute.sum(),
        "roofline": np.maximum(compute, moving).sum(),
        "physics": steps.of(graph, [device]).step_seconds[0],
    }
    if model is not None:
        found["physics-kernels"] = steps.of(graph, [device], kernels=model).step_seconds[0]
    return {name: 1e3 * float(seconds) for name, seconds in found.items()}


def _held_out(runs: Sequence[Run], measured: Array, learn: Learner) -> Array:
    """Milliseconds by what was learned of the same table from other families."""
    columns = np.array([_columns(run) for run in runs])
    batches = np.array([run.row.batch_size for run in runs], dtype=np.float64)
    tables, families = (np.array([getattr(run.row, name) for run in runs]) for name in ("table", "family"))
    found = np.empty_like(measured)
    for table in dict.fromkeys(tables.tolist()):
        mine = np.flatnonzero(tables == table)
        for fold in splits.leave_out(families[mine].tolist(), kind=splits.LEAVE_FAMILY_OUT):
            train, test = mine[fold.train], mine[fold.test]
            found[test] = batches[test] * learn(columns[train], measured[train] / batches[train], columns[test])
    return found


def _columns(run: Run) -> tuple[float, ...]:
    """FLOPs, bytes and parameters per image; edge and batch."""
    flops, moved = np.sum(
        [(op.repeat * op.flops, op.repeat * (op.bytes_read + op.bytes_written)) for op in run.graph.operators], axis=0
    )
    batch = run.row.batch_size
    return flops / batch, moved / batch, run.graph.parameters / batch, float(run.row.image), float(batch)


def _constant(_: Array, times: Array, asked: Array) -> Array:
    return np.full(len(asked), np.exp(np.mean(np.log(times))))


def _linear(columns: Array, times: Array, asked: Array) -> Array:
    """Least squares of relative errors, no column counting below 0."""
    scale = columns[:, :3].mean(axis=0)
    weighted = LinearRegression(positive=True, fit_intercept=False)
    with_ones = np.column_stack([columns[:, :3] / scale, np.ones(len(columns))])
    weighted.fit(with_ones / times[:, None], np.ones(len(times)))
    found: Array = weighted.predict(np.column_stack([asked[:, :3] / scale, np.ones(len(asked))]))
    return found


def _boosting(columns: Array, times: Array, asked: Array) -> Array:
    trees = HistGradientBoostingRegressor(random_state=0, min_samples_leaf=5)
    trees.fit(np.log(columns), np.log(times))
    found: Array = np.exp(trees.predict(np.log(asked)))
    return found


LEARNERS: Final[Mapping[str, Learner]] = {"constant": _constant, "linear": _linear, "boosting": _boosting}


def _bracket_rows(kind: str, runs: Sequence[Run]) -> Iterator[Row]:
    """Of those whose next larger batch did not fit."""
    closed = [run for run in runs if run.fits_until is not None and not run.row.compiled]
    if not closed:
        return
    families = [run.row.family for run in closed]
    held = np.array([devices.load()[run.row.gpu_model].memory_mib for run in closed], dtype=np.float64)[:, None, None]
    without = peaks.constants_without(families)
    alive = [training.alive_of(run.graph) for run in closed]
    for model, split, used in (
        ("cotenant", splits.LEAVE_FAMILY_OUT, [without[family] for family in families]),
        ("shipped", peaks.CHOSEN, [constants.FORMULA_1] * len(closed)),
    ):
        needs = np.array([_needs(*each) for each in zip(closed, alive, used, strict=True)])
        (ran, ran_upper), (failed, failed_upper) = np.moveaxis(needs <= held, 0, -1)
        row = Row(target=f"{BRACKET}/{kind}", split=split, model=model, metric="", value=0.0, n=0)
        for metric, right in (
            ("medianRightOnBothSides", ran & ~failed),
            ("refusedThoughItRan", ~ran_upper),
            ("admittedThoughItDidNotFit", failed_upper),
        ):
            named = dataclasses.replace(row, metric=metric)
            yield scored(named, metrics.mean, (right.astype(np.float64),), families)


def _needs(run: Run, here: Alive, coefficients: Coefficients) -> tuple[tuple[int, int], tuple[int, int]]:
    """Median and bound in MiB, of the batch that ran and of the one that did not fit."""
    device = devices.load()[run.row.gpu_model]
    there = here.at((run.fits_until or run.row.batch_size) / run.row.batch_size)
    first, second = (memory.needed(alive, device, coefficients) for alive in (here, there))
    return (first.q50, first.upper), (second.q50, second.upper)
