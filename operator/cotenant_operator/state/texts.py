"""Numbers and times that others write as text, into objects that anybody may write. Pure: none of them is an error."""

from datetime import UTC, datetime
from typing import Final

MAX_DIGITS: Final = 18
"""Of a number in a label or an annotation: it fits into 64 bits."""
_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""Beyond these a sum with a pause may leave the calendar."""


def number(text: str) -> int:
    """Return a whole number; 0 where it is none."""
    return int(text) if len(text) <= MAX_DIGITS and text.isascii() and text.isdigit() else 0


def time(text: object) -> datetime | None:
    """Return a time; None where there is none, it names no time zone, or it is too far away to be reckoned with."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    return found if found.tzinfo is not None and _EARLIEST <= found <= _LATEST else None
