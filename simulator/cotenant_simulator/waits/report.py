"""The page of waits by size class. Pure; writes no file."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cotenant_simulator.horus import published
from cotenant_simulator.report import intervals, page
from cotenant_simulator.waits import experiment

BAR: Final = 2.0
"""The 99th percentile of no class may be more than so many times that of FIFO with backfill."""
BEFORE_MAKESPAN_SECONDS: Final = 93383.0
"""What `DecreasingShare` took before shares were discounted by waiting and holds moved.

Recorded, with seeds 0 to 9 and the same arrivals.
"""
_PERCENT: Final = 99

Results = Mapping[experiment.Key, experiment.Figures]


def page_of(found: Results, *, command: str) -> page.Page:
    """The page.

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


def waits(found: Results, order: str, upper: int) -> list[float]:
    """Of all seeds, rising."""
    return sorted(wait for key, one in found.items() if key.order == order for wait in one.waits[upper])


def percentile(values: Sequence[float]) -> float:
    """The 99th, by nearest rank; 0 of nothing."""
    return values[math.ceil(len(values) * _PERCENT / 100) - 1] if values else 0.0


def ratio(found: Results, upper: int) -> float:
    """The default order's 99th percentile over that of FIFO; 1 where nobody waits."""
    first, default = (percentile(waits(found, order, upper)) for order in experiment.ORDERS)
    return default / first if first > 0 else 1.0 if default == 0 else math.inf


def _row(found: Results, upper: int) -> list[page.Cell]:
    below = [0, *experiment.CLASSES][experiment.CLASSES.index(upper)]
    by_order = [waits(found, order, upper) for order in experiment.ORDERS]
    cells: list[page.Cell] = [f"{below + 1}-{upper}", float(len(by_order[0]))]
    for values in by_order:
        cells += [sum(values) / len(values) if values else None, percentile(values)]
    return [*cells, ratio(found, upper)]


def _table(rows: Sequence[Sequence[page.Cell]]) -> page.Table:
    return page.Table(
        title="Waits by size, seconds",
        basis=page.Basis.SIMULATED,
        columns=[
            page.Column("hundredths booked"),
            page.Column("jobs", ".0f"),
            *(page.Column(f"{order}, {what}", ".0f") for order in experiment.ORDERS for what in ("mean", "p99")),
            page.Column("p99 against FIFO", ".2f"),
        ],
        rows=rows,
        note=f"From submission to start, of the jobs of all seeds. Bar: {BAR:g} in every row.",
    )


def _makespans(found: Results) -> page.Table:
    rows: list[list[page.Cell]] = [[str(order), intervals.mean(_spans(found, order))] for order in experiment.ORDERS]
    return page.Table(
        title="Makespan, seconds",
        basis=page.Basis.SIMULATED,
        columns=[page.Column("order"), page.Column("makespan s", ".0f")],
        rows=rows,
        note=(
            f"DecreasingShare took {BEFORE_MAKESPAN_SECONDS:.0f} s, with seeds 0-9 and all options as they ship, "
            "before shares were discounted by waiting and held GPUs were chosen by expected ends."
        ),
    )


def _spans(found: Results, order: str) -> list[float]:
    return [one.makespan_seconds for key, one in found.items() if key.order == order]


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
                "p99_seconds": {order: percentile(waits(found, order, upper)) for order in experiment.ORDERS},
                "ratio": ratio(found, upper) if math.isfinite(ratio(found, upper)) else None,
            }
            for upper in experiment.CLASSES
        ],
        "makespan_seconds": {order: _spans(found, order) for order in experiment.ORDERS},
    }
