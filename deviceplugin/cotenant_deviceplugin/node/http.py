"""The agent's HTTP side: `/metrics`, `/healthz`, `/readyz`. It answers questions and changes nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import h11
import prometheus_client

from cotenant_api import addresses, errors, exposition, listeners

READ_BYTES = 16 * 1024
LIMITS = listeners.Limits(connections=64, request_bytes=listeners.BRIEF_BYTES)
"""kubelet, a few Prometheus servers, and people."""

Fault = Callable[[], Awaitable[str | None]]


@dataclass(frozen=True)
class Questions:
    """What is answered.

    Attributes:
        metrics: as Prometheus reads them, by who asks.
        readers: who may read metrics that name tenants.
        unwell: why the agent should be restarted; None: it should not.
        unready: why the agent does not work yet; None: it does.
    """

    metrics: Callable[[exposition.Audience], bytes]
    unwell: Fault
    unready: Fault
    readers: exposition.Readers = exposition.NOBODY


@dataclass(frozen=True)
class Address:
    """Where to listen. Port 0: the system chooses."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """`HOST:PORT`, `[IPv6]:PORT` or `:PORT`, which is every address."""
        host, separator, port = text.rpartition(":")
        if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise errors.InvalidInputError("--metrics-address", text, "must be HOST:PORT")
        return cls(host.strip("[]") or addresses.EVERY, int(port))


@contextlib.asynccontextmanager
async def serving(
    address: Address, questions: Questions, *, door: listeners.Door | None = None
) -> AsyncIterator[tuple[str, int]]:
    """Serve until the block ends; host and port. Raises PermanentError where the address cannot be had."""
    loop = asyncio.get_running_loop()
    door = listeners.Door(LIMITS) if door is None else door
    open_ones: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(_served(reader, writer, questions))
        open_ones.add(task)
        task.add_done_callback(open_ones.discard)

    def stream() -> asyncio.Protocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop), accept, loop=loop)

    try:
        made = door.guard(stream)
        if address.host == addresses.EVERY:
            sock = addresses.bound(address.port)
            server = await loop.create_server(made, sock=sock, backlog=listeners.BACKLOG)
        else:
            server = await loop.create_server(made, address.host, address.port, backlog=listeners.BACKLOG)
    except OSError as error:
        message = f"--metrics-address: {address.host}:{address.port}: {error.strerror}"
        raise errors.PermanentError(message) from error
    try:
        host, port = server.sockets[0].getsockname()[:2]
        yield str(host), int(port)
    finally:
        server.close()
        for task in open_ones:
            task.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


async def _served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, questions: Questions) -> None:
    """One connection, to its end."""
    protocol = h11.Connection(h11.SERVER)
    # A client that leaves or speaks no HTTP is not answered; one that is silent or slow is closed by the door.
    with contextlib.closing(writer), contextlib.suppress(OSError, h11.ProtocolError):
        while True:
            request = await _request(protocol, reader)
            if request is None:
                return
            answer = await _answer(request, questions)
            headers = [("Content-Type", answer.content_type), ("Content-Length", str(len(answer.body)))]
            body = b"" if request.method == b"HEAD" else answer.body
            said = (h11.Response(status_code=answer.status, headers=headers), h11.Data(data=body), h11.EndOfMessage())
            writer.write(b"".join(protocol.send(each) or b"" for each in said))
            await writer.drain()
            if protocol.our_state is not h11.DONE:
                return
            protocol.start_next_cycle()


async def _request(protocol: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    """Return the next one, read to its end, whatever it says; None: there is none any more."""
    request = None
    while True:
        event = protocol.next_event()
        if event is h11.NEED_DATA:
            protocol.receive_data(await reader.read(READ_BYTES))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.EndOfMessage):
            return request
        elif not isinstance(event, h11.Data):
            return None


async def _answer(request: h11.Request, questions: Questions) -> _Answer:
    path = request.target.partition(b"?")[0]
    if request.method not in {b"GET", b"HEAD"}:
        return _Answer(405, b"only GET is answered\n")
    if path == b"/metrics":
        audience = questions.readers.audience(dict(request.headers).get(b"authorization"))
        if audience is exposition.Audience.REFUSED:
            return _Answer(401, exposition.REFUSAL.encode())
        return _Answer(200, questions.metrics(audience), prometheus_client.CONTENT_TYPE_LATEST)
    faults = {b"/healthz": questions.unwell, b"/readyz": questions.unready}
    if path not in faults:
        return _Answer(404, b"/metrics, /healthz and /readyz are answered\n")
    found = await faults[path]()
    return _Answer(200 if found is None else 503, f"{found or 'ok'}\n".encode())
