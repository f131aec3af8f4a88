"""A program of somebody else is ended in bounded time, and nothing of it stays with us."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from cotenant_deviceplugin import programs


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_daemon_that_keeps_the_pipes_of_a_program_that_has_ended_keeps_none_of_our_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(programs, "END_SECONDS", 0.1)
    before, told = open_files(), tmp_path / "pid"
    script = f"setsid sleep 600 & echo $! > {told}; echo started"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec("sh", "-c", script, stdout=pipe, stderr=pipe)
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"started\n"
        await programs.end(process)
        # A transport closes its file in the next turn of the loop.
        for _ in range(3):
            await asyncio.sleep(0)
        assert open_files() == before
    finally:
        os.kill(int(told.read_text()), signal.SIGKILL)
