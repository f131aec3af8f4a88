"""What each run comes to, and whether packing by prediction pays by it. Pure arithmetic."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cotenant_simulator.horus import experiment as horus
from cotenant_simulator.prediction_error import beliefs, crossing, experiment
from cotenant_simulator.report import intervals, page


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One figure of a run.

    Attributes:
        title: with the unit.
        form: of its numbers.
        read: from a run's figures.
    """

    title: str
    form: str
    read: Callable[[horus.Figures], float]


MAKESPAN: Final = Measure(title="makespan s", form=".0f", read=lambda run: run.makespan_seconds)
RUN: Final = Measure(title="run time s", form=".0f", read=lambda run: run.run_seconds)
SUBMISSION: Final = Measure(title="from submission s", form=".0f", read=lambda run: run.completion_seconds)
MEASURES: Final = (
    Measure(title="utilization %", form=".1f", read=lambda run: run.utilization_percent),
    MAKESPAN,
    RUN,
    SUBMISSION,
    Measure(title="worst slowdown %", form=".0f", read=lambda run: 100 * run.slowdown_worst),
    Measure(title="out of memory", form=".1f", read=lambda run: float(run.out_of_memory)),
    Measure(title="failed", form=".1f", read=lambda run: float(run.failed)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """By which packing by prediction pays.

    Attributes:
        name: as tables show it.
        measure: of which less is better.
        against: one of `experiment.OTHERS`.
        allowed_percent: by how much it may be more than the other's.
    """

    name: str
    measure: Measure
    against: str
    allowed_percent: float = 0.0


RUN_PERCENT: Final = 4.0
"""A job may run so much longer beside others than on a whole GPU; the study's did by 8."""
TESTS: Final = (
    Test(name="makespan, Reactive", measure=MAKESPAN, against=experiment.REACTIVE),
    Test(name="makespan, Slot", measure=MAKESPAN, against=experiment.SLOT),
    Test(name="from submission, Reactive", measure=SUBMISSION, against=experiment.REACTIVE),
    Test(name="from submission, Slot", measure=SUBMISSION, against=experiment.SLOT),
    Test(
        name=f"run time, Slot + {RUN_PERCENT:g} %",
        measure=RUN,
        against=experiment.SLOT,
        allowed_percent=RUN_PERCENT,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was tried.

    Attributes:
        axes: what was believed wrongly.
        sigmas: ascending.
        seeds: at least one.
        mechanism: by which jobs share a GPU.
        model: by which jobs were predicted.
        learned: whether it learned from jobs that ran beside each other under that mechanism.
    """

    axes: Sequence[beliefs.Of]
    sigmas: Sequence[float]
    seeds: Sequence[int]
    mechanism: str
    model: str
    learned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """All runs, of `experiment.keys`."""

    asked: Asked
    runs: Mapping[experiment.Key, horus.Figures]

    def of(self, way: str, of: beliefs.Of, sigma: float) -> list[horus.Figures]:
        """One way's with one error, by seed."""
        wrong, by = (None, 0.0) if way in experiment.OTHERS else (of, sigma)
        return [self.runs[experiment.Key(way=way, of=wrong, sigma=by, seed=seed)] for seed in self.asked.seeds]

    def estimate(self, measure: Measure, way: str, *, of: beliefs.Of, sigma: float) -> page.Estimate:
        """Return the mean of one figure over them."""
        return _required(intervals.mean([measure.read(run) for run in self.of(way, of, sigma)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """One way by one test.

    Attributes:
        of: what is believed wrongly.
        way: that believes it.
        test: of `TESTS`.
        crossing: where it stops to pay.
        changes: against the other in percent by sigma, paired by seed; negative is a gain.
    """

    of: beliefs.Of
    way: str
    test: Test
    crossing: crossing.Crossing
    changes: Sequence[page.Estimate]


def gains(found: Results, of: beliefs.Of) -> Iterator[Gain]:
    """Every way that believes something, by every test."""
    sigmas = found.asked.sigmas
    for way in experiment.BELIEVING:
        for test in TESTS:
            changes = [_changes(test, found.of(way, of, at), found.of(test.against, of, at)) for at in sigmas]
            over = [[change - test.allowed_percent for change in by_seed] for by_seed in changes]
            yield Gain(
                of=of,
                way=way,
                test=test,
                crossing=crossing.of(sigmas, over),
                changes=[_required(intervals.mean(by_seed)) for by_seed in changes],
            )


def _changes(test: Test, mine: Sequence[horus.Figures], theirs: Sequence[horus.Figures]) -> list[float]:
    """In percent, seed by seed."""
    read = test.measure.read
    return [100 * (read(one) / read(other) - 1) for one, other in zip(mine, theirs, strict=True)]


def _required(found: page.Estimate | None) -> page.Estimate:
    if found is None:
        raise ValueError("there is no run to take a mean over")
    return found
