"""A page as a folder: `README.md` with tables and figures, `page.html`, `page.json`, and each figure as SVG. Pure."""

import json
from collections.abc import Iterator, Mapping

from cotenant_simulator.report import html, markdown, page, plots, svg


def contents(shown: page.Page) -> Mapping[str, bytes]:
    """Return what lies in it, by name; the same page gives the same bytes."""
    found = {
        "README.md": "\n".join(_readme(shown)) + "\n",
        "page.html": html.render(shown),
        "page.json": json.dumps(shown.document, allow_nan=False, indent=1) + "\n",
    }
    for name, figure in _figures(shown).items():
        found[name] = plots.element(figure, ident=name.removesuffix(".svg"), ink=svg.INK) + "\n"
    return {name: text.encode() for name, text in found.items()}


def _readme(shown: page.Page) -> Iterator[str]:
    yield f"# {markdown.escaped(shown.title)}"
    yield ""
    yield from markdown.lines(shown)
    for name, figure in _figures(shown).items():
        label = markdown.escaped(f"{figure.title} ({figure.basis})")
        yield ""
        yield f"**{label}**"
        yield ""
        yield f"![{label.replace('[', '(').replace(']', ')')}]({name})"
        remark = plots.remark(figure)
        if remark:
            yield ""
            yield markdown.escaped(remark)
    yield ""
    yield "The same as [one page](page.html), and [for programs](page.json)."


def _figures(shown: page.Page) -> Mapping[str, page.Figure]:
    found = [part for part in shown.parts if not isinstance(part, page.Table)]
    return {f"figure-{number}.svg": figure for number, figure in enumerate(found, 1)}
