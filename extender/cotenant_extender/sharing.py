"""Equal values kept once: most pods are like others, and there are many. Pure.

What is returned equals what was given and is never changed by anyone. What cannot be compared is returned as it is.
"""

import functools
import sys
from collections.abc import Mapping
from typing import Any, TypeVar, cast

T = TypeVar("T")

LIMIT = 4096
"""How many values, and how many sets of labels, are remembered."""


def one(value: T) -> T:
    """Return an equal value that is there already."""
    try:
        found: T = _remembered(value)
    except TypeError:
        return value
    return found


def text(value: T) -> T:
    """Return the same for names that many objects hold; they are forgotten with the last of these."""
    given: Any = value
    return cast("T", sys.intern(given)) if type(given) is str else value


def labels(value: Mapping[str, str] | None) -> Mapping[str, str]:
    """Labels of an object."""
    if not value:
        return {}
    given = value
    try:
        return _labelled(tuple(given.items()))
    except TypeError:
        return given


@functools.lru_cache(maxsize=LIMIT)
def _remembered(value: Any) -> Any:
    return value


@functools.lru_cache(maxsize=LIMIT)
def _labelled(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(items)
