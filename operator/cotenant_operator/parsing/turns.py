"""Who reads next: a few at a time, and the namespaces take turns. Knows nothing of what is read."""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from typing import Final

from cotenant_api import errors

PER_NAMESPACE: Final = 64
"""So many of a namespace wait; who comes then is told to come back."""
IN_ALL: Final = 256
"""So many wait in all; then of each namespace only one."""
AGAIN_SECONDS: Final = 5.0


class Turns:
    """A lock that goes around among namespaces.

    Whoever comes waits for one turn of each other namespace at most, however many one of them has waiting.

    Args:
        per_namespace, in_all: how many may wait.
        at_once: how many hold the lock at the same time.
    """

    def __init__(self, *, per_namespace: int = PER_NAMESPACE, in_all: int = IN_ALL, at_once: int = 1) -> None:
        self._per_namespace, self._in_all = per_namespace, in_all
        self._free = at_once
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @contextlib.asynccontextmanager
    async def turn(self, namespace: str) -> AsyncIterator[None]:
        """Hold the lock for the block.

        Raises:
            TemporaryError: too many of the namespace wait already.
        """
        await self._take(namespace)
        try:
            yield
        finally:
            self._pass_on()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def check(self, namespace: str) -> None:
        """Raise what `turn` would raise now.

        Raises:
            TemporaryError: too many of the namespace wait already.
        """
        own = len(self._waiting.get(namespace, ()))
        if own >= (self._per_namespace if len(self) < self._in_all else 1):
            message = f"{own} graphs of namespace {namespace} wait to be read already"
            raise errors.TemporaryError(message, delay_seconds=AGAIN_SECONDS)

    async def _take(self, namespace: str) -> None:
        if self._free:
            self._free -= 1
            return
        self.check(namespace)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The turn had come when the wait was given up.
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            namespace, waiting = self._waiting.popitem(last=False)
            turn = waiting.popleft()
            if waiting:
                self._waiting[namespace] = waiting
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
