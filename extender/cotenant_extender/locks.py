"""One at a time, by key."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class Locks:
    """A lock for each key that is in use."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, tuple[asyncio.Lock, int]] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._locks

    @asynccontextmanager
    async def of(self, key: Hashable) -> AsyncIterator[None]:
        """Alone with this key."""
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[key]
            if users == 1:
                del self._locks[key]
            else:
                self._locks[key] = lock, users - 1
