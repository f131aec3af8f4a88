"""Bounds the TLS handshakes that a listener has begun: asyncio keeps a quarter of a megabyte for each.

A server that asyncio makes with `ssl` begins them itself, as many as come, and gives each a minute.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

from cotenant_api import listeners

SECONDS: Final = 10.0
LIMITS: Final = listeners.Limits(connections=64, request_seconds=SECONDS, idle_seconds=SECONDS, burst=64)


class Handshakes:
    """The handshakes of one listener that are under way.

    Args:
        context: of the server, with its certificate.
        limits: of connections whose handshake is not complete; those that are, count no more.
    """

    def __init__(self, context: ssl.SSLContext, *, limits: listeners.Limits = LIMITS) -> None:
        self.context, self.limits, self.door = context, limits, listeners.Door(limits)
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Return how many are under way."""
        return len(self.door)

    def guard(self, protocol: Callable[..., asyncio.Protocol]) -> Callable[..., asyncio.Protocol]:
        """Return a protocol factory with the same arguments, whose connections begin by a handshake.

        `protocol` is made when that is complete; its transport is the encrypted one.
        """

        def made(*arguments: Any, **named: Any) -> asyncio.Protocol:
            return _Handshake(self, lambda: protocol(*arguments, **named))

        return made

    def begin(self, handshake: "_Handshake") -> None:
        """Count a new one, and have it done."""
        self.door.enter(handshake)
        task = asyncio.get_running_loop().create_task(handshake.run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Handshake(asyncio.Protocol):
    """A connection until its handshake is complete; see `listeners.Holder`."""

    asking = True

    def __init__(self, all_of: Handshakes, make: Callable[[], asyncio.Protocol]) -> None:
        self._all, self._make = all_of, make
        self._transport: asyncio.Transport | None = None
        self.address, self.opened, self.since = "", 0.0, 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.address = listeners.address_of(transport)
        self.opened = self.since = self._all.door.now()
        self._all.begin(self)

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    async def run(self) -> None:
        """Do the handshake, then hand the connection over; one that fails is closed."""
        loop, early, context = asyncio.get_running_loop(), _Early(), self._all.context
        if self._transport is None or self._transport.is_closing():
            # To begin one on a connection that is gone would leave it without anybody who ends it.
            self._all.door.leave(self)
            return
        try:
            secured = await loop.start_tls(
                self._transport,
                early,
                context,
                server_side=True,
                ssl_handshake_timeout=self._all.limits.request_seconds,
            )
        except OSError:
            # Whoever connects may say anything, or nothing: no event of ours.
            self.abort()
            return
        finally:
            self._all.door.leave(self)
        if secured is not None and not early.is_over:
            early.hand_over(secured, self._make())


class _Early(asyncio.Protocol):
    """Keeps what arrives between the end of a handshake and the moment at which its protocol has the connection."""

    def __init__(self) -> None:
        self.is_over = False
        self._received: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        self._received.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.is_over = True

    def hand_over(self, transport: asyncio.Transport, protocol: asyncio.Protocol) -> None:
        """Go on with another protocol."""
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        for data in self._received:
            protocol.data_received(data)
