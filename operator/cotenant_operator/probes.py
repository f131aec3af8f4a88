"""The endpoint for kubelet's probes and for Prometheus: `/healthz` answers as long as the event loop turns."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable
from typing import Final

from aiohttp import web

from cotenant_api import errors, listeners
from cotenant_operator.telling import metrics

HOST: Final = "0.0.0.0"  # noqa: S104 - kubelet probes the pod's address
PATH: Final = "/healthz"
METRICS_PATH: Final = "/metrics"
LIMITS: Final = listeners.Limits(connections=32)
SHUTDOWN_SECONDS: Final = 1.0


@contextlib.asynccontextmanager
async def serving(
    port: int | None, told: Callable[[], str], *, door: listeners.Door | None = None
) -> AsyncIterator[None]:
    """Answer for the block; without a port, do nothing. kopf's own endpoint limits no connections.

    Args:
        port: where.
        told: what Prometheus is told.
        door: lets connections in.

    Raises:
        PermanentError: the port is taken.
    """
    if port is None:
        yield
        return
    door = listeners.Door(LIMITS) if door is None else door
    server = web.Server(functools.partial(_answer, told), access_log=None)
    try:
        listening = await asyncio.get_running_loop().create_server(door.guard(server), HOST, port)
    except OSError as error:
        text = f"port {port} cannot be used: {error.strerror}: choose another with --liveness-port"
        raise errors.PermanentError(text) from error
    try:
        yield
    finally:
        listening.close()
        await server.shutdown(SHUTDOWN_SECONDS)


async def _answer(told: Callable[[], str], request: web.BaseRequest) -> web.Response:
    if request.path not in {PATH, METRICS_PATH}:
        return web.Response(status=404, text=f"{PATH} and {METRICS_PATH} are answered\n")
    if request.method not in {"GET", "HEAD"}:
        return web.Response(status=405, text="only GET is answered\n")
    if request.path == METRICS_PATH:
        return web.Response(body=told().encode(), headers={"Content-Type": metrics.CONTENT_TYPE})
    return web.Response(text="ok\n")
