"""A page on a terminal, by rich. Prints to the console that it is given, and nowhere else.

A table that is wider than the terminal is shown in several, each with the first column: numbers are never broken.
"""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from rich import box, console, padding, table, text
from rich import cells as widths

from cotenant_api import printable
from cotenant_simulator.report import cells, page

_BETWEEN: Final = 3
"""Blanks between two columns."""
_EDGES: Final = 2
_TITLE: Final = 14
_WORDS: Final = 36
"""A column of text is broken into lines when it is wider."""


def show(shown: page.Page, to: console.Console) -> None:
    """Show the answer, the tables and the conditions."""
    to.print(text.Text(printable.plain(shown.title), style="bold"))
    to.print(text.Text(printable.plain(shown.answer)))
    for one in shown.tables:
        to.print()
        to.print(text.Text(printable.plain(f"{one.title} ({one.basis})"), style="italic"))
        for part in _tables(one, to.width):
            to.print(part)
        if one.note:
            to.print(padding.Padding(text.Text(printable.plain(one.note), style="dim"), (0, 1), expand=False))
    if shown.conditions:
        to.print()
    for condition in shown.conditions:
        to.print(text.Text(f"- {printable.plain(condition)}", style="dim"))


def _tables(shown: page.Table, width: int) -> Iterator[table.Table]:
    texts = [[cells.text(cell, column) for cell, column in zip(row, shown.columns, strict=True)] for row in shown.rows]
    needs = [_need(column, [row[place] for row in texts]) for place, column in enumerate(shown.columns)]
    for places in _parts(needs, width):
        made = table.Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for place in places:
            numbers = bool(shown.columns[place].form)
            words = printable.plain(shown.columns[place].title)
            # Broken here: where rich breaks no number, it breaks no title either.
            head = text.Text("\n".join(textwrap.wrap(words, needs[place])))
            made.add_column(head, justify="right" if numbers else "left", no_wrap=numbers, max_width=needs[place])
        for row in texts:
            made.add_row(*(text.Text(row[place]) for place in places))
        yield made


def _need(column: page.Column, texts: Sequence[str]) -> int:
    """Columns of the terminal: of its title a line, and all of its numbers or some of its text."""
    title = printable.plain(column.title)
    word = max((widths.cell_len(word) for word in title.split()), default=1)
    longest = max(map(widths.cell_len, texts), default=1)
    return max(word, min(widths.cell_len(title), _TITLE), longest if column.form else min(longest, _WORDS))


def _parts(needs: Sequence[int], width: int) -> Iterator[list[int]]:
    """Columns that stand beside each other; the first is in every part."""
    places, used = [0], needs[0] + _EDGES
    for place, need in enumerate(needs[1:], 1):
        if len(places) > 1 and used + need + _BETWEEN > width:
            yield places
            places, used = [0], needs[0] + _EDGES
        places.append(place)
        used += need + _BETWEEN
    yield places
