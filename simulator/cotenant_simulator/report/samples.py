"""The numbers of a figure as a table, for those who do not see it and those who want to be sure. Pure."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import numpy as np

from cotenant_simulator.report import lanes, page

PLACES: Final = 24
"""Rows at most of a table of lines: beyond that, values at so many places of x."""

_FORM: Final = ",.4g"
_SHARE: Final = ".0%"


def table(shown: page.Figure) -> page.Table:
    """Return a figure's numbers; long lines at some places alone, which its note says."""
    if isinstance(shown, page.Lines):
        return _lines(shown)
    if isinstance(shown, page.Bars):
        columns = [page.Column(""), page.Column(shown.y_label, _FORM)]
        return _table(shown, columns, list(shown.bars.items()), "")
    return _timeline(shown)


def _lines(shown: page.Lines) -> page.Table:
    every = sorted({float(x) for series in shown.series for x in series.x})
    places = every if len(every) <= PLACES else _places(every, logarithmic=shown.logarithmic)
    note = "" if len(every) <= PLACES else f"Values at {len(places)} of {len(every):,} places."
    columns = [page.Column(shown.x_label, _FORM), *(page.Column(series.name, _FORM) for series in shown.series)]
    values = [[_at(series, place, steps=shown.steps) for place in places] for series in shown.series]
    return _table(shown, columns, [[place, *row] for place, *row in zip(places, *values, strict=True)], note)


def _places(every: Sequence[float], *, logarithmic: bool) -> list[float]:
    """Evenly over the axis."""
    if not logarithmic:
        return [float(place) for place in np.linspace(every[0], every[-1], PLACES)]
    positive = [x for x in every if x > 0]
    return [float(place) for place in np.geomspace(positive[0], positive[-1], PLACES)] if positive else list(every[:1])


def _at(series: page.Series, place: float, *, steps: bool) -> page.Cell:
    """None outside the line, and between the points of a short one that are not steps."""
    if not len(series.x) or not series.x[0] <= place <= series.x[-1]:
        return None
    last = bisect_right(series.x, place) - 1
    if steps or series.x[last] == place:
        return _estimate(series, last)
    if len(series.x) <= PLACES:
        return None
    return float(np.interp(place, series.x, series.y))


def _estimate(series: page.Series, index: int) -> page.Cell:
    if series.low is None or series.high is None:
        return series.y[index]
    return page.Estimate(series.y[index], series.low[index], series.high[index])


def _timeline(shown: page.Timeline) -> page.Table:
    drawn = lanes.chosen(shown)
    columns = [page.Column("GPU"), page.Column("stays", ",d"), page.Column("booked until the end", _SHARE)]
    rows = [
        (name, len(spans), lanes.used(spans) / drawn.until if drawn.until else None)
        for name, spans in drawn.lanes.items()
    ]
    return _table(shown, columns, rows, drawn.remark)


def _table(
    shown: page.Figure, columns: Sequence[page.Column], rows: Sequence[Sequence[page.Cell]], note: str
) -> page.Table:
    return page.Table(title=shown.title, basis=shown.basis, columns=columns, rows=rows, note=note)
