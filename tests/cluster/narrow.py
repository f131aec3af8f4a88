"""A reverse proxy between an operator and the API server: shows one namespace, and knows which write is the last.

So operators with namespaces of their own run side by side on one cluster, and each is killed at a request of its own.
Over plain HTTP, on loopback.
"""

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

import aiohttp
from aiohttp import web

from cotenant_e2e.cluster import Cluster

WRITES: Final = ("POST", "PUT", "PATCH", "DELETE")
SECONDS: Final = 30
LEASES: Final = "/apis/coordination.k8s.io/"
_NAMESPACED: Final = frozenset(
    f"/{path}"
    for path in (
        "api/v1/pods",
        "api/v1/configmaps",
        "api/v1/resourcequotas",
        "apis/batch/v1/jobs",
        "apis/apps/v1/deployments",
        "apis/cotenant.dev/v1alpha1/dljobs",
    )
)
_NOT_PASSED_ON: Final = ("host", "content-length", "transfer-encoding", "connection")


@dataclass
class View:
    """What one operator sees and may do.

    Attributes:
        namespace: all that there is for it.
        last: its n-th write is its last; 0: it lives on.
        takes_effect: whether the API server still gets that write.
        end: kills it.
        writes: what it wrote.
    """

    namespace: str
    last: int = 0
    takes_effect: bool = False
    end: Callable[[], None] = lambda: None
    writes: list[str] = field(default_factory=list)


class Proxy(AbstractContextManager["Proxy"]):
    """Serves views for the block, each under the path of its name."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._views: dict[str, View] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self._port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._begin(), self._loop).result(SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._finish(), self._loop).result(SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()

    def add(self, name: str, view: View) -> str:
        """The URL of a view."""
        self._views[name] = view
        return f"http://127.0.0.1:{self._port}/{name}"

    async def _begin(self) -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(ssl=self._cluster.client.tls, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{view}/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def _finish(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        view = self._views[request.match_info["view"]]
        path = "/" + request.match_info["path"]
        if path.startswith(LEASES):
            # It is alone in its namespace, and renewals are none of the writes that are counted.
            return _lease(request, await request.read())
        if request.method not in WRITES:
            return await self._passed_on(request, narrowed(path, view.namespace))
        view.writes.append(f"{request.method} {path}")
        if len(view.writes) < view.last or not view.last:
            return await self._passed_on(request, path)
        if view.takes_effect and len(view.writes) == view.last:
            await self._sent(request, path)
        # What it still had under way ends with it.
        view.end()
        raise web.HTTPServiceUnavailable

    async def _sent(self, request: web.Request, path: str) -> None:
        async with self._asked(request, path, await request.read()) as answer:
            await answer.read()

    async def _passed_on(self, request: web.Request, path: str) -> web.StreamResponse:
        async with self._asked(request, path, await request.read()) as answer:
            response = web.StreamResponse(status=answer.status, headers=_headers(answer.headers))
            # Whoever asked may be dead by now.
            with contextlib.suppress(ConnectionResetError):
                await response.prepare(request)
                async for part in answer.content.iter_any():
                    await response.write(part)
                await response.write_eof()
            return response

    def _asked(self, request: web.Request, path: str, body: bytes) -> aiohttp.client._RequestContextManager:
        if self._session is None:
            raise web.HTTPServiceUnavailable
        query = f"?{request.query_string}" if request.query_string else ""
        url = f"{self._cluster.server}{path}{query}"
        return self._session.request(request.method, url, headers=_headers(request.headers), data=body or None)


def _lease(request: web.Request, body: bytes) -> web.Response:
    """Nobody has the Lease, and whoever writes it gets it."""
    spec = json.loads(body)["spec"] if request.method == "PATCH" else {}
    return web.json_response({"metadata": {"resourceVersion": "1"}, "spec": spec})


def narrowed(path: str, namespace: str) -> str:
    """The path that lists one namespace instead of all."""
    if path not in _NAMESPACED:
        return path
    group, _, plural = path.rpartition("/")
    return f"{group}/namespaces/{namespace}/{plural}"


def _headers(found: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in found.items() if key.lower() not in _NOT_PASSED_ON}
