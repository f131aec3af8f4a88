"""Puts tables into a page, between the two markers that stand for a command."""

from collections.abc import Sequence
from pathlib import Path

from cotenant_api import errors, files


def write(page: Path, name: str, lines: Sequence[str]) -> None:
    """Replace what stands between `<!-- NAME:start -->` and `<!-- NAME:end -->`.

    Raises:
        InvalidInputError: the page cannot be read or written, or lacks the markers.
    """
    begin, end = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise errors.InvalidInputError("--write", str(page), f"cannot be read: {error.strerror}") from error
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise errors.InvalidInputError("--write", str(page), f"must hold the lines {begin} and {end}")
    files.replace(page, f"{before}{begin}\n\n{chr(10).join(lines)}\n\n{end}{after}".encode(), field="--write")
