"""`fakes.FakeCluster` over HTTP, for agents that run as processes of their own."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from cotenant_api import errors
from cotenant_deviceplugin.kube import cluster
from deviceplugin import fakes

_REASONS: dict[type[errors.CotenantError], tuple[int, str]] = {
    cluster.NotFoundError: (404, "NotFound"),
    cluster.AlreadyExistsError: (409, "AlreadyExists"),
    cluster.ConflictError: (409, "Conflict"),
    cluster.RefusedError: (403, "Forbidden"),
    cluster.ExpiredError: (410, "Expired"),
}
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(api: fakes.FakeCluster, kubeconfig: Path) -> AsyncIterator[str]:
    """Serve it, and write a kubeconfig that leads there; its URL."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", _answering(api))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    _write(kubeconfig, url)
    try:
        yield url
    finally:
        await runner.cleanup()


def _write(kubeconfig: Path, url: str) -> None:
    value = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    kubeconfig.write_text(json.dumps(value))


def _answering(api: fakes.FakeCluster) -> _Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            if request.query.get("watch") == "true":
                return await _watched(api, request)
            return web.json_response(await _done(api, request))
        except errors.CotenantError as error:
            status, reason = _REASONS.get(type(error), (500, "InternalError"))
            return web.json_response({"reason": reason, "message": str(error)}, status=status)

    return answer


async def _done(api: fakes.FakeCluster, request: web.Request) -> Any:
    selector = request.query.get("fieldSelector")
    if request.method == "GET":
        selected = cluster.Selection(request.path, selector or "")
        return await (api.get(request.path) if selector is None else api.list(selected))
    body = await request.json()
    if request.method == "POST":
        return await api.create(request.path, body)
    applied = request.content_type == "application/apply-patch+yaml"
    return await (api.apply(request.path, body) if applied else api.patch(request.path, body))


async def _watched(api: fakes.FakeCluster, request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    selected = cluster.Selection(request.path, request.query["fieldSelector"])
    async with aclosing(api.watch(selected, resource_version=request.query["resourceVersion"])) as events:
        async for kind, manifest in events:
            if kind != cluster.OPENED:
                await response.write(json.dumps({"type": kind, "object": manifest}).encode() + b"\n")
    return response
