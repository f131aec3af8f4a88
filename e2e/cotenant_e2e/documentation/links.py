"""Links between Markdown files of the repository, as the site needs them. Pure but for asking which files are there.

On a code host every relative link works. The site has pages under docs/ and the READMEs that it includes; whatever
else a page links to is at the repository's address.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DOCS: Final = "docs"
_TOKEN: Final = re.compile(
    r"^ *```.*?^ *```$"
    r"|(?P<ticks>`+)(?!`)[^\n]+?(?<!`)(?P=ticks)(?!`)"
    r"|(?P<mark>!?)\[(?P<text>(?:(?!\n\s*\n)(?:[^\[\]\\]|\\[^\n]|\[[^\[\]]*\]))*)\]\((?P<target>[^()\s]+)\)",
    re.MULTILINE | re.DOTALL,
)
"""A block of code, code in a line, or a link: whichever begins first."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """What the site holds.

    Attributes:
        root: of the repository.
        included: path of a README in the repository -> its page's path on the site.
        repository: address of the repository on a code host, for what the site does not hold; empty: none is known, and
            such links become plain text.
    """

    root: Path
    included: Mapping[str, str]
    repository: str = ""


def rewritten(text: str, *, source: str, page: str, site: Site) -> str:
    """Return a page's Markdown with every relative link as the site needs it; code is left alone.

    Args:
        text: the Markdown.
        source: path of the file in the repository.
        page: path of its page on the site, as in `docs/`.
        site: what the site holds.
    """
    return _TOKEN.sub(lambda found: _link(found, source, page, site) if found["target"] else found[0], text)


def targets(text: str, *, source: str) -> Iterator[str]:
    """Paths in the repository that a file's links lead to; those in code are none."""
    for found in _TOKEN.finditer(text):
        target = target_of(found["target"], source=source) if found["target"] else None
        if target is not None:
            yield target


def target_of(link: str, *, source: str) -> str | None:
    """Path in the repository that a link of a file leads to, without its anchor; None: it leads elsewhere."""
    path = link.partition("#")[0]
    if not path or re.match(r"[a-z][a-z0-9+.-]*:|/", path):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), path))


def _link(link: re.Match[str], source: str, page: str, site: Site) -> str:
    target = target_of(link["target"], source=source)
    if target is None:
        return link[0]
    _, hash_mark, anchor = link["target"].partition("#")
    where = _on_site(target, site)
    if where is not None:
        relative = posixpath.relpath(where, posixpath.dirname(page) or ".")
        return f"{link['mark']}[{link['text']}]({relative}{hash_mark}{anchor})"
    if not (site.root / target).exists():
        # mkdocs tells of it.
        return link[0]
    if not site.repository:
        return link["text"]
    kind = "tree" if (site.root / target).is_dir() else "blob"
    return f"{link['mark']}[{link['text']}]({site.repository.rstrip('/')}/{kind}/main/{target}{hash_mark}{anchor})"


def _on_site(target: str, site: Site) -> str | None:
    """Path on the site of a file of the repository; None: it is not there."""
    for readme in (target, posixpath.join(target, "README.md")):
        if readme in site.included:
            return site.included[readme]
    if target.startswith(f"{DOCS}/"):
        below = target.removeprefix(f"{DOCS}/")
        if (site.root / target).is_file():
            return below
        if (site.root / target / "README.md").is_file():
            return f"{below}/README.md"
    return None
