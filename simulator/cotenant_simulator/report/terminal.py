"""A page on a terminal, by rich. Prints to the console that it is given, and nowhere else."""

from rich import box, console, padding, table, text

from cotenant_simulator.report import cells, page


def show(shown: page.Page, to: console.Console) -> None:
    """The answer, the tables and the conditions."""
    to.print(text.Text(shown.title, style="bold"))
    to.print(text.Text(shown.answer))
    for one in shown.tables:
        to.print()
        to.print(_table(one))
        if one.note:
            to.print(padding.Padding(text.Text(one.note, style="dim"), (0, 1)))
    if shown.conditions:
        to.print()
    for condition in shown.conditions:
        to.print(text.Text(f"- {condition}", style="dim"))


def _table(shown: page.Table) -> table.Table:
    made = table.Table(box=box.SIMPLE_HEAD, title=f"{shown.title} ({shown.basis})", title_justify="left")
    for column in shown.columns:
        made.add_column(text.Text(column.title), justify="right" if column.form else "left")
    for row in shown.rows:
        made.add_row(*(text.Text(cells.text(cell, column)) for cell, column in zip(row, shown.columns, strict=True)))
    return made
