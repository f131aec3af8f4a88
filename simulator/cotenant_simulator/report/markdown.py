"""The tables of a page as Markdown. Pure."""

from collections.abc import Iterator, Sequence

from cotenant_simulator.report import cells, page


def lines(shown: page.Page) -> Iterator[str]:
    """The command, the answer, the tables and the conditions; figures are for HTML."""
    yield f"`{shown.command}`"
    yield ""
    yield shown.answer
    for table in shown.tables:
        yield ""
        yield f"**{table.title}** ({table.basis})"
        yield ""
        yield from rows(table)
        if table.note:
            yield ""
            yield table.note
    for number, condition in enumerate(shown.conditions):
        if not number:
            yield ""
        yield f"- {condition}"


def rows(table: page.Table) -> Iterator[str]:
    """One table; numbers to the right."""
    yield _row([column.title for column in table.columns])
    yield _row(["---:" if column.form else "---" for column in table.columns])
    for row in table.rows:
        yield _row([cells.text(cell, column) for cell, column in zip(row, table.columns, strict=True)])


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(text.replace('|', '&#124;') for text in texts)} |"
