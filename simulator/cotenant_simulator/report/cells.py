"""The words of a cell, the same wherever a page is shown. Pure."""

from cotenant_api import printable
from cotenant_simulator.report import page


def text(cell: page.Cell, column: page.Column) -> str:
    """Empty for what there is not; an estimate with its interval, unless that has no width."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return printable.plain(cell)
    if isinstance(cell, page.Estimate):
        mean, low, high = (format(value, column.form) for value in (cell.mean, cell.low, cell.high))
        return mean if low == high else f"{mean} ({low}..{high})"
    return format(cell, column.form)
