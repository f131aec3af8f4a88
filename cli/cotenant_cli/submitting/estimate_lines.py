"""What `cotenant submit --dry-run` says to people. Pure."""

from collections.abc import Iterator
from typing import Final

from cotenant_api import printable, tables
from cotenant_cli.submitting import costs
from cotenant_cli.views import usage_tables

_COLUMNS: Final = (
    tables.words("GPU-MODEL"),
    tables.number("GPUS"),
    tables.number("BOOKED%"),
    tables.number("MIB"),
    tables.number("STEP-MS", spare=1),
    tables.words("BOUND-BY", spare=2),
    tables.number("RUN"),
    tables.number("COST/H"),
    tables.number("COST"),
    tables.words("NOTE"),
)


def lines(found: costs.Estimate, look: tables.Look) -> Iterator[str]:
    """Yield a line for each GPU model; of figures that nobody asked for there is no column."""
    title = f"DLJob {found.namespace}/{found.name}, predicted by {found.predictor}"
    yield from tables.wrapped(printable.plain(title), look, indent="  ")
    yield ""
    rows = [_cells(row) for row in found.rows]
    places = [place for place in range(len(_COLUMNS)) if any(row[place] is not None for row in rows)]
    shown = [[row[place] for place in places] for row in rows]
    yield from tables.lines([_COLUMNS[place] for place in places], shown, look)
    yield from usage_tables.notes(found.notes, look)


def _cells(row: costs.Row) -> tuple[tables.Cell, ...]:
    return (
        row.gpu_model,
        row.gpus,
        row.share,
        row.memory_mib,
        f"{row.step_milliseconds:.2f}",
        row.bound_by,
        None if row.run_hours is None else _time(row.run_hours),
        None if row.cost_per_hour is None else f"{row.cost_per_hour:.2f}",
        None if row.cost is None else f"{row.cost:.2f}",
        row.note,
    )


def _time(hours: float) -> str:
    """`3d4h`, `1h53m`, `42s`."""
    seconds = round(hours * 3600)
    for size, unit, less, part in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // less}{part}"
    return f"{seconds}s"
