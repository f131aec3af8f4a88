"""The control daemon, against its stand-in."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cotenant_predictor.profiling import mps
from cotenant_predictor.profiling.simulated import device, mps_client
from profiling.conftest import CONTROL

CONNECT = """
import sys
from cotenant_predictor.profiling.simulated import mps_client
client = mps_client.connected({"CUDA_MPS_PIPE_DIRECTORY": sys.argv[1]})
print(client.thread_percentage, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def client(daemon: mps.ControlDaemon) -> "Iterator[subprocess.Popen[str]]":
    command = [sys.executable, "-c", CONNECT, daemon.pipe_directory]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "100\n"
        yield process


def environment(daemon: mps.ControlDaemon, **more: str) -> dict[str, str]:
    return {"CUDA_MPS_PIPE_DIRECTORY": daemon.pipe_directory, **more}


def test_a_daemon_starts_with_a_server_and_no_clients(daemon: mps.ControlDaemon) -> None:
    assert daemon.server() is not None
    assert daemon.status() == "ACTIVE"
    assert daemon.clients() == ()


def test_a_client_is_known_until_its_process_ends(daemon: mps.ControlDaemon, client: "subprocess.Popen[str]") -> None:
    assert daemon.clients() == (client.pid,)
    client.communicate("")
    assert _eventually(lambda: daemon.clients() == ())


def test_a_client_is_ended_through_the_daemon(daemon: mps.ControlDaemon, client: "subprocess.Popen[str]") -> None:
    daemon.terminate(client.pid)
    assert client.wait(10) != 0
    assert _eventually(lambda: daemon.clients() == ())


def test_a_client_can_lower_its_share_of_threads_but_not_raise_it(daemon: mps.ControlDaemon) -> None:
    lowered = mps_client.connected(environment(daemon, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="40"))
    assert lowered is not None
    assert lowered.thread_percentage == 40
    daemon.ask("set_default_active_thread_percentage 30")
    later = mps_client.connected(environment(daemon, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="90"))
    assert later is not None
    assert later.thread_percentage == 90, "a default is for servers that start later"
    lowered.close()
    later.close()


def test_limits_of_a_running_server_hold_for_later_clients_and_only_lower_theirs(daemon: mps.ControlDaemon) -> None:
    server = daemon.server()
    assert daemon.ask(f"set_active_thread_percentage {server} 60").strip() == "60.0"
    daemon.ask(f"set_device_pinned_mem_limit {server} 0 2G")
    assert daemon.ask("get_default_active_thread_percentage").strip() == "100.0"
    found = mps_client.connected(environment(daemon, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0=512M"))
    other = mps_client.connected(environment(daemon, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0=4G"))
    assert found is not None
    assert other is not None
    assert (found.thread_percentage, found.memory_mib, other.memory_mib) == (60, 512, 2048)
    found.close()
    other.close()


def test_an_unknown_command_is_said_to_be_unknown(daemon: mps.ControlDaemon) -> None:
    assert daemon.ask(f"set_colour {daemon.server()} blue").strip() == "Unknown command: set_colour"


def test_a_fatal_fault_reaches_every_client_and_keeps_new_ones_out(daemon: mps.ControlDaemon) -> None:
    own = mps_client.connected(environment(daemon))
    assert own is not None
    own.require_no_fault()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"{daemon.pipe_directory}/control")
        connection.sendall(b"fault\n")
    assert _eventually(lambda: daemon.status() == "FAULT")
    with pytest.raises(RuntimeError, match="fatal fault"):
        own.require_no_fault()
    with pytest.raises(RuntimeError, match="CUDA_ERROR_MPS_SERVER_NOT_READY"):
        mps_client.connected(environment(daemon))
    own.close()
    assert _eventually(lambda: daemon.status() == "ACTIVE")


def test_without_a_daemon_a_process_runs_on_without_mps(tmp_path: Path) -> None:
    assert mps_client.connected({"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}) is None


def test_a_limit_of_memory_is_that_of_device_0() -> None:
    assert mps_client.memory_limit_mib({"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "1=9G,0=2G"}) == 2048
    assert mps_client.memory_limit_mib({"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=512M"}) == 512
    assert mps_client.memory_limit_mib({}) is None


def test_a_stopped_daemon_leaves_no_process_and_no_folder(
    simulate: Callable[..., device.SimulatedDevice],
) -> None:
    simulate()
    started = mps.ControlDaemon.start(CONTROL, gpu_uuid="GPU-1")
    server = started.server()
    started.stop()
    assert not Path(started.pipe_directory).parent.exists()
    assert _eventually(lambda: not Path(f"/proc/{server}").exists())
    with pytest.raises(mps.MpsUnavailableError):
        started.ask("get_server_list")


def test_a_daemon_of_a_killed_campaign_is_ended_by_the_next(simulate: Callable[..., device.SimulatedDevice]) -> None:
    simulate()
    left_over = mps.ControlDaemon.start(CONTROL, gpu_uuid="GPU-1")
    owner = Path(left_over.pipe_directory).parent / "campaign.pid"
    owner.write_text("999999999")
    own = mps.ControlDaemon.start(CONTROL, gpu_uuid="GPU-1")
    try:
        assert not owner.exists()
        assert own.status() == "ACTIVE"
        with pytest.raises(mps.MpsUnavailableError):
            left_over.ask("get_server_list")
    finally:
        own.stop()


def test_a_missing_program_is_said_to_be_missing() -> None:
    with pytest.raises(mps.MpsUnavailableError, match="no-such-program is neither on PATH nor in"):
        mps.ControlDaemon.start(("no-such-program",), gpu_uuid="GPU-1")


def test_a_program_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(mps.MpsUnavailableError, match="the control daemon does not start"):
        mps.ControlDaemon.start(("false",), gpu_uuid="GPU-1")
    assert list(tmp_path.iterdir()) == []


def test_the_stand_in_answers_like_the_real_program_where_there_is_no_daemon(tmp_path: Path) -> None:
    found = subprocess.run(
        CONTROL,
        input="get_server_list\n",
        env={**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout) == (1, "Cannot find MPS control daemon process\n")


def _eventually(condition: Callable[[], bool]) -> bool:
    """Asked again and again: each question is a process of its own, which takes its time."""
    return any(condition() for _ in range(100))
