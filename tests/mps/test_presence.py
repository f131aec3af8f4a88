"""A control daemon that is absent, one that is silent and one that is busy are told from one another."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cotenant_api.gpunode import MPS
from cotenant_deviceplugin.mps import control, presence
from mps_kit import programs, session
from mps_kit.place import GPU, Place
from node_kit import quick


def asking(place: Place, daemon: session.Daemon, *, seconds: float = 10) -> control.Control:
    return control.Control(
        place.pipe, program=place.program.command, environment=daemon.environment, timeout_seconds=seconds
    )


async def test_daemon_is_found_while_it_lives(place: Place) -> None:
    with place.daemon() as daemon:
        assert presence.found(place.pipe) == daemon.process.pid
        daemon.process.kill()
        daemon.process.wait()
        assert presence.found(place.pipe) is None
        with pytest.raises(control.NoDaemonError, match=r"no MPS control daemon in .*Cannot find"):
            await asking(place, daemon).servers()


async def test_daemon_that_stands_still_lives_and_is_silent(place: Place) -> None:
    with place.daemon() as daemon:
        os.kill(daemon.process.pid, signal.SIGSTOP)
        with pytest.raises(control.NoAnswerError, match=f"control daemon {daemon.process.pid} in .* did not answer"):
            await asking(place, daemon, seconds=0.3).servers()
        assert await asking(place, daemon, seconds=0.3).answers()


async def test_daemon_whose_sockets_are_gone_lives_and_cannot_be_asked(place: Place) -> None:
    with place.daemon() as daemon:
        for name in ("control", "control_privileged"):
            (place.pipe / name).unlink(missing_ok=True)
        with pytest.raises(control.NoAnswerError, match=f"control daemon {daemon.process.pid} in .* cannot be asked"):
            await asking(place, daemon).servers()


def ends_at_a_signal(server: int) -> bool:
    """Whether NVIDIA's daemon has started the program and it catches no SIGINT: before, the daemon's handler does."""
    process = Path(f"/proc/{server}")
    caught = next(line for line in (process / "status").read_text().splitlines() if line.startswith("SigCgt:"))
    is_caught = int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1
    return b"nvidia-cuda-mps-server" in (process / "cmdline").read_bytes() and not is_caught


@contextlib.asynccontextmanager
async def waiting_question(place: Place, daemon: session.Daemon) -> AsyncIterator[int]:
    """A question that the daemon answers when its server is ready, which is never; the server's PID."""
    backend = place.backend()
    await backend.start(GPU)
    (first,) = await asking(place, daemon).servers()
    if isinstance(place.program, programs.Real):
        await quick.until(lambda: ends_at_a_signal(first))
    await asking(place, daemon).shutdown_server(first, with_clients=True)
    await quick.until(lambda: f"Server {first} exited" in place.said())
    await backend.start(GPU)
    (server,) = await asking(place, daemon).servers()
    question = await asyncio.create_subprocess_exec(
        *daemon.program.command,
        env=daemon.environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert question.stdin is not None
    question.stdin.write(f"get_client_list {server}\n".encode())
    question.stdin.close()
    await quick.until(lambda: f"Cmd:get_client_list {server}" in place.said())
    try:
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            question.kill()
        await question.wait()


async def test_daemon_that_is_busy_with_another_question_is_not_said_to_have_no_server(place: Place) -> None:
    with place.daemon() as daemon:
        async with waiting_question(place, daemon):
            seen = await place.backend().observe(GPU)
        assert seen.state is MPS.STARTING, seen
        assert "has no server" not in (seen.reason or "")
