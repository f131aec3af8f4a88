"""One question for all who ask at the same time: an answer serves everybody who asked before it was begun."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """A question whose answer must be no older than the asking, and is costly when many ask at once.

    Args:
        ask: the question. Its errors are told to the one who asked; the next who waits asks again.
    """

    def __init__(self, ask: Callable[[], Awaitable[T]]) -> None:
        self._ask = ask
        self._one_at_a_time = asyncio.Lock()
        self._begun = 0
        self._answer: tuple[int, T] | None = None
        self._waiting = 0

    async def __call__(self) -> T:
        """Return an answer that was begun after this call."""
        asked = self._begun
        self._waiting += 1
        try:
            async with self._one_at_a_time:
                if self._answer is not None and self._answer[0] > asked:
                    return self._answer[1]
                self._begun += 1
                number = self._begun
                answer = await self._ask()
                self._answer = (number, answer)
                return answer
        finally:
            self._waiting -= 1
            if not self._waiting:
                # Nobody is left whom it could serve.
                self._answer = None
