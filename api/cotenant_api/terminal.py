"""What a command may write to: whether it is a terminal with colours, how wide it is, and whether somebody reads it."""

import os
import select
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


def write(text: str, stream: TextIO) -> bool:
    """Write at once; False: the reader has gone (`cotenant top | head`), and what is written from now on is lost."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        discard(stream)
        return False
    return True


def discard(stream: TextIO) -> None:
    """Throw away what is left of a stream without a reader: else Python would write it at its exit, and fail there."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def has_reader(stream: TextIO) -> bool:
    """Return whether a stream is no pipe whose reader has gone."""
    try:
        asked = select.poll()
        asked.register(stream.fileno(), 0)
        return not asked.poll(0)
    except (OSError, ValueError):
        return True
