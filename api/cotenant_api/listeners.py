"""Bounds what clients may hold of a listener: connections, and the time that a request takes to arrive.

Knows nothing of HTTP: it stands between any asyncio protocol and its transport, and takes the first byte that is
written for the answer to what was received. Stdlib alone, so that every component may use it.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

REQUEST_SECONDS: Final = 30.0
"""Longer than any request of ours may take to be answered: the slowest wait for the API server."""
IDLE_SECONDS: Final = 130.0
"""Longer than kube-scheduler (90 s) and Prometheus (60 s between scrapes) keep an idle connection."""
SWEEP_SECONDS: Final = 1.0
SETTLE_SECONDS: Final = 0.1
"""Longer than a request that arrives with its connection takes to be read and answered."""
BRIEF_BYTES: Final = 64 * 1024
"""Of a request without a body: a parser that keeps headers keeps them all."""
BACKLOG: Final = 100
"""So many connections wait to be accepted, and asyncio accepts as many in one turn of its loop."""
BURST: Final = 128
"""More than that: none of them has been read yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What clients may hold.

    Attributes:
        connections: at once. One more closes another: of the address with the most, the one that has waited longest.
            Connections younger than `settle_seconds` close none of each other; there may be `burst` more of them.
        request_seconds: from the first byte of a request to the first byte of its answer.
        idle_seconds: without a byte of a request, before the first request and between two.
        sweep_seconds: between two looks for connections that are overdue.
        request_bytes: of a request, or of several that nobody has begun to answer; None: as many as come.
    """

    connections: int
    request_seconds: float = REQUEST_SECONDS
    idle_seconds: float = IDLE_SECONDS
    sweep_seconds: float = SWEEP_SECONDS
    settle_seconds: float = SETTLE_SECONDS
    burst: int = BURST
    request_bytes: int | None = None


class Holder(Protocol):
    """What holds a connection.

    Attributes:
        address: of the client.
        opened: when it was accepted.
        since: when the state `asking` began; a write renews it.
        asking: whether something was received that has not begun to be answered.
    """

    address: str
    opened: float
    since: float
    asking: bool

    def abort(self) -> None:
        """Close at once, whatever is still to be sent."""
        ...


class Door:
    """The connections of one listener.

    Args:
        clock: in seconds, never goes back; None: that of the running event loop.
    """

    def __init__(self, limits: Limits, *, clock: Callable[[], float] | None = None) -> None:
        self._limits, self._given = limits, clock
        self._open: set[Holder] = set()
        self._sweeping: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many connections are open."""
        return len(self._open)

    def guard(self, protocol: Callable[..., asyncio.Protocol]) -> Callable[..., asyncio.Protocol]:
        """Return a protocol factory with the same arguments, whose connections keep the limits."""

        def made(*arguments: Any, **named: Any) -> asyncio.Protocol:
            return _Connection(self, protocol(*arguments, **named))

        return made

    def now(self) -> float:
        """Return the time of the clock."""
        return asyncio.get_running_loop().time() if self._given is None else self._given()

    def enter(self, connection: Holder) -> None:
        """Count a new connection; where there are too many, close another."""
        self._make_room(1)
        self._open.add(connection)
        if self._sweeping is None:
            self._schedule()

    def takes(self, size: int) -> bool:
        """Return whether a request may have so many bytes."""
        return self._limits.request_bytes is None or size <= self._limits.request_bytes

    def leave(self, connection: Holder) -> None:
        """Forget a connection that is closed."""
        self._open.discard(connection)

    def sweep(self) -> None:
        """Close the connections that are overdue."""
        now = self.now()
        for connection in [each for each in self._open if now - each.since >= self._allowed(each)]:
            self._close(connection)
        self._make_room(0)

    def _allowed(self, connection: Holder) -> float:
        return self._limits.request_seconds if connection.asking else self._limits.idle_seconds

    def _make_room(self, coming: int) -> None:
        """Close connections until there are few enough: whoever holds the most loses the one that waited longest.

        Nobody else loses one for his, also while all of his are new.
        """
        while (more := len(self._open) + coming - self._limits.connections) > 0:
            settled = self.now() - self._limits.settle_seconds
            held = Counter(each.address for each in self._open)
            most = max(held.values())
            his = (each for each in self._open if held[each.address] == most)
            closable = [each for each in his if more > self._limits.burst or each.opened <= settled]
            if not closable:
                return
            self._close(min(closable, key=lambda each: each.since))

    def _close(self, connection: Holder) -> None:
        self._open.discard(connection)
        connection.abort()

    def _schedule(self) -> None:
        self._sweeping = asyncio.get_running_loop().call_later(self._limits.sweep_seconds, self._turn)

    def _turn(self) -> None:
        self._sweeping = None
        self.sweep()
        if self._open:
            self._schedule()


class _Connection(asyncio.Protocol):
    """One connection: passes everything on and notes when a request began and when its answer did; see `Holder`."""

    def __init__(self, door: Door, inner: asyncio.Protocol) -> None:
        self._door, self._inner = door, inner
        self._transport: asyncio.Transport | None = None
        self.address, self.opened, self.since, self.asking = "", 0.0, 0.0, False
        self._bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.address = address_of(transport)
        self.opened = self.since = self._door.now()
        self._door.enter(self)
        self._inner.connection_made(cast("asyncio.Transport", Answering(self._transport, self._answered)))

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.leave(self)
        # The inner protocol refers to its transport, and that to this connection: a cycle, which only a search frees.
        ended, self._inner = self._inner, asyncio.Protocol()
        ended.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.asking:
            self.since, self.asking, self._bytes = self._door.now(), True, 0
        self._bytes += len(data)
        if self._door.takes(self._bytes):
            self._inner.data_received(data)
        else:
            self.abort()

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _answered(self) -> None:
        self.since, self.asking = self._door.now(), False


def address_of(transport: asyncio.BaseTransport) -> str:
    """Return the address of the client; empty where it is not known any more."""
    return str((transport.get_extra_info("peername") or ("",))[0])


class Answering:
    """A transport that tells of every write.

    Args:
        answered: called before each.
    """

    def __init__(self, transport: asyncio.Transport, answered: Callable[[], None]) -> None:
        self._transport, self._answered = transport, answered

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        self._answered()
        self._transport.write(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send several parts."""
        self._answered()
        self._transport.writelines(list_of_data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
