"""A pod's place in the packing queue, at the end of its condition's message: "...; 4th in the queue".

The extender writes it and the operator reads it, with the same words for people and programs. Pure.
"""

import re

_PLACE = re.compile(r"; ([1-9][0-9]{0,8})(?:st|nd|rd|th) in the queue$")


def told(message: str, position: int) -> str:
    """Return the message with the place; `position` is from 1."""
    return f"{message}; {ordinal(position)} in the queue"


def position(message: str) -> int | None:
    """Return the place that a message ends with, if it does."""
    found = _PLACE.search(message)
    return None if found is None else int(found[1])


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"
