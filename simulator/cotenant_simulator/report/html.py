"""A page as one self-contained HTML document: no script, nothing from elsewhere. Pure.

Light or dark as the reader's system is; figures beside each other where there is room; what is wider than the screen
scrolls by itself, also by keyboard. Every figure says what it rests on, and its numbers stand below it.
"""

import html
import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from cotenant_api import printable
from cotenant_simulator.report import cells, page, plots, samples

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
"""A browser that reads the page asks nobody for anything."""
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #20262b; --soft: #59636b; --rule: #d5dade; --paper: #fff; --tint: #f3f5f6;
  font: 16px/1.5 system-ui, sans-serif; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #dfe4e8; --soft: #9aa5ad; --rule: #363d43; --paper: #14171a; --tint: #1d2226; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); }
main { max-width: 100rem; margin: 0 auto; padding: 1.5rem clamp(.75rem, 3vw, 2rem) 3rem; }
h1 { font-size: clamp(1.35rem, 1.1rem + 1.2vw, 2rem); line-height: 1.2; margin: 0 0 .75rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 0 0 .4rem; overflow-wrap: anywhere; }
p, li { max-width: 52rem; overflow-wrap: anywhere; }
.answer { font-size: 1.1rem; }
code { font: .9em ui-monospace, monospace; background: var(--tint); padding: .15em .4em; border-radius: 4px;
  overflow-wrap: anywhere; }
section { margin: 2rem 0; }
section > h2:not(:first-child) { margin-top: 1.6rem; }
.basis { font-weight: 400; font-size: .85rem; color: var(--soft); border: 1px solid var(--rule); border-radius: 1em;
  padding: .05em .6em; white-space: nowrap; }
.note, figcaption p, summary { color: var(--soft); font-size: .9rem; }
.wide { overflow-x: auto; }
.wide:focus-visible { outline: 2px solid #3d8bd4; }
table { border-collapse: collapse; font-size: .92rem; }
td, th { padding: .3rem .7rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--rule); }
thead th { vertical-align: bottom; border-bottom: 2px solid var(--rule); }
th { font-weight: 600; } tbody th { font-weight: 400; }
th:first-child { position: sticky; left: 0; background: var(--paper); }
td { white-space: nowrap; } td.words { white-space: normal; min-width: 8rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
tbody tr:hover { background: var(--tint); }
.figures { display: grid; gap: 2rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 34rem), 1fr)); }
figure { margin: 0; min-width: 0; max-width: 58rem; }
figure svg { display: block; width: 100%; min-width: 30rem; height: auto; }
figcaption p { margin: .2rem 0; }
@media print { .wide { overflow: visible; } section { break-inside: avoid; } }
"""


def render(shown: page.Page) -> str:
    """Return the document."""
    return "\n".join(_lines(shown)) + "\n"


def _lines(shown: page.Page) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{_escaped(shown.title)}</title><style>{_STYLE}</style></head><body><main>"
    yield f'<h1>{_escaped(shown.title)}</h1><p class="answer">{_escaped(shown.answer)}</p>'
    yield f"<p><code>{_escaped(shown.command)}</code></p>"
    numbered = enumerate(shown.parts)
    for tables, parts in itertools.groupby(numbered, key=lambda part: isinstance(part[1], page.Table)):
        yield "<section>" if tables else '<section class="figures">'
        for number, part in parts:
            yield from _table(part) if isinstance(part, page.Table) else _figure(part, f"f{number}")
        yield "</section>"
    if shown.conditions:
        yield "<section><h2>What this rests on</h2><ul>"
        yield from (f"<li>{_escaped(condition)}</li>" for condition in shown.conditions)
        yield "</ul></section>"
    yield "</main></body></html>"


def _figure(shown: page.Figure, ident: str) -> Iterator[str]:
    yield "<figure>"
    yield f"<figcaption><h2>{_heading(shown.title, shown.basis)}</h2></figcaption>"
    yield from _wide(f"figure: {shown.title}", [plots.element(shown, ident=ident)])
    remark = plots.remark(shown)
    if remark:
        yield f'<p class="note">{_escaped(remark)}</p>'
    numbers = samples.table(shown)
    yield "<details><summary>Numbers</summary>"
    yield from _wide(f"numbers: {shown.title}", _cells(numbers))
    if numbers.note and numbers.note not in remark:
        yield f'<p class="note">{_escaped(numbers.note)}</p>'
    yield "</details></figure>"


def _table(table: page.Table) -> Iterator[str]:
    yield f"<h2>{_heading(table.title, table.basis)}</h2>"
    yield from _wide(f"table: {table.title}", _cells(table))
    if table.note:
        yield f'<p class="note">{_escaped(table.note)}</p>'


def _wide(label: str, inside: Sequence[str] | Iterator[str]) -> Iterator[str]:
    yield f'<div class="wide" tabindex="0" role="region" aria-label="{_escaped(label)}">'
    yield from inside
    yield "</div>"


def _cells(table: page.Table) -> Iterator[str]:
    yield "<table><thead><tr>"
    for column in table.columns:
        kind = ' class="number"' if column.form else ""
        yield f'<th scope="col"{kind}>{_escaped(column.title)}</th>'
    yield "</tr></thead><tbody>"
    for row in table.rows:
        found = (_cell(cell, table.columns[place], place) for place, cell in enumerate(row))
        yield f"<tr>{''.join(found)}</tr>"
    yield "</tbody></table>"


def _cell(cell: page.Cell, column: page.Column, place: int) -> str:
    """Return the first cell of a row names it."""
    text = _escaped(cells.text(cell, column))
    kind = "number" if column.form else "words"
    return f'<th scope="row" class="{kind}">{text}</th>' if place == 0 else f'<td class="{kind}">{text}</td>'


def _heading(title: str, basis: page.Basis) -> str:
    return f'{_escaped(title)} <span class="basis">{_escaped(basis)}</span>'


def _escaped(words: str) -> str:
    return html.escape(printable.plain(words))
