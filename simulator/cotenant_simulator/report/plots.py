"""The figures of a page as SVG, by matplotlib.

Transparent, in colours that are readable on a light and on a dark page; lines differ by more than colour. The same
figure gives the same bytes. Names are text: no markup in them is read. Pure.
"""

import io
import itertools
from collections.abc import Sequence
from typing import Any, Final, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Polygon
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from cotenant_api import printable
from cotenant_simulator.report import lanes, page, svg, thinning

COLOURS: Final = ("#3d8bd4", "#c87720", "#2f9e6e", "#b56cc4", "#c9504c", "#2b9aa0", "#d95f8d", "#8a8f2a")
"""Each at least 3 to 1 on white and on near-black."""
LINES: Final = ("-", "--", "-.", ":", (0, (1, 3)), (0, (5, 3)), (0, (7, 2, 1, 2, 1, 2)))
MOST_SERIES: Final = len(COLOURS) * len(LINES)
"""More are not told apart."""
MOST_NAMED: Final = 12
"""Tenants with a colour and a line of the legend each; where there are more, colours tell neighbours apart."""

_WIDTH: Final = 8.0
_NAME: Final = 38
_LABEL: Final = 90
_SMALL: Final = 9.5
_DOT: Final = 4
_DOTTED: Final = 30
"""Points of a line at most that has a dot at each."""
_LANE: Final = 0.3
_LANE_OF_FEW: Final = 0.55
_FEW: Final = 6
_STYLE: Final[dict[Any, Any]] = {
    "text.color": svg.INK,
    "text.parse_math": False,
    "axes.labelcolor": svg.INK,
    "axes.edgecolor": svg.INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.use_mathtext": False,
    "xtick.color": svg.INK,
    "ytick.color": svg.INK,
    "grid.color": svg.INK,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "font.size": 10.5,
    "legend.frameon": False,
    "legend.labelcolor": svg.INK,
    "path.simplify": False,
    "svg.fonttype": "none",
}
_NO_METADATA: Final = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_UNITS: Final = (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0))


def element(shown: page.Figure, *, ident: str, ink: str = svg.INHERITED) -> str:
    """One `svg` element.

    Args:
        shown: the figure.
        ident: begins its identifiers; unique in the page.
        ink: of text and axes: by default that of the page; a colour for a file of its own.

    Raises:
        ValueError: more series than can be told apart.
    """
    with mpl.rc_context(_STYLE | {"svg.hashsalt": ident}):
        figure, notes = _drawn(shown)
        file = io.BytesIO()
        figure.savefig(file, format="svg", transparent=True, metadata=_NO_METADATA)
    label = printable.plain(f"{shown.title} ({shown.basis})")
    return svg.element(file.getvalue(), ident=ident, label=label, notes=notes, ink=ink)


def remark(shown: page.Figure) -> str:
    """Return what a reader must know to read it, and what is not drawn."""
    if isinstance(shown, page.Timeline):
        many = len(_names(lanes.chosen(shown).lanes.values())) > MOST_NAMED
        told = ("Each row is a GPU; the height of a tenant is its share.", lanes.chosen(shown).remark)
        return " ".join([*filter(None, told), *(["Colours only tell neighbours apart."] if many else [])])
    if isinstance(shown, page.Lines):
        bands = any(series.low is not None for series in shown.series)
        zero = shown.logarithmic and any(x <= 0 for series in shown.series for x in series.x)
        told = (f"Bands: {shown.interval}." if bands else "", "What is 0 is drawn at the left edge." if zero else "")
        return " ".join(filter(None, told))
    return f"Lines at the ends of bars: {shown.interval}." if any(map(_has_width, shown.bars.values())) else ""


def _drawn(shown: page.Figure) -> tuple[Figure, dict[str, str]]:
    if isinstance(shown, page.Timeline):
        return _timeline(shown)
    return (_lines(shown) if isinstance(shown, page.Lines) else _bars(shown)), {}


def _axes(height: float, *, grid: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axes = figure.subplots()
    axes.grid(axis=grid)  # type: ignore[arg-type]  # "both", "x" or "y"
    axes.set_axisbelow(True)
    return figure, axes


def _lines(shown: page.Lines) -> Figure:
    if len(shown.series) > MOST_SERIES:
        raise ValueError(f"{len(shown.series)} lines in one figure cannot be told apart: at most {MOST_SERIES}")
    figure, axes = _axes(4.2 + 0.22 * _rows(shown.series), grid="both")
    least = min((x for series in shown.series for x in series.x if x > 0), default=1.0)
    handles = [_line(axes, shown, number, least) for number in range(len(shown.series))]
    axes.set(xlabel=_words(shown.x_label, _LABEL), ylabel=_words(shown.y_label, _LABEL))
    if shown.logarithmic:
        axes.set_xscale("log")
        _mark_powers(axes)
    else:
        axes.xaxis.set_major_formatter(_plainly)
    axes.yaxis.set_major_formatter(_plainly)
    if all(y >= 0 for series in shown.series for y in (*series.y, *(series.low or ()))):
        axes.set_ylim(bottom=0)
    _legend(figure, handles, [series.name for series in shown.series])
    return figure


def _line(axes: Axes, shown: page.Lines, number: int, least: float) -> Line2D:
    series = thinning.thinned(shown.series[number], logarithmic=shown.logarithmic)
    colour, style = COLOURS[number % len(COLOURS)], LINES[(number + number // len(COLOURS)) % len(LINES)]
    x = np.maximum(series.x, least) if shown.logarithmic else np.asarray(series.x)
    drawn = "steps-post" if shown.steps else "default"
    marker = "o" if len(x) == 1 or (len(x) <= _DOTTED and not shown.steps) else ""
    (line,) = axes.plot(x, series.y, color=colour, linestyle=style, drawstyle=drawn, marker=marker, markersize=_DOT)
    if series.low is not None and series.high is not None:
        step: Literal["post"] | None = "post" if shown.steps else None
        axes.fill_between(x, series.low, series.high, step=step, color=colour, alpha=0.2, linewidth=0)
    return line


def _bars(shown: page.Bars) -> Figure:
    figure, axes = _axes(0.9 + 0.42 * max(len(shown.bars), 1), grid="x")
    found = list(shown.bars.values())
    places = np.arange(len(found))
    axes.barh(places, [one.mean for one in found], height=0.62, color=COLOURS[0])
    for place, one in zip(places, found, strict=True):
        if _has_width(one):
            # Drawn by hand: an interval need not hold the mean.
            axes.plot([one.low, one.high], [place, place], color=svg.INK, marker="|", markersize=7, linewidth=1.4)
    axes.set_yticks(places, [_words(name, _NAME) for name in shown.bars])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(max(len(found), 1) - 0.5, -0.5)
    axes.xaxis.set_major_formatter(_plainly)
    axes.set_xlabel(_words(shown.y_label, _LABEL))
    return figure


def _timeline(shown: page.Timeline) -> tuple[Figure, dict[str, str]]:
    drawn = lanes.chosen(shown)
    names = _names(drawn.lanes.values())
    named = names if len(names) <= MOST_NAMED else ()
    lane_height = _LANE_OF_FEW if len(drawn.lanes) <= _FEW else _LANE
    figure, axes = _axes(1.0 + lane_height * max(len(drawn.lanes), 1) + 0.22 * _rows(named), grid="x")
    unit, seconds = next(((unit, size) for unit, size in _UNITS if drawn.until >= 2 * size), ("seconds", 1.0))
    shapes = [lanes.stacked(spans, until=drawn.until) for spans in drawn.lanes.values()]
    scale = 0.86 / max((lanes.height(of_lane) for of_lane in shapes), default=1.0)
    notes: dict[str, str] = {}
    for lane, of_lane in enumerate(shapes):
        axes.axhline(lane + 0.43, color=svg.INK, linewidth=0.5, alpha=0.5)
        for shape in of_lane:
            patch = _patch(shape, floor=lane + 0.43, scale=scale, seconds=seconds)
            patch.set_facecolor(COLOURS[names[shape.span.name] % len(COLOURS)])
            patch.set_gid(f"stay{len(notes)}")
            notes[f"stay{len(notes)}"] = _note(shape.span)
            axes.add_patch(patch)
    axes.set_yticks(range(len(drawn.lanes)), [_words(name, _NAME) for name in drawn.lanes], fontsize=_SMALL)
    axes.tick_params(axis="y", length=0)
    axes.set(xlim=(0, max(drawn.until / seconds, 1e-9)), xlabel=f"time, {unit}")
    axes.set_ylim(max(len(drawn.lanes), 1) - 0.5, -0.5)
    axes.xaxis.set_major_formatter(_plainly)
    handles = [Patch(facecolor=COLOURS[number % len(COLOURS)]) for number in range(len(named))]
    _legend(figure, handles, list(named))
    return figure, notes


def _patch(shape: lanes.Shape, *, floor: float, scale: float, seconds: float) -> Polygon:
    """Axes point down: what is higher in the lane is less."""
    edges = [time / seconds for time in shape.times]
    below = [
        (edge, floor - bottom * scale)
        for (begin, end), bottom in zip(itertools.pairwise(edges), shape.bottoms, strict=True)
        for edge in (begin, end)
    ]
    above = [(edge, level - shape.span.share * scale) for edge, level in reversed(below)]
    return Polygon([*below, *above], closed=True, alpha=0.8, linewidth=0.4, edgecolor=svg.INK)


def _note(span: page.Span) -> str:
    return printable.plain(f"{span.name}: {span.share:.0%}, {span.start:,.0f} to {span.end:,.0f} s")


def _names(of_lanes: Any) -> dict[str, int]:
    """Tenants, numbered as they come."""
    spans = sorted((span for spans in of_lanes for span in spans), key=lambda span: (span.start, span.name))
    return {name: number for number, name in enumerate(dict.fromkeys(span.name for span in spans))}


def _has_width(one: page.Estimate) -> bool:
    return one.low < one.high


def _legend(figure: Figure, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Below the axes. Named afterwards: matplotlib leaves out names that begin with an underscore."""
    if not handles:
        return
    numbers = [str(number) for number in range(len(handles))]
    columns = _legend_columns(names)
    legend = figure.legend(handles, numbers, loc="outside lower left", ncols=columns, handlelength=2.6, fontsize=_SMALL)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(_words(name, _LABEL))


def _legend_columns(names: Sequence[str]) -> int:
    """As few lines as go, evenly full."""
    longest = max(len(name) for name in names)
    most = max(1, min(len(names), _LABEL // (min(longest, _LABEL) + 8)))
    return -(-len(names) // -(-len(names) // most))


def _rows(named: Any) -> int:
    """Lines of a legend."""
    names = [one.name if isinstance(one, page.Series) else one for one in named]
    return -(-len(names) // _legend_columns(names)) if names else 0


def _words(text: str, most: int) -> str:
    words = printable.plain(text)
    return words if len(words) <= most else f"{words[: most - 2]}.."


def _number(value: float, _place: int | None = None) -> str:
    return f"{value:,.10g}"


_plainly: Final = FuncFormatter(_number)


def _mark_powers(axes: Axes) -> None:
    """At 1, 2 and 5 of each power of ten; over many powers at 1 alone."""
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
    axes.xaxis.set_major_formatter(_plainly)
    axes.xaxis.set_minor_formatter(NullFormatter())
