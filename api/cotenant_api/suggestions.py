"""Names that somebody may have meant by another name. Pure."""

import difflib
import re
from collections.abc import Collection
from typing import Final

MOST_SHOWN: Final = 12
_WORD: Final = re.compile(r"[a-z]+|[0-9]+")
_ALIKE: Final = 0.7
"""Part of two names that must be equal for one to be taken for a slip of the other."""


def meant(name: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the known names of which the name is a part, as H100 of NVIDIA-H100-80GB-HBM3; else those most like it."""
    words = _words(name)
    having = sorted(one for one in known if words and _is_within(words, _words(one)))
    if having:
        return tuple(having)
    lowered = {one.lower(): one for one in sorted(known)}
    return tuple(lowered[one] for one in difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=_ALIKE))


def advice(name: str, known: Collection[str], *, known_are: str = "known are") -> str:
    """Return a question after the names that may be meant, else the list of the known ones; empty: none is known."""
    found = meant(name, known)
    if found:
        return f"did you mean {_listed(found, last=' or ')}?"
    return f"{known_are} {_listed(sorted(known), last=', ')}" if known else ""


def _words(name: str) -> list[str]:
    """Return letters and figures apart, so that `A100 40GB` is found in `NVIDIA-A100-PCIE-40GB`."""
    return _WORD.findall(name.lower())


def _is_within(words: list[str], others: list[str]) -> bool:
    """Return whether the words stand in the others in their order, with gaps."""
    left = iter(others)
    return all(word in left for word in words)


def _listed(found: Collection[str], *, last: str) -> str:
    *shown, final = list(found)[:MOST_SHOWN]
    more = len(found) - MOST_SHOWN
    if more > 0:
        return f"{', '.join([*shown, final])} and {more} more"
    return f"{', '.join(shown)}{last}{final}" if shown else final
