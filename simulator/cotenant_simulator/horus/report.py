"""The case study's table, as Markdown and as JSON. Pure; writes no file."""

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from cotenant_simulator.horus import experiment, published

BASE: Final = "Slot"
"""What others are compared with, seed by seed."""
_DIGITS: Final = 4

Figure = Callable[[experiment.Figures], float]


def document(results: Sequence[experiment.Result], *, definitions: str, sigma: float) -> dict[str, Any]:
    """All runs as one JSON object."""
    return {
        "v": 1,
        "simulated": True,
        "gpus": published.GPUS,
        "gpuModel": published.GPU_MODEL,
        "jobs": published.JOBS,
        "definitions": definitions,
        "sigma": sigma,
        "settings": [
            {
                "name": result.setting.name,
                "mechanism": result.setting.mechanism,
                "packing": dict(result.setting.packing),
                "seeds": [{"seed": seed, **_rounded(found)} for seed, found in result.runs.items()],
            }
            for result in results
        ],
    }


def table(results: Sequence[experiment.Result]) -> Iterator[str]:
    """A row for each setting: means over seeds, with the lowest and the highest; published figures below.

    Raises:
        ValueError: the setting that others are compared with is missing.
    """
    base = next((result for result in results if result.setting.name == BASE), None)
    if base is None:
        raise ValueError(f"without {BASE} there is nothing to compare with")
    heads = (
        "simulated",
        "GPUs shared by",
        "utilization %",
        "makespan against Slot %",
        "run time s",
        "against Slot %",
        "from submission s",
        "slowdown % median, worst",
        "out of memory",
        "failed",
    )
    yield _row(heads)
    yield _row(["---"] * 2 + ["---:"] * (len(heads) - 2))
    for result in results:
        yield _row(_cells(result, base))
    yield ""
    yield _row(("published", "utilization %", "makespan against Slot %", "run time s", "against Slot %"))
    yield _row(["---"] + ["---:"] * 4)
    slot = published.ROWS[BASE].completion_seconds
    for name, row in published.ROWS.items():
        makespan = "" if row.makespan_change_percent is None else f"{row.makespan_change_percent:+.1f}"
        change = f"{100 * (row.completion_seconds / slot - 1):+.1f}"
        yield _row((name, f"{row.utilization_percent:.1f}", makespan, f"{row.completion_seconds:.0f}", change))


def _cells(result: experiment.Result, base: experiment.Result) -> Iterator[str]:
    setting, runs = result.setting, result.runs
    yield setting.name
    yield "nothing" if setting.name == BASE else setting.mechanism
    yield _spread([run.utilization_percent for run in runs.values()], ".1f")
    yield _spread(_changes(result, base, lambda run: run.makespan_seconds), "+.1f")
    yield _spread([run.run_seconds for run in runs.values()], ".0f")
    yield _spread(_changes(result, base, lambda run: run.run_seconds), "+.1f")
    yield _spread([run.completion_seconds for run in runs.values()], ".0f")
    median = statistics.fmean(100 * run.slowdown_median for run in runs.values())
    yield f"{median:.1f}, {100 * max(run.slowdown_worst for run in runs.values()):.0f}"
    yield f"{statistics.fmean(run.out_of_memory for run in runs.values()):.1f}"
    yield f"{sum(run.failed for run in runs.values())}"


def _changes(result: experiment.Result, base: experiment.Result, figure: Figure) -> list[float]:
    """In percent, seed by seed: the jobs are the same."""
    return [100 * (figure(run) / figure(base.runs[seed]) - 1) for seed, run in result.runs.items()]


def _spread(values: Sequence[float], form: str) -> str:
    mean, low, high = statistics.fmean(values), min(values), max(values)
    return f"{mean:{form}}" if len(values) == 1 else f"{mean:{form}} ({low:{form}}..{high:{form}})"


def _rounded(found: experiment.Figures) -> dict[str, float]:
    return {name: round(value, _DIGITS) for name, value in dataclasses.asdict(found).items()}


def _row(cells: Iterator[str] | Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
