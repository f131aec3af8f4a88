"""Runs one extender: connection, loopback socket, uvicorn on uvloop, graceful end."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import time
from collections.abc import Iterator

import uvicorn
import uvloop

from cotenant_api import errors
from cotenant_extender import app, service
from cotenant_extender.kube import http

LOG = logging.getLogger(__name__)

HOST = "127.0.0.1"
KEEP_ALIVE_SECONDS = 120
"""Longer than kube-scheduler keeps idle connections (90 s): it never meets one that is just being closed."""
SHUTDOWN_SECONDS = 6
BACKLOG = 2048
GARBAGE_THRESHOLDS = (50_000, 20, 100)
"""Records make no cycles: Python's own thresholds would look through them all again and again."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


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


def run(settings: service.Settings, *, kubeconfig: str | None, port: int) -> int:
    """Serve until a signal; the exit code.

    Raises:
        CotenantError: the port is taken, or the kubeconfig cannot be used.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(settings, kubeconfig=kubeconfig, port=port))


async def _serve(settings: service.Settings, *, kubeconfig: str | None, port: int) -> int:
    listening = _socket(port)
    async with http.HTTP(kubeconfig, clock=time.monotonic) as carrier:
        extender = service.Extender(settings, carrier)
        server = Server(
            uvicorn.Config(
                app.create(extender, extender.metrics),
                loop="none",
                http="httptools",
                access_log=False,
                log_config=None,
                lifespan="off",
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
                backlog=BACKLOG,
            )
        )
        gc.set_threshold(*GARBAGE_THRESHOLDS)
        working = asyncio.create_task(extender.run())
        freezing = asyncio.create_task(_freeze(extender))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        LOG.info("listens on %s:%d as %s", HOST, port, settings.identity)
        await asyncio.wait({working, serving}, return_when=asyncio.FIRST_COMPLETED)
        freezing.cancel()
        server.should_exit = True
        await serving
        await extender.stop()
        return await _ended(working)


async def _freeze(extender: service.Extender) -> None:
    """What there is when the ledger is whole stays: the search for garbage leaves it out from then on."""
    await extender.listed()
    gc.collect()
    gc.freeze()


async def _ended(working: asyncio.Task[None]) -> int:
    """0 after a signal; the failure, where the work ended by itself."""
    if working.done():
        await working
        return 1
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working
    return 0


def _socket(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except (OSError, OverflowError) as error:
        listening.close()
        remedy = "stop what listens there, or choose another port with --port"
        raise errors.InvalidInputError("--port", port, f"{remedy} ({error})") from error
    return listening
