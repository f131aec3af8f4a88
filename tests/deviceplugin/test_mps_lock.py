"""One process of MPS daemons for a folder, and how the others and kubelet learn of it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cotenant_deviceplugin.mps import lock, readiness
from node_kit import quick


def locking(
    folder: Path, said: list[str | None], stop: asyncio.Event | None = None
) -> contextlib.AbstractAsyncContextManager[bool]:
    return lock.held(folder, stop or asyncio.Event(), waits=said.append, poll_seconds=0.01)


async def test_second_waits_until_the_first_has_ended(tmp_path: Path) -> None:
    folder, second = tmp_path / "mps", asyncio.Event()
    said: list[str | None] = []

    async def take() -> None:
        async with locking(folder, said) as held:
            assert held
            second.set()

    async with locking(folder, []) as held:
        assert held
        task = asyncio.create_task(take())
        await quick.until(lambda: said)
        assert not second.is_set()
    await task
    assert said[0] == f"another process of MPS daemons serves {folder}; waiting for its end"
    assert said[-1] is None
    assert list(folder.iterdir()) == []


async def test_what_the_holder_has_started_does_not_hold_the_lock(tmp_path: Path) -> None:
    said: list[str | None] = []
    async with locking(tmp_path, []):
        child = await asyncio.create_subprocess_exec("sleep", "600")
    try:
        async with locking(tmp_path, said) as held:
            assert (held, said) == (True, [None])
    finally:
        child.kill()
        await child.wait()


async def test_wait_ends_when_told_and_nothing_is_held(tmp_path: Path) -> None:
    stop = asyncio.Event()
    async with locking(tmp_path, []):
        asyncio.get_running_loop().call_later(0.05, stop.set)
        async with locking(tmp_path, [], stop) as held:
            assert not held


async def test_folder_that_cannot_be_made_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "mps"
    said: list[str | None] = []
    folder.touch()

    async def repair() -> None:
        await quick.until(lambda: len(said) > 1)
        folder.unlink()

    repairing = asyncio.create_task(repair())
    async with locking(folder, said) as held:
        assert held
    await repairing
    assert (said[0] or "").startswith(f"{folder} cannot be locked: ")


@contextlib.asynccontextmanager
async def listening(told: readiness.Readiness, port: int) -> AsyncIterator[None]:
    task = asyncio.create_task(told.listen(port))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def taken(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


async def test_port_is_open_while_nothing_is_in_the_way(unused_tcp_port: int, caplog: pytest.LogCaptureFixture) -> None:
    told = readiness.Readiness()
    told.tell("GPU-a", "it hangs")
    async with listening(told, unused_tcp_port):
        await asyncio.sleep(0)
        assert not taken(unused_tcp_port)
        told.tell("GPU-a", None)
        await quick.until(lambda: taken(unused_tcp_port))
        told.tell("GPU-a", "it hangs")
        told.tell("GPU-b", "it hangs")
        await quick.until(lambda: not taken(unused_tcp_port))
        told.tell("GPU-b", None)
        assert not told.ready
    assert caplog.text.count("GPU-a: it hangs") == 2


async def test_port_that_is_taken_is_told_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(readiness, "RETRY_SECONDS", 0.01)
    with socket.create_server(("", 0)) as other:
        port = other.getsockname()[1]
        async with listening(readiness.Readiness(), port):
            await quick.until(lambda: f"port {port}, by which readiness is told" in caplog.text)
            other.close()
            await quick.until(lambda: taken(port))
