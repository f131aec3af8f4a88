"""The process around the extender: its arguments, its port, its logs."""

import argparse
import asyncio
import signal
import socket
import weakref

import fastapi
import pytest
import uvicorn

from cotenant_api import errors, listeners
from cotenant_extender import command, serve, service


def test_the_arguments_have_the_documented_defaults() -> None:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    found = parser.parse_args([])
    assert (found.port, found.namespace, found.assume_leader) == (8888, "cotenant-system", False)
    assert found.metrics_port is None
    assert found.identity == socket.gethostname()


def test_a_port_that_is_taken_is_refused_with_the_remedy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(errors.InvalidInputError, match="--port"):
            serve.run(service.Settings(identity="host"), kubeconfig="/absent", ports=serve.Ports(port))


def test_a_port_that_is_none_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="--port"):
        serve.run(service.Settings(identity="host"), kubeconfig="/absent", ports=serve.Ports(99999))


def test_a_port_for_monitoring_that_is_taken_is_refused_with_the_remedy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = serve.Ports(0, taken.getsockname()[1])
        with pytest.raises(errors.InvalidInputError, match="choose another port with --metrics-port"):
            serve.run(service.Settings(identity="host"), kubeconfig="/absent", ports=ports)


async def test_the_server_for_monitoring_leaves_signals_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with serve.SideServer(uvicorn.Config("none:none")).capture_signals():
        assert signal.getsignal(signal.SIGTERM) is before


async def test_a_signal_tells_the_server_to_end_and_is_not_raised_again() -> None:
    server = serve.Server(uvicorn.Config("none:none"))
    with server.capture_signals():
        signal.raise_signal(signal.SIGTERM)
        for _ in range(2):
            # A turn of the event loop, in which it sees the signal.
            await asyncio.to_thread(bool)
    assert server.should_exit


async def test_who_watches_is_answered_for_the_block_and_no_longer() -> None:
    application = fastapi.FastAPI()
    application.add_api_route("/healthz", lambda: "ok")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        async with serve.monitored(application, listening):
            while not (answer := await asked(port)):
                # The server begins to listen in a task of its own.
                await asyncio.to_thread(bool)
            assert answer.startswith(b"HTTP/1.1 200 OK")
        assert await asked(port) == b""


class Remembering(listeners.Door):
    """Remembers each connection without keeping it; its clock is the test's."""

    def __init__(self) -> None:
        self.seconds = 0.0
        super().__init__(serve.MONITORING, clock=lambda: self.seconds)
        self.known: list[weakref.ref[listeners.Holder]] = []

    def enter(self, connection: listeners.Holder) -> None:
        """Remember it."""
        self.known.append(weakref.ref(connection))
        super().enter(connection)


@pytest.mark.usefixtures("unsearched")
async def test_the_connection_of_a_client_is_freed_without_a_search_for_garbage() -> None:
    application, door = fastapi.FastAPI(), Remembering()
    begun, left = asyncio.Event(), asyncio.Event()

    async def health() -> str:
        return "ok"

    async def slow() -> None:
        begun.set()
        await left.wait()

    application.add_api_route("/healthz", health)
    application.add_api_route("/slow", slow)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        async with serve.monitored(application, listening, door=door):
            while not await asked(port):
                await asyncio.to_thread(bool)
            # One client is closed while the first of its requests is under way and the second has not begun.
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n" * 2)
            await begun.wait()
            writer.transport.abort()
            door.seconds += listeners.REQUEST_SECONDS
            door.sweep()
            while len(door):
                await asyncio.to_thread(bool)
            left.set()
            for _ in range(10):
                await asyncio.to_thread(bool)
            assert [each() for each in door.known] == [None] * len(door.known)


async def asked(port: int) -> bytes:
    """The answer to a question for health; empty: nobody answers."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return b""
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_without_a_port_for_monitoring_nothing_is_served() -> None:
    async with serve.monitored(fastapi.FastAPI(), None):
        pass
