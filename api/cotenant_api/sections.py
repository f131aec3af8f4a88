"""Sections of a Markdown page that a command writes, between two markers that name the command."""

import re
from pathlib import Path

from cotenant_api import errors, files

FIELD = "--write"


def require(page: Path, *, command: str) -> None:
    """Nothing, if the page has the section of a command: asked before a long computation.

    Raises:
        InvalidInputError: the page cannot be read, or has no such section.
    """
    _around(page, read(page), command)


def replace(page: Path, content: list[str], *, command: str) -> None:
    """Put lines in the place of what stands in the section; the rest of the page stays.

    Raises:
        InvalidInputError: the page cannot be read or written, or has no such section.
    """
    files.replace(page, filled(page, read(page), content, command=command).encode(), field=FIELD)


def lines(page: Path, *, command: str) -> list[str]:
    """Return what stands in the section, without the empty lines around it.

    Raises:
        InvalidInputError: the page cannot be read, or has no such section.
    """
    text = read(page)
    before, after = _around(page, text, command)
    return text[len(before) : len(text) - len(after)].strip().splitlines()


def filled(page: Path, text: str, content: list[str], *, command: str) -> str:
    """Return the page's text with lines in the place of what stands in the section. `page` is for messages alone.

    Raises:
        InvalidInputError: there is no such section.
    """
    before, after = _around(page, text, command)
    body = "\n".join(content)
    return f"{before}\n\n{body}\n{after}"


def commands(text: str) -> list[str]:
    """Who writes the sections of a page, in order."""
    return re.findall(r"<!-- begin: (.+?) -->", text)


def read(page: Path) -> str:
    """Return the text of a page.

    Raises:
        InvalidInputError: it cannot be read.
    """
    try:
        return page.read_text(encoding="utf-8")
    except OSError as error:
        raise errors.InvalidInputError(FIELD, str(page), f"cannot be read: {error.strerror}") from error


def _around(page: Path, text: str, command: str) -> tuple[str, str]:
    """Return the page up to the end of the first marker, and from the second one on."""
    begin, end = f"<!-- begin: {command} -->", f"<!-- end: {command} -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise errors.InvalidInputError(FIELD, str(page), f"must hold the lines {begin} and {end}")
    return before + begin, end + after
