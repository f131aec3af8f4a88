"""Runs one extender: connection, loopback socket, uvicorn on uvloop, graceful end."""

import asyncio
import contextlib
import logging
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import cast

import uvicorn
import uvloop
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cotenant_api import addresses, errors, exposition, listeners
from cotenant_extender import app, feed, garbage, service
from cotenant_extender.kube import http

LOG = logging.getLogger(__name__)

HOST = "127.0.0.1"
KEEP_ALIVE_SECONDS = 120
"""Longer than kube-scheduler keeps idle connections (90 s): it never meets one that is just being closed."""
VERBS = listeners.Limits(connections=1024)
"""kube-scheduler has a connection for each Binding in flight."""
MONITORING = listeners.Limits(connections=128, request_bytes=listeners.BRIEF_BYTES)
SHUTDOWN_SECONDS = 6
BACKLOG = 2048
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Ports:
    """`scheduler`: on loopback, for kube-scheduler. `monitoring`: on every address, for who only asks; None: no.

    `readers`: who may read metrics that name tenants, on the latter.
    """

    scheduler: int
    monitoring: int | None = None
    readers: exposition.Readers = exposition.NOBODY


class Server(uvicorn.Server):
    """Ends at a signal and returns: uvicorn's own would raise the signal again before what was begun is finished."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals for the block."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)


class SideServer(Server):
    """One beside another: signals are the other's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle none."""
        yield


class Protocol(HttpToolsProtocol):
    """One connection of a client, which nothing refers to after its end: no search would free a cycle (`garbage`)."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the requests that were not begun; each refers to this connection."""
        super().connection_lost(exc)
        self.pipeline.clear()
        self.cycle = None  # type: ignore[assignment]  # as uvicorn has it before the first request


def run(settings: service.Settings, *, kubeconfig: str | None, ports: Ports) -> int:
    """Serve until a signal; the exit code.

    Raises:
        CotenantError: a port is taken, or the kubeconfig cannot be used.
    """
    with contextlib.ExitStack() as opened:
        listening = opened.enter_context(_bound(HOST, ports.scheduler, field="--port"))
        asked = None
        if ports.monitoring is not None:
            asked = opened.enter_context(_bound(addresses.EVERY, ports.monitoring, field="--metrics-port"))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(settings, kubeconfig, listening=listening, asked=asked, readers=ports.readers))


async def _serve(
    settings: service.Settings,
    kubeconfig: str | None,
    *,
    listening: socket.socket,
    asked: socket.socket | None,
    readers: exposition.Readers,
) -> int:
    async with http.HTTP(kubeconfig, clock=time.monotonic) as carrier:
        extender = service.Extender(settings, carrier)
        server = Server(_configuration(app.create(extender, extender.metrics), listeners.Door(VERBS)))
        # Before anybody waits for an answer: a change of the policy may need it, and would block the event loop.
        feed.shipped()
        garbage.look_in_short_turns()
        working = asyncio.create_task(extender.run())
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        LOG.info("listens on %s:%d as %s", *listening.getsockname(), settings.identity)
        async with monitored(app.create_for_monitoring(extender, extender.metrics, readers), asked):
            await asyncio.wait({working, serving}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
        await extender.stop()
        return await _ended(working)


def _configuration(application: FastAPI, door: listeners.Door) -> uvicorn.Config:
    # uvicorn waits for ever for the rest of a request, and its limit_concurrency closes no connection.
    return uvicorn.Config(
        application,
        loop="none",
        http=cast("type[asyncio.Protocol]", door.guard(Protocol)),
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        log_config=None,
        lifespan="off",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        backlog=BACKLOG,
    )


@contextlib.asynccontextmanager
async def monitored(
    application: FastAPI, listening: socket.socket | None, *, door: listeners.Door | None = None
) -> AsyncIterator[None]:
    """Answer kubelet and Prometheus for the block, where there is a socket for them."""
    if listening is None:
        yield
        return
    server = SideServer(_configuration(application, listeners.Door(MONITORING) if door is None else door))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving


async def _ended(working: asyncio.Task[None]) -> int:
    """0 after a signal; the failure, where the work ended by itself."""
    if working.done():
        await working
        return 1
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working
    return 0


def _bound(host: str, port: int, *, field: str) -> socket.socket:
    try:
        return addresses.bound(port, host=host)
    except (OSError, OverflowError) as error:
        remedy = f"stop what listens there, or choose another port with {field}"
        raise errors.InvalidInputError(field, port, f"{remedy} ({error})") from error
