"""The page of optima: how far each way is from the best schedule of a few jobs. Pure; writes no file."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cotenant_simulator.horus import optimum, published, settings
from cotenant_simulator.report import intervals, page

_DIGITS: Final = 4
_BOUND: Final = "bound"
_FOUND: Final = "its schedule"

Found = Mapping[optimum.Instance, Mapping[int, optimum.Best]]
"""By instance and seed."""


def page_of(found: Found, *, model: str, command: str) -> page.Page:
    """Return the page."""
    return page.Page(
        title="A published case study: how far from the optimum",
        answer=" ".join(_sentence(instance, runs) for instance, runs in found.items()),
        command=command,
        conditions=list(_conditions(model)),
        parts=[part for instance, runs in found.items() for part in (_table(instance, runs), _bars(instance, runs))],
        document=_document(found, model=model),
    )


def _conditions(model: str) -> Iterator[str]:
    yield (
        "Simulated, with exact predictions: jobs need what is predicted, and users expect run times as they are; model "
        f"{model}."
    )
    yield (
        "Bound: a mixed-integer program divides the jobs among GPUs, so that SM time, memory bandwidth, memory and "
        f"places ({published.MAX_TENANTS} for each GPU) suffice; solved by HiGHS. By the model of co-location no "
        "schedule that leaves jobs where they start is shorter. Slot and Horus share in turns, the others by MPS."
    )
    yield (
        "Its schedule: the program's assignment, played GPU by GPU, the longest job first, by whichever of some limits "
        "of utilization serves it best. The optimum lies between the bound and the shortest schedule of all rows; "
        "where they are equal, it is exact."
    )


def _above(runs: Mapping[int, optimum.Best], name: str) -> page.Estimate:
    """Of the bound, in percent, seed by seed."""
    return _mean([100 * (_outcome(best, name).makespan_seconds / best.bound_seconds - 1) for best in runs.values()])


def _outcome(best: optimum.Best, name: str) -> optimum.Outcome:
    return best.found if name == _FOUND else best.ways[name]


def _rows(runs: Mapping[int, optimum.Best]) -> Iterator[list[page.Cell]]:
    yield [_BOUND, _mean([best.bound_seconds for best in runs.values()]), 0.0, None, None]
    for name in (_FOUND, *optimum.WAYS):
        outcomes = [_outcome(best, name) for best in runs.values()]
        yield [
            name,
            _mean([one.makespan_seconds for one in outcomes]),
            _above(runs, name),
            _mean([one.utilization_percent for one in outcomes]),
            _mean([one.work_percent for one in outcomes]),
        ]


def _table(instance: optimum.Instance, runs: Mapping[int, optimum.Best]) -> page.Table:
    exact = sum(best.exact for best in runs.values())
    return page.Table(
        title=_title(instance),
        basis=page.Basis.SIMULATED,
        columns=[
            page.Column("way"),
            page.Column("makespan s", ".0f"),
            page.Column("above the bound %", "+.1f"),
            page.Column("utilization %", ".1f"),
            page.Column("work %", ".1f"),
        ],
        rows=list(_rows(runs)),
        note=f"{len(runs)} repeats, with 95 % intervals; in {exact} of them the bound is reached: it is the optimum.",
    )


def _bars(instance: optimum.Instance, runs: Mapping[int, optimum.Best]) -> page.Bars:
    return page.Bars(
        title=f"Above the bound: {_title(instance)}",
        basis=page.Basis.SIMULATED,
        y_label="makespan above the bound %",
        bars={name: _above(runs, name) for name in (_FOUND, *optimum.WAYS)},
    )


def _title(instance: optimum.Instance) -> str:
    gpus = "1 GPU" if instance.gpus == 1 else f"{instance.gpus} GPUs"
    return f"{instance.jobs} jobs on {gpus}"


def _sentence(instance: optimum.Instance, runs: Mapping[int, optimum.Best]) -> str:
    shown = ", ".join(
        f"{name} {_above(runs, name).mean:+.1f} %" for name in (_FOUND, *optimum.WAYS) if name != settings.BASE
    )
    return f"{_title(instance)}, makespan above the bound: {shown}."


def _document(found: Found, *, model: str) -> dict[str, Any]:
    return {
        "v": 1,
        "simulated": True,
        "model": model,
        "instances": [
            {
                "gpus": instance.gpus,
                "jobs": instance.jobs,
                "seeds": [{"seed": seed, **_of(best)} for seed, best in runs.items()],
            }
            for instance, runs in found.items()
        ],
    }


def _of(best: optimum.Best) -> dict[str, Any]:
    return {
        "boundSeconds": round(best.bound_seconds, _DIGITS),
        "found": _rounded(best.found),
        "ways": {name: _rounded(outcome) for name, outcome in best.ways.items()},
    }


def _rounded(outcome: optimum.Outcome) -> dict[str, float]:
    return {name: round(value, _DIGITS) for name, value in dataclasses.asdict(outcome).items()}


def _mean(values: Sequence[float]) -> page.Estimate:
    found = intervals.mean(values)
    if found is None:
        raise ValueError("there is no run to take a mean over")
    return found
