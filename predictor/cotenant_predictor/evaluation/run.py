"""One evaluation of given data: every split and target that was asked for, or that the data allow."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from cotenant_api import errors
from cotenant_predictor.datasets import alnair, gavel, miso_jobs, shipped, zeus
from cotenant_predictor.datasets.joint import Joint
from cotenant_predictor.datasets.measurements import Measurements
from cotenant_predictor.evaluation import (
    agreement,
    colocation,
    colocation_curve,
    curves,
    image_models,
    jobs,
    kernels,
    language_models,
    peaks,
    scores,
    slices,
    splits,
    whole_jobs,
)
from cotenant_predictor.evaluation.jobs import Bench, Progress
from cotenant_predictor.evaluation.report import Row
from cotenant_predictor.evaluation.scores import Scored
from cotenant_predictor.jobs import prediction
from cotenant_predictor.jobs.prediction import Knowledge

MAX_NAMED_GROUPS = 40
"""With more groups held out, only their common score is shown."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What to evaluate."""

    splits: tuple[str, ...] = ()
    """Of `splits.KINDS`; none: every one that the data allow."""
    targets: tuple[str, ...] = ()
    """Of `training.run.TARGETS`; none: every one that was measured."""
    clock: Callable[[], float] | None = None
    """Seconds, for the learning curve; none: no learning curve."""
    seed: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What was found of one kind of data."""

    rows: tuple[Row, ...]
    scored: tuple[tuple[Scored, ...], ...] = ()
    """Predictions of every model, by target and split."""


def of_jobs(
    measurements: Measurements,
    request: Request,
    *,
    knowledge: Knowledge = prediction.FORMULA,
    progress: Progress = lambda _: None,
) -> Evaluation:
    """Single jobs.

    Args:
        measurements: lines of jobs alone.
        request: what to evaluate.
        knowledge: the learned kernels that the model under test rests on.
        progress: told what is being done.

    Raises:
        InvalidInputError: a split that was asked for cannot be made, or nothing was measured often enough.
    """
    targets = jobs.measured_targets(measurements, request.targets)
    bench = jobs.bench_of(measurements, knowledge=knowledge, progress=progress)
    scored: list[tuple[Scored, ...]] = []
    rows: list[Row] = []
    for target in targets:
        for kind in _possible(bench, target, request, progress=progress):
            found = jobs.evaluate(bench, kind, target, seed=request.seed, progress=progress)
            scored.append(tuple(found))
            rows += [row for one in found for row in scores.rows_of(one, max_groups=MAX_NAMED_GROUPS)]
            if request.clock is not None:
                rows += curves.rows(bench, kind, target, clock=request.clock, progress=progress)
    return Evaluation(rows=tuple(rows), scored=tuple(scored))


def of_pairs(joint: Joint, request: Request, *, progress: Progress = lambda _: None) -> Evaluation:
    """Jobs together: speeds, and which partner each model chooses; raises as `of_jobs`.

    Where every group is a family of its own, the two ways to hold them out are one: without a wish only
    `splits.LEAVE_FAMILY_OUT` is made.
    """

    def rows(split: str) -> list[Row]:
        found = colocation.rows(joint, split=split, progress=progress)
        if request.clock is not None:
            found += colocation_curve.rows(joint, split=split, clock=request.clock)
        return found

    once = [kind for kind in splits.KINDS if kind != splits.LEAVE_GROUP_OUT or not joint.groups_are_families]
    return _of_splits(rows, request, once, progress=progress)


def of_set(
    name: str, request: Request, *, knowledge: Knowledge = prediction.FORMULA, progress: Progress = lambda _: None
) -> Evaluation:
    """One of `shipped.SETS`; without a wish by the splits that say most.

    Args:
        name: of the set.
        request: what to evaluate; sets have their own targets.
        knowledge: the learned kernels and rates with which whole models are predicted.
        progress: told what is being done.

    Raises:
        InvalidInputError: the set cannot be split as was asked for.
    """
    if name in _WHOLE:
        if request.splits:
            remedy = f"is no split of {name}, which says itself what is held out: leave it out"
            raise errors.InvalidInputError("--split", ", ".join(request.splits), remedy)
        return Evaluation(rows=tuple(_WHOLE[name](knowledge, progress)))
    if name == shipped.GAVEL:
        return of_pairs(gavel.load(), request, progress=progress)
    rows, kinds = _SETS[name]
    return _of_splits(functools.partial(rows, progress=progress), request, kinds, progress=progress)


_WHOLE: Final[Mapping[str, Callable[[Knowledge, Progress], list[Row]]]] = {
    shipped.LANGUAGE_MODELS: lambda knowledge, progress: language_models.rows(knowledge, progress=progress),
    shipped.CARMA: lambda _, progress: peaks.rows(progress=progress),
    shipped.TIMM: lambda knowledge, progress: image_models.rows(knowledge.kernels, progress=progress),
    shipped.MISO_JOBS: lambda knowledge, progress: whole_jobs.rows(
        whole_jobs.Bench(jobs=miso_jobs.load(), labels=miso_jobs.LABELS), knowledge, progress=progress
    ),
    shipped.ZEUS: lambda knowledge, progress: whole_jobs.rows(
        whole_jobs.Bench(jobs=zeus.load(), split=splits.LEAVE_GPU_OUT, known=zeus.known()), knowledge, progress=progress
    ),
    shipped.ALNAIR: lambda knowledge, progress: whole_jobs.rows(
        whole_jobs.Bench(jobs=alnair.load(), labels=alnair.LABELS), knowledge, progress=progress
    ),
    shipped.GAVEL_AGAIN: lambda _, progress: agreement.rows(gavel.load(), gavel.load_again(), progress=progress),
}
"""Sets that are scored as a whole."""
_SETS: Final[Mapping[str, tuple[Callable[..., list[Row]], tuple[str, ...]]]] = {
    shipped.KERNELS: (kernels.rows, (splits.LEAVE_GPU_OUT,)),
    shipped.MISO: (slices.rows, (slices.LEAVE_SLICE_OUT,)),
}


def _of_splits(
    rows: Callable[..., list[Row]], request: Request, kinds: Sequence[str], *, progress: Progress
) -> Evaluation:
    """Return the rows of the splits that were asked for; without a wish of those of `kinds` that the data allow."""
    found: list[Row] = []
    refused: list[errors.InvalidInputError] = []
    for kind in request.splits or kinds:
        try:
            found += rows(split=kind)
        except errors.InvalidInputError as error:
            progress(f"no {kind}: {error}")
            refused.append(error)
    if refused and (request.splits or not found):
        raise refused[0]
    return Evaluation(rows=tuple(found))


def _possible(bench: Bench, target: str, request: Request, *, progress: Progress) -> Iterator[str]:
    """Yield the splits that were asked for; without a wish those that the data allow, and why not the others."""
    if request.splits:
        yield from request.splits
        return
    refused = []
    for kind in splits.KINDS:
        try:
            jobs.folds_of(bench.measurements, kind, target)
        except errors.InvalidInputError as error:
            progress(f"{target}: no {kind}: {error}")
            refused.append(error)
            continue
        yield kind
    if len(refused) == len(splits.KINDS):
        raise refused[0]
