"""What clients may hold of a listener: over real sockets, by a clock that the test moves."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator

import pytest

from cotenant_api import listeners

SECONDS = 20
LIMITS = listeners.Limits(connections=3, request_seconds=10, idle_seconds=100, sweep_seconds=3600)


class Lines(asyncio.Protocol):
    """Answers each line; what comes before the line's end is a request that is not complete."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep it."""
        assert isinstance(transport, listeners.Answering)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer a line that is complete."""
        if data.endswith(b"\n"):
            self.transport.write(b"answer\n")


class Client:
    """A connection; what it was sent is read at once."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def say(self, text: bytes) -> None:
        """Send this."""
        self._writer.write(text)

    async def line(self) -> bytes:
        """The next line; empty: the connection was closed."""
        async with asyncio.timeout(SECONDS):
            try:
                return await self._reader.readline()
            except ConnectionResetError:
                return b""

    async def answered(self) -> bool:
        """Whether the rest of a request is answered."""
        self.say(b"rest\n")
        return await self.line() == b"answer\n"

    def close(self) -> None:
        """Leave."""
        self._writer.close()


class Listener:
    """A listener on loopback, its door and its clock."""

    def __init__(self, door: listeners.Door, port: int, clock: list[float], seen: asyncio.Queue[bytes]) -> None:
        self.door, self.clock, self._port, self._seen = door, clock, port, seen
        self._clients: list[Client] = []

    async def client(self, source: str = "127.0.0.1") -> Client:
        """Connect, and be answered once."""
        client = Client(*await asyncio.open_connection("127.0.0.1", self._port, local_addr=(source, 0)))
        self._clients.append(client)
        client.say(b"hello\n")
        assert await client.line() == b"answer\n"
        return client

    async def half(self, client: Client) -> None:
        """Send a part of a request, and wait until it has arrived."""
        client.say(b"half")
        async with asyncio.timeout(SECONDS):
            while await self._seen.get() != b"half":
                pass

    def close(self) -> None:
        """Have all clients leave."""
        for client in self._clients:
            client.close()


@contextlib.asynccontextmanager
async def listening(limits: listeners.Limits) -> AsyncIterator[Listener]:
    clock, seen = [1000.0], asyncio.Queue[bytes]()
    door = listeners.Door(limits, clock=lambda: clock[0])

    class Seen(Lines):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            seen.put_nowait(data)

    server = await asyncio.get_running_loop().create_server(door.guard(Seen), "127.0.0.1", 0)
    listener = Listener(door, server.sockets[0].getsockname()[1], clock, seen)
    try:
        yield listener
    finally:
        listener.close()
        server.close()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    async with listening(LIMITS) as made:
        yield made


async def test_half_a_request_is_kept_until_its_deadline_and_no_longer(listener: Listener) -> None:
    client = await listener.client()
    await listener.half(client)
    listener.clock[0] += LIMITS.request_seconds - 1
    listener.door.sweep()
    assert len(listener.door) == 1
    listener.clock[0] += 1
    listener.door.sweep()
    assert await client.line() == b""
    assert len(listener.door) == 0


async def test_more_bytes_of_the_same_request_win_no_time(listener: Listener) -> None:
    client = await listener.client()
    for _ in range(2):
        await listener.half(client)
        listener.clock[0] += LIMITS.request_seconds / 2
    listener.door.sweep()
    assert await client.line() == b""


async def test_a_connection_without_a_request_is_closed_when_it_has_been_idle(listener: Listener) -> None:
    client = await listener.client()
    listener.clock[0] += LIMITS.idle_seconds - 1
    listener.door.sweep()
    assert await client.answered()
    listener.clock[0] += LIMITS.idle_seconds
    listener.door.sweep()
    assert await client.line() == b""


async def test_one_connection_too_many_closes_the_one_that_has_waited_longest(listener: Listener) -> None:
    clients = []
    for _ in range(LIMITS.connections):
        clients.append(await listener.client())
        listener.clock[0] += 1
    assert await clients[0].answered()
    newest = await listener.client()
    assert await clients[1].line() == b""
    assert [await each.answered() for each in (clients[0], clients[2], newest)] == [True] * 3
    assert len(listener.door) == LIMITS.connections


async def test_an_address_that_holds_most_connections_makes_room_for_the_others(listener: Listener) -> None:
    first = await listener.client("127.0.0.2")
    listener.clock[0] += 1
    many = []
    for _ in range(4):
        many.append(await listener.client("127.0.0.3"))
        listener.clock[0] += 1
    assert await first.answered()
    assert [await each.line() for each in many[:2]] == [b"", b""]


async def test_connections_that_come_in_one_turn_do_not_close_each_other(listener: Listener) -> None:
    probe = await listener.client()
    crowd = [await listener.client(f"127.0.1.{number}") for number in range(1, 101)]
    assert await probe.answered()
    listener.clock[0] += LIMITS.settle_seconds
    assert await crowd[-1].answered()
    await listener.client()
    assert len(listener.door) == LIMITS.connections
    assert await crowd[-1].answered()


async def test_a_burst_from_one_address_closes_no_connection_of_another(listener: Listener) -> None:
    honest = await listener.client()
    listener.clock[0] += 1
    for _ in range(6):
        await listener.client("127.0.0.2")
    assert await honest.answered()
    assert len(listener.door) == 7


async def test_more_young_connections_than_a_burst_close_each_other() -> None:
    async with listening(listeners.Limits(connections=3, burst=2, sweep_seconds=3600)) as listener:
        clients = []
        for _ in range(8):
            clients.append(await listener.client())
            listener.clock[0] += 0.001
        assert len(listener.door) == 5
        assert await clients[0].line() == b""
        assert await clients[-1].answered()


async def test_overdue_connections_are_closed_without_being_asked_to() -> None:
    async with listening(listeners.Limits(connections=3, request_seconds=10, sweep_seconds=0.001)) as listener:
        client = await listener.client()
        await listener.half(client)
        listener.clock[0] += 10
        assert await client.line() == b""


async def test_a_closed_connection_is_forgotten(listener: Listener) -> None:
    client = await listener.client()
    client.close()
    again = await listener.client()
    assert await again.answered()
    listener.door.sweep()
    assert len(listener.door) == 1


async def test_a_request_of_more_bytes_than_it_may_have_is_not_passed_on() -> None:
    """A parser that keeps headers keeps them all: one connection filled its process's memory."""
    async with listening(dataclasses.replace(LIMITS, request_bytes=100)) as listener:
        client = await listener.client()
        for _ in range(3):
            client.say(b"x" * 60 + b"\n")
            assert await client.line() == b"answer\n"
        client.say(b"x" * 60)
        client.say(b"x" * 60 + b"\n")
        assert await client.line() == b""
        assert len(listener.door) == 0
