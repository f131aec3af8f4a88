"""What a command writes to: whether it is a terminal with colours, how wide it is, and what it cannot take."""

import codecs
import io
import json
import os
import sys
from typing import Final, TextIO

from cotenant_api import errors

_ESCAPED: Final = "cotenant.escaped"
_LEAST: Final = 40
"""A terminal that says it is narrower has not been told its size."""


def prepare() -> None:
    """Have characters that standard output cannot encode written as JSON's escapes: documents stay what they are.

    Raises:
        PermanentError: it is closed.
    """
    if sys.stdout is None:
        raise errors.PermanentError("standard output is closed: send it to a file, or to /dev/null")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_ESCAPED)


def write(text: str) -> bool:
    """Write to standard output; False: who read it has gone (`cotenant top | head`): there is nothing more to do.

    Raises:
        PermanentError: it takes no more (`> /dev/full`).
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard()
        return False
    except OSError as error:
        _discard()
        raise errors.PermanentError(f"standard output cannot be written: {error.strerror}") from error
    return True


def _discard() -> None:
    """Give up what is left of the output: Python would write it at its exit, and fail there."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Return what stands for the characters, and where encoding goes on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error(_ESCAPED, _escaped)


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
