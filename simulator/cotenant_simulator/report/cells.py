"""The words of a cell, the same wherever a page is shown. Pure."""

import unicodedata

from cotenant_simulator.report import page

_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Controls (terminal escapes), formats (changes of direction), halves of surrogates, separators of lines."""


def text(cell: page.Cell, column: page.Column) -> str:
    """Empty for what there is not; an estimate with its interval, unless that has no width."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return plain(cell)
    if isinstance(cell, page.Estimate):
        mean, low, high = (format(value, column.form) for value in (cell.mean, cell.low, cell.high))
        return mean if low == high else f"{mean} ({low}..{high})"
    return format(cell, column.form)


def plain(words: str) -> str:
    """On one line, without what a terminal, a page or XML would take for more than text: names come from anywhere."""
    if words.isascii() and words.isprintable():
        return words
    return "".join(" " if one in "\n\t" else "�" if unicodedata.category(one) in _UNSHOWN else one for one in words)
