"""One kept-alive HTTP/1.1 connection: one request at a time, its answer whole or part by part.

It knows nothing of Kubernetes, credentials or retries. Why not a library's client: the API server and this process
share few cores, and what a request costs here is what pods per second are lost by (`make bench`).
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

import httptools

HIGH_WATER_BYTES: Final = 4 * 1024 * 1024
"""Of an answer that is read part by part: above this the peer waits."""
KEEP_ALIVE_PROBES: Final = ((socket.TCP_KEEPIDLE, 20), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))


class BrokenError(OSError):
    """The connection ended, or what came is no HTTP."""


class TooLargeError(BrokenError):
    """An answer has more bytes than are read."""


class Connection(asyncio.Protocol):
    """One connection.

    Attributes:
        status: of the answer that came last, and its `headers`, with names as `Retry-After`.
        idle_since: event loop's time at which the last answer ended.
    """

    def __init__(self, lost: Callable[["Connection"], None]) -> None:
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._waiting: asyncio.Future[None] | None = None
        self._parts: deque[bytes] = deque()
        self._buffered = self._most = 0
        self._streams = self._headed = self._paused = False
        self._ended = True
        self._error: Exception | None = None
        self.status = 0
        self.headers: dict[str, str] = {}
        self.idle_since = 0.0

    # --- what asks

    @property
    def usable(self) -> bool:
        """Whether another request may be sent."""
        return self._transport is not None and not self._transport.is_closing() and self._error is None

    async def exchange(self, request: Iterable[bytes], *, most_bytes: int) -> bytes:
        """Send a request; return the body of its answer.

        Raises:
            BrokenError: the connection ended before the answer did.
            TooLargeError: the body has more than `most_bytes`; the connection is closed.
        """
        self._most = most_bytes
        self._send(request, streams=False)
        while not self._ended:
            await self._progress()
        if self._buffered > self._most:
            raise TooLargeError(f"the answer has more than {self._most} bytes")
        body = self._parts.popleft() if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        return body

    async def begin(self, request: Iterable[bytes]) -> None:
        """Send a request; returns when status and headers of its answer are there.

        Raises:
            BrokenError: the connection ended before.
        """
        self._send(request, streams=True)
        while not self._headed:
            await self._progress()

    async def parts(self) -> bytes:
        """Return what has come of the body since the last call; empty: the answer has ended.

        Raises:
            BrokenError: the connection ended before the answer did.
        """
        while not self._parts and not self._ended:
            await self._progress()
        found = b"".join(self._parts)
        self._parts.clear()
        self._buffered = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return found

    def close(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _send(self, request: Iterable[bytes], *, streams: bool) -> None:
        if self._transport is None or self._error is not None:
            raise BrokenError("the connection is closed") from self._error
        self._streams, self._headed, self._ended, self._buffered = streams, False, False, 0
        self.status, self.headers = 0, {}
        self._parts.clear()
        self._transport.write(b"".join(request))

    async def _progress(self) -> None:
        if self._error is not None:
            kind = TooLargeError if isinstance(self._error, TooLargeError) else BrokenError
            raise kind(str(self._error)) from self._error
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._error = error
        self.close()
        self._wake()

    # --- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection that is open now.

        A peer that is gone is found out within a minute: a watch may be silent for long.
        """
        self._transport = transport  # type: ignore[assignment]
        plain = transport.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEP_ALIVE_PROBES:
            plain.setsockopt(socket.IPPROTO_TCP, option, value)

    def data_received(self, data: bytes) -> None:
        """Part of an answer."""
        if self._ended or self._parser is None:
            self._fail(BrokenError("an answer came that nobody asked for"))
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            # The parser's own error has a traceback that refers to this connection: kept here it would be a cycle.
            self._fail(BrokenError(str(error)))
            return
        if self._streams:
            self._wake()
            if self._buffered > HIGH_WATER_BYTES and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take in that the connection has ended.

        The parser refers to the connection. No search for garbage frees what refers to itself for long (`garbage`).
        """
        self._transport = self._parser = None
        if self._error is None:
            self._error = ConnectionResetError("the peer closed the connection" if exc is None else str(exc))
        if not self._ended and not self._streams:
            self._parts.clear()
        self._wake()
        self._lost(self)

    # --- what the parser calls

    def on_message_begin(self) -> None:
        """Take in that an answer begins; it breaks the connection if nobody asked for one."""
        if self._ended:
            self._fail(BrokenError("an answer came that nobody asked for"))

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        if not self._ended:
            self.headers[name.decode("latin-1").title()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Status and headers are there."""
        if not self._ended and self._parser is not None:
            self.status = self._parser.get_status_code()
            self._headed = True

    def on_body(self, part: bytes) -> None:
        """Part of the body."""
        if not self._ended:
            self._buffered += len(part)
            if not self._streams and self._buffered > self._most:
                self._parts.clear()
                self._fail(TooLargeError(f"the answer has more than {self._most} bytes"))
            else:
                self._parts.append(part)

    def on_message_complete(self) -> None:
        """Take in that the answer is whole."""
        self._ended = True
        if self._parser is not None and not self._parser.should_keep_alive():
            self._error = ConnectionResetError("the peer keeps the connection no longer")
            self.close()
        self._wake()
