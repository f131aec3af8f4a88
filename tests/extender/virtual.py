"""Virtual time: a coroutine runs to its end without waiting for anything but work; sleeping costs nothing.

Whenever nothing is left to do, the loop's time jumps to the next timer. Every run is the same.
"""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

P = ParamSpec("P")


class _Jumping(selectors.DefaultSelector):
    """Never blocks: it passes the time instead. It asks no socket: nothing in virtual time has one."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """The time passes."""
        if timeout is None:
            raise RuntimeError("nothing is left that could ever happen")
        self.now += max(timeout, 0.0)
        return []


class Loop(asyncio.SelectorEventLoop):
    """An event loop in virtual time, in seconds from 0."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Virtual seconds."""
        return self._jumping.now


def time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in virtual time."""

    @functools.wraps(test)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(test(*arguments, **named))

    return run
