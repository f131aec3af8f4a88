"""The case study's figures: ways side by side, utilization over time, who was where, and distributions. Pure."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cotenant_simulator.engine import figures
from cotenant_simulator.horus import experiment, settings
from cotenant_simulator.report import intervals, page

SHOWN: Final[Sequence[str]] = (settings.BASE, settings.HORUS, settings.COTENANT, settings.DENSE, settings.DENSE_LONG)
"""Of lines: more would hide each other."""
TIMELINES: Final[Sequence[str]] = (settings.BASE, settings.COTENANT, settings.DENSE_LONG)


def parts(results: Sequence[experiment.Result], base: experiment.Result) -> Iterator[page.Figure]:
    """All of them; over time and by GPU for the first seed alone, distributions over all repeats."""
    by_name = {result.setting.name: result for result in results}
    lines = {name: by_name[name] for name in SHOWN if name in by_name}
    yield _bars("Makespan against Slot", {result.setting.name: _makespans(result, base) for result in results})
    yield _bars(
        "Utilization",
        {result.setting.name: [run.figures.utilization_percent for run in result.runs.values()] for result in results},
    )
    seed = next(iter(base.runs))
    over_time = figures.utilization({name: result.runs[seed].history for name, result in lines.items()})
    yield dataclasses.replace(over_time, title=f"{over_time.title}, seed {seed}")
    for name in TIMELINES:
        if name in by_name:
            yield figures.timeline(f"Who was where: {name}, seed {seed}", by_name[name].runs[seed].history)
    every = {name: [run.history for run in result.runs.values()] for name, result in lines.items()}
    yield figures.waits(every)
    yield figures.completions(every)
    yield figures.slowdowns(every)


def _makespans(result: experiment.Result, base: experiment.Result) -> list[float]:
    return [
        100 * (run.figures.makespan_seconds / base.runs[seed].figures.makespan_seconds - 1)
        for seed, run in result.runs.items()
    ]


def _bars(title: str, values: Mapping[str, Sequence[float]]) -> page.Bars:
    estimates = {name: intervals.mean(found) for name, found in values.items()}
    return page.Bars(
        title=title,
        basis=page.Basis.SIMULATED,
        y_label="%",
        bars={name: found for name, found in estimates.items() if found is not None},
    )
