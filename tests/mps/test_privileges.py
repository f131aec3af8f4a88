"""Whom NVIDIA's control daemon obeys by the socket that a tenant has: root ends everybody's server, others do not.

Of the stand-in nothing is asked here: another user cannot run its Python everywhere.
"""

import contextlib
import os
import shutil
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_api import gpunode
from cotenant_deviceplugin.mps import client_pipe, layout, presence, versions
from mps_kit import programs
from mps_kit.place import GPU, Place
from node_kit import quick

NOBODY = 65534
SUPPORTED = [real for real in programs.found() if not versions.unfit(real.version)]
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


class Tenant:
    """A user who has what a container that shares a GPU has of its MPS daemon, and NVIDIA's control program."""

    def __init__(self, place: Place, *, user: int) -> None:
        self._place, self._user = place, user
        self._program = place.folder / "tenant" / "nvidia-cuda-mps-control"
        self._program.parent.mkdir()
        shutil.copy(place.program.command[0], self._program)
        self._library = Path(shutil.copytree(place.environment()["LD_LIBRARY_PATH"], place.folder / "tenant" / "lib"))
        for folder in (place.folder, place.root, layout.client_pipe(place.root, GPU).parent):
            folder.chmod(0o755)

    def ask(self, command: str) -> str:
        """What the program prints."""
        pipe = str(layout.client_pipe(self._place.root, GPU))
        more = {layout.PIPE_DIRECTORY: pipe, layout.LOG_DIRECTORY: pipe, "LD_LIBRARY_PATH": str(self._library)}
        environment = self._place.environment() | more
        said, status = programs.ask([str(self._program)], [command], environment, user=self._user)
        assert status == 0, said
        return said.strip()


@pytest.fixture(params=SUPPORTED, ids=[real.version for real in SUPPORTED])
def serving(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A place of each of NVIDIA's programs that the product supports, whose daemon offers its clients' socket."""
    with quick.folder() as folder:
        there = Place(program=request.param, folder=folder)
        with there.daemon():
            client_pipe.offer(there.root, GPU)
            yield there


@pytest.mark.parametrize("force", ["", " -f"])
async def test_a_tenant_who_is_not_root_ends_no_server_and_no_daemon(serving: Place, force: str) -> None:
    backend, tenant = serving.backend(), Tenant(serving, user=NOBODY)
    await backend.start(GPU)
    pid = (await backend.observe(GPU)).pid
    assert tenant.ask("get_server_list") == str(pid)
    assert tenant.ask(f"shutdown_server {pid}{force}").startswith(f"Insufficient privileges for UID {NOBODY}.")
    assert tenant.ask("quit") == "Not enough privilege to execute quit command"
    assert (await backend.observe(GPU)).pid == pid


def _connected(place: Place) -> socket.socket:
    """A connection of the kind that NVIDIA's library makes, over which nothing was said yet."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    found.connect(str(layout.client_pipe(place.root, GPU) / "control"))
    return found


async def test_a_connection_that_says_nothing_keeps_all_others_waiting_while_it_lasts(serving: Place) -> None:
    backend = serving.backend()
    await backend.start(GPU)
    pid = (await backend.observe(GPU)).pid
    with _connected(serving):
        held = await backend.observe(GPU)
        assert held.state is not gpunode.MPS.ACTIVE
        assert "did not answer" in (held.reason or "")
    assert (await backend.observe(GPU)).pid == pid


async def test_a_command_that_is_too_long_ends_the_daemon(serving: Place) -> None:
    assert presence.found(serving.pipe) is not None
    with _connected(serving) as connection, contextlib.suppress(ConnectionError):
        connection.recv(9)
        user = struct.pack("3i", os.getpid(), os.getuid(), os.getgid())
        connection.sendmsg([b"OUTBCRED\0"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, user)])
        command = b"x" * 4500 + b"\0"
        for part in (struct.pack("<i", 4), struct.pack("<q", len(command)), command, struct.pack("<q", 0)):
            connection.send(part)
        await quick.until(lambda: presence.found(serving.pipe) is None)
    assert presence.found(serving.pipe) is None


async def test_a_tenant_who_is_root_ends_the_server_of_all(serving: Place) -> None:
    backend, tenant = serving.backend(), Tenant(serving, user=0)
    await backend.start(GPU)
    pid = (await backend.observe(GPU)).pid
    tenant.ask(f"shutdown_server {pid} -f")
    await quick.until(lambda: f"Server {pid} exited" in serving.said())
