"""The figures as a picture: transparent, in colours that are readable on a light and on a dark page."""

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cotenant_e2e.benchmark.plots import BAR, STYLE
from cotenant_e2e.space_time.arrivals import Arrivals
from cotenant_e2e.space_time.results import MULTIPLES, Cell, Run, order

COLOURS = ("#7f8790", "#d9822b", "#b07aa1", "#c9a227", "#3d8bd4", "#2f9e6e")


def draw(run: Run, file: Path) -> None:
    """Draw for each stream the slowest percent of the requests and the training of each mechanism."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 6.4), layout="constrained")
        rows = figure.subplots(len(Arrivals), 2, squeeze=False)
        for kind, (left, right) in zip(Arrivals, rows, strict=True):
            cells = [cell for cell in run.cells if cell.arrivals == kind.value]
            _bars(left, cells, lambda cell: cell.percentile(99) / cell.deadline)
            left.axhline(1, color=BAR, lw=0.8, ls="--")
            left.set_title(f"{kind.value}: p99 of requests, as a part of the deadline")
            _bars(right, cells, lambda cell: cell.multiple)
            right.axhline(MULTIPLES[run.device], color=BAR, lw=0.8, ls="--")
            right.set_title(f"{kind.value}: training batch, as a multiple of alone")
        rows[0][0].legend(frameon=False, fontsize=7)
        where = "measured on a CPU, not on a GPU" if run.device == "cpu" else "measured on a GPU"
        figure.suptitle(where + (", quick run" if run.quick else ""), fontsize=9)
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})


def _bars(axes: Axes, cells: list[Cell], value: Callable[[Cell], float]) -> None:
    trainings = list(dict.fromkeys(cell.training for cell in cells))
    names = order(cells)
    width = 0.8 / max(1, len(names))
    for place, name in enumerate(names):
        own = {cell.training: cell for cell in cells if cell.mechanism == name}
        heights = [value(own[training]) if training in own else 0.0 for training in trainings]
        positions = [number + place * width for number in range(len(trainings))]
        colour = COLOURS[-1] if place == len(names) - 1 else COLOURS[place % (len(COLOURS) - 1)]
        axes.bar(positions, heights, width=0.9 * width, color=colour, label=name)
    axes.set_xticks([number + 0.4 - width / 2 for number in range(len(trainings))], trainings)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
