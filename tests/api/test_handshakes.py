"""TLS handshakes of a listener, over real sockets: those that nobody finishes are few, and end."""

import asyncio
import contextlib
import dataclasses
import datetime as dt
import gc
import socket
import ssl
from asyncio import sslproto
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cotenant_api import handshakes, listeners
from cotenant_e2e import certificates

SECONDS = 20
LIMITS = listeners.Limits(connections=3, request_seconds=60, idle_seconds=60, burst=2, settle_seconds=0)


class Echo(asyncio.Protocol):
    """Says first what it knows of the connection, then what it hears."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say whether TLS is spoken."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(b"secret " if transport.get_extra_info("sslcontext") else b"open ")

    def data_received(self, data: bytes) -> None:
        """Say the same."""
        self.transport.write(data)


@dataclass(frozen=True)
class Listener:
    """A listener on loopback, and what trusts its certificate."""

    handshakes: handshakes.Handshakes
    port: int
    trusting: ssl.SSLContext

    async def beginning(self, said: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect without a handshake, and send this."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(said)
        return reader, writer

    async def asked(self, said: bytes) -> bytes:
        """What a client hears that speaks TLS."""
        async with asyncio.timeout(SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trusting)
            writer.write(said)
            heard = await reader.readexactly(len(b"secret ") + len(said))
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        return heard


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a server, and of a client that trusts it."""
    folder: Path = tmp_path_factory.mktemp("tls")
    certificates.write(folder, addresses=["127.0.0.1"], now=dt.datetime.now(dt.UTC))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.crt", folder / "server.key")
    return server, ssl.create_default_context(cafile=folder / "ca.crt")


@contextlib.asynccontextmanager
async def listening(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], limits: listeners.Limits = LIMITS
) -> AsyncIterator[Listener]:
    made = handshakes.Handshakes(contexts[0], limits=limits)
    server = await asyncio.get_running_loop().create_server(made.guard(Echo), "127.0.0.1", 0)
    try:
        yield Listener(made, server.sockets[0].getsockname()[1], contexts[1])
    finally:
        server.close()


async def ended(reader: asyncio.StreamReader) -> None:
    """Wait until a connection is closed by the server."""
    async with asyncio.timeout(SECONDS):
        with contextlib.suppress(ConnectionResetError):
            while await reader.read(1 << 16):
                pass


async def test_a_protocol_has_the_connection_when_the_handshake_is_complete(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async with listening(contexts) as listener:
        assert await listener.asked(b"hello") == b"secret hello"
        assert len(listener.handshakes) == 0


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01"], ids=["nothing", "a part"])
async def test_a_handshake_that_nobody_finishes_ends(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], said: bytes
) -> None:
    limits = listeners.Limits(connections=3, request_seconds=0.001, idle_seconds=0.001)
    async with listening(contexts, limits) as listener:
        reader, writer = await listener.beginning(said)
        await ended(reader)
        writer.close()


async def test_what_is_no_handshake_is_closed(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async with listening(contexts) as listener:
        reader, writer = await listener.beginning(b"GET / HTTP/1.1\r\n\r\n")
        await ended(reader)
        writer.close()
        assert len(listener.handshakes) == 0


async def test_a_client_that_leaves_before_the_end_is_forgotten(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async with listening(contexts) as listener:
        _, writer = await listener.beginning(b"\x16\x03")
        writer.transport.abort()
        assert await listener.asked(b"hello") == b"secret hello"
        async with asyncio.timeout(SECONDS):
            while len(listener.handshakes):
                await asyncio.to_thread(bool)


async def test_somebody_who_begins_many_keeps_nobody_from_finishing(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async with listening(contexts) as listener:
        many = [await listener.beginning(b"\x16") for _ in range(50)]
        assert await listener.asked(b"hello") == b"secret hello"
        assert len(listener.handshakes) <= LIMITS.connections + LIMITS.burst
        await ended(many[0][0])
        for _, writer in many:
            writer.close()


def tls_protocols() -> list[sslproto.SSLProtocol]:
    return [one for one in gc.get_objects() if isinstance(one, sslproto.SSLProtocol)]


async def test_no_handshake_begins_on_a_connection_that_was_closed_before_it(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    few = dataclasses.replace(LIMITS, connections=1, burst=0)
    begun = handshakes.Handshakes(contexts[0], limits=few)
    loop, transports = asyncio.get_running_loop(), []
    # Of other tests some may be left.
    before = tls_protocols()

    def made() -> asyncio.Protocol:
        protocol = begun.guard(Echo)()
        transports.append(protocol)
        return protocol

    server = await loop.create_server(made, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        # All are there before the loop accepts the first.
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
        async with asyncio.timeout(SECONDS):
            while len(transports) < len(clients):
                await asyncio.to_thread(bool)
            await asyncio.to_thread(bool)
        alive = [one for one in tls_protocols() if not any(one is other for other in before)]
        for client in clients:
            client.close()
        assert len(alive) <= 1
