"""HTTP to one server: which connections are kept, and what comes of those that break."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from cotenant_deviceplugin.kube import transport

SECONDS = 20
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Session = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Speaks as the test says, one session for each connection; `most`: so many were open at once."""

    def __init__(self, *sessions: Session) -> None:
        self.sessions = list(sessions)
        self.connections = self.open = self.most = 0
        self.tasks: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Begin a session."""
        self.connections, self.open = self.connections + 1, self.open + 1
        self.most = max(self.most, self.open)
        self.tasks.add(asyncio.create_task(self._session(reader, writer)))

    async def _session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.sessions.pop(0)(reader, writer)
        finally:
            self.open -= 1
            writer.close()


Connect = Callable[[Server], Awaitable[transport.Connections]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    made: list[tuple[Server, asyncio.Server, transport.Connections]] = []

    async def to(server: Server) -> transport.Connections:
        listening = await asyncio.start_server(server.accept, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        made.append(
            (server, listening, transport.Connections(f"http://127.0.0.1:{port}/base/", tls=None, server_name=None))
        )
        return made[-1][2]

    yield to
    for server, listening, connections in made:
        connections.close()
        listening.close()
        for task in server.tasks:
            task.cancel()
        await asyncio.gather(*server.tasks, return_exceptions=True)


def asking(method: str = "GET", body: bytes = b"") -> transport.Request:
    return transport.Request(method=method, target="/x?a=1", headers={"Accept": "application/json"}, body=body)


async def fetched(connections: transport.Connections, request: transport.Request) -> bytes:
    return (await connections.fetch(request, timeout_seconds=SECONDS, most_bytes=2**20))[1]


def saying(*answers: bytes) -> Session:
    """Each answer after a request without a body; then it ends the connection."""

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            try:
                await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                return  # the client has ended it
            writer.write(answer)

    return session


async def test_a_request_goes_below_the_path_of_the_server_with_its_length(connect: Connect) -> None:
    received = b""

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        received = await reader.readuntil(b"the body")
        writer.write(OK)

    assert await fetched(await connect(Server(session)), asking("PATCH", b"the body")) == b"ok"
    first, *headers = received.decode().lower().split("\r\n")
    assert first == "patch /base/x?a=1 http/1.1"
    assert "content-length: 8" in headers


async def test_a_connection_serves_one_request_after_the_other(connect: Connect) -> None:
    server = Server(saying(OK, OK, OK))
    connections = await connect(server)
    assert [await fetched(connections, asking()) for _ in range(3)] == [b"ok"] * 3
    assert server.connections == 1


async def test_a_server_that_wants_to_end_the_connection_is_asked_on_another(connect: Connect) -> None:
    ending = OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n")
    server = Server(saying(ending), saying(ending))
    connections = await connect(server)
    assert [await fetched(connections, asking()) for _ in range(2)] == [b"ok"] * 2
    assert server.connections == 2


async def vanishing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer once, and end the connection in the middle of the next request."""
    await saying(OK)(reader, writer)
    await reader.readuntil(b"\r\n\r\n")


async def test_a_kept_connection_that_breaks_costs_another_one(connect: Connect) -> None:
    server = Server(vanishing, saying(OK))
    connections = await connect(server)
    assert [await fetched(connections, asking()) for _ in range(2)] == [b"ok"] * 2
    assert server.connections == 2


async def test_a_creation_is_never_sent_twice(connect: Connect) -> None:
    server = Server(vanishing, saying(OK))
    connections = await connect(server)
    await fetched(connections, asking())
    with pytest.raises(transport.BROKEN):
        await fetched(connections, asking("POST"))
    assert server.connections == 1


async def test_an_answer_that_breaks_off_is_no_answer(connect: Connect) -> None:
    server = Server(saying(OK[:-1]), saying(OK))
    connections = await connect(server)
    with pytest.raises(transport.BROKEN):
        await fetched(connections, asking())
    assert await fetched(connections, asking()) == b"ok"


async def test_what_is_no_http_is_refused(connect: Connect) -> None:
    with pytest.raises(transport.BROKEN):
        await fetched(await connect(Server(saying(b"SSH-2.0-OpenSSH\r\n\r\n"))), asking())


async def test_a_server_that_does_not_answer_is_not_waited_for(connect: Connect) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    connections = await connect(Server(silent))
    with pytest.raises(TimeoutError):
        await connections.fetch(asking(), timeout_seconds=0.05, most_bytes=2**20)


async def test_many_requests_at_once_share_a_bounded_number_of_connections(connect: Connect) -> None:
    many = 3 * transport.AT_ONCE
    server = Server(*[saying(*[OK] * many) for _ in range(many)])
    connections = await connect(server)
    answers = await asyncio.gather(*[fetched(connections, asking()) for _ in range(many)])
    assert answers == [b"ok"] * many
    assert server.most == server.connections == transport.AT_ONCE


async def test_a_stream_gives_what_comes_and_takes_no_kept_connection(connect: Connect) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def streaming(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + b"3\r\none\r\n")
        await reader.read()

    server = Server(saying(OK, OK), streaming)
    connections = await connect(server)
    await fetched(connections, asking())
    async with connections.stream(asking(), timeout_seconds=SECONDS) as (answered, stream):
        assert (answered.status, await stream.part()) == (200, b"one")
    assert await fetched(connections, asking()) == b"ok"
    assert server.connections == 2


async def test_a_connection_in_use_when_all_are_closed_is_not_kept(connect: Connect) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await answer.wait()
        writer.write(OK)
        assert await reader.read() == b""

    server = Server(slow)
    connections = await connect(server)
    fetching = asyncio.create_task(fetched(connections, asking()))
    await asked.wait()
    connections.close()
    answer.set()
    assert await fetching == b"ok"
    async with asyncio.timeout(SECONDS):
        await asyncio.gather(*server.tasks, return_exceptions=True)
