"""A page on a terminal, by rich. Prints to the console that it is given, and nowhere else.

A table that is wider than the terminal is shown in several, each with the first column: numbers are never broken.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rich import box, console, padding, table, text
from rich import cells as widths

from cotenant_simulator.report import cells, page

_BETWEEN: Final = 3
"""Blanks between two columns."""
_EDGES: Final = 2
_WORDS: Final = 36
"""A column of text is broken into lines when it is wider."""


def show(shown: page.Page, to: console.Console) -> None:
    """The answer, the tables and the conditions."""
    to.print(text.Text(cells.plain(shown.title), style="bold"))
    to.print(text.Text(cells.plain(shown.answer)))
    for one in shown.tables:
        to.print()
        for part in _tables(one, to.width):
            to.print(part)
        if one.note:
            to.print(padding.Padding(text.Text(cells.plain(one.note), style="dim"), (0, 1), expand=False))
    if shown.conditions:
        to.print()
    for condition in shown.conditions:
        to.print(text.Text(f"- {cells.plain(condition)}", style="dim"))


def _tables(shown: page.Table, width: int) -> Iterator[table.Table]:
    texts = [[cells.text(cell, column) for cell, column in zip(row, shown.columns, strict=True)] for row in shown.rows]
    needs = [_need(column, [row[place] for row in texts]) for place, column in enumerate(shown.columns)]
    title = cells.plain(f"{shown.title} ({shown.basis})")
    for number, places in enumerate(_parts(needs, width)):
        made = table.Table(
            box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left", title=text.Text(title, style="italic")
        )
        title = f"{title}, continued" if not number else title
        for place in places:
            column, number_column = shown.columns[place], bool(shown.columns[place].form)
            made.add_column(
                text.Text(cells.plain(column.title)),
                justify="right" if number_column else "left",
                no_wrap=number_column,
                min_width=min(needs[place], width - _EDGES),
            )
        for row in texts:
            made.add_row(*(text.Text(row[place]) for place in places))
        yield made


def _need(column: page.Column, texts: Sequence[str]) -> int:
    """Columns of the terminal: the longest word of its title, and all of its numbers or some of its text."""
    title = max((widths.cell_len(word) for word in column.title.split()), default=1)
    longest = max(map(widths.cell_len, texts), default=1)
    return max(title, longest if column.form else min(longest, _WORDS))


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
