"""Read what a program of somebody else prints, and end it, whatever it does: in bounded memory and bounded time."""

import asyncio
import contextlib
import os
import signal
from typing import Final

END_SECONDS: Final = 5.0
"""How long a program that was killed may take to end: one that hangs in a driver never does."""
_CHUNK_BYTES: Final = 64 * 1024


class TooMuchError(Exception):
    """A program prints more than is read of it."""


async def communicate(
    process: asyncio.subprocess.Process, given: bytes = b"", *, max_bytes: int
) -> tuple[bytes, bytes]:
    """Give a program its input; return what it prints until it ends, and the end of what it says of errors.

    How long that may take is the caller's to say, and to `end` the program in any case.

    Args:
        process: with its standard output as a pipe; standard input and standard error, too, or not.
        given: for its standard input.
        max_bytes: of its standard output; of its standard error the last ones are kept.

    Raises:
        TooMuchError: it has printed more.
    """
    output, said = bytearray(), bytearray()
    tasks = [
        asyncio.create_task(_whole(process.stdout, output, max_bytes)),
        asyncio.create_task(_last(process.stderr, said, max_bytes)),
        asyncio.create_task(_give(process.stdin, given)),
    ]
    try:
        await asyncio.gather(*tasks)
        await process.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return bytes(output), bytes(said)


async def end(process: asyncio.subprocess.Process, *, group: bool = False) -> None:
    """Kill a program that has not ended; `group`: with all that it has started in its session."""
    if process.returncode is None or group:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL) if group else process.kill()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            # asyncio waits for the end of the pipes, too, and nobody else reads what is left in them.
            await asyncio.gather(_drained(process.stdout), _drained(process.stderr), process.wait())
    # What it has started may keep the pipes for ever; asyncio offers no other way to let go of our ends.
    process._transport.close()  # type: ignore[attr-defined]


async def _whole(stream: asyncio.StreamReader | None, into: bytearray, max_bytes: int) -> None:
    while stream is not None and (chunk := await stream.read(_CHUNK_BYTES)):
        into += chunk
        if len(into) > max_bytes:
            raise TooMuchError


async def _last(stream: asyncio.StreamReader | None, into: bytearray, max_bytes: int) -> None:
    while stream is not None and (chunk := await stream.read(_CHUNK_BYTES)):
        into += chunk
        del into[:-max_bytes]


async def _give(stream: asyncio.StreamWriter | None, given: bytes) -> None:
    if stream is None:
        return
    # A program that ends before it has read its input says why in another way.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stream.write(given)
        await stream.drain()
    stream.close()


async def _drained(stream: asyncio.StreamReader | None) -> None:
    while stream is not None and await stream.read(_CHUNK_BYTES):
        pass
