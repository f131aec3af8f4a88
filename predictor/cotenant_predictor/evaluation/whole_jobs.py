"""How far off predictions of whole jobs are, as others measured them, beside what else one could say.

    physics          the formula without learned kernels
    physics-kernels  with kernels learned from single kernels: what the model that ships says of these jobs
    flops, roofline  step times by the data sheet, as in `image_models`
    constant         the best single value for the jobs that are not scored
    horus-rf, horus-gbm  the published way, learned from the jobs that are not scored; of utilization alone
    cotenant         `physics-kernels`, corrected by what the jobs that are not scored teach

The model that ships has seen none of these jobs. Held out are programs, with all their batch sizes, or GPU models. What
a loader delivers is assumed where nobody published it: `inputRateUnknown` is the share of such jobs, and `TIMED`
targets are scored again over the jobs of each source of samples.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from cotenant_api.names import GPUModel
from cotenant_predictor import devices
from cotenant_predictor.datasets.whole_jobs import WholeJob
from cotenant_predictor.devices import Device
from cotenant_predictor.evaluation import baselines, image_models, metrics, scores, splits
from cotenant_predictor.evaluation import jobs as single_jobs
from cotenant_predictor.evaluation.image_models import UNTOUCHED
from cotenant_predictor.evaluation.report import Row
from cotenant_predictor.evaluation.scores import Predicted, Scored
from cotenant_predictor.evaluation.splits import Array
from cotenant_predictor.jobs import features, prediction
from cotenant_predictor.jobs.prediction import Knowledge
from cotenant_predictor.training import baselines as learners
from cotenant_predictor.training import jobs as training
from cotenant_predictor.training import run

UTILIZATION: Final = "utilization"
STEP: Final = "stepMilliseconds"
JOULES: Final = "stepJoules"
"""Of one step; predicted without an upper bound."""
TIMED: Final = frozenset({UTILIZATION, STEP, JOULES})
"""What waiting for samples changes most."""
MAX_NAMED: Final = 40
"""With more programs, only their common score is shown."""

Progress = Callable[[str], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench:
    """A set under test.

    Attributes:
        jobs: of the set.
        split: what is held out together: `splits.LEAVE_GROUP_OUT`, programs, or `splits.LEAVE_GPU_OUT`. Intervals
            are drawn over the same labels.
        labels: what is to be said of a target's values behind its name, by target.
        known: the data sheets of the jobs' GPU models.
    """

    jobs: Sequence[WholeJob]
    split: str = splits.LEAVE_GROUP_OUT
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    known: Mapping[GPUModel, Device] = dataclasses.field(default_factory=devices.load)

    def of_target(self, target: str) -> "Bench":
        """Return the jobs of which a target was measured."""
        return dataclasses.replace(self, jobs=[self.jobs[place] for place in self.places(target)])

    def places(self, target: str) -> Array:
        """Return the positions of these jobs."""
        return np.array([place for place, job in enumerate(self.jobs) if target in job.measured])

    def measured(self, target: str) -> Array:
        """Return what was measured of every job, shape (n_jobs,)."""
        return np.array([job.measured[target] for job in self.jobs])

    @property
    def targets(self) -> tuple[str, ...]:
        """What was measured of any job."""
        return tuple(dict.fromkeys(target for job in self.jobs for target in job.measured))

    @property
    def held_out(self) -> list[str]:
        """Return the label of every job: what is held out with it."""
        if self.split == splits.LEAVE_GPU_OUT:
            return [str(job.gpu_model) for job in self.jobs]
        return [job.program for job in self.jobs]

    def folds(self) -> tuple[splits.Fold, ...]:
        """Return one fold for each label."""
        return tuple(splits.leave_out(self.held_out, kind=self.split))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Said:
    """What the formula says of all jobs of a set; each array has shape (n_jobs,), `rows` one row of features a job."""

    median: Mapping[str, Array]
    upper: Mapping[str, Array]
    outside: Array
    rows: Array

    def of(self, target: str, places: Array) -> Predicted:
        """Return what is said of one target of the jobs at these positions."""
        upper = self.upper.get(target)
        return Predicted(median=self.median[target][places], upper=None if upper is None else upper[places])


def rows(bench: Bench, knowledge: Knowledge, *, progress: Progress = lambda _: None) -> list[Row]:
    """Return all scores of a set: first of what learned nothing of it, then with each label held out.

    Args:
        bench: the set.
        knowledge: the learned kernels and rates of the model under test.
        progress: told what is being predicted.
    """
    return [*untouched(bench, knowledge, progress=progress), *held_out(bench, knowledge, progress=progress)]


def untouched(bench: Bench, knowledge: Knowledge, *, progress: Progress = lambda _: None) -> list[Row]:
    """Return the scores of those that learned nothing of the set; arguments as of `rows`."""
    progress(f"{len(bench.jobs)} jobs, nothing learned of them")
    formula, learned = (_said(bench, used) for used in (prediction.FORMULA, knowledge))
    found: list[Row] = []
    for target in bench.targets:
        part, places = bench.of_target(target), bench.places(target)
        said = {
            baselines.PHYSICS: formula.of(target, places),
            baselines.PHYSICS_KERNELS: learned.of(target, places),
            **_by_data_sheet(target, part),
        }
        scored = [_scored(target, part, (UNTOUCHED, name), one) for name, one in said.items()]
        found += _of_target(part, scored, learned.outside[places])
    return found


def held_out(bench: Bench, knowledge: Knowledge, *, progress: Progress = lambda _: None) -> list[Row]:
    """Return the scores of those that learned from the jobs that are not scored; arguments as of `rows`."""
    learned = _said(bench, knowledge)
    found: list[Row] = []
    for target in bench.targets:
        part, places = bench.of_target(target), bench.places(target)
        progress(f"{target}: {len(places)} jobs, {bench.split}")
        said = {**by_others(target, part), **corrected(target, part, learned.rows[places])}
        scored = [_scored(target, part, (bench.split, name), one) for name, one in said.items()]
        found += _of_target(part, scored, learned.outside[places])
    return found


def _said(bench: Bench, knowledge: Knowledge) -> _Said:
    steps = [prediction.step_of(job.graph, [bench.known[job.gpu_model]], knowledge=knowledge) for job in bench.jobs]
    median = _joined([features.estimates(step) for step in steps])
    upper = _joined([features.bounds(step, knowledge.coefficients) for step in steps])
    return _Said(
        median={**median, JOULES: median["powerWatts"] * median[STEP] / 1e3},
        upper={name: features.capped(name, values) for name, values in upper.items()},
        outside=np.concatenate([step.outside for step in steps]),
        rows=np.concatenate([features.rows_of(step) for step in steps]),
    )


def _joined(found: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    return {name: np.concatenate([one[name] for one in found]) for name in found[0]}


def _by_data_sheet(target: str, bench: Bench) -> dict[str, Predicted]:
    """Return step times by peaks alone; nothing for other targets."""
    if target != STEP:
        return {}
    found = [image_models.milliseconds_by(job.graph, bench.known[job.gpu_model], None) for job in bench.jobs]
    return {name: Predicted(median=np.array([one[name] for one in found])) for name in ("flops", "roofline")}


def by_others(target: str, bench: Bench) -> dict[str, Predicted]:
    """Return what the baselines say of each label that learned from the others; every job has the target."""
    measured = bench.measured(target)
    hand = np.array([baselines.hand_features(job.graph) for job in bench.jobs])
    names = [baselines.CONSTANT, *(learners.NAMES if target == UTILIZATION else ())]
    found = {name: np.empty_like(measured) for name in names}
    for fold in bench.folds():
        for name, values in found.items():
            values[fold.test] = _learned(name, target, (hand[fold.train], measured[fold.train]), hand[fold.test])
    return {name: Predicted(median=values) for name, values in found.items()}


def _learned(name: str, target: str, known: tuple[Array, Array], asked: Array) -> Array:
    columns, measured = known
    if name == baselines.CONSTANT:
        value = baselines.constant(measured, percent=target in features.PERCENT_TARGETS)
        return np.full(len(asked), value)
    found: Array = learners.fit(name, columns, measured).predict(asked)
    return found


def corrected(target: str, bench: Bench, columns: Array) -> dict[str, Predicted]:
    """Return the formula as the jobs that are not held out correct it; nothing for what no correction is learned of.

    Args:
        target: what every job has a value of.
        bench: the jobs.
        columns: one row of features a job, shape (n_jobs, n_features).
    """
    if target not in run.TARGETS:
        return {}
    measured, labels = bench.measured(target), np.array(bench.held_out)
    median, upper = np.empty_like(measured), np.empty_like(measured)
    for fold in bench.folds():
        regressor = training.JobRegressor(physics_column=features.TARGETS.index(target))
        known = regressor.fit(columns[fold.train], measured[fold.train], groups=labels[fold.train]).model_
        median[fold.test], upper[fold.test] = known.median(columns[fold.test]), known.upper(columns[fold.test])
    return {
        single_jobs.COTENANT: Predicted(
            median=features.capped(target, median), upper=features.capped(target, np.maximum(median, upper))
        )
    }


def _scored(target: str, bench: Bench, names: tuple[str, str], predicted: Predicted) -> Scored:
    labels, nothing = tuple(bench.held_out), np.full(len(bench.jobs), np.nan)
    return Scored(
        target=target,
        split=names[0],
        model=names[1],
        measured=bench.measured(target),
        floor=nothing,
        capacity=nothing,
        predicted=predicted,
        groups=labels,
        held_out=labels,
        regimes=("",) * len(labels),
    )


def _of_target(bench: Bench, models: Sequence[Scored], outside: Array) -> Iterator[Row]:
    """Yield the scores over all jobs, of each label, and of a timed target over the jobs of each source."""
    target = models[0].target
    name = "/".join(part for part in (target, bench.labels.get(target)) if part)
    unknown = np.array([not job.is_input_rate_known for job in bench.jobs])
    for scored in models:
        yield from _rows_of(scored, name, outside=outside, unknown=unknown)
    sources = np.array([job.source for job in bench.jobs])
    of_sources = {str(source): sources == source for source in dict.fromkeys(sources.tolist())}
    if len(of_sources) < 2 or target not in TIMED:
        return
    for source, keep in of_sources.items():
        for scored in models:
            found = _rows_of(scored.where(keep), f"{name}/{source}", outside=outside[keep], unknown=unknown[keep])
            yield from (row for row in found if row.group is None)


def _rows_of(scored: Scored, name: str, *, outside: Array, unknown: Array) -> Iterator[Row]:
    """Yield the scores of one model, and of what learned nothing which jobs it cannot know."""
    found = list(scores.rows_of(scored, max_groups=MAX_NAMED))
    if scored.target not in features.PERCENT_TARGETS:
        found.append(scored.row("bias", metrics.over_reservation_factor, scored.measured, scored.predicted.median))
    if scored.split == UNTOUCHED:
        for metric, flags in (("outOfDomainShare", outside), ("inputRateUnknown", unknown)):
            row = scored.row(metric, metrics.mean, flags.astype(np.float64))
            found.append(dataclasses.replace(row, low=np.nan, high=np.nan))
    yield from (dataclasses.replace(row, target=name) for row in found)
