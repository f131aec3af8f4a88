"""What packing is worth, as a small table of what `cotenant simulate horus --json` printed. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

WAYS: Final[Mapping[str, str]] = {
    "Slot": "one job per GPU",
    "Reactive": "measured, then packed",
    "Cotenant": "Cotenant as shipped",
    "Cotenant, dense, long first": "Cotenant, dense",
}
"""Of all that are simulated, those that a newcomer compares, in words."""
_BAR_WIDTH: Final = 10


def table(document: Mapping[str, Any]) -> RenderableType:
    """Return the table.

    Args:
        document: of the whole experiment.

    Raises:
        KeyError: it lacks one of `WAYS`.
    """
    settings = {setting["name"]: setting for setting in document["settings"]}
    chosen = [(settings[name], words) for name, words in WAYS.items()]
    longest = max(_mean(setting, "makespan") for setting, _ in chosen)
    drawn = Table(box=None, pad_edge=False)
    drawn.add_column("", no_wrap=True)
    for heading in ("GPUs busy", "all done"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    drawn.add_column("", no_wrap=True, min_width=_BAR_WIDTH)
    for heading in ("a job done", "slowest job"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for setting, words in chosen:
        drawn.add_row(words, *_cells(setting, longest=longest))
    repeats = len(chosen[0][0]["seeds"])
    title = f"SIMULATED: {document['jobs']} jobs on {document['gpus']} GPUs, means of {repeats} repeats"
    return Group(Text(), Text(title, style="bold"), drawn, Text(_NOTE, style="dim"), Text())


_NOTE: Final = (
    "Nothing here was measured on a GPU; the queue and the packing are those that the cluster will run. Done: after "
    "all were submitted, the last job, and the mean. Dense: long jobs first, more on a GPU. Slowest job: beside "
    "others, against alone. `.venv/bin/cotenant simulate horus` prints all of it; docs/simulator.md says what is "
    "assumed."
)


def _cells(setting: Mapping[str, Any], *, longest: float) -> tuple[str, ...]:
    makespan = _mean(setting, "makespan")
    worst = max(run["slowdown_worst"] for run in setting["seeds"])
    return (
        f"{_mean(setting, 'utilization'):.0f} %",
        f"{makespan / 3600:.1f} h",
        "\u2588" * round(makespan / longest * _BAR_WIDTH),
        f"{_mean(setting, 'completion') / 3600:.1f} h",
        f"{100 * worst:+.0f} %",
    )


def _mean(setting: Mapping[str, Any], figure: str) -> float:
    mean: float = setting["intervals"][figure]["mean"]
    return mean
