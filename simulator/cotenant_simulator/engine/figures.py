"""Histories as figures of a page: what all experiments draw in the same way. Pure; nothing is left out here.

Distributions are over all jobs that were submitted: a curve that ends below 100 % says that the rest never came so far.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cotenant_api.names import HUNDREDTHS
from cotenant_simulator.engine import history
from cotenant_simulator.report import page

Runs = Mapping[str, history.History]
"""One run each, by the name that the figure shows."""
Repeats = Mapping[str, Sequence[history.History]]
"""Several runs each: their jobs are counted together."""

_OF_JOBS: Final = "% of all jobs"


def utilization(runs: Runs, *, basis: page.Basis = page.Basis.SIMULATED) -> page.Lines:
    """Return how busy the GPUs are, of all there are, over time."""
    series = [
        _over_time(name, run, [100 * moment.utilization / run.gpus for moment in run.moments])
        for name, run in runs.items()
    ]
    return page.Lines(
        title="Utilization over time", basis=basis, x_label="s", y_label="% of all GPUs", series=series, steps=True
    )


def waiting(runs: Runs, *, basis: page.Basis = page.Basis.SIMULATED) -> page.Lines:
    """Return how many pods wait, over time."""
    series = [_over_time(name, run, [float(moment.waiting) for moment in run.moments]) for name, run in runs.items()]
    return page.Lines(title="Pods that wait", basis=basis, x_label="s", y_label="pods", series=series, steps=True)


def waits(runs: Repeats, *, basis: page.Basis = page.Basis.SIMULATED) -> page.Lines:
    """Return the distribution of the time from submission to the first start."""
    return _distribution("Wait until the first start", "s", _distributed(runs, lambda life: life.waited), basis=basis)


def completions(runs: Repeats, *, basis: page.Basis = page.Basis.SIMULATED) -> page.Lines:
    """Return the distribution of the time from submission to the end."""
    return _distribution(
        "Time from submission to the end", "s", _distributed(runs, lambda life: life.completion), basis=basis
    )


def slowdowns(runs: Repeats, *, basis: page.Basis = page.Basis.SIMULATED) -> page.Lines:
    """Return the distribution of how much longer jobs that ended held GPUs than they would have run alone."""
    return _distribution(
        "Slowdown on the GPU",
        "% longer than alone",
        _distributed(runs, lambda life: None if life.ended is None else 100 * life.slowdown),
        basis=basis,
    )


def timeline(title: str, run: history.History, *, basis: page.Basis = page.Basis.SIMULATED) -> page.Timeline:
    """Who was on which GPU, of GPUs that anybody was on.

    Raises:
        ValueError: the run kept no spans.
    """
    if run.spans is None:
        raise ValueError(f"{title}: run with conditions.Conditions(spans=True)")
    lanes: dict[str, list[page.Span]] = {}
    for span in sorted(run.spans, key=lambda span: (span.start, span.place)):
        shown = page.Span(span.start, span.end, span.share / HUNDREDTHS, run.lives[span.place].name)
        lanes.setdefault(str(span.gpu), []).append(shown)
    return page.Timeline(title=title, basis=basis, lanes=dict(sorted(lanes.items())))


def distribution(values: Sequence[float], *, of: int) -> tuple[list[float], list[float]]:
    """Return the values in order, each once, and how many of all, in percent, are at most that."""
    x: list[float] = []
    y: list[float] = []
    for count, value in enumerate(sorted(values), start=1):
        if x and x[-1] == value:
            y[-1] = 100 * count / of
        else:
            x.append(value)
            y.append(100 * count / of)
    return x, y


def _over_time(name: str, run: history.History, y: Sequence[float]) -> page.Series:
    return page.Series(name=name, x=[moment.seconds for moment in run.moments], y=y)


def _distributed(runs: Repeats, value: Callable[[history.Life], float | None]) -> list[page.Series]:
    series = []
    for name, repeats in runs.items():
        lives = [life for run in repeats for life in run.lives]
        found = [one for life in lives if (one := value(life)) is not None]
        x, y = distribution(found, of=len(lives))
        series.append(page.Series(name=name, x=x, y=y))
    return series


def _distribution(title: str, x_label: str, series: Sequence[page.Series], *, basis: page.Basis) -> page.Lines:
    return page.Lines(title=title, basis=basis, x_label=x_label, y_label=_OF_JOBS, series=series, steps=True)
