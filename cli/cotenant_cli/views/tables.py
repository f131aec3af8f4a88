"""Columns as kubectl prints them: titles in upper case, three blanks between, no lines. Pure.

Every word is made plain first: names and messages come from anywhere, and a terminal would obey what is in them.
"""

import enum
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cotenant_api import printable

NONE: Final = "<none>"
_BETWEEN: Final = "   "


class Tone(enum.Enum):
    """The colour of a cell, as a terminal's code for it."""

    GOOD = "32"
    WAITING = "33"
    BAD = "31"


@dataclass(frozen=True, slots=True)
class Toned:
    """A word with a colour, where there are colours."""

    words: str
    tone: Tone


Cell = str | int | float | Toned | None
"""None: there is nothing, or it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column; `wide`: shown by `-o wide` alone."""

    title: str
    right: bool = False
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How it is shown: with the wide columns, in colours."""

    wide: bool = False
    colours: bool = False


def number(title: str, *, wide: bool = False) -> Column:
    """A column of figures."""
    return Column(title=title, right=True, wide=wide)


def words(title: str, *, wide: bool = False) -> Column:
    """A column of words."""
    return Column(title=title, wide=wide)


def lines(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], look: Look) -> Iterator[str]:
    """The table; none of its lines ends with blanks."""
    places = [place for place, column in enumerate(columns) if look.wide or not column.wide]
    shown = [columns[place] for place in places]
    body = [[row[place] for place in places] for row in rows]
    texts = [[_text(cell) for cell in row] for row in body]
    widths = [max(map(len, column)) for column in zip([one.title for one in shown], *texts, strict=True)]
    yield _line([_padded(one.title, one, width) for one, width in zip(shown, widths, strict=True)])
    for row, cells in zip(texts, body, strict=True):
        padded = itertools.starmap(_padded, zip(row, shown, widths, strict=True))
        yield _line([toned(text, cell, look) for text, cell in zip(padded, cells, strict=True)])


def toned(text: str, cell: Cell, look: Look) -> str:
    """The text in the colour of the cell, where it has one."""
    if not look.colours or not isinstance(cell, Toned):
        return text
    return f"\x1b[{cell.tone.value}m{text}\x1b[0m"


def _line(cells: Sequence[str]) -> str:
    return _BETWEEN.join(cells).rstrip()


def _padded(text: str, column: Column, width: int) -> str:
    return text.rjust(width) if column.right else text.ljust(width)


def _text(cell: Cell) -> str:
    match cell:
        case None | "":
            return NONE
        case float():
            return f"{cell:.0f}"
        case Toned(words=said, tone=_):
            return printable.plain(said)
        case _:
            return printable.plain(str(cell))
