"""Lists and watches: nothing is missed, whatever breaks."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from api_server.faults import Fault
from api_server.server import Server
from cotenant_extender import steps
from cotenant_extender.kube import client, pods, transport, watches
from extender import builders, running, virtual
from extender.running import until

Object = dict[str, Any]


class _Sink:
    """Keeps what is delivered."""

    def __init__(self) -> None:
        self.known: dict[str, Object] = {}
        self.lists = 0

    def take(self, items: list[Object], _version: int) -> steps.Steps[None]:
        yield
        self.known = {item["metadata"]["name"]: item for item in items}
        self.lists += 1

    def changed(self, item: Object) -> None:
        self.known[item["metadata"]["name"]] = item

    def gone(self, item: Object) -> None:
        self.known.pop(item["metadata"]["name"], None)


@asynccontextmanager
async def watching(to: transport.Transport) -> AsyncIterator[tuple[watches.Watch, _Sink]]:
    sink = _Sink()
    watch = watches.Watch(client.Client(to), pods.NODES, sink)
    task = asyncio.create_task(watch.run())
    try:
        yield watch, sink
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@virtual.time
async def test_a_list_and_then_changes_are_delivered() -> None:
    server = Server()
    server.put(pods.NODES, builders.node("a"))
    async with watching(server) as (watch, sink):
        await watch.listed()
        server.put(pods.NODES, builders.node("b"))
        server.remove(pods.NODES, "a")
        await until(lambda: set(sink.known) == {"b"}, "delivered")
        assert sink.lists == 1


@virtual.time
async def test_a_cut_watch_goes_on_where_it_was() -> None:
    server = Server()
    async with watching(server) as (watch, sink):
        await watch.listed()
        server.put(pods.NODES, builders.node("a"))
        await until(lambda: "a" in sink.known, "delivered")
        server.break_watches()
        server.put(pods.NODES, builders.node("b"))
        server.remove(pods.NODES, "a")
        await until(lambda: set(sink.known) == {"b"}, "delivered")
        assert sink.lists == 1


@virtual.time
async def test_deletions_before_a_cut_are_told_once_more_and_change_nothing() -> None:
    server = Server()
    server.put(pods.NODES, builders.node("a"))
    async with watching(server) as (watch, sink):
        await watch.listed()
        server.put(pods.NODES, builders.node("b"))
        server.remove(pods.NODES, "a")
        await until(lambda: set(sink.known) == {"b"}, "delivered")
        server.break_watches()
        server.put(pods.NODES, builders.node("c"))
        await until(lambda: set(sink.known) == {"b", "c"}, "delivered")
        assert sink.lists == 1


@virtual.time
async def test_a_cut_watch_that_brought_nothing_is_followed_by_a_list() -> None:
    server = Server()
    server.put(pods.NODES, builders.node("a"))
    async with watching(server) as (watch, sink):
        await watch.listed()
        await until(lambda: server.sent("WATCH", pods.NODES) == 1, "watched")
        await asyncio.sleep(1)
        server.break_watches()
        await watch.listed(2)
        assert set(sink.known) == {"a"}


@pytest.mark.parametrize("meanwhile", [0, 1, 2, 3, 30])
@virtual.time
async def test_after_a_restore_all_is_listed_again_however_far_versions_have_come_since(meanwhile: int) -> None:
    server = Server()
    server.put(pods.NODES, builders.node("a"))
    saved = server.store.snapshot()
    async with watching(server) as (watch, sink):
        await watch.listed()
        server.put(pods.NODES, builders.node("b"))
        server.put(pods.NODES, builders.node("a", labels={"seen": "yes"}))
        await until(lambda: sink.known["a"]["metadata"]["labels"].get("seen") == "yes", "delivered")
        server.fault = lambda _: Fault.NOT_SENT
        server.restore(saved)
        await asyncio.sleep(1)
        # With two writes the same object has the very version that was reached, and another content.
        for number in range(meanwhile):
            server.put(pods.NODES, builders.node("a", labels={"count": str(number)}))
        server.fault = lambda _: None
        await until(lambda: set(sink.known) == {"a"}, "what was restored")
        assert sink.known["a"] == server.all(pods.NODES)[0]


@virtual.time
async def test_after_a_restore_of_what_was_delivered_the_watch_goes_on() -> None:
    server = Server()
    async with watching(server) as (watch, sink):
        await watch.listed()
        server.put(pods.NODES, builders.node("a"))
        await until(lambda: set(sink.known) == {"a"}, "delivered")
        server.restore(server.store.snapshot())
        server.put(pods.NODES, builders.node("b"))
        await until(lambda: set(sink.known) == {"a", "b"}, "delivered")
        assert sink.lists == 1


@virtual.time
async def test_a_watch_whose_version_is_of_the_future_is_followed_by_a_list() -> None:
    server = Server()
    server.put(pods.NODES, builders.node("a"))
    saved = server.store.snapshot()
    async with watching(server) as (watch, sink):
        await watch.listed()
        server.put(pods.NODES, builders.node("b"))
        await until(lambda: set(sink.known) == {"a", "b"}, "delivered")
        server.restore(saved)
        await watch.listed(2)
        assert set(sink.known) == {"a"}
        server.put(pods.NODES, builders.node("c"))
        await until(lambda: set(sink.known) == {"a", "c"}, "delivered")


@virtual.time
async def test_it_says_when_a_list_is_about_to_be_asked_for() -> None:
    server, sink = Server(), _Sink()
    told: list[int] = []
    watch = watches.Watch(client.Client(server), pods.NODES, sink, begins=lambda: told.append(len(server.requests)))
    task = asyncio.create_task(watch.run())
    await watch.listed()
    await watch.relist()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [server.requests[count] for count in told] == [("GET", pods.NODES)] * 2


@virtual.time
async def test_a_watch_that_is_too_old_is_followed_by_a_list() -> None:
    server = Server()
    server.put(pods.NODES, builders.node("a"))
    async with watching(server) as (watch, sink):
        await watch.listed()
        server.slip(pods.NODES, builders.node("b"))
        server.compact()
        await watch.listed(2)
        assert set(sink.known) == {"a", "b"}


@virtual.time
async def test_asked_to_it_lists_again() -> None:
    server = Server()
    async with watching(server) as (watch, sink):
        await watch.listed()
        server.slip(pods.NODES, builders.node("b"))
        await watch.relist()
        assert set(sink.known) == {"b"}
        server.put(pods.NODES, builders.node("c"))
        await until(lambda: "c" in sink.known, "delivered")


class _Slow:
    """Answers at once; what it answers takes a second to arrive."""

    def __init__(self, to: Server) -> None:
        self._to = to

    async def request(self, request: transport.Request) -> transport.Answer:
        answer = await self._to.request(request)
        await asyncio.sleep(1)
        return answer

    def stream(self, request: transport.Request) -> AbstractAsyncContextManager[transport.Stream]:
        return self._to.stream(request)


@virtual.time
async def test_a_list_that_was_under_way_when_it_was_asked_is_not_the_answer() -> None:
    server = Server()
    async with watching(_Slow(server)) as (watch, sink):
        await until(lambda: server.sent("GET", pods.NODES) == 1, "under way")
        server.slip(pods.NODES, builders.node("b"))
        await watch.relist()
        assert set(sink.known) == {"b"}


@virtual.time
async def test_while_the_api_server_is_down_it_tries_again_more_and_more_slowly() -> None:
    server = Server()
    server.fault = lambda _: Fault.NOT_SENT
    async with watching(server) as (watch, sink):
        await asyncio.sleep(300)
        tries = server.sent("GET", pods.NODES)
        assert tries < 200
        server.fault = lambda _: None
        await watch.listed()
        assert sink.lists == 1


@virtual.time
async def test_a_list_that_the_api_server_is_too_busy_for_is_tried_again() -> None:
    server = Server()
    left = [Fault.BUSY, Fault.BUSY]
    server.fault = lambda _: left.pop() if left else None
    async with watching(server) as (watch, _):
        await watch.listed()
        assert running.clock() - builders.NOW >= 2


class _Pages:
    """Answers a list in two pages, and a watch with an object, a deletion, a bookmark and a cut line."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def request(self, request: transport.Request) -> transport.Answer:
        await asyncio.sleep(0)
        self.paths.append(request.path)
        if "resourceVersionMatch=Exact" in request.path:
            return transport.Answer(200, {}, b'{"items":[{"metadata":{"name":"c","resourceVersion":"8"}}]}')
        if "continue=next" in request.path:
            return transport.Answer(
                200, {}, b'{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"b"}}]}'
            )
        first = b'{"metadata":{"resourceVersion":"7","continue":"next"},"items":[{"metadata":{"name":"a"}}]}'
        return transport.Answer(200, {}, first)

    @asynccontextmanager
    async def stream(self, request: transport.Request) -> AsyncIterator[transport.Stream]:
        await asyncio.sleep(0)
        self.paths.append(request.path)
        yield _Lines(
            b'{"type":"ADDED","object":{"kind":"Node","metadata":{"name":"c","resourceVersion":"8"}}}\n',
            b'{"type":"DELETED","object":{"kind":"Node","metadata":{"name":"a","resourceVersion":"9"}}}\n',
            b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"10"}}}\n',
            b'{"type":"ADD',
        )


class _Lines:
    """A stream of given lines."""

    def __init__(self, *lines: bytes) -> None:
        self.status = 200
        self._lines = lines

    async def lines(self) -> AsyncIterator[bytes]:
        for line in self._lines:
            yield line


@virtual.time
async def test_pages_are_one_list_and_a_watch_goes_on_from_the_last_object_that_it_brought() -> None:
    pages = _Pages()
    async with watching(pages) as (watch, sink):
        await watch.listed()
        assert set(sink.known) == {"a", "b"}
        await until(lambda: sum("watch=1" in path for path in pages.paths) == 2, "watched again")
        assert [path.rpartition("=")[2] for path in pages.paths if "watch=1" in path] == ["7", "8"]
        assert set(sink.known) == {"b", "c"}


@virtual.time
async def test_of_what_is_listed_only_what_is_wanted_is_kept() -> None:
    server, sink = Server(), _Sink()
    server.put(pods.NODES, builders.node("a"))

    def named(item: Object) -> Object:
        return {"metadata": {"name": item["metadata"]["name"]}}

    watch = watches.Watch(client.Client(server), pods.NODES, sink, read=named)
    task = asyncio.create_task(watch.run())
    await watch.listed()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert sink.known == {"a": {"metadata": {"name": "a"}}}


class _Large:
    """Objects of which each has so many bytes; answers have no more than are read at once. The watch rests."""

    def __init__(self, sizes: Sequence[int], *, most: int) -> None:
        self._sizes, self._most = sizes, most
        self.limits: list[int] = []

    async def request(self, request: transport.Request) -> transport.Answer:
        await asyncio.sleep(0)
        query = dict(parse_qsl(urlsplit(request.path).query))
        begin, limit = int(query.get("continue", "0")), int(query["limit"])
        self.limits.append(limit)
        end, brief = min(begin + limit, len(self._sizes)), request.accept == transport.METADATA_ONLY_LIST
        if not brief and sum(self._sizes[begin:end]) > self._most:
            raise transport.TooLargeError("too large")
        metadata = {"resourceVersion": "7"} | ({"continue": str(end)} if end < len(self._sizes) else {})
        items = [{"metadata": {"name": f"n{at}"}} for at in range(begin, end)]
        return transport.Answer(200, {}, json.dumps({"metadata": metadata, "items": items}).encode())

    @asynccontextmanager
    async def stream(self, _request: transport.Request) -> AsyncIterator[transport.Stream]:
        await asyncio.Event().wait()
        yield _Lines()


@virtual.time
async def test_a_page_of_large_objects_is_asked_for_in_smaller_ones() -> None:
    source = _Large([10] * 100, most=100)
    async with watching(source) as (watch, sink):
        await watch.listed()
        assert len(sink.known) == 100
        assert max(source.limits[-5:]) <= 16


@virtual.time
async def test_an_object_that_is_too_large_alone_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async with watching(_Large([10, 1000, 10], most=100)) as (watch, sink):
        await watch.listed()
        assert set(sink.known) == {"n0", "n2"}
    assert "/n1 is too large and left out" in caplog.text


DEEP = '{"f:a":' * 5000 + "1" + "}" * 5000
"""Anybody may write 10,000 levels into an object's managed fields."""


class _Deep:
    """A list and a watch with an object that is nested too deep to be decoded, and others."""

    async def request(self, _request: transport.Request) -> transport.Answer:
        await asyncio.sleep(0)
        return transport.Answer(
            200, {}, f'{{"metadata":{{"resourceVersion":"7"}},"items":[{_named("a", 6)}]}}'.encode()
        )

    @asynccontextmanager
    async def stream(self, _request: transport.Request) -> AsyncIterator[transport.Stream]:
        yield _Endless(
            *(f'{{"type":"ADDED","object":{_named(name, at)}}}\n'.encode() for name, at in (("b", 8), ("c", 9)))
        )


class _Endless(_Lines):
    """Given lines, and then none."""

    async def lines(self) -> AsyncIterator[bytes]:
        async for line in super().lines():
            yield line
        await asyncio.Event().wait()


def _named(name: str, version: int) -> str:
    deep = f'"managedFields":[{{"fieldsV1":{DEEP}}}]' if name != "c" else '"labels":{}'
    return f'{{"metadata":{{"name":"{name}","resourceVersion":"{version}",{deep}}}}}'


@virtual.time
async def test_an_object_that_is_nested_too_deep_hides_no_other() -> None:
    async with watching(_Deep()) as (watch, sink):
        await watch.listed()
        assert set(sink.known) == {"a"}
        await until(lambda: set(sink.known) == {"a", "b", "c"}, "delivered")
        assert sink.lists == 1
