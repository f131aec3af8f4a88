"""What a command may write to: whether it is a terminal with colours, and how wide it is."""

import os
from typing import Final, TextIO

_LEAST: Final = 40
"""A terminal that says it is narrower has not been told its size."""


def in_colours(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that shows colours, and nobody asked for none (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width(stream: TextIO) -> int | None:
    """Return the columns of a terminal; None: it is none, or does not say."""
    if not stream.isatty():
        return None
    try:
        found = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return None
    return found if found >= _LEAST else None
