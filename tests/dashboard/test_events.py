"""Server-sent events: small messages, what a reader missed and no more, heartbeats, and readers that are let go."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from cotenant_dashboard.view.parts import Change, Parts
from cotenant_dashboard.web import events


class Page:
    """A page by hand."""

    def __init__(self) -> None:
        self.epoch, self.parts = "e", Parts()
        self._turn, self._closed = asyncio.Event(), asyncio.Event()

    def put(self, key: str, value: Mapping[str, Any]) -> None:
        """A part is this."""
        self.parts.put(key, value)
        turn, self._turn = self._turn, asyncio.Event()
        turn.set()

    def since(self, revision: int | None) -> Change:
        """See `events.Source`."""
        return self.parts.since(revision)

    async def newer(self, revision: int) -> None:
        """See `events.Source`."""
        while self.parts.revision <= revision:
            await self._turn.wait()

    def close(self) -> None:
        """There will be no more."""
        self._closed.set()

    async def closed(self) -> None:
        """See `events.Source`."""
        await self._closed.wait()


class Reader:
    """What a browser would have got; while `takes` is clear it takes nothing more."""

    def __init__(self) -> None:
        self.text = ""
        self.takes, self.ended = asyncio.Event(), asyncio.Event()
        self._more, self._gone = asyncio.Event(), asyncio.Event()
        self.takes.set()

    async def send(self, message: Mapping[str, Any]) -> None:
        """Take it, when it may."""
        await self.takes.wait()
        self.text += message.get("body", b"").decode()
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.ended.set()
        self._more.set()

    async def receive(self) -> dict[str, Any]:
        """Nothing, until it leaves."""
        await self._gone.wait()
        return {"type": "http.disconnect"}

    def leave(self) -> None:
        """Go."""
        self._gone.set()

    async def until(self, words: str) -> str:
        """What it was told, when these words are in it."""
        while words not in self.text:
            self._more.clear()
            await self._more.wait()
        return self.text

    def told(self) -> list[tuple[str, Any]]:
        """Names and data of the messages."""
        blocks = [
            dict(line.split(": ", 1) for line in block.split("\n"))
            for block in self.text.split("\n\n")
            if "event: " in block
        ]
        return [(block["event"], json.loads(block["data"])) for block in blocks]


@contextlib.asynccontextmanager
async def reading(page: Page, last: str | None = None, **limits: float) -> AsyncIterator[Reader]:
    reader = Reader()
    headers = [] if last is None else [(b"last-event-id", last.encode())]
    stream = events.Stream(page, limits=events.Limits(**limits))
    scope = {"type": "http", "method": "GET", "headers": headers}
    task = asyncio.ensure_future(stream(scope, reader.receive, reader.send))
    try:
        yield reader
    finally:
        reader.leave()
        reader.takes.set()
        await asyncio.wait_for(task, 5)


async def test_a_new_reader_is_told_the_whole_page() -> None:
    page = Page()
    page.put("a", {"x": 'é "\\'})
    async with reading(page) as reader:
        await reader.until("whole")
        assert reader.told() == [
            ("page", {}),
            ("change", {"set": {"a": {"x": 'é "\\'}}, "gone": []}),
            ("whole", {"revision": 1}),
        ]
        assert "\nid: e-1\n" in reader.text


async def test_a_change_is_told_when_it_happens() -> None:
    page = Page()
    async with reading(page) as reader:
        await reader.until("whole")
        page.put("b", {"x": 2})
        await reader.until("id: e-1")
        assert reader.told()[-2:] == [("change", {"set": {"b": {"x": 2}}, "gone": []}), ("whole", {"revision": 1})]


async def test_who_comes_back_is_told_what_was_missed() -> None:
    page = Page()
    for key in "abc":
        page.put(key, {})
    page.parts.remove("a")
    async with reading(page, "e-2") as reader:
        await reader.until("whole")
        assert reader.told() == [("change", {"set": {"c": {}}, "gone": ["a"]}), ("whole", {"revision": 4})]


@pytest.mark.parametrize("last", ["other-2", "e-99", "e--1", "e-x", "e-\u0663", "2", "", "e-" + "9" * 400])
async def test_who_saw_another_page_is_told_this_one_whole(last: str) -> None:
    page = Page()
    for key in "abc":
        page.put(key, {})
    async with reading(page, last) as reader:
        await reader.until("whole")
        assert reader.told()[0] == ("page", {})


async def test_a_large_page_comes_in_small_messages() -> None:
    page = Page()
    for number in range(100):
        page.put(str(number), {"x": "y" * 1000})
    async with reading(page) as reader:
        await reader.until("whole")
        assert max(map(len, reader.text.split("\n\n"))) < events.MESSAGE_CHARACTERS + 2000
        shown = [set(data["set"]) for name, data in reader.told() if name == "change"]
        assert len(shown) > 4
        assert set().union(*shown) == set(map(str, range(100)))


async def test_while_nothing_happens_the_line_is_shown_to_stand() -> None:
    async with reading(Page(), heartbeat_seconds=0.01) as reader:
        await reader.until(events.HEARTBEAT)


async def test_a_slow_reader_is_told_less_often_and_not_more_at_once() -> None:
    page = Page()
    async with reading(page) as reader:
        await reader.until("whole")
        reader.takes.clear()
        for number in range(1000):
            page.put("a", {"x": number})
            await asyncio.sleep(0)
        reader.takes.set()
        await reader.until("id: e-1000")
        assert len([name for name, _ in reader.told() if name == "change"]) <= 2


async def test_a_reader_who_takes_nothing_is_let_go() -> None:
    page, reader = Page(), Reader()
    page.put("a", {})
    reader.takes.clear()
    stream = events.Stream(page, limits=events.Limits(slow_seconds=0.01))
    scope = {"type": "http", "method": "GET", "headers": []}
    taking = asyncio.ensure_future(stream(scope, reader.receive, reader.send))
    reader.takes.set()
    await reader.until("whole")
    reader.takes.clear()
    page.put("b", {})
    await asyncio.wait_for(taking, 5)
    assert '"b"' not in reader.text
    assert not reader.ended.is_set(), "the server closes the connection of an answer without an end"


async def test_streams_end_when_the_dashboard_does() -> None:
    page = Page()
    async with reading(page) as reader:
        await reader.until("whole")
        page.close()
        await asyncio.wait_for(reader.ended.wait(), 5)


async def test_who_had_to_show_a_token_has_to_come_back() -> None:
    async with reading(Page(), ends_after_seconds=0.05) as reader:
        await asyncio.wait_for(reader.ended.wait(), 5)
