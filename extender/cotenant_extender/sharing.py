"""Equal values kept once: most pods are like others, and there are many. Pure.

What is returned equals what was given and is never changed by anyone. What cannot be compared is returned as it is.
"""

import functools
import hashlib
import sys
from collections.abc import Mapping
from typing import Any, TypeVar, cast

T = TypeVar("T")

LIMIT = 4096
"""How many values, and how many sets of labels, are remembered: each is small."""
REMEMBERED_CHARACTERS = 4 * 1024
"""Of labels that are remembered."""
MOST_LABELS, MOST_CHARACTERS = 256, 128 * 1024
"""Of labels that are read at all. A pod that asks for a share has fewer: admission sees to that."""
LONGEST_TEXT = 512
"""Of a text that stands for itself."""


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
    """Return the labels of an object; none where there are so many that whoever wrote them wants memory."""
    if not value or len(value) > MOST_LABELS:
        return {}
    given = value
    try:
        characters = sum(map(len, given)) + sum(map(len, given.values()))
        if characters > REMEMBERED_CHARACTERS:
            return {} if characters > MOST_CHARACTERS else given
        return _labelled(tuple(given.items()))
    except TypeError:
        return given


def digest(value: str) -> str:
    """Return a text that is only compared with others, or its digest where it is long."""
    return value if len(value) <= LONGEST_TEXT else hashlib.sha256(value.encode()).hexdigest()


@functools.lru_cache(maxsize=LIMIT)
def _remembered(value: Any) -> Any:
    return value


@functools.lru_cache(maxsize=LIMIT)
def _labelled(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(items)
