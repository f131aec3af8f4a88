"""The cost of the extender against the size of the cluster, and of simulated runs against that of both, as pictures.

Transparent, in colours that are readable on a light and on a dark page.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cotenant_e2e.benchmark import inside, times
from cotenant_e2e.benchmark.simulator import runs, tables

INK: Final = "#7f8790"
COLOURS: Final = dict(zip(times.Asked, ("#2f9e6e", "#3d8bd4", "#d9822b"), strict=True))
BAR: Final = "#c9504c"
STYLE: Final[dict[Any, Any]] = {
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "xtick.color": INK,
    "ytick.color": INK,
    "font.size": 9,
    "svg.hashsalt": "cotenant",
    "svg.fonttype": "none",
}


def draw(measured: Sequence[inside.Measurement], file: Path) -> None:
    """Filter with every node a candidate, events, memory and start; bars are red."""
    nodes = [one.size.nodes for one in measured]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 5.4), layout="constrained")
        filters, events, memory, start = figure.subplots(2, 2).flat
        _filters(filters, measured)
        _line(events, nodes, [one.events_per_second for one in measured], "watch events per second", bar=20_000)
        _line(memory, nodes, [one.memory_mib for one in measured], "resident memory, MiB", bar=400)
        _line(start, nodes, [one.start_seconds for one in measured], "start until it serves, seconds", bar=15)
        for axes in (filters, events, memory, start):
            axes.set_xlabel("nodes of eight simulated GPUs; ten placed pods a node")
        _save(figure, file)


def draw_simulator(measured: Sequence[runs.Measurement], file: Path) -> None:
    """CPU time and memory; bars are red."""
    jobs = [one.size.jobs for one in measured]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 2.9), layout="constrained")
        seconds, memory = figure.subplots(1, 2)
        _line(
            seconds, jobs, [one.cpu_seconds for one in measured], "CPU seconds of one core", bar=tables.BAR_CPU_SECONDS
        )
        _line(
            memory, jobs, [one.memory_mib for one in measured], "most resident memory, MiB", bar=tables.BAR_MEMORY_MIB
        )
        for axes in (seconds, memory):
            axes.set_xlabel("simulated jobs; about ten for each GPU")
            axes.set_xlim(left=0)
        _save(figure, file)


def _filters(axes: Axes, measured: Sequence[inside.Measurement]) -> None:
    for what, colour in COLOURS.items():
        found = [max((one for one in each.handlers if one.what is what), key=_candidates) for each in measured]
        nodes = [one.candidates for one in found]
        axes.plot(nodes, [one.median_milliseconds for one in found], "-o", color=colour, ms=3, label=f"pod {what}")
        axes.plot(nodes, [one.p99_milliseconds for one in found], ":", color=colour)
    axes.legend(frameon=False)
    _finish(axes, "handler of filter, all nodes candidates, ms (dotted: p99)", bar=10)


def _candidates(one: times.Times) -> int:
    return one.candidates


def _line(axes: Axes, nodes: Sequence[int], values: Sequence[float], title: str, *, bar: float) -> None:
    axes.plot(nodes, values, "-o", color="#3d8bd4", ms=3)
    _finish(axes, title, bar=bar)


def _finish(axes: Axes, title: str, *, bar: float) -> None:
    axes.axhline(bar, color=BAR, lw=0.8, ls="--")
    axes.set_title(title)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)


def _save(figure: Figure, file: Path) -> None:
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
