"""Columns as kubectl prints them: titles in upper case, three blanks between, no lines. Pure.

Where a width is given, a table keeps to it: with two blanks between, then without the columns that may be spared, then
with its longest words cut.

Every word is made plain first: names and messages come from anywhere, and a terminal would obey what is in them.
"""

import enum
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cotenant_api import printable

NONE: Final = "<none>"
_BETWEEN: Final = "   "
_CLOSER: Final = "  "
_LEAST: Final = 8
"""Characters that are left of a word that is cut."""
_CUT: Final = "\N{HORIZONTAL ELLIPSIS}"


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
    """One column.

    Attributes:
        wide: shown by `-o wide` alone.
        spare: where the width does not do, columns with the highest go first; 0: it stays.
    """

    title: str
    right: bool = False
    wide: bool = False
    spare: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How it is shown: with the wide columns, in colours, within so many columns of a terminal (None: any)."""

    wide: bool = False
    colours: bool = False
    width: int | None = None


def number(title: str, *, wide: bool = False, spare: int = 0) -> Column:
    """Return a column of figures."""
    return Column(title=title, right=True, wide=wide, spare=spare)


def words(title: str, *, wide: bool = False, spare: int = 0) -> Column:
    """Return a column of words."""
    return Column(title=title, wide=wide, spare=spare)


def wrapped(text: str, look: Look, *, indent: str = "") -> Iterator[str]:
    """Words in lines that keep to the width; all but the first begin with `indent`."""
    if look.width is None or len(text) <= look.width:
        yield text
        return
    yield from textwrap.wrap(text, look.width, subsequent_indent=indent, break_on_hyphens=False)


def lines(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], look: Look) -> Iterator[str]:
    """Yield the table; none of its lines ends with blanks."""
    places = [place for place, column in enumerate(columns) if look.wide or not column.wide]
    found = {place: [columns[place].title, *(_text(row[place]) for row in rows)] for place in places}
    widths = {place: max(map(len, texts)) for place, texts in found.items()}
    between = _BETWEEN
    # Who asks for the wide columns has room for them, or reads them elsewhere.
    if look.width is not None and not look.wide and _taken(widths, between) > look.width:
        between = _CLOSER
        widths = _cut(columns, _spared(columns, widths, look.width), look.width)
    shown = [(place, columns[place], width) for place, width in widths.items()]
    yield between.join(_padded(column.title, column, width) for _, column, width in shown).rstrip()
    for number_, row in enumerate(rows, start=1):
        cells = (
            toned(_padded(found[place][number_], column, width), row[place], look) for place, column, width in shown
        )
        yield between.join(cells).rstrip()


def _taken(widths: Mapping[int, int], between: str) -> int:
    return sum(widths.values()) + len(between) * (len(widths) - 1)


def _spared(columns: Sequence[Column], widths: Mapping[int, int], width: int) -> dict[int, int]:
    """Leave out columns until the rest fits, or none may be spared."""
    left = dict(widths)
    for place in sorted(widths, key=lambda place: -columns[place].spare):
        if not columns[place].spare or _taken(left, _CLOSER) <= width:
            break
        del left[place]
    return left


def _cut(columns: Sequence[Column], widths: dict[int, int], width: int) -> dict[int, int]:
    """Take from the widest column of words, again and again, until the table fits or none has more than the least."""
    while _taken(widths, _CLOSER) > width:
        over = _taken(widths, _CLOSER) - width
        cut = {place: found for place, found in widths.items() if not columns[place].right and found > _LEAST}
        if not cut:
            return widths
        place, *others = sorted(cut, key=lambda place: -cut[place])
        next_ = cut[others[0]] if others else _LEAST
        widths[place] = max(cut[place] - over, min(next_, cut[place] - 1), _LEAST)
    return widths


def toned(text: str, cell: Cell, look: Look) -> str:
    """Return the text in the colour of the cell, where it has one."""
    if not look.colours or not isinstance(cell, Toned):
        return text
    return f"\x1b[{cell.tone.value}m{text}\x1b[0m"


def _padded(text: str, column: Column, width: int) -> str:
    if len(text) > width:
        text = text[: width - 1] + _CUT
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
