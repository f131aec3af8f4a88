"""The plots of a what-if, of the first seed: both plans over time, and how waits and slowdowns are spread. Pure."""

from collections.abc import Iterator, Sequence

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
    yield _slowdowns((before, after))
    for name, found in kept.items():
        if found.spans:
            yield figures.timeline(f"Who had which GPU: {name}", found)


def _slowdowns(results: Sequence[replay.Result]) -> page.Lines:
    """Against the same GPU model; `engine.figures` would take the fastest."""
    series = [
        page.Series(
            name=result.plan.name,
            x=[0.0, *result.slowdowns],
            y=[100 * number / max(len(result.slowdowns), 1) for number in range(len(result.slowdowns) + 1)],
        )
        for result in results
    ]
    return page.Lines(
        title="Slowdown on the GPU",
        basis=page.Basis.SIMULATED,
        x_label="% longer than alone",
        y_label="% of the jobs that ended",
        series=series,
        steps=True,
    )


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
