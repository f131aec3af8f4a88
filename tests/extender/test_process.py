"""The process around the extender: its arguments, its port, its logs."""

import argparse
import asyncio
import signal
import socket

import fastapi
import pytest
import uvicorn

from cotenant_api import errors
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
