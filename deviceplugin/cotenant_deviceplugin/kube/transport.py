"""HTTP/1.1 to one server: h11 knows the protocol, asyncio carries it, connections are kept between requests.

A general HTTP library would take an eighth of the agent's memory. Errors are those of asyncio, ssl and h11 (`BROKEN`).
Knows nothing of Kubernetes, follows no redirect, undoes no compression.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import h11

READ_BYTES = 64 * 1024
KEPT_SECONDS = 15.0
"""A connection that was not used for so long is not used again: the server may be about to end it."""
AT_ONCE = 4
"""So many requests are on their way, each on its connection; further ones wait. Streams are not among them.

asyncio holds a buffer of 256 KiB for each connection with TLS (`asyncio.sslproto.SSLProtocol.max_size`).
"""

BROKEN = (OSError, TimeoutError, h11.ProtocolError)
"""What comes of a server that is not there, ends a connection, is silent for too long, or speaks no HTTP."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """`target`: path and query, encoded, below the server's own path."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Head:
    """How an answer begins; names of headers are in lower case."""

    status: int
    reason: str
    headers: Mapping[str, str]


class TooLargeError(OSError):
    """An answer that is read whole has more bytes than are taken."""


class Connections:
    """All connections to one server.

    Args:
        server: its URL.
        tls: checks its certificate; None: plain HTTP.
        server_name: the name in its certificate, where that is not the host of the URL.
    """

    def __init__(self, server: str, *, tls: ssl.SSLContext | None, server_name: str | None) -> None:
        url = urlsplit(server)
        self._authority, self._path = url.netloc, url.path.rstrip("/")
        self._host = url.hostname or ""
        self._port = url.port or (443 if tls else 80)
        self._tls, self._server_name = tls, (server_name or self._host) if tls else None
        self._kept: list[_Wire] = []
        self._closed = False
        self._places = asyncio.Semaphore(AT_ONCE)

    def close(self) -> None:
        """End those that are kept, and keep none any more."""
        self._closed = True
        while self._kept:
            self._kept.pop().close()

    async def fetch(self, request: Request, *, timeout_seconds: float, most_bytes: int) -> tuple[Head, bytes]:
        """Return a whole answer. Raises BROKEN, of it TooLargeError for more than so many bytes."""
        async with self._places, asyncio.timeout(timeout_seconds):
            while True:
                kept = self._take()
                wire = kept or await self._open()
                try:
                    head = await self._asked(wire, request)
                    answer = head, await _rest(wire, most_bytes)
                except BROKEN:
                    # The server has ended a connection that was kept: nothing was done, or it can be done twice.
                    if kept is None or wire.answered or request.method == "POST":
                        raise
                else:
                    self._keep(wire)
                    return answer
                finally:
                    if wire not in self._kept:
                        wire.close()

    @contextlib.asynccontextmanager
    async def stream(self, request: Request, *, timeout_seconds: float) -> AsyncIterator[tuple[Head, "Stream"]]:
        """Yield an answer whose body comes bit by bit, on a connection of its own. Raises BROKEN.

        `timeout_seconds`: until it begins.
        """
        async with asyncio.timeout(timeout_seconds):
            wire = await self._open()
            try:
                head = await self._asked(wire, request)
            except BaseException:
                wire.close()
                raise
        try:
            yield head, Stream(wire)
        finally:
            # Not kept: what is left of the stream must not be read.
            wire.close()

    async def _asked(self, wire: "_Wire", request: Request) -> Head:
        headers = {"Host": self._authority, **request.headers}
        if request.body:
            headers["Content-Length"] = str(len(request.body))
        target = f"{self._path}{request.target}"
        found = await wire.ask(
            h11.Request(method=request.method, target=target, headers=list(headers.items())), request.body
        )
        named = {name.decode("latin-1"): value.decode("latin-1") for name, value in found.headers}
        return Head(status=found.status_code, reason=found.reason.decode("latin-1"), headers=named)

    async def _open(self) -> "_Wire":
        reader, writer = await asyncio.open_connection(
            self._host, self._port, ssl=self._tls, server_hostname=self._server_name
        )
        return _Wire(reader, writer)

    def _take(self) -> "_Wire | None":
        """Return the connection that was used last, so that what a busy moment needed grows old."""
        for wire in [each for each in self._kept if not each.usable]:
            self._kept.remove(wire)
            wire.close()
        return self._kept.pop() if self._kept else None

    def _keep(self, wire: "_Wire") -> None:
        if not self._closed and wire.renew():
            self._kept.append(wire)


class Stream:
    """The body of an answer that comes bit by bit."""

    def __init__(self, wire: "_Wire") -> None:
        self._wire = wire

    async def part(self) -> bytes:
        """Return what has come since; empty at its end. Raises BROKEN."""
        return await self._wire.part()

    async def rest(self, most_bytes: int) -> bytes:
        """All that is left. Raises BROKEN."""
        return await _rest(self._wire, most_bytes)


class _Wire:
    """One connection. `answered`: the server has begun to answer the request that was sent last."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.answered = False
        self._reader, self._writer = reader, writer
        self._protocol = h11.Connection(h11.CLIENT)
        self._used_at = time.monotonic()

    @property
    def usable(self) -> bool:
        """Whether another request may be sent."""
        young = time.monotonic() - self._used_at < KEPT_SECONDS
        return young and not self._reader.at_eof() and not self._writer.is_closing()

    def renew(self) -> bool:
        """Make it ready for another request; False: it is used up."""
        if self._protocol.our_state is not h11.DONE or self._protocol.their_state is not h11.DONE:
            return False
        self._protocol.start_next_cycle()
        self._used_at = time.monotonic()
        return True

    def close(self) -> None:
        """End it at once."""
        self._writer.transport.abort()

    async def ask(self, request: h11.Request, body: bytes) -> h11.Response:
        """Return how the answer begins."""
        self.answered = False
        for said in (request, h11.Data(data=body), h11.EndOfMessage()):
            self._writer.write(self._protocol.send(said) or b"")
        await self._writer.drain()
        while not isinstance(event := await self._next(), h11.Response):
            continue  # 1xx
        return event

    async def part(self) -> bytes:
        """Return the next bytes of the body; empty at its end."""
        event = await self._next()
        return bytes(event.data) if isinstance(event, h11.Data) else b""

    async def _next(self) -> object:
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            received = await self._reader.read(READ_BYTES)
            self.answered = self.answered or bool(received)
            self._protocol.receive_data(received)
        return event


async def _rest(wire: _Wire, most_bytes: int) -> bytes:
    parts, size = [], 0
    while part := await wire.part():
        parts.append(part)
        size += len(part)
        if size > most_bytes:
            raise TooLargeError(f"the answer has more than {most_bytes} bytes")
    return b"".join(parts)
