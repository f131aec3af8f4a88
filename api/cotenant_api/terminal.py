"""What a command writes to: whether it is a terminal with colours, how wide it is, and whether it can take it."""

import codecs
import io
import json
import os
import select
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


def flush() -> None:
    """Write what `print` has kept so far: at Python's exit nobody could say what went wrong.

    Raises:
        BrokenPipeError: the reader has gone.
        PermanentError: standard output takes no more.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _full(sys.stdout, error) from error


def write(text: str, stream: TextIO | None = None) -> bool:
    """Write at once; False: the reader has gone (`cotenant top | head`), and what is written from now on is lost.

    Args:
        text: what to write.
        stream: where; None: standard output.

    Raises:
        PermanentError: it takes no more (`> /dev/full`).
    """
    target = sys.stdout if stream is None else stream
    try:
        target.write(text)
        target.flush()
    except BrokenPipeError:
        discard(target)
        return False
    except OSError as error:
        raise _full(target, error) from error
    return True


def discard(stream: TextIO) -> None:
    """Throw away what is left of a stream without a reader: else Python would write it at its exit, and fail there."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _full(stream: TextIO, error: OSError) -> errors.PermanentError:
    discard(stream)
    return errors.PermanentError(f"standard output cannot be written: {error.strerror}")


def has_reader(stream: TextIO) -> bool:
    """Return whether a stream is no pipe whose reader has gone."""
    try:
        asked = select.poll()
        asked.register(stream.fileno(), 0)
        return not asked.poll(0)
    except (OSError, ValueError):
        return True


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
