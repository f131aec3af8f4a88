"""The argument `--seeds` of every experiment. Pure."""

import itertools
import re
from typing import Final

from cotenant_api import errors

_MOST: Final = 1000
_RANGE: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


def read(text: str) -> tuple[int, ...]:
    """Seeds of a list such as `42-51` or `42,44,50-51`, each once.

    Raises:
        InvalidInputError: it is no such list.
    """
    found = [_RANGE.fullmatch(part.strip()) for part in text.split(",")]
    ranges = [(int(one[1]), int(one[2] or one[1])) for one in found if one]
    if len(ranges) < len(found) or any(last < first or last - first >= _MOST for first, last in ranges):
        remedy = f"must be seeds such as 42-51 or 42,44,50-51, at most {_MOST} in a range"
        raise errors.InvalidInputError("--seeds", text, remedy)
    return tuple(dict.fromkeys(itertools.chain.from_iterable(range(first, last + 1) for first, last in ranges)))
