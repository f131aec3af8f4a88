"""The plots of a what-if, of the first seed: both plans over time, and how waits and slowdowns are spread. Pure."""

from collections.abc import Iterator

from cotenant_simulator.cluster import replay
from cotenant_simulator.engine import figures, history
from cotenant_simulator.report import page


def made(before: replay.Result, after: replay.Result) -> Iterator[page.Figure]:
    """Nothing where a history was not kept."""
    runs = {run.plan.name: run.history for run in (before, after)}
    kept = {name: found for name, found in runs.items() if found is not None}
    if len(kept) < len(runs):
        return
    yield _in_use(kept)
    yield figures.utilization(kept)
    yield figures.waiting(kept)
    alone = {name: [found] for name, found in kept.items()}
    yield figures.waits(alone)
    yield figures.completions(alone)
    yield figures.slowdowns(alone)
    for name, found in kept.items():
        if found.spans:
            yield figures.timeline(f"Who had which GPU: {name}", found)


def _in_use(kept: dict[str, history.History]) -> page.Lines:
    series = [
        page.Series(
            name=name,
            x=[moment.seconds for moment in found.moments],
            y=[float(moment.occupied) for moment in found.moments],
        )
        for name, found in kept.items()
    ]
    title = "GPUs with a job"
    return page.Lines(title=title, basis=page.Basis.SIMULATED, x_label="s", y_label="GPUs", series=series, steps=True)
