"""The agent's HTTP side, asked over a socket."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from cotenant_api import errors
from cotenant_deviceplugin.node import http

SECONDS = 20
Talk = Callable[[bytes], Awaitable[bytes]]


async def well() -> str | None:
    return None


async def unwell() -> str | None:
    return "no driver"


QUESTIONS = http.Questions(metrics=lambda _: b"cotenant_node_ready 1\n", unwell=well, unready=unwell)
LOOPBACK = http.Address("127.0.0.1", 0)


@pytest.fixture
async def talk() -> AsyncIterator[Talk]:
    """Say all at once; what is answered until the agent ends the connection, or has heard that we do."""
    async with http.serving(LOOPBACK, QUESTIONS) as (host, port):

        async def said(text: bytes) -> bytes:
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(text)
                writer.write_eof()
                async with asyncio.timeout(SECONDS):
                    return await reader.read()
            except ConnectionResetError:
                return b""  # it was ended before all was read
            finally:
                writer.close()

        yield said


def request(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: n1\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("asked", "status", "body"),
    [
        (request("/metrics"), 200, b"cotenant_node_ready 1\n"),
        (request("/metrics?name=x"), 200, b"cotenant_node_ready 1\n"),
        (request("/healthz"), 200, b"ok\n"),
        (request("/readyz"), 503, b"no driver\n"),
        (request("/healthz", "HEAD"), 200, b""),
        (request("/"), 404, b"/metrics, /healthz and /readyz are answered\n"),
        (request("/metrics", "DELETE"), 405, b"only GET is answered\n"),
    ],
)
async def test_a_question_has_its_answer(talk: Talk, asked: bytes, status: int, body: bytes) -> None:
    head, _, rest = (await talk(asked)).partition(b"\r\n\r\n")
    assert (head.split()[1], rest) == (str(status).encode(), body)


async def test_one_connection_serves_many_questions(talk: Talk) -> None:
    answers = await talk(request("/healthz") * 3)
    assert answers.count(b"HTTP/1.1 200") == 3


@pytest.mark.parametrize("text", [b"", b"GET", b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\n\r\n", b"x" * 200_000])
async def test_what_is_no_http_is_not_answered(talk: Talk, text: bytes) -> None:
    assert await talk(text) == b""


async def test_an_end_does_not_wait_for_open_connections() -> None:
    async with http.serving(LOOPBACK, QUESTIONS) as (host, port):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(request("/healthz"))
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    async with asyncio.timeout(SECONDS):
        await reader.read()
    writer.close()


async def test_an_address_that_is_taken_is_named() -> None:
    async with http.serving(LOOPBACK, QUESTIONS) as (host, port):
        with pytest.raises(errors.PermanentError, match=f"--metrics-address: {host}:{port}"):
            async with http.serving(http.Address(host, port), QUESTIONS):
                pass


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_without_a_host_it_is_asked_by_either_family(host: str) -> None:
    async with http.serving(http.Address.parse(":0"), QUESTIONS) as (_, port):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()
        await writer.wait_closed()
