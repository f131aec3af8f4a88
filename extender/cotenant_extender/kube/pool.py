"""Kept-alive connections to one server: as many as are in use, up to a limit; the one used last is used next."""

import asyncio
import ssl
from collections import deque
from typing import Final, NamedTuple

from cotenant_extender.kube import connection

KEEP_ALIVE_SECONDS: Final = 75.0
"""Less than the API server keeps an idle connection (90 s): it never is just being closed."""
CONNECT_SECONDS: Final = 10.0


class Server(NamedTuple):
    """Where to connect to; `tls`: None for plain HTTP."""

    host: str
    port: int
    tls: ssl.SSLContext | None


class Pool:
    """Connections to one server.

    Args:
        limit: how many there may be; whoever needs one more waits.
    """

    def __init__(self, server: Server, *, limit: int) -> None:
        self._server, self._limit = server, limit
        self._idle: list[connection.Connection] = []
        self._all: set[connection.Connection] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._opening = 0

    async def take(self) -> connection.Connection:
        """Return a connection of one's own.

        Raises:
            OSError, TimeoutError: none can be opened.
        """
        while True:
            found = self._freshest()
            if found is not None:
                return found
            if len(self._all) + self._opening < self._limit:
                return await self._open()
            await self._turn()

    def give_back(self, taken: connection.Connection) -> None:
        """Take back a connection to be used again; one whose answer has not ended must be closed instead."""
        if taken.usable:
            taken.idle_since = asyncio.get_running_loop().time()
            self._idle.append(taken)
        self._next()

    def close(self) -> None:
        """Close every connection."""
        for one in list(self._all):
            one.close()

    def _freshest(self) -> connection.Connection | None:
        oldest = asyncio.get_running_loop().time() - KEEP_ALIVE_SECONDS
        while self._idle:
            found = self._idle.pop()
            if found.usable and found.idle_since >= oldest:
                return found
            found.close()
        return None

    async def _open(self) -> connection.Connection:
        host, port, tls = self._server
        loop = asyncio.get_running_loop()
        self._opening += 1
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, made = await loop.create_connection(
                    lambda: connection.Connection(self._ended),
                    host,
                    port,
                    ssl=tls,
                    server_hostname=host if tls else None,
                )
        except BaseException:
            self._next()
            raise
        finally:
            self._opening -= 1
        self._all.add(made)
        return made

    async def _turn(self) -> None:
        """Wait until a connection was given back or ended."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._next()
            raise

    def _next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _ended(self, lost: connection.Connection) -> None:
        self._all.discard(lost)
        self._next()
