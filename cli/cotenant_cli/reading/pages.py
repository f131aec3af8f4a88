"""Pages of a list, each of bounded length: objects may be large, and many."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from cotenant_api import errors, paging

Query = Sequence[tuple[str, str]]


class TooLargeError(errors.PermanentError):
    """An answer has more bytes than are read at once."""


class Source(Protocol):
    """An API server; see `kube.Connection`."""

    def get(self, path: str, query: Query, /) -> tuple[int, Mapping[str, Any]]:
        """Return status and body of an answer. Raises TemporaryError, TooLargeError."""
        ...


def page(source: Source, path: str, query: Query, *, following: str, limit: int) -> tuple[int, Mapping[str, Any], int]:
    """Return status and content of a page, and its limit: smaller where so many objects are too large together.

    Raises:
        TooLargeError: one alone is.
        TemporaryError: there is no answer.
    """
    more = [("continue", following)] if following else []
    while True:
        try:
            return *source.get(path, [("limit", str(limit)), *query, *more]), limit
        except TooLargeError:
            if limit == 1:
                raise
            limit = paging.smaller(limit)
