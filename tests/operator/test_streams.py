"""What kopf watches through: a real HTTP server on loopback, events that come in pieces, one nested too deep."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import kopf
import pytest
from aiohttp import web

from cotenant_api import nesting
from cotenant_operator.kube import streams

DEEP = b'{"type":"ADDED","object":{"spec":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}}"
LARGE = json.dumps({"type": "ADDED", "object": {"text": "x" * 1_000_000}}).encode()
SECONDS = 20
"""Far above what it takes: a bound against what does not end."""
SMALL = b'{"type":"BOOKMARK","object":{}}'


class Watch:
    """Answers each request with the same pieces."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer any request."""
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in self.pieces:
            await response.write(piece)
        return response


@pytest.fixture
async def watch(unused_port: int) -> AsyncIterator[Watch]:
    found = Watch([])
    app = web.Application()
    app.router.add_get("/{path:.*}", found.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", unused_port).start()
    yield found
    await runner.cleanup()


@pytest.fixture
async def opened(unused_port: int) -> AsyncIterator[kopf.AiohttpSession]:
    info = kopf.ConnectionInfo(server=f"http://127.0.0.1:{unused_port}", scheme="Bearer", token="t")
    found = streams.session(info, clean=nesting.bounded)
    yield found
    await found.aiohttp_session.close()


async def events(opened: kopf.AiohttpSession, query: str = "?watch=true") -> list[Any]:
    """What kopf decodes, as kopf does."""
    async with opened.aiohttp_session.get(f"{opened.server}/api/v1/pods{query}") as response:
        text = b"".join([part async for part in response.content.iter_chunked(1024)])
    return [json.loads(line) for line in text.split(b"\n") if line]


async def test_event_that_is_nested_too_deep_is_cut_and_the_next_ones_come(
    watch: Watch, opened: kopf.AiohttpSession
) -> None:
    watch.pieces = [SMALL + b"\n", DEEP + b"\n", SMALL + b"\n"]
    found = await events(opened)
    assert [event["type"] for event in found] == ["BOOKMARK", "ADDED", "BOOKMARK"]
    assert nesting.MARK in json.dumps(found[1])


@pytest.mark.parametrize("size", [1, 7, 300_000])
async def test_events_are_whole_however_they_are_sent(watch: Watch, opened: kopf.AiohttpSession, size: int) -> None:
    lines = [SMALL, SMALL] if size < 100 else [SMALL, LARGE, SMALL]
    text = b"\n".join(lines)
    watch.pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert await events(opened) == [json.loads(line) for line in lines]


async def test_what_is_no_watch_is_left_as_it_is(watch: Watch, opened: kopf.AiohttpSession) -> None:
    watch.pieces = [b'{"items":\n[]}']
    async with opened.aiohttp_session.get(f"{opened.server}/api/v1/pods") as response:
        assert await response.json(content_type=None) == {"items": []}


async def test_event_loop_goes_on_while_a_large_event_is_made_small(watch: Watch, unused_port: int) -> None:
    loop, began, went_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def clean(data: bytes) -> bytes:
        loop.call_soon_threadsafe(began.set)
        # On the loop itself this would end in nobody's setting it.
        assert len(data) < 100 or went_on.wait(SECONDS)
        return data

    async def go_on() -> None:
        await began.wait()
        went_on.set()

    info = kopf.ConnectionInfo(server=f"http://127.0.0.1:{unused_port}", scheme="Bearer", token="t")
    opened = streams.session(info, clean=clean)
    watch.pieces = [LARGE + b"\n"]
    going_on = asyncio.create_task(go_on())
    assert await events(opened) == [json.loads(LARGE)]
    await going_on
    await opened.aiohttp_session.close()
