"""Sections of a Markdown page that a command writes, between two markers that name the command."""

from pathlib import Path

from cotenant_api import errors, files

FIELD = "--write"


def require(page: Path, *, command: str) -> None:
    """Nothing, if the page has the section of a command: asked before a long computation.

    Raises:
        InvalidInputError: the page cannot be read, or has no such section.
    """
    _around(page, command)


def replace(page: Path, lines: list[str], *, command: str) -> None:
    """Put lines in the place of what stands in the section; the rest of the page stays.

    Raises:
        InvalidInputError: the page cannot be read or written, or has no such section.
    """
    before, after = _around(page, command)
    body = "\n".join(lines)
    files.replace(page, f"{before}\n\n{body}\n{after}".encode(), field=FIELD)


def _around(page: Path, command: str) -> tuple[str, str]:
    """The page up to the end of the first marker, and from the second one on."""
    begin, end = f"<!-- begin: {command} -->", f"<!-- end: {command} -->"
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise errors.InvalidInputError(FIELD, str(page), f"cannot be read: {error.strerror}") from error
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise errors.InvalidInputError(FIELD, str(page), f"must hold the lines {begin} and {end}")
    return before + begin, end + after
