"""Pages to be shown, small and hostile."""

from collections.abc import Mapping, Sequence

from cotenant_simulator.report import page

SIMULATED = page.Basis.SIMULATED
HOSTILE = "_a|b <script>alert('x')</script> &amp; $\\frac{$ \x1b[31m \u202e \x00 \ud800\nend"
"""What may not reach a page as more than text: markup, formulae, escapes, changes of direction, ends of lines."""


def table(*rows: Sequence[page.Cell], title: str = "A table", note: str = "") -> page.Table:
    columns = [page.Column("way"), page.Column("share %", ".1f"), page.Column("jobs", ",d")]
    return page.Table(title=title, basis=page.Basis.PUBLISHED, columns=columns, rows=rows, note=note)


def line(name: str, x: Sequence[float] = (0, 1, 2), y: Sequence[float] = (1, 2, 3), width: float = 0) -> page.Series:
    bounds = {"low": [one - width for one in y], "high": [one + width for one in y]} if width else {}
    return page.Series(name=name, x=x, y=y, **bounds)


def lines(*series: page.Series, steps: bool = False, logarithmic: bool = False) -> page.Lines:
    return page.Lines(
        title="Lines", basis=SIMULATED, x_label="s", y_label="%", series=series, steps=steps, logarithmic=logarithmic
    )


def bars(**found: page.Estimate) -> page.Bars:
    return page.Bars(title="Bars", basis=SIMULATED, y_label="%", bars=found)


def timeline(lanes: Mapping[str, Sequence[page.Span]]) -> page.Timeline:
    return page.Timeline(title="Timeline", basis=SIMULATED, lanes=lanes)


def whole() -> page.Page:
    """One of everything, twice."""
    spans = [page.Span(0, 60, 0.5, "a"), page.Span(10, 90, 0.25, "b")]
    parts: list[page.Table | page.Figure] = [
        table(("Slot", 43.1, 100), ("Cotenant", page.Estimate(70.25, 69.0, 71.5), None)),
        lines(line("Slot"), line("Cotenant", width=0.5)),
        bars(Slot=page.Estimate(1, 1, 1), Cotenant=page.Estimate(2, 1.5, 2.5)),
        timeline({"gpu-0": spans, "gpu-1": []}),
    ]
    return page.Page(
        title="A page", answer="It is so.", command="cotenant x", conditions=["All of it."], parts=parts * 2
    )


def hostile() -> page.Page:
    """Names from anywhere in every place."""
    parts: list[page.Table | page.Figure] = [
        page.Table(title=HOSTILE, basis=SIMULATED, columns=[page.Column(HOSTILE)], rows=[(HOSTILE,)], note=HOSTILE),
        page.Lines(
            title=HOSTILE, basis=SIMULATED, x_label=HOSTILE, y_label=HOSTILE, series=[line(HOSTILE), line("__")]
        ),
        page.Bars(title=HOSTILE, basis=SIMULATED, y_label=HOSTILE, bars={HOSTILE: page.Estimate(1, 0, 2)}),
        page.Timeline(title=HOSTILE, basis=SIMULATED, lanes={HOSTILE: [page.Span(0, 1, 1, HOSTILE)]}),
    ]
    return page.Page(title=HOSTILE, answer=HOSTILE, command=HOSTILE, conditions=[HOSTILE], parts=parts)
