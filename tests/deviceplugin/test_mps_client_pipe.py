"""What a tenant finds of its GPU's MPS daemon: the sockets of clients, read-only, and not the privileged one."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_api import placement
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.mps import client_pipe, layout, v2
from cotenant_deviceplugin.mps.control import NoAnswerError

GPU = GPUUID("GPU-a")
DAEMON = ("control", "control_lock", "control_privileged", "log", "nvidia-cuda-mps-control.pid")
"""What a control daemon of drivers 550 to 580 makes."""
BOOKING = placement.GPUBooking(uuid=GPU, share=40, active_thread_percentage=45, memory_mib=9001, client_priority=1)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A folder of daemons whose paths are short enough for sockets."""
    folder = Path("/tmp") / f"mps-{os.getpid()}"  # noqa: S108
    folder.symlink_to(tmp_path)
    yield folder
    folder.unlink()


def daemon(root: Path) -> socket.socket:
    """Begin one: what it makes; clients can connect to its socket."""
    pipe = layout.pipe(root, GPU)
    pipe.mkdir(parents=True, exist_ok=True)
    for stale in pipe.iterdir():
        stale.unlink()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(pipe / "control"))
    listening.listen()
    os.mkfifo(pipe / "log")
    for name in {*DAEMON} - {"control", "log"}:
        (pipe / name).touch()
    return listening


def connects(root: Path) -> bool:
    """Whether a client gets through to a daemon that listens."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(layout.client_pipe(root, GPU) / "control")) == 0


def test_clients_find_the_daemon_and_not_its_privileged_socket(root: Path) -> None:
    with daemon(root):
        client_pipe.offer(root, GPU)
        assert {path.name for path in layout.client_pipe(root, GPU).iterdir()} == {"control", "log"}
        assert connects(root)


def test_what_a_client_says_does_not_reach_the_daemon(root: Path) -> None:
    with daemon(root):
        folder = layout.client_pipe(root, GPU)
        folder.mkdir()
        os.link(layout.pipe(root, GPU) / "log", folder / "log")
        client_pipe.offer(root, GPU)
        client_pipe.offer(root, GPU)
        assert (folder / "log").readlink() == Path(os.devnull)
        (folder / "log").write_text("x")


def test_a_daemon_that_was_replaced_is_found_in_the_same_folder(root: Path) -> None:
    with daemon(root):
        client_pipe.offer(root, GPU)
        folder = layout.client_pipe(root, GPU).stat()
    assert not connects(root)
    with daemon(root):
        client_pipe.offer(root, GPU)
        client_pipe.offer(root, GPU)
        assert connects(root)
        assert layout.client_pipe(root, GPU).stat().st_ino == folder.st_ino


def test_what_the_daemon_does_not_have_is_not_offered(root: Path) -> None:
    daemon(root).close()
    client_pipe.offer(root, GPU)
    for path in layout.pipe(root, GPU).iterdir():
        path.unlink()
    client_pipe.offer(root, GPU)
    assert [path.name for path in layout.client_pipe(root, GPU).iterdir()] == ["log"]


def test_a_folder_that_cannot_be_made_is_no_answer(root: Path) -> None:
    layout.client_pipe(root, GPU).parent.mkdir(parents=True)
    layout.client_pipe(root, GPU).touch()
    with pytest.raises(NoAnswerError, match="cannot be offered to clients"):
        client_pipe.offer(root, GPU)


def test_a_tenant_has_that_folder_and_cannot_write_to_it(root: Path) -> None:
    (mount,) = v2.MPSv2(root, cuda_version="13.0").edits(GPU, BOOKING, processes=1).mounts
    assert mount["hostPath"] == str(layout.client_pipe(root, GPU))
    assert "ro" in mount["options"]
    assert "rw" not in mount["options"]


def test_nothing_is_made_for_a_gpu_that_was_given_back(root: Path) -> None:
    with pytest.raises(NoAnswerError):
        client_pipe.offer(root, GPU)
    assert not [*root.iterdir()]
