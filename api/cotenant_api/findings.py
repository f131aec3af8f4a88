"""What a doctor finds: one type for clusters and for nodes, shown alike. Pure, but for what `in_colours` asks.

A finding that is not `ok` always carries its remedy: whoever reads it should have nothing to look up.
"""

import enum
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TextIO

import yaml

from cotenant_api import documents, printable

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
    """It works so far."""
    return Finding(level=Level.WARNING, where=where, what=what, remedy=remedy)


def error(where: str, what: str, remedy: str) -> Finding:
    """It does not work."""
    return Finding(level=Level.ERROR, where=where, what=what, remedy=remedy)


def stamped(found: Iterable[Finding], *, check: str) -> Iterator[Finding]:
    """The findings with the name of their check."""
    for one in found:
        yield one.model_copy(update={"check": check})


def exit_code(found: Iterable[Finding]) -> int:
    """0, or `ERRORS_FOUND`; warnings are no errors."""
    return ERRORS_FOUND if any(one.level is Level.ERROR for one in found) else 0


def in_colours(stream: TextIO) -> bool:
    """Whether a stream is a terminal that shows colours, and nobody asked for none (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def rendered(report: Report, *, form: str, colours: bool) -> str:
    """The text as `json` or `yaml`, else for people, with a line's end."""
    if form == "json":
        return json.dumps(report.to_object(), indent=2, allow_nan=False) + "\n"
    if form == "yaml":
        return str(yaml.safe_dump(report.to_object(), sort_keys=False))
    return "\n".join(lines(report.findings, colours=colours)) + "\n"


_TITLES: Final = ("LEVEL", "CHECK", "WHERE", "WHAT")
_CODES: Final = {Level.OK: "32", Level.WARNING: "33", Level.ERROR: "31"}


def lines(found: Sequence[Finding], *, colours: bool) -> Iterator[str]:
    """A table, the remedy below each line that has one, and how many of each level there are."""
    rows = [tuple(map(printable.plain, (one.level, one.check, one.where, one.what))) for one in found]
    widths = [max(map(len, column)) for column in zip(_TITLES, *rows, strict=True)][:-1]
    yield _line(_TITLES, widths)
    for one, row in zip(found, rows, strict=True):
        text = _line(row, widths)
        yield text.replace(one.level, f"\x1b[{_CODES[one.level]}m{one.level}\x1b[0m", 1) if colours else text
        if one.remedy is not None:
            yield f"{'':{widths[0]}}   remedy: {printable.plain(one.remedy)}"
    counts = Counter(one.level for one in found)
    yield ""
    yield ", ".join(f"{counts[level]} {word}" for level, word in _WORDS.items())


_WORDS: Final = {Level.ERROR: "errors", Level.WARNING: "warnings", Level.OK: "ok"}


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    *first, last = cells
    return "   ".join([*(cell.ljust(width) for cell, width in zip(first, widths, strict=True)), last]).rstrip()
