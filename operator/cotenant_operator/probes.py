"""The endpoint for kubelet's probes and for Prometheus.

`/healthz` answers as long as the event loop turns; `/readyz` when every object has been read.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from cotenant_api import addresses, errors, listeners
from cotenant_operator.telling import metrics

PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"
METRICS_PATH: Final = "/metrics"
LIMITS: Final = listeners.Limits(connections=32, request_bytes=listeners.BRIEF_BYTES)
SHUTDOWN_SECONDS: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What is told.

    Attributes:
        metrics: to Prometheus.
        ready: whether every object has been read.
    """

    metrics: Callable[[], bytes]
    ready: Callable[[], bool]


@contextlib.asynccontextmanager
async def serving(
    port: int | None, answers: Answers, *, door: listeners.Door | None = None
) -> AsyncIterator[int | None]:
    """Answer for the block, which gets the port; without one, do nothing. kopf's own endpoint limits no connections.

    Args:
        port: where; 0: one that is free.
        answers: what is told.
        door: lets connections in.

    Raises:
        PermanentError: the port is taken.
    """
    if port is None:
        yield None
        return
    door = listeners.Door(LIMITS) if door is None else door
    server = web.Server(functools.partial(_answer, answers), access_log=None)
    try:
        listening = await asyncio.get_running_loop().create_server(
            door.guard(server), sock=addresses.bound(port), backlog=listeners.BACKLOG
        )
    except OSError as error:
        text = f"port {port} cannot be used: {error.strerror}: choose another with --liveness-port"
        raise errors.PermanentError(text) from error
    try:
        yield int(listening.sockets[0].getsockname()[1])
    finally:
        listening.close()
        await server.shutdown(SHUTDOWN_SECONDS)


async def _answer(answers: Answers, request: web.BaseRequest) -> web.Response:
    if request.path not in {PATH, READY_PATH, METRICS_PATH}:
        return web.Response(status=404, text=f"{PATH}, {READY_PATH} and {METRICS_PATH} are answered\n")
    if request.method not in {"GET", "HEAD"}:
        return web.Response(status=405, text="only GET is answered\n")
    if request.path == METRICS_PATH:
        return web.Response(body=answers.metrics(), headers={"Content-Type": metrics.CONTENT_TYPE})
    if request.path == READY_PATH and not answers.ready():
        return web.Response(status=503, text="it reads what there is first\n")
    return web.Response(text="ok\n")
