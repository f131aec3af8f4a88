"""Servers that outlive their control daemon, and what the agent is told of those that are ended in good order."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.mps import daemon, leaving
from cotenant_deviceplugin.mps.readiness import Readiness
from node_kit import quick

GPU = GPUUID("GPU-1")
CLIENT = 2**22 + 1
"""Of no process."""
# A control daemon that ends at once and leaves its server behind; of any other question it says that there is none.
PROGRAM = """
import pathlib, subprocess, sys
if "-f" in sys.argv:
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(sys.argv[1], "a") as file:
        file.write(f"{left.pid}\\n")
else:
    print("Cannot find MPS control daemon process")
sys.exit(1)
"""


class Users:
    """Whoever uses the GPU: servers that live, and a client, where there is one."""

    def __init__(self, servers: Path) -> None:
        self._servers, self.client, self.away, self.asked = servers, True, False, 0

    def servers(self) -> list[int]:
        """Those that were left behind, dead ones included."""
        return [int(line) for line in self._servers.read_text().split()] if self._servers.exists() else []

    async def __call__(self, _: GPUUID) -> frozenset[int]:
        """As `daemon.Users`."""
        self.asked += 1
        if self.away:
            raise errors.TemporaryError("no driver", delay_seconds=1)
        living = [pid for pid in self.servers() if lives(pid)]
        return frozenset([*living, CLIENT] if self.client else living)


def lives(pid: int) -> bool:
    """Also a process that nobody has waited for has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@contextlib.asynccontextmanager
async def running(
    root: Path, users: Users, readiness: Readiness, *, drain_seconds: float | None = None
) -> AsyncIterator[asyncio.Event]:
    (root / "program.py").write_text(PROGRAM)
    settings = daemon.Settings(
        root=root,
        program=(sys.executable, str(root / "program.py"), str(root / "servers")),
        environment=dict(os.environ),
        drain_seconds=drain_seconds,
        look_seconds=0.05,
        first_backoff_seconds=0.01,
    )
    stop = asyncio.Event()
    task = asyncio.create_task(daemon.Daemon(GPU, settings, stop, users=users, readiness=readiness).run())
    try:
        yield stop
    finally:
        users.client = users.away = False
        await quick.until(lambda: not any(lives(pid) for pid in users.servers()[:1]))
        stop.set()
        await task


@pytest.fixture(name="root")
def short() -> Iterator[Path]:
    with quick.folder() as path:
        yield path


async def test_a_server_that_outlives_its_daemon_is_ended_when_it_has_no_client_left(root: Path) -> None:
    users = Users(root / "servers")
    async with running(root, users, Readiness()):
        await quick.until(lambda: len(users.servers()) == 1)
        (server,) = users.servers()
        for _ in range(3):
            await asyncio.sleep(0.05)
            assert lives(server)
        assert users.servers() == [server]
        users.client = False
        await quick.until(lambda: not lives(server))
        await quick.until(lambda: server in leaving.read(root, GPU) or len(users.servers()) > 1)


async def test_a_server_that_outlived_its_daemon_is_drained_where_the_keeper_is_told_to_stop(root: Path) -> None:
    users, readiness = Users(root / "servers"), Readiness()
    async with running(root, users, readiness) as stop:
        await quick.until(lambda: not readiness.ready)
        (server,) = users.servers()
        stop.set()
        looks = users.asked
        await quick.until(lambda: users.asked > looks + 2)
        assert (lives(server), leaving.read(root, GPU)) == (True, frozenset())
    assert (lives(server), leaving.read(root, GPU)) == (False, frozenset({server}))


async def test_a_server_that_outlived_its_daemon_ends_in_good_order_after_the_time_that_clients_have(
    root: Path,
) -> None:
    users, readiness = Users(root / "servers"), Readiness()
    async with running(root, users, readiness, drain_seconds=0) as stop:
        await quick.until(lambda: not readiness.ready)
        (server,) = users.servers()
        stop.set()
        await quick.until(lambda: not lives(server))
        assert leaving.read(root, GPU) == {server}


async def test_no_daemon_starts_beside_a_server_of_which_nobody_can_say_who_uses_it(root: Path) -> None:
    users = Users(root / "servers")
    users.away = True
    async with running(root, users, Readiness()):
        await quick.until(lambda: users.asked > 3)
        (server,) = users.servers()
        assert lives(server)
        users.away = users.client = False
        await quick.until(lambda: not lives(server))


def test_what_was_written_of_ended_servers_is_read(tmp_path: Path) -> None:
    assert leaving.read(tmp_path, GPU) == frozenset()
    leaving.write(tmp_path, GPU, [7, 5])
    assert leaving.read(tmp_path, GPU) == {5, 7}
    leaving.write(tmp_path, GPU, [9])
    assert leaving.read(tmp_path, GPU) == {9}


@pytest.mark.parametrize("text", ["", "x", "-1 ٣", "1" + "0" * 2])
def test_what_cannot_be_read_names_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / GPU).mkdir()
    (tmp_path / GPU / "ended").write_text(text)
    assert leaving.read(tmp_path, GPU) == (frozenset([100]) if text == "100" else frozenset())


def test_the_processes_of_a_session_are_found_without_its_leader() -> None:
    assert os.getpid() in leaving.members(os.getsid(0)) or os.getpid() == os.getsid(0)
    assert leaving.members(2**22 + 1) == frozenset()
