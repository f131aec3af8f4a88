"""A UNIX socket that any user may connect to, and whose connections end with it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Listener:
    """Hands each connection to `handle`, which need not mind that the other side is gone."""

    def __init__(self, path: Path, handle: Handle) -> None:
        self._path, self._handle = path, handle
        self._open: dict[asyncio.Task[None] | None, asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen; whatever listened there before does not any more."""
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._connected, self._path)
        self._path.chmod(0o666)

    async def close(self) -> None:
        """End all connections, and wait for those that handle them."""
        if self._server is not None:
            self._server.close()
        for writer in self._open.values():
            writer.close()
        waiting = [task for task in self._open if task is not None]
        if waiting:
            await asyncio.wait(waiting)
        self._path.unlink(missing_ok=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._open[task] = writer
        try:
            await self._handle(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the other side was killed
        finally:
            writer.close()
            del self._open[task]
