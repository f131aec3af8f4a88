"""Work in steps: what would block the event loop for long is a generator that yields often.

Whoever makes the generator knows no event loop. `finish` does all steps at once; `turns` lets others run in between.
"""

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]

Late: TypeAlias = Callable[[float], bool]
"""Whether this part of the time that a turn of the event loop may take has passed: work ends where it can go on later.

It only ever asks between two steps, and does one step all the same: else whoever is slow would never be done.
"""

BEGIN = 0.5
"""Up to this part of the time something else is begun that may take as long again."""

BEGIN_LONG = 0.2
"""Up to this part something is begun that may take longer than all of the time."""


def never(_part: float) -> bool:
    """There is time."""
    return False


def finish(work: Steps[T]) -> T:
    """Do all steps at once, and return the result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
