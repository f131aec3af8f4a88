"""The page of a cluster that does not share GPUs yet: how many it would have saved. Pure.

Where monitoring has recorded what a job uses, that is what is packed. Where it has not, nobody can know: the same jobs
are replayed for several utilizations that they might have, and the page says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cotenant_simulator.cluster import cases, conditions, replay, report
from cotenant_simulator.report import page

ASSUMED_PERCENTS: Final = (20.0, 40.0, 60.0, 80.0)
AS_MONITORED: Final = "as monitored"

Levels = Mapping[float | None, tuple[report.Results, report.Results]]
"""Runs under both plans, by the utilization that is assumed where nothing is known; None: nothing is assumed."""


def unknown(found: Sequence[cases.Case]) -> int:
    """Of how many jobs nothing is known that could be packed by."""
    return sum(1 for case in found if case.gpus == 1 and case.believed is None and case.used is None and not case.share)


def made(asked: report.Asked, levels: Levels) -> page.Page:
    """Return the page; what is shown in detail is the highest utilization, which saves least."""
    count, total = unknown(asked.found), len(asked.found)
    several = sum(1 for case in asked.found if case.gpus > 1)
    told = list(conditions.of(asked.whole, asked.found, asked.window, source=asked.source))
    if several:
        told.append(f"Assumed: {several} of {total} jobs, of several GPUs a pod, keep them whole, as with Cotenant.")
    if count:
        told.insert(0, _not_known(count, total))
    document = {
        **report.document(asked),
        "unknownJobs": count,
        "levels": [
            {
                "assumedPercent": level,
                "neededGPUs": [[run.needed_gpus for run in runs] for runs in pair],
            }
            for level, pair in levels.items()
        ],
    }
    return page.Page(
        title="GPUs that you would have saved",
        answer=_answer(levels, count=count, total=total),
        command=asked.command,
        conditions=told,
        parts=(_table(levels), *report.parts(asked)),
        document=document,
    )


def _not_known(count: int, total: int) -> str:
    return (
        f"Cannot be known: what {count} of {total} jobs do with their GPUs. Nothing has recorded it (--prometheus): "
        "each is replayed with every utilization of the first table, and memory in the same proportion."
    )


def _answer(levels: Levels, *, count: int, total: int) -> str:
    found = list(_needed(levels))
    if not found:
        return "No number of GPUs would be enough for these jobs to start at once: see the jobs rejected."
    least, most = min(saved for _, _, saved in found), max(saved for _, _, saved in found)
    now = found[-1][1]
    if not count or least == most:
        return f"{_gpus(most)} of {now:.1f} would have been saved, by what is known of {total - count} of {total} jobs."
    return (
        f"Between {_gpus(least)} and {_gpus(most)} of {now:.1f} would have been saved. Which, depends on what {count} "
        f"of {total} jobs do with their GPUs: nothing has recorded that."
    )


def _needed(levels: Levels) -> Iterator[tuple[float | None, float, float]]:
    """Level, GPUs needed now, and how many fewer it would be."""
    for level, (before, after) in levels.items():
        old = report.spread(before, _value)
        saved = _saved(before, after)
        if old is not None and saved is not None:
            yield level, old.mean, saved.mean


def _saved(before: report.Results, after: report.Results) -> page.Estimate | None:
    """None where other jobs are rejected: the GPUs needed are not for the same jobs then."""
    same = all(
        {one.name for one in old.rejected} == {one.name for one in new.rejected}
        for old, new in zip(before, after, strict=True)
    )
    return report.difference(after, before, _value) if same else None


def _value(run: replay.Result) -> float | None:
    return run.needed_gpus


def _gpus(count: float) -> str:
    return f"{count:.1f} GPUs"


def _table(levels: Levels) -> page.Table:
    rows: list[Sequence[page.Cell]] = []
    for level, (before, after) in levels.items():
        rows.append(
            [
                AS_MONITORED if level is None else f"{level:.0f} % assumed",
                report.spread(before, _value),
                report.spread(after, _value),
                _saved(before, after),
                report.difference(after, before, lambda run: run.figures.used_gpus),
                report.spread(after, lambda run: run.figures.slowdown_p95_percent),
                report.spread(after, lambda run: float(run.figures.out_of_memory)),
            ]
        )
    columns = [
        page.Column("utilization of jobs"),
        page.Column("GPUs needed now", ".1f"),
        page.Column("with Cotenant", ".1f"),
        page.Column("saved", ".1f"),
        page.Column("in use, fewer", ".1f"),
        page.Column("slowdown p95 %", ".1f"),
        page.Column("out of memory", ".1f"),
    ]
    note = "Needed: the fewest GPUs on which nobody would wait. Below: the last row in detail."
    return page.Table(title="GPUs saved", basis=page.Basis.SIMULATED, columns=columns, rows=rows, note=note)
