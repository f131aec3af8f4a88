"""The process of the MPS daemons, over real processes of the stand-in."""

import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.mps import clearing, daemon, daemons, layout, leaving, signals, v2
from cotenant_standin import building, mps_control, state
from node_kit import gpu_machine, quick

OTHER_USER = 12345
PROGRAM = """
import argparse
from cotenant_deviceplugin.commands import mps_daemons
parser = argparse.ArgumentParser()
mps_daemons.configure(parser)
raise SystemExit(mps_daemons.run(parser.parse_args()))
"""


@pytest.fixture
def machine() -> Iterator[gpu_machine.Machine]:
    with gpu_machine.started([state.H200, state.H200]) as found:
        yield found


class GPUs:
    """GPUs that come and go; None: there is no driver."""

    def __init__(self, *uuids: GPUUID) -> None:
        self.found: frozenset[GPUUID] | None = frozenset(uuids)

    async def __call__(self) -> frozenset[GPUUID]:
        """As `daemons.GPUs`."""
        if self.found is None:
            raise errors.TemporaryError("no driver", delay_seconds=1)
        return self.found


def settings(machine: gpu_machine.Machine, *, drain_seconds: float | None = None) -> daemon.Settings:
    return daemon.Settings(
        root=machine.mps_root,
        program=machine.program,
        environment=machine.environment(),
        drain_seconds=drain_seconds,
        look_seconds=0.05,
        first_backoff_seconds=0.01,
    )


class Modes:
    """A driver that takes every compute mode, or none."""

    def __init__(self, *gpus: GPUUID) -> None:
        self.set: dict[GPUUID, hardware.ComputeMode] = {}
        self.refuses, self._gpus = False, gpus
        self.users: tuple[hardware.Process, ...] = ()

    async def usage_of(self, gpu: GPUUID) -> hardware.Usage:
        """Return the same users of every GPU."""
        if gpu not in self._gpus:
            raise errors.TemporaryError(f"{gpu}: its processes cannot be read", delay_seconds=1)
        return hardware.Usage(utilization_percent=0, memory_used_mib=0, processes=self.users)

    async def set_compute_mode(self, gpu: GPUUID, mode: hardware.ComputeMode) -> None:
        """At once."""
        if self.refuses:
            raise errors.TemporaryError("the driver refuses", delay_seconds=1)
        self.set[gpu] = mode


class Pod:
    """A process of a pod, in a /proc of the test's own."""

    uid = PodUID("5f0c6d8e-1111-4222-8333-444455556666")

    def __init__(self, proc: Path) -> None:
        self._folder = proc / "4321"
        self._folder.mkdir()
        (self._folder / "cgroup").write_text(f"0::/kubepods/pod{self.uid}/container\n")

    def end(self) -> None:
        """End it."""
        (self._folder / "cgroup").unlink()


@contextlib.asynccontextmanager
async def running(
    chosen: daemon.Settings, gpus: daemons.GPUs, driver: Modes | None = None
) -> AsyncIterator[asyncio.Event]:
    """The daemons, until the block ends; the event asks them to end earlier."""
    stop = asyncio.Event()
    task = asyncio.create_task(daemons.run(chosen, gpus, stop, driver=driver or Modes()))
    try:
        yield stop
    finally:
        stop.set()
        await task


async def answering(machine: gpu_machine.Machine, index: int = 0) -> None:
    await quick.until(lambda: mps_control.answers(machine.pipe(index)))


def daemon_pid(machine: gpu_machine.Machine, index: int = 0) -> int:
    return int((machine.pipe(index) / "nvidia-cuda-mps-control.pid").read_text())


async def ended(program: gpu_machine.CUDAProgram) -> str:
    return await asyncio.to_thread(program.end)


async def test_each_gpu_has_a_daemon_of_its_own(machine: gpu_machine.Machine) -> None:
    async with running(settings(machine), GPUs(machine.uuid(0), machine.uuid(1))):
        for index in (0, 1):
            await answering(machine, index)
            report = machine.cuda(index=index).report()
            assert (report["mps"], report["gpu"]) == (True, machine.uuid(index))
    assert not mps_control.answers(machine.pipe(0))


async def test_clients_of_any_user_reach_the_daemon_and_share_its_server(machine: gpu_machine.Machine) -> None:
    async with running(settings(machine), GPUs(machine.uuid())):
        await answering(machine)
        root, other = machine.cuda(*gpu_machine.HOLD), machine.cuda(*gpu_machine.HOLD, user=OTHER_USER)
        assert root.report()["server"] == other.report()["server"]
        for program in (root, other):
            program.process.terminate()
        assert stat.S_IMODE(machine.pipe().stat().st_mode) == 0o755


async def test_gpu_that_appears_later_is_picked_up(machine: gpu_machine.Machine) -> None:
    gpus = GPUs()
    async with running(settings(machine), gpus):
        gpus.found = frozenset({machine.uuid(1)})
        await answering(machine, 1)


async def test_driver_that_is_away_ends_no_daemon(
    machine: gpu_machine.Machine, caplog: pytest.LogCaptureFixture
) -> None:
    gpus = GPUs(machine.uuid())
    async with running(settings(machine), gpus):
        await answering(machine)
        pid, gpus.found = daemon_pid(machine), None
        await quick.until(lambda: "waiting for the driver: no driver" in caplog.text)
        gpus.found = frozenset({machine.uuid(0), machine.uuid(1)})
        await answering(machine, 1)
        assert daemon_pid(machine) == pid


async def test_daemon_that_died_is_started_again_where_containers_have_it_mounted(
    machine: gpu_machine.Machine,
) -> None:
    async with running(settings(machine), GPUs(machine.uuid())):
        await answering(machine)
        mounted, first = machine.pipe().stat().st_ino, daemon_pid(machine)
        os.kill(first, signal.SIGKILL)
        await quick.until((machine.pipe() / "nvidia-cuda-mps-control.pid").exists)
        await quick.until(lambda: mps_control.answers(machine.pipe()) and daemon_pid(machine) != first)
        assert machine.pipe().stat().st_ino == mounted


async def test_stale_pipe_of_an_earlier_life_is_cleaned(machine: gpu_machine.Machine) -> None:
    (machine.pipe() / "folder").mkdir(parents=True)
    (machine.pipe() / "control_lock").touch()
    async with running(settings(machine), GPUs(machine.uuid())):
        await answering(machine)
        assert {path.name for path in machine.pipe().iterdir()} == {"control", "log", "nvidia-cuda-mps-control.pid"}


async def test_daemon_of_an_earlier_life_is_left_to_its_clients(
    machine: gpu_machine.Machine, caplog: pytest.LogCaptureFixture
) -> None:
    left = machine.control_daemon()
    tenant = machine.tenant()
    async with running(settings(machine), GPUs(machine.uuid())):
        await quick.until(lambda: "another control daemon is in" in caplog.text)
        assert (daemon_pid(machine), tenant.process.poll()) == (left.pid, None)
        tenant.process.terminate()
        await ended(tenant)
        machine.control("quit")
        await asyncio.to_thread(left.wait)
        await answering(machine)
        assert daemon_pid(machine) != left.pid


async def test_end_waits_for_clients(machine: gpu_machine.Machine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running(settings(machine), GPUs(machine.uuid())) as stop:
        await answering(machine)
        tenant = machine.tenant()
        stop.set()
        await quick.until(lambda: f"waiting for the end of clients [{tenant.pid}]" in caplog.text)
        assert mps_control.answers(machine.pipe())
        tenant.process.terminate()
        assert await ended(tenant) == ""
    assert not mps_control.answers(machine.pipe())


async def test_end_takes_clients_off_the_gpu_after_the_time_that_was_given(machine: gpu_machine.Machine) -> None:
    async with running(settings(machine, drain_seconds=0.1), GPUs(machine.uuid())) as stop:
        await answering(machine)
        tenant = machine.tenant()
        stop.set()
        assert "CUDA_ERROR_MPS_CLIENT_TERMINATED" in await ended(tenant)


async def test_nothing_is_left_on_a_node_that_is_given_back_once_the_last_client_has_ended(
    machine: gpu_machine.Machine,
) -> None:
    first, second = machine.uuid(0), machine.uuid(1)
    driver = Modes(first, second)
    async with running(settings(machine), GPUs(first, second), driver) as stop:
        for index in (0, 1):
            await answering(machine, index)
        await clearing.Modes(machine.mps_root).note(first, hardware.ComputeMode.DEFAULT)
        tenant = machine.tenant()
        await clearing.mark(machine.mps_root, {})
        stop.set()
        await quick.until(lambda: not (machine.mps_root / second).exists())
        assert (machine.pipe().is_dir(), driver.set) == (True, {})
        tenant.process.terminate()
        assert await ended(tenant) == ""
    assert list(machine.mps_root.iterdir()) == []
    assert driver.set == {first: hardware.ComputeMode.DEFAULT}


async def test_a_tenant_without_a_client_keeps_its_daemon_on_a_node_that_is_given_back(
    machine: gpu_machine.Machine, tmp_path: Path
) -> None:
    """As a notebook that waits: without the daemon it would have the whole GPU without any limit."""
    first, second = machine.uuid(0), machine.uuid(1)
    driver = Modes(first, second)
    process = Pod(tmp_path)
    async with running(dataclasses.replace(settings(machine), proc=tmp_path), GPUs(first, second), driver) as stop:
        for index in (0, 1):
            await answering(machine, index)
        await clearing.Modes(machine.mps_root).note(first, hardware.ComputeMode.DEFAULT)
        await clearing.mark(machine.mps_root, {first: [process.uid]})
        stop.set()
        await quick.until(lambda: not (machine.mps_root / second).exists())
        assert (mps_control.answers(machine.pipe()), driver.set) == (True, {})
        process.end()
    assert list(machine.mps_root.iterdir()) == []
    assert driver.set == {first: hardware.ComputeMode.DEFAULT}


async def test_a_gpu_whose_tenant_outlives_its_time_is_not_given_back(
    machine: gpu_machine.Machine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    driver, gpu, process = Modes(machine.uuid()), machine.uuid(), Pod(tmp_path)
    chosen = dataclasses.replace(settings(machine, drain_seconds=0), proc=tmp_path)
    async with running(chosen, GPUs(gpu), driver):
        await answering(machine)
        await clearing.Modes(machine.mps_root).note(gpu, hardware.ComputeMode.DEFAULT)
        await clearing.mark(machine.mps_root, {gpu: [process.uid]})
    assert f"{gpu} is not given back: it is held by pods {process.uid}" in caplog.text
    assert (driver.set, await clearing.left(machine.mps_root)) == ({}, (gpu,))


@pytest.mark.parametrize("mark", ["[]", "{", '{"GPU-1": 1}'])
async def test_a_mark_that_cannot_be_read_gives_no_gpu_back(tmp_path: Path, mark: str) -> None:
    (tmp_path / "given-back").write_text(mark)
    with pytest.raises(errors.TemporaryError, match="cannot be read"):
        await clearing.holders(tmp_path, GPUUID("GPU-1"))


async def test_a_gpu_that_somebody_uses_is_not_given_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    driver, gpu, modes = Modes(GPUUID("GPU-1")), GPUUID("GPU-1"), clearing.Modes(tmp_path)
    (tmp_path / gpu).mkdir()
    await modes.note(gpu, hardware.ComputeMode.DEFAULT)
    driver.users = (hardware.Process(pid=7, memory_mib=1),)
    await clearing.clear(tmp_path, gpu, driver)
    assert (driver.set, await clearing.left(tmp_path)) == ({}, (gpu,))
    assert "GPU-1 is not as it was: used by 7" in caplog.text
    driver.users = ()
    await clearing.clear(tmp_path, gpu, driver)
    assert (driver.set, await clearing.left(tmp_path)) == ({gpu: hardware.ComputeMode.DEFAULT}, ())


async def test_what_the_driver_refuses_at_the_end_is_told_and_stays_noted(
    machine: gpu_machine.Machine, caplog: pytest.LogCaptureFixture
) -> None:
    driver, modes = Modes(machine.uuid()), clearing.Modes(machine.mps_root)
    driver.refuses = True
    async with running(settings(machine), GPUs(machine.uuid()), driver):
        await answering(machine)
        await modes.note(machine.uuid(), hardware.ComputeMode.DEFAULT)
        await clearing.mark(machine.mps_root, {})
    assert "is not as it was: the driver refuses" in caplog.text
    assert await modes.read(machine.uuid()) is hardware.ComputeMode.DEFAULT
    assert await clearing.marked(machine.mps_root)


async def test_nothing_is_cleared_where_nobody_can_say_that_no_daemon_is_left(
    machine: gpu_machine.Machine, caplog: pytest.LogCaptureFixture
) -> None:
    machine.pipe().mkdir(parents=True)
    await clearing.mark(machine.mps_root, {})
    without = dataclasses.replace(settings(machine), program=("/nowhere/nvidia-cuda-mps-control",))
    async with running(without, GPUs(machine.uuid())):
        await quick.until(lambda: "no control daemon" in caplog.text)
    assert machine.pipe().is_dir()
    assert "is not given back: /nowhere/nvidia-cuda-mps-control" in caplog.text


async def test_pipes_stay_where_containers_have_them_mounted_on_a_node_that_is_not_given_back(
    machine: gpu_machine.Machine,
) -> None:
    async with running(settings(machine), GPUs(machine.uuid())):
        await answering(machine)
    assert machine.pipe().is_dir()


async def test_end_comes_though_the_daemon_does_not_answer(
    machine: gpu_machine.Machine, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(settings(machine, drain_seconds=0), GPUs(machine.uuid())) as stop:
        await answering(machine)
        pid = daemon_pid(machine)
        (machine.pipe() / "control").unlink()
        stop.set()
        await quick.until(lambda: f"control daemon {pid} in" in caplog.text and "cannot be asked" in caplog.text)
        os.kill(pid, signal.SIGTERM)


async def test_program_that_is_missing_is_tried_again(
    machine: gpu_machine.Machine, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = daemon.Settings(
        root=machine.mps_root, program=["/nowhere"], environment={}, look_seconds=0.05, first_backoff_seconds=0.01
    )
    async with running(chosen, GPUs(machine.uuid())):
        await quick.until(lambda: caplog.text.count("No such file or directory: '/nowhere'") == 3)


async def test_root_that_cannot_be_written_is_tried_again(
    machine: gpu_machine.Machine, caplog: pytest.LogCaptureFixture
) -> None:
    machine.mps_root.touch()
    async with running(settings(machine), GPUs(machine.uuid())):
        await quick.until(lambda: "cannot be locked: " in caplog.text and "File exists" in caplog.text)
        machine.mps_root.unlink()
        await answering(machine)


async def test_daemon_that_does_not_quit_is_ended(
    machine: gpu_machine.Machine, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = dataclasses.replace(settings(machine, drain_seconds=0), answer_seconds=0.5, quit_seconds=0.1)
    async with running(chosen, GPUs(machine.uuid())):
        await answering(machine)
        (machine.state.root / "mps_hangs").touch()
    assert "does not quit; SIGTERM" in caplog.text
    assert not mps_control.answers(machine.pipe())


async def test_server_that_initializes_for_ever_does_not_outlive_its_daemon(machine: gpu_machine.Machine) -> None:
    chosen = dataclasses.replace(settings(machine), answer_seconds=0.5, quit_seconds=0.1)
    async with running(chosen, GPUs(machine.uuid())):
        await answering(machine)
        (machine.state.root / "mps_initializing").touch()
        machine.control("start_server -uid 0")
        server = machine.server()
    await quick.until(lambda: not signals.process_lives(server))


async def test_what_a_daemon_says_is_kept_and_bounded(machine: gpu_machine.Machine) -> None:
    chosen = dataclasses.replace(settings(machine), output_bytes=4096)
    said = layout.output(machine.mps_root, machine.uuid())
    async with running(chosen, GPUs(machine.uuid())):
        await answering(machine)
        assert "Starting control daemon" in said.read_text()
        machine.control(*["get_server_list"] * 500)
        await quick.until(lambda: said.stat().st_size > 5 * 4096 and room(said) <= 3 * 4096)
        assert said.read_text().endswith("UI closed\n")


def room(path: Path) -> int:
    return path.stat().st_blocks * 512


async def test_output_of_a_daemon_of_an_earlier_life_is_bounded_too(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    said = layout.output(machine.mps_root, machine.uuid())
    machine.control(*["get_server_list"] * 500)
    async with running(dataclasses.replace(settings(machine), output_bytes=4096), GPUs(machine.uuid())):
        await quick.until(lambda: said.stat().st_size > 5 * 4096 and room(said) <= 3 * 4096)


@pytest.mark.parametrize(("status", "words"), [(244, "finds no libcuda.so.1"), (100, "CUDA finds no GPU")])
async def test_daemon_that_ends_without_a_word_is_told_with_what_to_look_at(
    machine: gpu_machine.Machine, caplog: pytest.LogCaptureFixture, status: int, words: str
) -> None:
    chosen = dataclasses.replace(settings(machine), program=["sh", "-c", f"exit {status}"])
    async with running(chosen, GPUs(machine.uuid())):
        await quick.until(lambda: f"ended with code {status}: " in caplog.text and words in caplog.text)


async def test_daemon_that_ends_at_once_is_told_and_tried_again(
    machine: gpu_machine.Machine, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = daemon.Settings(
        root=machine.mps_root, program=["false"], environment={}, look_seconds=0.05, first_backoff_seconds=0.01
    )
    async with running(chosen, GPUs(machine.uuid())):
        await quick.until(lambda: caplog.text.count("ended with code 1") == 3)


def test_limits_of_the_own_environment_do_not_reach_the_daemons() -> None:
    environment = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "5", "NVIDIA_VISIBLE_DEVICES": "void", "PATH": "/bin"}
    assert daemons.inherited(environment) == {"PATH": "/bin"}


class Driver:
    """A driver with one GPU in MIG mode and one that is not."""

    def __init__(self, version: str = "580.1") -> None:
        self._version = version

    async def driver(self) -> hardware.Driver:
        """Its versions."""
        return hardware.Driver(driver_version=self._version, cuda_version="13.0")

    async def devices(self) -> tuple[hardware.Device, ...]:
        """Both."""
        return self._device("GPU-a", mig=True), self._device("GPU-b", mig=False)

    @staticmethod
    def _device(uuid: str, *, mig: bool) -> hardware.Device:
        return hardware.Device(
            uuid=GPUUID(uuid),
            index=0,
            minor=0,
            model="NVIDIA-H200",  # type: ignore[arg-type]
            memory_mib=1,
            sm_count=1,
            compute_capability="9.0",
            mig=mig,
        )


async def test_gpu_in_mig_mode_has_no_daemon() -> None:
    assert await daemons.shared(Driver())() == {"GPU-b"}


@pytest.mark.parametrize("version", ["550.163.01", "unknown", ""])
async def test_driver_whose_clients_may_not_work_in_containers_gets_no_daemon(version: str) -> None:
    with pytest.raises(errors.TemporaryError, match=f"driver .*{version}.* older than 570"):
        await daemons.shared(Driver(version))()


@contextlib.contextmanager
def started_command(machine: gpu_machine.Machine) -> "Iterator[subprocess.Popen[str]]":
    command = [sys.executable, "-c", PROGRAM, "--mps-root", str(machine.mps_root)]
    with subprocess.Popen(
        [*command, "--ready-port", "0", "--nvml", str(building.nvml()), "--control", *machine.program],
        env=machine.environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
            process.wait(timeout=20)
        finally:
            process.kill()


async def test_command_serves_all_gpus_and_ends_on_sigterm(machine: gpu_machine.Machine) -> None:
    with started_command(machine) as process:
        for index in (0, 1):
            await answering(machine, index)
        process.terminate()
        _, said = await asyncio.to_thread(process.communicate, timeout=20)
    assert process.returncode == 0
    assert "Traceback" not in said, said
    assert not mps_control.answers(machine.pipe(0))


async def test_clients_outlive_a_command_that_is_killed_and_started_again(machine: gpu_machine.Machine) -> None:
    with started_command(machine) as first:
        for index in (0, 1):
            await answering(machine, index)
        tenant = machine.tenant()
        first.kill()
    pids = [daemon_pid(machine, index) for index in (0, 1)]
    with started_command(machine) as second:
        await logged(second, "another control daemon is in")
        assert machine.control(f"get_client_list {machine.server()}").split() == [str(tenant.pid)]
        second.terminate()
    assert tenant.process.poll() is None
    tenant.process.terminate()
    assert await ended(tenant) == ""
    for pid in pids:
        os.kill(pid, signal.SIGTERM)


async def logged(process: "subprocess.Popen[str]", words: str) -> None:
    """Wait until it says so."""
    if process.stderr is None:
        raise ValueError("its log is read here")
    while words not in (line := await asyncio.to_thread(process.stderr.readline)):
        assert line, f"it ended with {process.wait()} and never said {words!r}"


async def test_a_server_that_is_drained_is_said_to_be_ended_in_good_order(machine: gpu_machine.Machine) -> None:
    async with running(settings(machine), GPUs(machine.uuid())) as stop:
        await answering(machine)
        program = machine.cuda(*gpu_machine.HOLD)
        program.report()
        (server,) = await v2_servers(machine)
        program.process.terminate()
        await ended(program)
        stop.set()
        await quick.until(lambda: not mps_control.answers(machine.pipe(0)))
    assert server in leaving.read(machine.mps_root, machine.uuid())


async def v2_servers(machine: gpu_machine.Machine) -> list[int]:
    backend = v2.MPSv2(machine.mps_root, cuda_version="13.0", program=machine.program)
    seen = await backend.observe(machine.uuid())
    return [] if seen.pid is None else [seen.pid]
