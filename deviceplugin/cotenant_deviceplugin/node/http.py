"""The agent's HTTP side: `/metrics`, `/healthz`, `/readyz`. It answers questions and changes nothing."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import prometheus_client
from aiohttp import web

from cotenant_api import errors

Fault = Callable[[], Awaitable[str | None]]


@dataclass(frozen=True)
class Questions:
    """What is answered.

    Attributes:
        metrics: as Prometheus reads them.
        unwell: why the agent should be restarted; None: it should not.
        unready: why the node offers no shares; None: it does.
    """

    metrics: Callable[[], bytes]
    unwell: Fault
    unready: Fault


@dataclass(frozen=True)
class Address:
    """Where to listen. Port 0: the system chooses."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """`HOST:PORT`, `[IPv6]:PORT` or `:PORT`."""
        host, separator, port = text.rpartition(":")
        if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise errors.InvalidInputError("--metrics-address", text, "must be HOST:PORT")
        return cls(host.strip("[]") or "0.0.0.0", int(port))  # noqa: S104  # Prometheus comes from other nodes


@contextlib.asynccontextmanager
async def serving(address: Address, questions: Questions) -> AsyncIterator[tuple[str, int]]:
    """Serve until the block ends; host and port. Raises PermanentError where the address cannot be had."""
    app = web.Application()
    app.router.add_get("/metrics", _metrics(questions.metrics))
    app.router.add_get("/healthz", _asked(questions.unwell))
    app.router.add_get("/readyz", _asked(questions.unready))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, address.host, address.port)
        try:
            await site.start()
        except OSError as error:
            message = f"--metrics-address: {address.host}:{address.port}: {error.strerror}"
            raise errors.PermanentError(message) from error
        host, port = runner.addresses[0][:2]
        yield str(host), int(port)
    finally:
        await runner.cleanup()


_Handler = Callable[[web.Request], Awaitable[web.Response]]


def _metrics(text: Callable[[], bytes]) -> _Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=text(), headers={"Content-Type": prometheus_client.CONTENT_TYPE_LATEST})

    return answer


def _asked(fault: Fault) -> _Handler:
    async def answer(_: web.Request) -> web.Response:
        found = await fault()
        return web.Response(text=f"{found or 'ok'}\n", status=200 if found is None else 503)

    return answer
