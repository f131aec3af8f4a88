"""The cost of the extender against the size of the cluster, as a picture.

Transparent, in colours that are readable on a light and on a dark page.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cotenant_e2e.benchmark import inside, times

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
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})


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
    axes.set_xlabel("nodes of eight simulated GPUs; ten placed pods a node")
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
