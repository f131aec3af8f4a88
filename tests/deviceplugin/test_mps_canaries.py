"""Canaries against the stand-in's CUDA: NVIDIA's library is not here, and all of the canary is."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.mps import canaries, v2
from cotenant_standin import building, state
from node_kit import gpu_machine, quick

EXCLUSIVE = state.ComputeMode.EXCLUSIVE_PROCESS


@pytest.fixture(name="machine", scope="module")
def machine_fixture() -> Iterator[gpu_machine.Machine]:
    with gpu_machine.started((state.H200, state.T4)) as machine:
        machine.control_daemon()
        machine.control("start_server -uid 0")
        machine.state.gpu(0).compute_mode = EXCLUSIVE
        yield machine


@pytest.fixture(name="server")
def server_fixture(machine: gpu_machine.Machine, monkeypatch: pytest.MonkeyPatch) -> v2.MPSv2:
    monkeypatch.setenv(state.FOLDER_VARIABLE, str(machine.state.root))
    return v2.MPSv2(machine.mps_root, cuda_version="13.0", program=machine.program)


@pytest.fixture(name="fault")
def fault_fixture(machine: gpu_machine.Machine, request: pytest.FixtureRequest) -> Iterator[str]:
    machine.state.gpu(0).set(request.param, 719)
    yield request.param
    machine.state.gpu(0).unset(request.param)


def made(machine: gpu_machine.Machine, **more: float) -> canaries.Canaries:
    seconds = int(more.pop("seconds", canaries.SECONDS))
    return canaries.Canaries(
        machine.mps_root, library=building.cuda(), environment=machine.environment(), seconds=seconds, **more
    )


async def test_one_passes_as_a_client_and_leaves_nothing_behind(machine: gpu_machine.Machine, server: v2.MPSv2) -> None:
    runner = made(machine)
    before = machine.server()
    assert await runner.run(machine.uuid(), server=server) is None
    assert (runner.pids, machine.server()) == (frozenset(), before)
    assert machine.state.gpu(0).mps_processes() == {}
    assert "connected" in machine.said()


async def test_one_that_uses_the_gpu_directly_passes_where_there_is_no_server(machine: gpu_machine.Machine) -> None:
    assert await made(machine).run(machine.uuid(1), server=None) is None


async def test_a_gpu_that_a_server_holds_cannot_be_used_beside_it(machine: gpu_machine.Machine) -> None:
    fault = await made(machine).run(machine.uuid(), server=None)
    assert fault == "a canary failed: cuCtxCreate_v2: CUDA_ERROR_DEVICE_UNAVAILABLE"


async def test_one_that_does_not_find_the_daemon_proves_nothing(machine: gpu_machine.Machine, server: v2.MPSv2) -> None:
    assert await made(machine).run(machine.uuid(1), server=server) == (
        "a canary ran without MPS: it did not find the daemon"
    )


@pytest.mark.parametrize("fault", ["cuda_fails"], indirect=True)
async def test_an_error_of_cuda_is_named(machine: gpu_machine.Machine, server: v2.MPSv2, fault: str) -> None:
    assert machine.state.gpu(0).read(fault) == "719"
    assert await made(machine).run(machine.uuid(), server=server) == (
        "a canary failed: cuMemsetD8_v2: CUDA_ERROR_LAUNCH_FAILED"
    )


@pytest.mark.parametrize("fault", ["cuda_forgets"], indirect=True)
async def test_memory_that_forgets_is_noticed(machine: gpu_machine.Machine, server: v2.MPSv2, fault: str) -> None:
    assert machine.state.gpu(0).read(fault) == "719"
    told = await made(machine).run(machine.uuid(), server=server)
    assert told == "a canary failed: compare: what was read back is not what was written"


@pytest.mark.parametrize("fault", ["cuda_hangs"], indirect=True)
async def test_one_that_hangs_is_taken_off_the_gpu_before_it_is_killed(
    machine: gpu_machine.Machine, server: v2.MPSv2, fault: str
) -> None:
    assert machine.state.gpu(0).read(fault) == "719"
    alive: list[int] = []

    class Noting:
        async def terminate(self, gpu: GPUUID, pid: int) -> None:
            # On a busy machine the canary has ended itself before the daemon has been asked all.
            alive.extend(runner.pids & {pid})
            await server.terminate(gpu, pid)

    runner = made(machine, seconds=1)
    running = asyncio.create_task(runner.run(machine.uuid(), server=Noting()))
    await quick.until(lambda: runner.pids == frozenset(machine.state.gpu(0).mps_processes()) != frozenset())
    (pid,) = runner.pids
    assert await running == "a canary did not end within 1 s"
    assert alive == [pid]
    assert runner.pids == frozenset()


@pytest.mark.parametrize("fault", ["cuda_hangs"], indirect=True)
async def test_one_that_cannot_even_be_killed_is_not_followed_by_another(
    machine: gpu_machine.Machine, fault: str
) -> None:
    """A process that waits in the driver ignores signals: here it is given no time to end."""
    assert machine.state.gpu(0).read(fault) == "719"

    class Silent:
        async def terminate(self, gpu: GPUUID, pid: int) -> None:
            raise errors.TemporaryError(f"{gpu}: nobody answers for {pid}", delay_seconds=1)

    runner = made(machine, seconds=1, kill_seconds=0)
    assert await runner.run(machine.uuid(), server=Silent()) == "a canary did not end within 1 s"
    assert len(runner.pids) == 1
    assert "has not ended" in str(await runner.run(machine.uuid(), server=Silent()))
    await quick.until(lambda: not runner.pids)


async def test_an_agent_that_ends_takes_its_canary_along(machine: gpu_machine.Machine, server: v2.MPSv2) -> None:
    machine.state.gpu(0).set("cuda_hangs", "")
    runner = made(machine)
    running = asyncio.create_task(runner.run(machine.uuid(), server=server))
    await quick.until(lambda: machine.state.gpu(0).mps_processes())
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    machine.state.gpu(0).unset("cuda_hangs")
    assert runner.pids == frozenset()


async def test_a_gpu_that_cuda_does_not_know_is_named(machine: gpu_machine.Machine) -> None:
    fault = await made(machine).run(GPUUID("GPU-00000000-0000-0000-0000-000000000000"), server=None)
    assert fault == "a canary failed: cuCtxCreate_v2: CUDA_ERROR_NO_DEVICE"


async def test_without_the_library_none_can_be_run(tmp_path: Path) -> None:
    runner = canaries.Canaries(tmp_path, library=tmp_path / "libcuda.so.1")
    told = await runner.run(GPUUID("GPU-1"), server=None)
    assert "could not be run (--no-canary goes without)" in str(told)
    assert "cannot open shared object file" in str(told)


async def test_a_library_that_lacks_a_function_is_none(tmp_path: Path) -> None:
    told = await canaries.Canaries(tmp_path, library=building.nvml()).run(GPUUID("GPU-1"), server=None)
    assert "undefined symbol: cuInit" in str(told)


@pytest.mark.parametrize(
    ("exit_code", "output", "complaint", "fault"),
    [
        (-11, "", "", "a canary was ended by SIGSEGV"),
        (1, "", "Traceback", "a canary could not be run: 'Traceback'"),
        (0, "[1]", "", "a canary could not be run: '[1]'"),
        (3, "", "", "a canary could not be run: 'exit code 3'"),
        (0, '{"passed": true, "mps": null}', "", None),
        (0, '{"passed": true, "mps": true}', "noise", None),
    ],
)
def test_what_a_canary_left_is_read_exactly(exit_code: int, output: str, complaint: str, fault: str | None) -> None:
    assert canaries.fault(exit_code, output, complaint, shared=True) == fault
