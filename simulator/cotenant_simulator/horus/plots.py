"""The case study's figures: ways side by side, utilization over time, who was where, and distributions. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from cotenant_api import names
from cotenant_simulator.engine import history
from cotenant_simulator.horus import experiment, settings
from cotenant_simulator.report import intervals, page

SHOWN: Final = (settings.BASE, settings.HORUS, settings.COTENANT, settings.DENSE, settings.DENSE_LONG)
"""Of lines: more would hide each other."""
TIMELINES: Final = (settings.BASE, settings.COTENANT, settings.DENSE_LONG)


def parts(results: Sequence[experiment.Result], base: experiment.Result) -> Iterator[page.Figure]:
    """All of them."""
    by_name = {result.setting.name: result for result in results}
    lines = [by_name[name] for name in SHOWN if name in by_name]
    yield _bars("Makespan against Slot", "%", {result.setting.name: _makespans(result, base) for result in results})
    yield _bars(
        "Utilization",
        "%",
        {result.setting.name: [run.figures.utilization_percent for run in result.runs.values()] for result in results},
    )
    yield _utilization(lines)
    for name in TIMELINES:
        if name in by_name:
            yield _timeline(by_name[name])
    yield _distribution("Wait until first start", "s", lines, lambda life: life.waited)
    yield _distribution("Time from submission to end", "s", lines, lambda life: life.completion)
    yield _distribution(
        "Slowdown", "%", lines, lambda life: None if life.ended is None else max(0.0, 100 * life.slowdown)
    )


def _makespans(result: experiment.Result, base: experiment.Result) -> list[float]:
    return [
        100 * (run.figures.makespan_seconds / base.runs[seed].figures.makespan_seconds - 1)
        for seed, run in result.runs.items()
    ]


def _bars(title: str, label: str, values: Mapping[str, Sequence[float]]) -> page.Bars:
    estimates = {name: intervals.mean(found) for name, found in values.items()}
    return page.Bars(
        title=title,
        basis=page.Basis.SIMULATED,
        y_label=label,
        bars={name: found for name, found in estimates.items() if found is not None},
    )


def _first(result: experiment.Result) -> tuple[int, experiment.Run]:
    return next(iter(result.runs.items()))


def _utilization(results: Sequence[experiment.Result]) -> page.Lines:
    series = []
    for result in results:
        found = _first(result)[1].history
        series.append(
            page.Series(
                name=result.setting.name,
                x=[moment.seconds for moment in found.moments],
                y=[100 * moment.utilization / found.gpus for moment in found.moments],
            )
        )
    seed = f", seed {_first(results[0])[0]}" if results else ""
    return page.Lines(
        title=f"Utilization over time{seed}",
        basis=page.Basis.SIMULATED,
        x_label="seconds",
        y_label="utilization %",
        series=series,
        steps=True,
    )


def _timeline(result: experiment.Result) -> page.Timeline:
    seed, run = _first(result)
    lanes: dict[str, list[page.Span]] = {}
    for span in run.history.spans or ():
        share = span.share / names.HUNDREDTHS
        found = page.Span(span.start, span.end, share, run.history.lives[span.place].name)
        lanes.setdefault(span.gpu.partition("/")[0], []).append(found)
    return page.Timeline(
        title=f"Who was where: {result.setting.name}, seed {seed}",
        basis=page.Basis.SIMULATED,
        lanes={name: sorted(lanes[name], key=lambda span: (span.start, span.name)) for name in sorted(lanes)},
    )


def _distribution(
    title: str,
    unit: str,
    results: Sequence[experiment.Result],
    read: Callable[[history.Life], float | None],
) -> page.Lines:
    """Over all jobs of all repeats."""
    series = []
    for result in results:
        lives = (life for run in result.runs.values() for life in run.history.lives)
        found = sorted(value for value in map(read, lives) if value is not None)
        shares = [100 * place / len(found) for place in range(1, len(found) + 1)]
        series.append(page.Series(name=result.setting.name, x=found, y=shares))
    return page.Lines(
        title=title,
        basis=page.Basis.SIMULATED,
        x_label=unit,
        y_label="jobs at most there %",
        series=series,
        steps=True,
    )
