"""Somebody who may connect to our pods: half requests, and more connections than anybody needs, on every listener."""

import asyncio
import contextlib
import datetime as dt
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import fastapi
import pytest
import uvicorn

from cotenant_api import listeners
from cotenant_dashboard.web import serving as dashboard
from cotenant_deviceplugin.node import http as agent
from cotenant_e2e import certificates
from cotenant_extender import serve as extender
from cotenant_operator import probes as operator

SECONDS = 20
ATTACKERS = 500
LIMITS = listeners.Limits(connections=16, request_seconds=10, sweep_seconds=0.001)
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HALVES = {
    "nothing": b"",
    "a method": b"GET /hea",
    "a header": WHOLE[:-2] + b"X-Half: ",
    "a body": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\nhalf",
}
Serving = Callable[[listeners.Door], contextlib.AbstractAsyncContextManager[int]]


@contextlib.asynccontextmanager
async def of_the_agent(door: listeners.Door) -> AsyncIterator[int]:
    async def well() -> None:
        return None

    questions = agent.Questions(metrics=lambda audience: audience.name.encode(), unwell=well, unready=well)
    async with agent.serving(agent.Address("127.0.0.1", 0), questions, door=door) as (_, port):
        yield port


@contextlib.asynccontextmanager
async def of_the_operator(door: listeners.Door) -> AsyncIterator[int]:
    answers = operator.Answers(metrics=bytes, ready=bool)
    async with operator.serving(0, answers, door=door) as port:
        assert port is not None
        yield port


def application() -> fastapi.FastAPI:
    made = fastapi.FastAPI()
    made.add_api_route("/healthz", lambda: "ok")
    return made


@contextlib.asynccontextmanager
async def of_the_extender(door: listeners.Door) -> AsyncIterator[int]:
    with bound() as listening:
        async with extender.monitored(application(), listening, door=door):
            await begun(listening)
            yield listening.getsockname()[1]


@contextlib.asynccontextmanager
async def of_the_dashboard(door: listeners.Door, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    with bound() as listening:
        where = dashboard.Door(address="127.0.0.1", port=0, tls=tls)
        server = uvicorn.Server(dashboard.configuration(application(), where, door))
        serving = asyncio.create_task(server._serve(sockets=[listening]))
        try:
            await begun(listening)
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


def bound() -> socket.socket:
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    return made


async def begun(listening: socket.socket) -> None:
    """Wait until a server that begins in a task of its own listens."""
    while not listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        await asyncio.to_thread(bool)


LISTENERS: dict[str, Serving] = {
    "agent": of_the_agent,
    "dashboard": of_the_dashboard,
    "extender": of_the_extender,
    "operator": of_the_operator,
}
EVERY = pytest.mark.parametrize("name", LISTENERS)
OWN: dict[str, listeners.Limits] = {
    "agent": agent.LIMITS,
    "dashboard": dashboard.LIMITS,
    "extender": extender.MONITORING,
    "operator": operator.LIMITS,
}
"""What each of our programs runs with."""


class Client:
    """A connection."""

    def __init__(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self._reader, self._writer = streams

    @classmethod
    async def to(cls, port: int, text: bytes, source: str = "127.0.0.1") -> "Client":
        """Connect, and send this."""
        client = cls(await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0)))
        client._writer.write(text)
        return client

    async def read(self, count: int = 12) -> bytes:
        """The beginning of an answer; less: the connection was closed."""
        async with asyncio.timeout(SECONDS):
            try:
                return await self._reader.read(count)
            except ConnectionResetError:
                return b""

    async def closed(self) -> None:
        """Wait for the end of the connection."""
        while await self.read(1 << 16):
            pass

    def close(self) -> None:
        """Leave."""
        self._writer.close()


@EVERY
@pytest.mark.parametrize("half", HALVES)
async def test_half_a_request_is_not_kept_for_ever(name: str, half: str) -> None:
    clock = [1000.0]
    door = listeners.Door(LIMITS, clock=lambda: clock[0])
    async with LISTENERS[name](door) as port:
        client = await Client.to(port, HALVES[half])
        probe = await Client.to(port, WHOLE)
        assert (await probe.read()).endswith(b"200")
        clock[0] += LIMITS.idle_seconds
        await client.closed()
        client.close()
        probe.close()


@EVERY
async def test_a_body_that_trickles_ends_with_its_deadline(name: str) -> None:
    clock = [1000.0]
    limits = listeners.Limits(connections=16, request_seconds=10, sweep_seconds=3600)
    door = listeners.Door(limits, clock=lambda: clock[0])
    async with LISTENERS[name](door) as port:
        client = await Client.to(port, HALVES["a header"])
        for _ in range(4):
            # The answer to another shows that what was sent before has arrived.
            probe = await Client.to(port, WHOLE)
            await probe.read()
            probe.close()
            client._writer.write(b"x")
            clock[0] += limits.request_seconds / 4
        door.sweep()
        await client.closed()
        client.close()


@EVERY
async def test_headers_without_end_close_the_connection_at_64_kib(name: str) -> None:
    async with LISTENERS[name](listeners.Door(OWN[name])) as port:
        client = await Client.to(port, WHOLE[:-2] + 65 * (b"X-More: " + b"x" * 1014 + b"\r\n"))
        await client.closed()
        client.close()


@EVERY
async def test_a_probe_is_answered_while_somebody_holds_every_connection(name: str) -> None:
    door = listeners.Door(listeners.Limits(connections=LIMITS.connections, sweep_seconds=3600))
    async with LISTENERS[name](door) as port:
        attackers = [await Client.to(port, HALVES["a method"], "127.0.0.2") for _ in range(ATTACKERS)]
        probe = await Client.to(port, WHOLE)
        assert (await probe.read()).endswith(b"200")
        assert len(door) <= LIMITS.connections + LIMITS.burst
        for each in (*attackers, probe):
            each.close()


async def test_https_is_answered_while_somebody_begins_handshakes_and_finishes_none(tmp_path: Path) -> None:
    certificates.write(tmp_path, addresses=["127.0.0.1"], now=dt.datetime.now(dt.UTC))
    serving = of_the_dashboard(listeners.Door(LIMITS), dashboard.tls(tmp_path / "server.crt", tmp_path / "server.key"))
    trusting = ssl.create_default_context(cafile=tmp_path / "ca.crt")
    async with serving as port:
        attackers = [await Client.to(port, b"\x16", "127.0.0.2") for _ in range(ATTACKERS)]
        async with asyncio.timeout(SECONDS):
            probe = Client(await asyncio.open_connection("127.0.0.1", port, ssl=trusting))
        probe._writer.write(WHOLE)
        assert (await probe.read()).endswith(b"200")
        # The first of many that began has made room for the probe.
        await attackers[0].closed()
        for each in (*attackers, probe):
            each.close()
