"""Whom NVIDIA's control daemon obeys by the socket that a tenant has.

Root of the node ends everybody's server and sets nothing; other users, and root of a user namespace, do neither.

Of the stand-in nothing is asked here: another user cannot run its Python everywhere.
"""

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_api import gpunode
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus.hardware import ComputeMode
from cotenant_deviceplugin.mps import client_pipe, layout, presence, supervision, supervisor, versions
from mps_kit import programs
from mps_kit.place import GPU, Place
from node_kit import quick

NOBODY = 65534
SUPPORTED = [real for real in programs.found() if not versions.unfit(real.version)]
USER_NAMESPACE = ("unshare", "--user", "--map-root-user", "--")
"""Runs a program as root of a user namespace, whose user 0 is whoever runs this."""
DEFAULTS = ("get_default_active_thread_percentage", "get_default_device_pinned_mem_limit 0")
SETTINGS = ("set_default_active_thread_percentage 10", "set_default_device_pinned_mem_limit 0 1G")
NO_PRIVILEGE = "Insufficient privileges for UID {}. "
NO_QUIT = "Not enough privilege to execute quit command"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


class Tenant:
    """A user who has what a container that shares a GPU has of its MPS daemon, and NVIDIA's control program."""

    def __init__(self, place: Place, *, user: int, namespace: bool = False) -> None:
        self._place, self._user = place, user
        self._before = USER_NAMESPACE if namespace else ()
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
        program = [*self._before, str(self._program)]
        said, status = programs.ask(program, [command], environment, user=self._user)
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


class Held:
    """A driver that lists one process on the GPU."""

    async def look(self, _: GPUUID) -> supervisor.Look:
        """It is no server's."""
        return supervisor.Look(compute_mode=ComputeMode.EXCLUSIVE_PROCESS, processes=frozenset({4711}))

    async def set_compute_mode(self, _: GPUUID, mode: ComputeMode) -> None:
        """It is not to be set."""
        raise AssertionError(mode)


@pytest.mark.parametrize("initializes", [False, True])
async def test_a_connection_that_says_nothing_hides_nobody_who_holds_the_gpu(serving: Place, initializes: bool) -> None:
    backend = serving.backend(timeout_seconds=1)
    if initializes:
        await backend.start(GPU)
    policy = supervision.Policy()
    gpu = supervisor.Supervisor(GPU, backend=backend, driver=Held(), monotonic=time.monotonic, policy=policy)
    before = await gpu.step(gpunode.Mode.SHARED)
    assert (before.blocking, before.answered) == (frozenset({4711}), True)
    with _connected(serving):
        held = await gpu.step(gpunode.Mode.SHARED)
    assert (held.blocking, held.answered) == (frozenset({4711}), False)


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


async def test_root_who_has_the_clients_folder_alone_sets_nothing_and_ends_no_daemon(serving: Place) -> None:
    tenant = Tenant(serving, user=0)
    for command in SETTINGS:
        assert tenant.ask(command).startswith(NO_PRIVILEGE.format(0))
    for command in ("quit", "quit -t 1", "quit -f"):
        assert tenant.ask(command) == NO_QUIT
    assert [tenant.ask(command) for command in DEFAULTS] == ["100.0", ""]
    assert presence.found(serving.pipe) is not None


async def test_root_who_has_the_daemons_own_folder_sets_the_same(serving: Place) -> None:
    """It is the folder that tells: by `control_privileged` the same user is obeyed."""
    environment = serving.environment() | {layout.PIPE_DIRECTORY: str(serving.pipe)}
    said, _ = programs.ask([*serving.program.command], [*SETTINGS, *DEFAULTS], environment)
    assert said == "10.0\n10.0\n1G\n"


async def test_root_of_a_user_namespace_ends_no_server_and_no_daemon_and_sets_nothing(serving: Place) -> None:
    """`hostUsers: false` lets a tenant be root on the strength of this."""
    _skip_without_user_namespaces()
    backend, tenant = serving.backend(), Tenant(serving, user=NOBODY, namespace=True)
    await backend.start(GPU)
    pid = (await backend.observe(GPU)).pid
    assert tenant.ask("get_server_list") == str(pid)
    for command in (f"shutdown_server {pid}", f"shutdown_server {pid} -f", *SETTINGS, "start_server -uid 0"):
        assert tenant.ask(command).startswith(NO_PRIVILEGE.format(NOBODY))
    assert tenant.ask("quit") == NO_QUIT
    assert [tenant.ask(command) for command in DEFAULTS] == ["100.0", ""]
    assert (await backend.observe(GPU)).pid == pid


def _skip_without_user_namespaces() -> None:
    """Skip where nobody may make a user namespace; the program says which user it is in there."""
    if shutil.which(USER_NAMESPACE[0]) is None:
        pytest.skip("there is no unshare")
    ran = subprocess.run([*USER_NAMESPACE, "id", "-u"], user=NOBODY, capture_output=True, text=True, check=False)
    if ran.returncode:
        pytest.skip(f"no user namespace can be made: {ran.stderr.strip()}")
    assert ran.stdout == "0\n"
