"""Kept-alive connections to the API server: reuse, limits, and answers that end early or that nobody asked for."""

import asyncio
import contextlib
import functools
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from cotenant_extender.kube import connection, pool

REQUEST = [b"GET / HTTP/1.1\r\n\r\n"]
MOST = 16
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nretry-after: 7\r\n\r\nok"

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class _Peer:
    """A server on loopback that answers each request as it is told; it counts connections."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.connections = 0
        self.tasks: list[asyncio.Task[None] | None] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.append(asyncio.current_task())
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await self._answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def connecting(peer: _Peer, *, limit: int = 4) -> AsyncIterator[pool.Pool]:
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    found = pool.Pool(pool.Server("127.0.0.1", port, None), limit=limit)
    try:
        yield found
    finally:
        found.close()
        server.close()
        await asyncio.gather(*(task for task in peer.tasks if task is not None))


async def answers(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(OK)


async def test_a_connection_is_used_again() -> None:
    peer = _Peer(answers)
    async with connecting(peer) as connections:
        for _ in range(3):
            taken = await connections.take()
            assert await taken.exchange(REQUEST, most_bytes=MOST) == b"ok"
            assert (taken.status, taken.headers["Retry-After"]) == (200, "7")
            connections.give_back(taken)
        assert peer.connections == 1


async def test_no_more_connections_than_the_limit_are_opened_and_who_waits_gets_one_that_is_given_back() -> None:
    peer = _Peer(answers)
    async with connecting(peer, limit=1) as connections:
        first = await connections.take()
        waiting = asyncio.ensure_future(connections.take())
        await asyncio.sleep(0)
        assert not waiting.done()
        await first.exchange(REQUEST, most_bytes=MOST)
        connections.give_back(first)
        assert await waiting is first


async def test_who_waits_gets_a_new_connection_where_one_is_closed() -> None:
    peer = _Peer(answers)
    async with connecting(peer, limit=1) as connections:
        first = await connections.take()
        waiting = asyncio.ensure_future(connections.take())
        await asyncio.sleep(0)
        first.close()
        connections.give_back(first)
        second = await waiting
        assert second is not first
        assert await second.exchange(REQUEST, most_bytes=MOST) == b"ok"


async def test_who_stops_waiting_takes_nobodys_turn() -> None:
    peer = _Peer(answers)
    async with connecting(peer, limit=1) as connections:
        first = await connections.take()
        gone, waiting = (asyncio.ensure_future(connections.take()) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        await first.exchange(REQUEST, most_bytes=MOST)
        connections.give_back(first)
        assert await waiting is first
        assert gone.cancelled()


async def test_an_answer_that_is_cut_is_an_error() -> None:
    async def cut(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK[:-1])
        writer.close()

    async with connecting(_Peer(cut)) as connections:
        taken = await connections.take()
        with pytest.raises(connection.BrokenError):
            await taken.exchange(REQUEST, most_bytes=MOST)
        assert not taken.usable


async def test_what_is_no_http_is_an_error() -> None:
    async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"what?\r\n\r\n")

    async with connecting(_Peer(babble)) as connections:
        taken = await connections.take()
        with pytest.raises(connection.BrokenError):
            await taken.exchange(REQUEST, most_bytes=MOST)


async def test_an_answer_that_nobody_asked_for_is_never_taken_for_another() -> None:
    async def twice(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + OK.replace(b"ok", b"no"))

    async with connecting(_Peer(twice)) as connections:
        taken = await connections.take()
        assert await taken.exchange(REQUEST, most_bytes=MOST) == b"ok"
        assert not taken.usable
        with pytest.raises(connection.BrokenError):
            await taken.exchange(REQUEST, most_bytes=MOST)


async def test_a_peer_that_ends_the_connection_after_its_answer_is_asked_on_another() -> None:
    async def last(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))

    peer = _Peer(last)
    async with connecting(peer) as connections:
        for _ in range(2):
            taken = await connections.take()
            assert await taken.exchange(REQUEST, most_bytes=MOST) == b"ok"
            connections.give_back(taken)
        assert peer.connections == 2


async def test_an_answer_can_be_read_part_by_part() -> None:
    async def chunks(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write((b"20000\r\n" + b"x" * 0x20000 + b"\r\n") * 64)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async with connecting(_Peer(chunks)) as connections:
        taken = await connections.take()
        await taken.begin(REQUEST)
        size = 0
        while part := await taken.parts():
            size += len(part)
        assert size == 64 * 0x20000


@pytest.mark.parametrize("in_parts", [False, True])
async def test_an_answer_that_is_too_large_is_not_kept(in_parts: bool) -> None:
    async def large(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n")
        for part in [b"x" * 10] * 2 if in_parts else [b"x" * 20]:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)

    async with connecting(_Peer(large)) as connections:
        taken = await connections.take()
        with pytest.raises(connection.TooLargeError, match="more than 16 bytes"):
            await taken.exchange(REQUEST, most_bytes=MOST)
        assert not taken.usable
        connections.give_back(taken)


async def _cut(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(OK[:-1])
    writer.close()


async def _babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"what?\r\n\r\n")


@pytest.mark.usefixtures("unsearched")
@pytest.mark.parametrize("answer", [answers, _cut, _babble])
async def test_a_connection_that_has_ended_is_freed_without_a_search_for_garbage(answer: Answer) -> None:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    async def used(port: int) -> "weakref.ref[connection.Connection]":
        make = functools.partial(connection.Connection, lambda _: ended.set_result(None))
        _, taken = await loop.create_connection(make, "127.0.0.1", port)
        with contextlib.suppress(connection.BrokenError):
            await taken.exchange(REQUEST, most_bytes=MOST)
        taken.close()
        return weakref.ref(taken)

    server = await asyncio.start_server(_Peer(answer).serve, "127.0.0.1", 0)
    async with server:
        known = await used(server.sockets[0].getsockname()[1])
        await ended
        # The loop lets go of what it ran last.
        await asyncio.sleep(0)
        assert known() is None
