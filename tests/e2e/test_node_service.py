"""Connections to the API server's Service address are passed on, both ways, to their end."""

import asyncio

from cotenant_e2e.node import service


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"told " + await reader.read())
    writer.close()


async def free_port() -> int:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = int(server.sockets[0].getsockname()[1])
    server.close()
    return port


async def said_through(port: int, text: bytes) -> bytes:
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionError:
            await asyncio.sleep(0.01)
            continue
        writer.write(text)
        writer.write_eof()
        said = await reader.read()
        writer.close()
        return said


async def test_what_is_said_after_the_other_side_has_ended_still_arrives() -> None:
    far = await asyncio.start_server(echo, "127.0.0.1", 0)
    target = f"127.0.0.1:{far.sockets[0].getsockname()[1]}"
    port, stop = await free_port(), asyncio.Event()
    serving = asyncio.create_task(service.serve(f"127.0.0.1:{port}", target, stop))
    assert await said_through(port, b"this") == b"told this"
    stop.set()
    await serving
    far.close()


async def test_a_server_that_is_away_ends_the_connection_and_not_the_service() -> None:
    away, port, stop = await free_port(), await free_port(), asyncio.Event()
    serving = asyncio.create_task(service.serve(f"127.0.0.1:{port}", f"127.0.0.1:{away}", stop))
    assert await said_through(port, b"") == b""
    assert await said_through(port, b"") == b""
    stop.set()
    await serving
