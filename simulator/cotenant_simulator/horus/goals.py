"""Whether a way is no worse than what was published, goal by goal. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cotenant_simulator.horus import experiment, published, settings
from cotenant_simulator.report import intervals, page

RUN_CHANGE_PERCENT: Final = 4.0
"""How much longer than on whole GPUs jobs may run, in the mean; published: 8.3."""
_EXACT: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Goals:
    """What a way came to, where something is published or demanded.

    Attributes:
        name: of the way.
        utilization: percent.
        makespan: change against `settings.BASE`, percent.
        run: the same of the mean run time.
        completion: the same of the mean time from submission.
        worst_percent: slowdown of the worst job of all repeats.
    """

    name: str
    utilization: page.Estimate
    makespan: page.Estimate
    run: page.Estimate
    completion: page.Estimate
    worst_percent: float

    @property
    def met(self) -> Sequence[bool]:
        """Utilization and makespan no worse than published, run time within `RUN_CHANGE_PERCENT`, by means."""
        horus = published.ROWS[settings.HORUS]
        return (
            self.utilization.mean >= horus.utilization_percent,
            self.makespan.mean <= (horus.makespan_change_percent or 0.0),
            self.run.mean <= RUN_CHANGE_PERCENT,
            self.completion.mean < 0,
        )


def of(result: experiment.Result, base: experiment.Result) -> Goals:
    """Of one way; compared seed by seed.

    Raises:
        ValueError: there is no run.
    """
    mine, theirs = ({seed: run.figures for seed, run in one.runs.items()} for one in (result, base))
    return of_figures(result.setting.name, mine, theirs)


def of_figures(name: str, figures: Mapping[int, experiment.Figures], base: Mapping[int, experiment.Figures]) -> Goals:
    """Return the same, by seed.

    Raises:
        ValueError: there is no run.
    """
    pairs = [(run, base[seed]) for seed, run in figures.items()]
    return Goals(
        name=name,
        utilization=_mean([run.utilization_percent for run, _ in pairs]),
        makespan=_mean([_change(run.makespan_seconds, slot.makespan_seconds) for run, slot in pairs]),
        run=_mean([_change(run.run_seconds, slot.run_seconds) for run, slot in pairs]),
        completion=_mean([_change(run.completion_seconds, slot.completion_seconds) for run, slot in pairs]),
        worst_percent=100 * max(run.slowdown_worst for run, _ in pairs),
    )


def _change(value: float, base: float) -> float:
    """In percent; what differs by binary fractions alone is equal."""
    return round(100 * (value / base - 1), _EXACT)


def answer(found: Sequence[Goals]) -> str:
    """Return what is best of ours, what a policy alone does, and how far the simulated rival is from the published."""
    by_name = {one.name: one for one in found}
    ours = [
        by_name[name]
        for name in (settings.DENSE_LONG, settings.LIMITS_LONG, settings.DENSE, settings.COTENANT)
        if name in by_name
    ]
    if not ours:
        return "Nothing of ours was run."
    return " ".join([*map(_sentence, ours), *map(rival, (one for one in found if one.name == settings.HORUS))])


def table(found: Sequence[Goals]) -> page.Table:
    """Return a row for each way, and whether it is as good as published."""
    horus = published.ROWS[settings.HORUS]
    return page.Table(
        title="Against the published gains",
        basis=page.Basis.SIMULATED,
        columns=[
            page.Column("way"),
            page.Column(f"utilization from {horus.utilization_percent:.1f} %"),
            page.Column(f"makespan to {horus.makespan_change_percent:+.1f} %"),
            page.Column(f"run time to {RUN_CHANGE_PERCENT:+.0f} %"),
            page.Column("from submission to +0 %"),
        ],
        rows=[_row(one) for one in found if one.name != settings.BASE],
        note=(
            f"By means. Published for {settings.HORUS}: run time {_published_run():+.1f} %. A result is sure where the "
            "interval lies on the same side."
        ),
    )


def rival(simulated: Goals) -> str:
    """Return how far the simulated Horus is from what the study measured."""
    horus = published.ROWS[settings.HORUS]
    return (
        f"The simulated {settings.HORUS} has makespan {simulated.makespan.mean:+.1f} % (published "
        f"{horus.makespan_change_percent:+.1f}) and run time {simulated.run.mean:+.1f} % where the study measured "
        f"{_published_run():+.1f} %: the model slows jobs that share a GPU less than the study's jobs were slowed. So "
        "run times are no evidence against the published ones, and gains of ways that share are likely too large."
    )


def _row(one: Goals) -> list[page.Cell]:
    horus = published.ROWS[settings.HORUS]
    limits = (horus.utilization_percent, horus.makespan_change_percent or 0.0, RUN_CHANGE_PERCENT, 0.0)
    estimates = (one.utilization, one.makespan, one.run, one.completion)
    forms = (".1f", "+.1f", "+.1f", "+.1f")
    return [
        one.name,
        *(
            f"{'yes' if met else 'no'}{'' if found.low > limit or found.high < limit else ', not sure'}: "
            f"{found.mean:{form}}"
            for met, found, limit, form in zip(one.met, estimates, limits, forms, strict=True)
        ),
    ]


def _sentence(one: Goals) -> str:
    horus = published.ROWS[settings.HORUS]
    verdict = "no worse than published in all" if all(one.met) else "not all as published"
    return (
        f"{one.name}: utilization {one.utilization.mean:.1f} % (published {horus.utilization_percent:.1f}), makespan "
        f"{one.makespan.mean:+.1f} % (published {horus.makespan_change_percent:+.1f}), run time {one.run.mean:+.1f} % "
        f"(published {_published_run():+.1f}), from submission {one.completion.mean:+.1f} %, worst job "
        f"{one.worst_percent:+.0f} %: {verdict}."
    )


def _published_run() -> float:
    rows = published.ROWS
    return 100 * (rows[settings.HORUS].completion_seconds / rows[settings.BASE].completion_seconds - 1)


def _mean(values: Sequence[float]) -> page.Estimate:
    found = intervals.mean(values)
    if found is None:
        raise ValueError("there is no run to take a mean over")
    return found
