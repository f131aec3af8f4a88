"""What a doctor finds: one type for clusters and for nodes, shown alike. Pure.

A finding that is not `ok` always carries its remedy: whoever reads it should have nothing to look up.
"""

import enum
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from cotenant_api import documents, printable, tables, written

ERRORS_FOUND: Final = 3
"""Exit code of a doctor that found an error; 1 is left to what could not be read at all."""


class Level(enum.StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    """It works, and will not when something else happens; or not all of it could be looked at."""
    ERROR = "error"
    """Something does not work."""


class Finding(documents.Model):
    """One thing that was looked at.

    Attributes:
        check: name of the check that found it; empty until it is stamped.
        level: how bad it is.
        where: the object or the file (`Node/n1`).
        what: what is the case, in words.
        remedy: what to do, with the command where there is one; None where nothing is to be done.
    """

    check: str = ""
    level: Level
    where: str
    what: str
    remedy: str | None = None


class Report(documents.Document):
    """Version 1 of what a doctor prints with `-o json`."""

    taken: str
    findings: tuple[Finding, ...]


def ok(where: str, what: str) -> Finding:
    """All is well there."""
    return Finding(level=Level.OK, where=where, what=what)


def warning(where: str, what: str, remedy: str) -> Finding:
    """Tell that something works so far."""
    return Finding(level=Level.WARNING, where=where, what=what, remedy=remedy)


def error(where: str, what: str, remedy: str) -> Finding:
    """Tell that something does not work."""
    return Finding(level=Level.ERROR, where=where, what=what, remedy=remedy)


def stamped(found: Iterable[Finding], *, check: str) -> Iterator[Finding]:
    """Yield the findings with the name of their check."""
    for one in found:
        yield one.model_copy(update={"check": check})


def exit_code(found: Iterable[Finding]) -> int:
    """0, or `ERRORS_FOUND`; warnings are no errors."""
    return ERRORS_FOUND if any(one.level is Level.ERROR for one in found) else 0


def rendered(report: Report, *, form: str, look: tables.Look) -> str:
    """Return the text as `json` or `yaml`, else for people, with a line's end."""
    if form == "json":
        return json.dumps(report.to_object(), indent=2, allow_nan=False) + "\n"
    if form == "yaml":
        return written.text(report.to_object())
    return "\n".join(lines(report.findings, look)) + "\n"


_BETWEEN: Final = "   "
_LEAST: Final = 40
"""Columns that are left for what is found where it stands beside its place."""
_TITLES: Final = ("LEVEL", "CHECK", "WHERE", "WHAT")
_CODES: Final = {Level.OK: "32", Level.WARNING: "33", Level.ERROR: "31"}


def lines(found: Sequence[Finding], look: tables.Look) -> Iterator[str]:
    """Yield a table, the remedy below each line that has one, and how many of each level there are.

    What is found stands below its place, in lines that keep to the width, where it has no room beside it.
    """
    rows = [tuple(map(printable.plain, (one.level, one.check, one.where, one.what))) for one in found]
    widths = [max(map(len, column)) for column in zip(_TITLES, *rows, strict=True)][:-1]
    beside = look.width is None or sum(widths) + len(_BETWEEN) * len(widths) + _LEAST <= look.width
    indent = " " * (widths[0] + len(_BETWEEN))
    yield _line(_TITLES if beside else _TITLES[:-1], widths)
    for one, row in zip(found, rows, strict=True):
        text = _line(row if beside else row[:-1], widths)
        below = " " * (sum(widths) + len(_BETWEEN) * len(widths)) if beside else indent
        first, *more = tables.wrapped(text, look, indent=below)
        yield first.replace(one.level, f"\x1b[{_CODES[one.level]}m{one.level}\x1b[0m", 1) if look.colours else first
        yield from more
        if not beside:
            yield from tables.wrapped(f"{indent}{row[-1]}", look, indent=indent)
        if one.remedy is not None:
            yield from tables.wrapped(f"{indent}remedy: {printable.plain(one.remedy)}", look, indent=f"{indent}  ")
    counts = Counter(one.level for one in found)
    yield ""
    yield ", ".join(f"{counts[level]} {word}" for level, word in _WORDS.items())


_WORDS: Final = {Level.ERROR: "errors", Level.WARNING: "warnings", Level.OK: "ok"}


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Cells beside each other; the last may be of a column without a width."""
    padded = itertools.starmap(str.ljust, itertools.zip_longest(cells, widths, fillvalue=0))
    return _BETWEEN.join(padded).rstrip()
