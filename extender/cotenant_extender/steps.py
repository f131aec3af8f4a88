"""Work in steps: what would block the event loop for long is a generator that yields often.

Whoever makes the generator knows no event loop. `finish` does all steps at once; `turns` lets others run in between.
"""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]


def finish(work: Steps[T]) -> T:
    """Do all steps at once, and return the result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
