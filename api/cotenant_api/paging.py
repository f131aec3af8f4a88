"""How many objects to ask for in each page of a list, as some of them may be large. Pure."""

from typing import Final

_DIVISOR: Final = 8
"""An object is some kilobytes, or a megabyte: halves would have the API server send nine pages that nobody reads."""


def smaller(limit: int) -> int:
    """Return the limit after a page that had more bytes than are read at once; at least 1."""
    return max(limit // _DIVISOR, 1)


def larger(limit: int, most: int) -> int:
    """Return the limit after a page that was read: one large object must not make all later pages small."""
    return min(limit + limit // 4 + 1, most)
