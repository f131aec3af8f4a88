"""Pages of a list whose objects are large together, or alone."""

from collections.abc import Mapping
from typing import Any

import pytest

from cotenant_cli.reading import pages


class _Source:
    """Takes so many objects in an answer, at most."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.asked: list[dict[str, str]] = []

    def get(self, _path: str, query: pages.Query, /) -> tuple[int, Mapping[str, Any]]:
        self.asked.append(dict(query))
        if int(self.asked[-1]["limit"]) > self.most:
            raise pages.TooLargeError("too large")
        return 200, {"items": []}


def test_a_page_that_is_too_large_is_asked_for_in_parts() -> None:
    source = _Source(100)
    status, _, limit = pages.page(source, "/x", [("a", "b")], following="next", limit=500)
    assert (status, limit) == (200, 62)
    assert source.asked[-1] == {"limit": "62", "a": "b", "continue": "next"}


def test_one_object_that_is_too_large_is_told() -> None:
    with pytest.raises(pages.TooLargeError):
        pages.page(_Source(0), "/x", (), following="", limit=4)
