"""The page of a what-if: differences first, then both sides, then the plots. Pure."""

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cotenant_api.names import GPUModel
from cotenant_simulator.cluster import cases, conditions, drawing, figures, plots, proposal, replay
from cotenant_simulator.live import snapshot
from cotenant_simulator.report import intervals, page

DIFFERENCE: Final = "difference"
MOST_JOBS: Final = 10
_DIGITS: Final = 4
_FORM: Final = ",.1f"
_CHANGE: Final = "+,.1f"
_MINUTE: Final = 60.0
_HOUR: Final = 3600.0

Results = Sequence[replay.Result]
Value = Callable[[replay.Result], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a page is about.

    Attributes:
        whole: the snapshot.
        source: where it is from, in words.
        found: its jobs in the window.
        before, after: runs under both plans, seed by seed.
        command: that makes the page again.
    """

    whole: snapshot.Snapshot
    source: str
    found: Sequence[cases.Case]
    window: drawing.Window
    before: Results
    after: Results
    command: str


_FIGURES: Final[Sequence[tuple[str, Value]]] = (
    ("GPUs needed", lambda run: run.needed_gpus),
    ("GPUs in use", lambda run: run.figures.used_gpus),
    ("utilization of those, %", lambda run: run.figures.busy_percent),
    ("wait, mean, minutes", lambda run: run.figures.wait_mean_seconds / _MINUTE),
    ("wait, p90, minutes", lambda run: run.figures.wait_p90_seconds / _MINUTE),
    ("jobs that wait", lambda run: float(run.figures.waited)),
    ("slowdown, median, %", lambda run: run.figures.slowdown_median_percent),
    ("slowdown, p95, %", lambda run: run.figures.slowdown_p95_percent),
    ("slowdown, worst, %", lambda run: run.figures.slowdown_worst_percent),
    ("attempts out of memory", lambda run: float(run.figures.out_of_memory)),
    ("jobs failed", lambda run: float(run.figures.failed)),
    ("jobs rejected", lambda run: float(len(run.rejected))),
    ("all done after, hours", lambda run: run.figures.makespan_seconds / _HOUR),
)


def made(asked: Asked) -> page.Page:
    """Return the page of a proposed policy."""
    return page.Page(
        title="What a proposed PackingPolicy would change on your cluster",
        answer=answer(asked),
        command=asked.command,
        conditions=conditions.of(asked.whole, asked.found, asked.window, source=asked.source),
        parts=parts(asked),
        document=document(asked),
    )


def parts(asked: Asked) -> Sequence[page.Table | page.Figure]:
    """Tables, differences first, and plots."""
    return (
        _compared(asked),
        *_needed_by_model(asked),
        *_changed_fields(asked),
        *_rejections(asked),
        *_moved(asked),
        _as_it_was(asked),
        *plots.made(asked.before[0], asked.after[0]),
    )


def answer(asked: Asked) -> str:
    """One sentence."""
    before, after = asked.before[0].plan.name, asked.after[0].plan.name
    wanted = dict(_FIGURES)
    named = ("GPUs needed", "wait, mean, minutes", "slowdown, p95, %", "jobs rejected")
    words = [_moves(asked, name, wanted[name]) for name in named]
    return f"From '{before}' to '{after}': {'; '.join(word for word in words if word)}."


def document(asked: Asked) -> Mapping[str, Any]:
    """Return the same for programs."""
    return {
        "v": 1,
        "simulated": True,
        "snapshot": {
            "taken": asked.whole.taken.isoformat(),
            "redacted": asked.whole.redacted,
            "jobs": dict(_states(asked.found)),
            "unread": len(asked.whole.unread),
        },
        "windowSeconds": asked.window.seconds,
        "changes": [{"field": path, "before": old, "after": new} for path, old, new in _changes(asked)],
        "plans": [_plan(results) for results in (asked.before, asked.after)],
    }


def spread(results: Results, value: Value) -> page.Estimate | None:
    """Return the mean over seeds; None where a run has no such figure. No figure can be below zero."""
    found = [value(run) for run in results]
    known = [one for one in found if one is not None]
    return intervals.mean(known, least=0.0) if len(known) == len(found) else None


def difference(before: Results, after: Results, value: Value) -> page.Estimate | None:
    """After less before, seed by seed."""
    pairs = [(value(old), value(new)) for old, new in zip(before, after, strict=True)]
    known = [new - old for old, new in pairs if old is not None and new is not None]
    return intervals.mean(known) if len(known) == len(pairs) else None


_NOTE: Final = (
    "GPUs needed: the fewest on which nobody would wait. GPUs in use: with a job, mean up to the "
    "later of the snapshot and the last start. Slowdown: how much longer a job held GPUs than it runs alone, lost "
    "attempts included. Rejected: no GPU would ever take it. Means over seeds, with 95 % intervals."
)


def _compared(asked: Asked) -> page.Table:
    sides = (asked.before, asked.after)
    rows = [
        [name, difference(asked.before, asked.after, value), *(spread(results, value) for results in sides)]
        for name, value in _FIGURES
    ]
    columns = [page.Column(""), page.Column(DIFFERENCE, _CHANGE)]
    columns += [page.Column(results[0].plan.name, _FORM) for results in sides]
    return page.Table(title="What changes", basis=page.Basis.SIMULATED, columns=columns, rows=rows, note=_NOTE)


def _needed_of(model: GPUModel, run: replay.Result) -> float | None:
    return None if run.needed is None else float(run.needed.get(model, 0))


def _needed_by_model(asked: Asked) -> Iterator[page.Table]:
    """Where there are several."""
    sides = (asked.before, asked.after)
    models = sorted({model for results in sides for run in results for model in run.needed or {}})
    if len(models) < 2:
        return
    rows = []
    for model in models:
        value = functools.partial(_needed_of, model)
        rows.append([model, difference(*sides, value), *(spread(results, value) for results in sides)])
    columns = [page.Column("GPU model"), page.Column(DIFFERENCE, _CHANGE)]
    columns += [page.Column(results[0].plan.name, _FORM) for results in sides]
    yield page.Table(title="GPUs needed", basis=page.Basis.SIMULATED, columns=columns, rows=rows)


def _changes(asked: Asked) -> Sequence[tuple[str, str, str]]:
    before, after = asked.before[0].plan.policy, asked.after[0].plan.policy
    return [] if before is None or after is None else proposal.changes(before, after)


def _changed_fields(asked: Asked) -> Iterator[page.Table]:
    found = _changes(asked)
    if found:
        columns = [page.Column("field"), *(page.Column(one[0].plan.name) for one in (asked.before, asked.after))]
        yield page.Table(title="Fields that differ", basis=page.Basis.OBSERVED, columns=columns, rows=found)


def _rejections(asked: Asked) -> Iterator[page.Table]:
    """Of the first seed: who is rejected does not hang on chance."""
    sides = [{one.name: one for one in results[0].rejected} for results in (asked.before, asked.after)]
    reasons = sorted({one.reason for side in sides for one in side.values()})
    rows: list[Sequence[page.Cell]] = []
    for reason in reasons:
        counts = [sum(1 for one in side.values() if one.reason == reason) for side in sides]
        example = next(one for side in reversed(sides) for one in side.values() if one.reason == reason)
        rows.append([reason, *map(float, counts), example.name, example.message])
    if rows:
        names = [results[0].plan.name for results in (asked.before, asked.after)]
        columns = [page.Column("reason"), *(page.Column(name, "g") for name in names)]
        columns += [page.Column("for example"), page.Column("why")]
        yield page.Table(title="Jobs rejected", basis=page.Basis.SIMULATED, columns=columns, rows=rows)


def _moved(asked: Asked) -> Iterator[page.Table]:
    before, after = asked.before[0].history, asked.after[0].history
    if before is None or after is None:
        return
    lives = {life.name: life for life in before.lives}
    pairs = [(lives[life.name], life) for life in after.lives if life.name in lives]
    moved = [(figures.wait(new) - figures.wait(old), old, new) for old, new in pairs]
    worst = sorted(moved, key=lambda one: (-abs(one[0]), one[1].name))[:MOST_JOBS]
    rows: list[Sequence[page.Cell]] = [
        [new.name, change / _MINUTE, figures.wait(old) / _MINUTE, figures.wait(new) / _MINUTE]
        for change, old, new in worst
        if change
    ]
    if rows:
        names = [results[0].plan.name for results in (asked.before, asked.after)]
        columns = [page.Column("job"), page.Column(DIFFERENCE, _CHANGE)]
        columns += [page.Column(name, _FORM) for name in names]
        title = "Jobs whose wait changes most, first seed, minutes"
        yield page.Table(title=title, basis=page.Basis.SIMULATED, columns=columns, rows=rows)


def _as_it_was(asked: Asked) -> page.Table:
    """Return what the cluster itself has seen, to hold the simulation of the policy in force against."""
    rows: list[Sequence[page.Cell]] = []
    for state in cases.State:
        mine = [case for case in asked.found if case.state is state]
        waits = sorted(
            (case.started - case.arrived).total_seconds() / _MINUTE for case in mine if case.started is not None
        )
        known = sum(1 for case in mine if case.believed is not None or case.used is not None)
        mean = sum(waits) / len(waits) if waits else None
        p90 = figures.at(waits, 0.9) if waits else None
        rows.append([state, float(len(mine)), float(known), mean, p90])
    columns = [page.Column("jobs"), page.Column("count", "g"), page.Column("predicted or monitored", "g")]
    columns += [page.Column("wait, mean, minutes", _FORM), page.Column("p90", _FORM)]
    note = "Waits up to the start of the last attempt."
    return page.Table(title="As it was", basis=page.Basis.OBSERVED, columns=columns, rows=rows, note=note)


def _moves(asked: Asked, what: str, value: Value) -> str:
    old, new = spread(asked.before, value), spread(asked.after, value)
    return "" if old is None or new is None else f"{what}: {old.mean:{_FORM}} to {new.mean:{_FORM}}"


def _states(found: Sequence[cases.Case]) -> Counter[str]:
    return Counter({state.value: sum(1 for case in found if case.state is state) for state in cases.State})


def _plan(results: Results) -> Mapping[str, Any]:
    plan = results[0].plan
    return {
        "name": plan.name,
        "policy": None if plan.policy is None else plan.policy.spec.to_object(),
        "rejected": [dataclasses.asdict(one) for one in results[0].rejected],
        "seeds": [
            {
                "seed": run.seed,
                "neededGPUs": run.needed_gpus,
                "neededByModel": run.needed,
                **{name: round(value, _DIGITS) for name, value in dataclasses.asdict(run.figures).items()},
            }
            for run in results
        ],
    }
