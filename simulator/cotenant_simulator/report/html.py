"""A page as one self-contained HTML document: no script, nothing from elsewhere. Pure."""

import html
from collections.abc import Iterator
from typing import Final

from cotenant_simulator.report import cells, page

_STYLE: Final = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } td, th { padding: .2rem .6rem; text-align: left; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
"""


def render(shown: page.Page) -> str:
    """The document."""
    return "\n".join(_lines(shown)) + "\n"


def _lines(shown: page.Page) -> Iterator[str]:
    title = html.escape(shown.title)
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{title}</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>{title}</h1><p>{html.escape(shown.answer)}</p>"
    yield f"<p><code>{html.escape(shown.command)}</code></p>"
    for table in shown.tables:
        yield from _table(table)
    yield "<ul>"
    yield from (f"<li>{html.escape(condition)}</li>" for condition in shown.conditions)
    yield "</ul></body></html>"


def _table(table: page.Table) -> Iterator[str]:
    kinds = ['class="number"' if column.form else "" for column in table.columns]
    yield f"<h2>{html.escape(table.title)} ({table.basis})</h2>"
    yield '<div class="wide"><table><thead><tr>'
    for column, kind in zip(table.columns, kinds, strict=True):
        yield f'<th scope="col" {kind}>{html.escape(column.title)}</th>'
    yield "</tr></thead><tbody>"
    for row in table.rows:
        texts = [cells.text(cell, column) for cell, column in zip(row, table.columns, strict=True)]
        found = (f"<td {kind}>{html.escape(text)}</td>" for text, kind in zip(texts, kinds, strict=True))
        yield f"<tr>{''.join(found)}</tr>"
    yield "</tbody></table></div>"
    if table.note:
        yield f"<p>{html.escape(table.note)}</p>"
