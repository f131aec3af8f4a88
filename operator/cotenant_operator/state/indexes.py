"""Sets of indexes as text, as batch/v1 writes `completedIndexes`: `0-3,7`. Pure."""

from collections.abc import Iterable

from cotenant_api import dljob


def text(indexes: Iterable[int]) -> str:
    """Return the indexes as text, in order, ranges shortened."""
    parts: list[list[int]] = []
    for index in sorted(set(indexes)):
        if parts and parts[-1][-1] == index - 1:
            parts[-1] = [parts[-1][0], index]
        else:
            parts.append([index])
    return ",".join("-".join(map(str, part)) for part in parts)


def read(written: str | None) -> frozenset[int]:
    """Return the indexes that a text names; what is no index of a run is left out."""
    found: set[int] = set()
    for part in (written or "").split(","):
        first, _, last = part.partition("-")
        if _is_index(first) and _is_index(last or first):
            found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _is_index(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= len(str(dljob.MAX_RUNS)) and int(word) < dljob.MAX_RUNS
