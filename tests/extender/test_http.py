"""The transport over HTTP, against a server on loopback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from cotenant_api import errors, lines
from cotenant_extender.kube import http, transport


class _Clock:
    """Monotonic seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class _Server:
    """Remembers tokens; answers what it is told to."""

    def __init__(self) -> None:
        self.tokens: list[str | None] = []
        self.status = 200

    async def answer(self, request: web.Request) -> web.Response:
        self.tokens.append(request.headers.get("Authorization"))
        body = await request.read()
        if "large" in request.query:
            body = b"x" * (http.ANSWER_BYTES + 1)
        return web.Response(status=self.status, body=body or b"{}", headers={"Retry-After": "3"})

    async def stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if "large" in request.query:
            await response.write(b"x" * (lines.LONGEST + 1) + b"\n")
        await response.write(b"one\ntw")
        await response.write(b"o\n")
        if "cut" in request.query:
            assert request.transport is not None
            request.transport.abort()
        return response


@asynccontextmanager
async def serving(server: _Server) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_get("/stream", server.stream)
    application.router.add_route("*", "/{rest:.*}", server.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    return write_token(tmp_path / "token", "first")


def write_token(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def kubeconfig(directory: Path, server: str) -> str:
    path = directory / "kubeconfig"
    value = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"tokenFile": str(directory / "token")}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(value))
    return str(path)


GET = transport.Request("GET", "/api/v1/pods?limit=1", timeout_seconds=5.0)


async def test_a_request_carries_the_token_and_gets_status_headers_and_body(token_file: Path) -> None:
    server = _Server()
    async with serving(server) as url, http.HTTP(kubeconfig(token_file.parent, url), clock=_Clock()) as carrier:
        answer = await carrier.request(transport.Request("POST", "/x", b'{"a":1}'))
        assert (answer.status, answer.body, answer.headers["Retry-After"]) == (200, b'{"a":1}', "3")
        assert server.tokens == ["Bearer first"]


async def test_a_token_file_is_read_again_after_a_minute(token_file: Path) -> None:
    server, clock = _Server(), _Clock()
    async with serving(server) as url, http.HTTP(kubeconfig(token_file.parent, url), clock=clock) as carrier:
        write_token(token_file, "second")
        await carrier.request(GET)
        clock.now += http.CREDENTIAL_SECONDS
        await carrier.request(GET)
        assert server.tokens == ["Bearer first", "Bearer second"]


async def test_after_401_a_token_file_is_read_again_at_once(token_file: Path) -> None:
    server = _Server()
    async with serving(server) as url, http.HTTP(kubeconfig(token_file.parent, url), clock=_Clock()) as carrier:
        write_token(token_file, "second")
        server.status = 401
        await carrier.request(GET)
        await carrier.request(GET)
        assert server.tokens == ["Bearer first", "Bearer second"]


async def test_a_stream_gives_lines_as_they_come(token_file: Path) -> None:
    async with (
        serving(_Server()) as url,
        http.HTTP(kubeconfig(token_file.parent, url), clock=_Clock()) as carrier,
        carrier.stream(transport.Request("GET", "/stream")) as stream,
    ):
        assert stream.status == 200
        assert [line async for line in stream.lines()] == [b"one\n", b"two\n"]


async def test_a_line_that_is_too_long_hides_none_behind_it(token_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with (
        serving(_Server()) as url,
        http.HTTP(kubeconfig(token_file.parent, url), clock=_Clock()) as carrier,
        carrier.stream(transport.Request("GET", "/stream?large=1")) as stream,
    ):
        assert [line async for line in stream.lines()] == [b"one\n", b"two\n"]
    assert "/stream: an event of more than" in caplog.text


@pytest.mark.parametrize(("method", "error"), [("GET", transport.TooLargeError), ("POST", transport.UnansweredError)])
async def test_an_answer_that_is_too_large_is_none_to_a_write(
    token_file: Path, method: str, error: type[Exception]
) -> None:
    async with (
        serving(_Server()) as url,
        http.HTTP(kubeconfig(token_file.parent, url), clock=_Clock()) as carrier,
    ):
        with pytest.raises(error, match="more than"):
            await carrier.request(transport.Request(method, "/x?large=1", b"{}" if method == "POST" else None))


async def test_a_stream_that_is_cut_says_so(token_file: Path) -> None:
    async with (
        serving(_Server()) as url,
        http.HTTP(kubeconfig(token_file.parent, url), clock=_Clock()) as carrier,
        carrier.stream(transport.Request("GET", "/stream?cut=1")) as stream,
    ):
        with pytest.raises(transport.UnansweredError):
            [line async for line in stream.lines()]


async def test_where_nobody_listens_nothing_is_answered(token_file: Path) -> None:
    server = _Server()
    async with serving(server) as url:
        carrier = http.HTTP(kubeconfig(token_file.parent, url), clock=_Clock())
    async with carrier:
        with pytest.raises(transport.UnansweredError, match="GET /api/v1/pods"):
            await carrier.request(GET)
        with pytest.raises(transport.UnansweredError):
            async with carrier.stream(GET):
                await asyncio.Event().wait()


async def test_a_kubeconfig_that_is_not_there_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match="--kubeconfig"):
        await http.HTTP(str(tmp_path / "absent"), clock=_Clock()).__aenter__()
