"""The tables of a page as Markdown. Pure."""

from collections.abc import Iterator, Sequence

from cotenant_api import printable
from cotenant_simulator.report import cells, page


def lines(shown: page.Page) -> Iterator[str]:
    """Yield the command, the answer, the tables and the conditions; figures are for HTML."""
    yield f"`{printable.plain(shown.command).replace('`', '')}`"
    yield ""
    yield escaped(shown.answer)
    for table in shown.tables:
        yield ""
        yield f"**{escaped(table.title)}** ({table.basis})"
        yield ""
        yield from rows(table)
        if table.note:
            yield ""
            yield escaped(table.note)
    for number, condition in enumerate(shown.conditions):
        if not number:
            yield ""
        yield f"- {escaped(condition)}"


def rows(table: page.Table) -> Iterator[str]:
    """One table; numbers to the right."""
    yield _row([column.title for column in table.columns])
    yield _row(["---:" if column.form else "---" for column in table.columns])
    for row in table.rows:
        yield _row([cells.text(cell, column) for cell, column in zip(row, table.columns, strict=True)])


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(escaped(text).replace('|', '&#124;') for text in texts)} |"


def escaped(words: str) -> str:
    """No HTML: names come from anywhere."""
    return printable.plain(words).replace("&", "&amp;").replace("<", "&lt;")
