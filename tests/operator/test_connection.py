"""The connection: a real HTTP server on loopback, credentials that expire, answers that do not come."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from kubernetes.aio import client

from cotenant_api import errors
from cotenant_operator.kube import api, connection
from cotenant_operator.kube.connection import Connection

REQUEST = api.Request(method="GET", path="/api/v1/pods", query={"limit": "5"})


class APIServer:
    """Accepts one token and keeps the requests."""

    def __init__(self) -> None:
        self.token = "first"
        self.requests: list[web.Request] = []
        self.bodies: list[str] = []
        self.hang_up = False

    async def answer(self, request: web.Request) -> web.Response:
        """Answer any request."""
        self.requests.append(request)
        self.bodies.append(await request.text())
        if self.hang_up:
            request.transport.close() if request.transport else None
        if request.headers.get("Authorization", "").split()[-1] != self.token:
            return web.json_response({"message": "Unauthorized"}, status=401)
        if request.path.endswith("/large"):
            return web.Response(body=b" " * (connection.MAX_BYTES + 1))
        if request.path.endswith("/html"):
            return web.Response(text="<html>", status=502)
        return web.json_response({"items": []})


@pytest.fixture
async def server(unused_port: int) -> AsyncIterator[APIServer]:
    found = APIServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", unused_port).start()
    yield found
    await runner.cleanup()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first")
    return path


@pytest.fixture
def kubeconfig(tmp_path: Path, token_file: Path, unused_port: int) -> Path:
    path = tmp_path / "config"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{unused_port}"}}],
        "users": [{"name": "u", "user": {"tokenFile": str(token_file)}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
async def send(kubeconfig: Path) -> AsyncIterator[Connection]:
    async def load() -> client.Configuration:
        return await connection.load(kubeconfig)

    found = Connection(load)
    yield found
    await found.close()


async def test_requests_carry_token_query_and_content_type(server: APIServer, send: Connection) -> None:
    body = {"metadata": {"name": "x"}}
    request = api.Request(method="PATCH", path="/apis/x", query={"force": "true"}, body=body, content_type=api.APPLY)
    assert await send(request) == (200, {"items": []})
    sent = server.requests[0]
    assert sent.query == {"force": "true"}
    assert sent.headers["Content-Type"] == "application/apply-patch+yaml"
    assert json.loads(server.bodies[0]) == body


async def test_merge_patches_stay_merge_patches(server: APIServer, send: Connection) -> None:
    await send(api.Request(method="PATCH", path="/apis/x", query={}, body={"a": None}, content_type=api.MERGE))
    assert server.requests[0].headers["Content-Type"] == "application/merge-patch+json"
    assert json.loads(server.bodies[0]) == {"a": None}


async def test_metadata_alone_is_asked_for_where_it_is_enough(server: APIServer, send: Connection) -> None:
    await send(api.Request(method="GET", path="/api/v1/pods", query={}, metadata_only=True))
    assert "PartialObjectMetadataList" in server.requests[0].headers["Accept"]


async def test_token_is_read_again_when_it_is_refused(server: APIServer, send: Connection, token_file: Path) -> None:
    assert (await send(REQUEST))[0] == 200
    server.token = "second"
    await asyncio.to_thread(token_file.write_text, "second")
    assert (await send(REQUEST))[0] == 200


async def test_token_that_stays_refused_is_told(server: APIServer, send: Connection) -> None:
    server.token = "another"
    assert (await send(REQUEST))[0] == 401


async def test_answer_that_is_no_json_is_text(server: APIServer, send: Connection) -> None:
    assert await send(api.Request(method="GET", path="/html", query={})) == (502, "<html>")


async def test_cut_connection_is_temporary(server: APIServer, send: Connection) -> None:
    server.hang_up = True
    with pytest.raises(errors.TemporaryError, match="GET /api/v1/pods"):
        await send(REQUEST)


async def test_absent_server_is_temporary(send: Connection) -> None:
    with pytest.raises(errors.TemporaryError):
        await send(REQUEST)


async def test_kopf_gets_the_same_credentials(kubeconfig: Path, unused_port: int) -> None:
    found = await connection.kopf_credentials(await connection.load(kubeconfig))
    assert found.server == f"http://127.0.0.1:{unused_port}"
    assert found.as_http_headers() == {"Authorization": "Bearer first"}


@pytest.mark.parametrize("text", [None, "{}", "no: config"])
async def test_missing_credentials_name_the_remedy(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(errors.PermanentError, match="--kubeconfig"):
        await connection.load(path)


async def test_outside_of_a_cluster_a_kubeconfig_is_needed() -> None:
    with pytest.raises(errors.PermanentError, match="--kubeconfig"):
        await connection.load(None)


async def test_answer_is_not_read_beyond_the_bound(server: APIServer, send: Connection) -> None:
    with pytest.raises(api.TooLargeError, match="GET /large: more than"):
        await send(api.Request(method="GET", path="/large", query={}))
    assert (await send(REQUEST))[0] == 200
