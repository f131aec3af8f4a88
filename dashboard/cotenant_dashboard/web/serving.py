"""Runs one dashboard: socket, watches, uvicorn, and an end at a signal."""

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from cotenant_api import addresses, errors, handshakes, listeners
from cotenant_dashboard.watching.live import Live

LOG = logging.getLogger(__name__)

SHUTDOWN_SECONDS: Final = 3
LIMITS: Final = listeners.Limits(connections=512, request_bytes=listeners.BRIEF_BYTES)
"""Of readers; each has a stream open."""
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def tls(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return what HTTPS is served with.

    Raises:
        InvalidInputError: the files are no certificate and its key, or cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        remedy = f"give files in PEM: the certificate with its chain, and its key with --tls-key ({error})"
        raise errors.InvalidInputError("--tls-certificate", str(certificate), remedy) from error
    return context


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Where it is asked: an address in digits, a port (0: any that is free), and by HTTPS with `tls` alone."""

    address: str
    port: int
    tls: ssl.SSLContext | None = None

    def listening(self) -> socket.socket:
        """Return the socket, bound.

        Raises:
            InvalidInputError: the port is taken, or the address is not of this machine.
        """
        try:
            return addresses.bound(self.port, host=self.address)
        except (OSError, OverflowError) as error:
            remedy = f"stop what listens there, or choose another port with --port (0: any that is free) ({error})"
            raise errors.InvalidInputError("--port", self.port, remedy) from error

    def guard(self, limited: listeners.Door) -> Callable[..., asyncio.Protocol]:
        """Return the protocol of its connections: HTTP, within TLS where there is a certificate."""
        protocol = limited.guard(H11Protocol)
        return protocol if self.tls is None else handshakes.Handshakes(self.tls).guard(protocol)

    def url(self, listening: socket.socket) -> str:
        """Where a browser finds it."""
        scheme = "http" if self.tls is None else "https"
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{scheme}://{host}:{listening.getsockname()[1]}/"


class Server(uvicorn.Server):
    """Ends at a signal and returns; streams are let go first.

    Args:
        ending: called then.
    """

    def __init__(self, config: uvicorn.Config, ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._ending = ending

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals for the block."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.end)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    def end(self) -> None:
        """Stop serving."""
        self._ending()
        self.should_exit = True


def configuration(application: ASGIApp, door: Door, limited: listeners.Door | None = None) -> uvicorn.Config:
    """Of uvicorn: no access log, no header that names the server."""
    limited = listeners.Door(LIMITS) if limited is None else limited
    return uvicorn.Config(
        application,
        http=cast("type[asyncio.Protocol]", door.guard(limited)),
        ws="none",
        access_log=False,
        log_config=None,
        lifespan="off",
        server_header=False,
        # Who asks, and whether over HTTPS, is what the connection says, and no header.
        proxy_headers=False,
        backlog=listeners.BACKLOG,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )


async def serve(live: Live, application: ASGIApp, *, door: Door, listening: socket.socket) -> None:
    """Until a signal, or until the page cannot be made any more."""
    server = Server(configuration(application, door), live.close)
    making = asyncio.create_task(live.run())
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    await asyncio.wait({making, serving}, return_when=asyncio.FIRST_COMPLETED)
    failed = making.done()
    server.end()
    await serving
    making.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await making
    if failed:
        raise errors.PermanentError("the page is not made any more")
