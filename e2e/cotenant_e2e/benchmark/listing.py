"""A server that answers lists from encoded pages, and whose watches are silent: for measurements without a cluster."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

from cotenant_e2e.benchmark import world

_JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


class Listing:
    """Serves on loopback, in a thread of its own, for the block.

    Attributes:
        port: where.
    """

    def __init__(self, pages: Mapping[str, Sequence[bytes]]) -> None:
        self._pages = pages
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="listing", daemon=True)
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                await reader.readexactly(_length(head))
                path = urlsplit(head.split(" ", 2)[1])
                query = parse_qs(path.query)
                if "watch" in query:
                    writer.write(_STREAM)
                    continue
                pages = self._pages.get(path.path, [b"{}"])
                page = pages[int(query.get("continue", ["0"])[0]) // world.PAGE]
                writer.write(_JSON % len(page) + page)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def _length(head: str) -> int:
    """Of the body, by the head of a request."""
    for line in head.lower().split("\r\n"):
        if line.startswith("content-length:"):
            return int(line.partition(":")[2])
    return 0
