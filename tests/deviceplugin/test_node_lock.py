"""Two agents on one node: one serves, one waits."""

import asyncio
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant_deviceplugin.node import lock
from deviceplugin.fakes import FakeClock, settled

LOG = logging.getLogger("node-agent")

HOLDER = """
import fcntl, sys
handle = open(sys.argv[1], "w")
fcntl.flock(handle, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


async def test_the_first_agent_does_not_wait(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with lock.held(tmp_path / "agent" / "lock", clock=FakeClock(), log=LOG):
        assert (tmp_path / "agent" / "lock").exists()
    assert caplog.text == ""


async def test_the_second_agent_says_once_that_it_waits_and_takes_over_when_the_first_is_killed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock, taken = tmp_path / "lock", FakeClock(), asyncio.Event()
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(  # noqa: ASYNC220 -- another process must hold it, and nothing else goes on meanwhile
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"held\n"

        async def second() -> None:
            async with lock.held(path, clock=clock, log=LOG):
                taken.set()

        task = asyncio.create_task(second())
        await clock.advance(5 * lock.POLL_SECONDS)
        assert not taken.is_set()
        assert caplog.text.count("another node agent runs on this node") == 1
        first.kill()
        first.wait()
    await clock.advance(lock.POLL_SECONDS)
    assert not taken.is_set(), "kubelet must see the first one's end before"
    await clock.advance(lock.SETTLE_SECONDS)
    await task
    assert "taking over" in caplog.text


async def test_a_lock_that_was_given_back_can_be_taken(tmp_path: Path) -> None:
    for _ in range(2):
        async with lock.held(tmp_path / "lock", clock=FakeClock(), log=LOG):
            await settled()
