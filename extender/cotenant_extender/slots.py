"""Slots for requests, shared among namespaces so that one whose requests hang leaves most of them to the others.

A namespace gets another slot while `part` times what it holds is less than the number of free slots. So one alone holds
at most 1 / (part + 1) of all, and each further one that hangs as large a part of the rest. Where so many hang that none
is left, the next slot goes to a namespace that holds none. This is the dynamic threshold of Choudhury and Hahne
("Dynamic queue length thresholds for shared-memory packet switches", 1998). Namespaces that wait for a slot take turns.
"""

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

Item = TypeVar("Item")


class Slots:
    """Slots of requests of one kind.

    Args:
        count: how many requests are under way at most.
        part: how small the part is that one namespace may hold.
    """

    def __init__(self, count: int, *, part: int = 2) -> None:
        self._free, self._part = count, part
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def of(self, namespace: str) -> AsyncIterator[None]:
        """Hold a slot for the block; wait for it where the namespace holds its part."""
        await self._take(namespace)
        try:
            yield
        finally:
            self._give_back(namespace)

    @asynccontextmanager
    async def within(self, namespace: str, seconds: float) -> AsyncIterator[bool]:
        """Hold a slot for the block; False: none came within so many seconds. It is not waited for 0 seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._take(namespace)
        except TimeoutError:
            yield False
            return
        try:
            yield True
        finally:
            self._give_back(namespace)

    async def _take(self, namespace: str) -> None:
        if namespace not in self._waiting and self._may_have(namespace):
            self._count(namespace, 1)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(namespace)
            raise

    def _give_back(self, namespace: str) -> None:
        self._count(namespace, -1)
        while (first := next(filter(self._may_have, self._waiting), None)) is not None:
            turns = self._waiting.pop(first)
            turn = turns.popleft()
            if turns:
                # The others go first the next time.
                self._waiting[first] = turns
            if not turn.done():
                self._count(first, 1)
                turn.set_result(None)

    def _may_have(self, namespace: str) -> bool:
        return self._part * self._held[namespace] < self._free

    def _count(self, namespace: str, more: int) -> None:
        self._free -= more
        self._held[namespace] += more
        if not self._held[namespace]:
            del self._held[namespace]


class Moving:
    """Requests under way, of which those count that do not hang.

    Args:
        clock: seconds, by one that never goes back.
        hangs_seconds: a request that takes longer hangs, as others of its namespace may.
    """

    def __init__(self, clock: Callable[[], float], *, hangs_seconds: float) -> None:
        self._clock, self._hangs_seconds = clock, hangs_seconds
        self._begun: dict[object, float] = {}

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count one more for the block."""
        this = object()
        self._begun[this] = self._clock()
        try:
            yield
        finally:
            del self._begun[this]

    def at_least(self, count: int) -> bool:
        """Return whether so many count."""
        if len(self._begun) < count:
            return False
        oldest = next(itertools.islice(reversed(self._begun.values()), count - 1, None))
        return self._clock() - oldest < self._hangs_seconds


def in_turns(items: Iterable[Item], of: Callable[[Item], Hashable]) -> list[Item]:
    """Sort items so that their namespaces, or whatever `of` says of them, take turns; each keeps its own order."""
    before: Counter[Hashable] = Counter()
    rounds: list[tuple[int, Item]] = []
    for item in items:
        rounds.append((before[of(item)], item))
        before[of(item)] += 1
    return [item for _, item in sorted(rounds, key=lambda pair: pair[0])]
