"""The page of waits by size class. Pure; writes no file."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cotenant_simulator.horus import published
from cotenant_simulator.report import intervals, page, tails
from cotenant_simulator.waits import experiment

BAR: Final = 2.0
"""The 99th percentile of no class may be more than so many times that of FIFO with backfill."""

Results = Mapping[experiment.Key, experiment.Figures]


def page_of(found: Results, *, command: str) -> page.Page:
    """Return the page.

    Args:
        found: all runs.
        command: that makes it again.
    """
    rows = [_row(found, upper) for upper in experiment.CLASSES]
    return page.Page(
        title="How long jobs of each size wait",
        answer=_answer(found),
        command=command,
        conditions=_conditions(found),
        parts=[_table(rows), _makespans(found)],
        document={"command": command, **_document(found)},
    )


def waits(found: Results, way: experiment.Way, upper: int) -> list[float]:
    """Of all seeds, rising."""
    return sorted(wait for key, one in found.items() if key.way is way for wait in one.waits[upper])


def ratio(found: Results, upper: int) -> float:
    """Return the default order's 99th percentile over that of FIFO; 1 where nobody waits."""
    first, default = (tails.percentile(waits(found, way, upper)) for way in experiment.COMPARED)
    return default / first if first > 0 else 1.0 if default == 0 else math.inf


def _row(found: Results, upper: int) -> list[page.Cell]:
    below = [0, *experiment.CLASSES][experiment.CLASSES.index(upper)]
    by_way = [waits(found, way, upper) for way in experiment.COMPARED]
    cells: list[page.Cell] = [f"{below + 1}-{upper}", float(len(by_way[0]))]
    for values in by_way:
        cells += [sum(values) / len(values) if values else None, tails.percentile(values)]
    return [*cells, ratio(found, upper)]


def _table(rows: Sequence[Sequence[page.Cell]]) -> page.Table:
    return page.Table(
        title="Waits by size, seconds",
        basis=page.Basis.SIMULATED,
        columns=[
            page.Column("hundredths booked"),
            page.Column("jobs", ".0f"),
            *(page.Column(f"{way}, {what}", ".0f") for way in experiment.COMPARED for what in ("mean", "p99")),
            page.Column("p99 against FIFO", ".2f"),
        ],
        rows=rows,
        note=f"From submission to start, of the jobs of all seeds. Bar: {BAR:g} in every row.",
    )


def _makespans(found: Results) -> page.Table:
    return page.Table(
        title="Makespan, seconds",
        basis=page.Basis.SIMULATED,
        columns=[
            page.Column("order"),
            page.Column("makespan s", ".0f"),
            page.Column("against DecreasingShare, same jobs, %", "+.1f"),
        ],
        rows=[[str(way), intervals.mean(_spans(found, way)), _changes(found, way)] for way in experiment.Way],
        note=(
            "size alone: DecreasingShare with maxWaitSeconds of a week, so that waiting counts for next to nothing: "
            "what the default order pays for nobody waiting long."
        ),
    )


def _spans(found: Results, way: experiment.Way) -> list[float]:
    """Makespans by rising seed."""
    runs = {key.seed: one.makespan_seconds for key, one in found.items() if key.way is way}
    return [runs[seed] for seed in sorted(runs)]


def _changes(found: Results, way: experiment.Way) -> page.Cell:
    """In per cent of the default order's makespan, paired by seed."""
    if way is experiment.Way.DEFAULT:
        return None
    pairs = zip(_spans(found, way), _spans(found, experiment.Way.DEFAULT), strict=True)
    return intervals.mean([(one / default - 1) * 100 for one, default in pairs])


def _answer(found: Results) -> str:
    worst = max(experiment.CLASSES, key=lambda upper: ratio(found, upper))
    met = "met" if ratio(found, worst) <= BAR else "missed"
    return (
        f"Under DecreasingShare the p99 wait is at most {ratio(found, worst):.2f} times that of FIFO with backfill "
        f"(jobs of up to {worst} hundredths): the bar of {BAR:g} is {met}."
    )


def _conditions(found: Results) -> list[str]:
    key = next(iter(found))
    unplaced = sum(one.unplaced for one in found.values())
    simulated = (
        f"Simulated: {key.count} jobs of the case study's mix for each seed, on {published.GPUS} GPUs, through the "
        "extender's own ledger and queue, under the policy that ships but for its order."
    )
    load = (
        "Load 1 is what FIFO with backfill serves of the same jobs when all are submitted at once; here it is "
        f"{key.load:g}, by arrivals drawn evenly."
    )
    assumed = (
        f"Assumed: run times alone are log-uniform from {published.SHORTEST_SECONDS:.0f} to "
        f"{published.LONGEST_SECONDS:.0f} s, whatever the model: nothing follows from how long others like it ran."
    )
    return [simulated, load, assumed, f"Jobs that were never placed: {unplaced}."]


def _document(found: Results) -> Mapping[str, Any]:
    return {
        "classes": [
            {
                "up_to_hundredths": upper,
                "p99_seconds": {way: tails.percentile(waits(found, way, upper)) for way in experiment.COMPARED},
                "ratio": ratio(found, upper) if math.isfinite(ratio(found, upper)) else None,
            }
            for upper in experiment.CLASSES
        ],
        "makespan_seconds": {way: _spans(found, way) for way in experiment.Way},
    }
