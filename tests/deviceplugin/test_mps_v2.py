"""MPS v2 behind the backend's interface, over real processes of the stand-in."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_api import errors, placement
from cotenant_api.gpunode import MPS
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.mps import layout, v2
from cotenant_deviceplugin.mps.backend import Enforcement
from node_kit import gpu_machine, quick

GPUID = GPUUID("GPU-a")


@pytest.fixture
def machine() -> Iterator[gpu_machine.Machine]:
    with gpu_machine.started() as found:
        yield found


def backend(machine: gpu_machine.Machine, *, timeout_seconds: float = 20.0) -> v2.MPSv2:
    return v2.MPSv2(machine.mps_root, cuda_version="13.0", program=machine.program, timeout_seconds=timeout_seconds)


async def test_absent_daemon_is_a_state(machine: gpu_machine.Machine) -> None:
    seen = await backend(machine).observe(machine.uuid())
    assert (seen.state, seen.pid) == (MPS.STOPPED, None)
    assert "no MPS control daemon" in (seen.reason or "")


async def test_daemon_without_server_is_stopped(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    seen = await backend(machine).observe(machine.uuid())
    assert (seen.state, seen.pid, seen.reason) == (MPS.STOPPED, None, "the control daemon has no server")


async def test_only_a_daemon_that_answers_knows_that_it_has_no_server(machine: gpu_machine.Machine) -> None:
    assert not (await backend(machine).observe(machine.uuid())).absent
    daemon = machine.control_daemon()
    seen = await backend(machine).observe(machine.uuid())
    assert (seen.absent, seen.daemon) == (True, daemon.pid)
    nobody_asks = v2.MPSv2(machine.mps_root, cuda_version="13.0", program=["/nowhere/nvidia-cuda-mps-control"])
    seen = await nobody_asks.observe(machine.uuid())
    assert (seen.absent, seen.state) == (False, MPS.STARTING)
    (machine.state.root / "mps_hangs").touch()
    assert not (await backend(machine, timeout_seconds=0.2).observe(machine.uuid())).absent


async def test_started_server_is_active_and_starting_it_again_changes_nothing(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    mps = backend(machine)
    await mps.start(machine.uuid())
    await mps.start(machine.uuid())
    seen = await mps.observe(machine.uuid())
    assert (seen.state, seen.pid, seen.reason) == (MPS.ACTIVE, machine.server(), None)


async def test_server_and_clients_of_an_earlier_life_are_adopted(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    tenant = machine.tenant()
    seen = await backend(machine).observe(machine.uuid())
    assert (seen.state, seen.pid, seen.clients) == (MPS.ACTIVE, machine.server(), (tenant.pid,))


async def test_fault_is_seen_with_the_clients_that_it_left(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    mps = backend(machine)
    stuck = machine.tenant("--ignore-faults")
    await mps.observe(machine.uuid())
    machine.cuda("--crash").end()
    seen = await mps.observe(machine.uuid())
    assert (seen.state, seen.clients) == (MPS.FAULT, (stuck.pid,))
    assert seen.reason == f"server {machine.server()} says FAULT"


async def test_fault_that_is_over_already_shows_in_the_log(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    mps = backend(machine)
    await mps.start(machine.uuid())
    await mps.observe(machine.uuid())
    machine.cuda("--crash").end()
    await quick.until(lambda: not machine.state.gpu(0).mps_processes())
    seen = await mps.observe(machine.uuid())
    assert (seen.state, len(seen.faults)) == (MPS.ACTIVE, 2)
    assert (await mps.observe(machine.uuid())).faults == ()


async def test_server_that_is_killed_is_gone(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    mps = backend(machine)
    await mps.start(machine.uuid())
    os.kill(machine.server(), signal.SIGKILL)
    await quick.until(lambda: machine.control("get_server_list") == "")
    assert (await mps.observe(machine.uuid())).state is MPS.STOPPED


async def test_server_whose_process_is_gone_while_it_is_listed_is_at_fault(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    machine.control("start_server -uid 0")
    mps = v2.MPSv2(machine.mps_root, cuda_version="13.0", program=machine.program, alive=lambda _: False)
    seen = await mps.observe(machine.uuid())
    assert (seen.state, seen.reason) == (
        MPS.FAULT,
        f"server {machine.server()} is listed and its process is gone",
    )


async def test_server_that_initializes_is_starting(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    (machine.state.root / "mps_initializing").touch()
    program = machine.cuda(*gpu_machine.HOLD)
    mps = backend(machine)
    await quick.until(lambda: machine.control("get_server_list") != "")
    seen = await mps.observe(machine.uuid())
    server = machine.server()
    assert (seen.state, seen.pid, seen.initializes) == (MPS.STARTING, server, True)
    assert (seen.reason, seen.outdated) == (f"server {server} says INITIALIZING", False)
    (machine.state.root / "mps_initializing").unlink()
    assert program.report()["mps"] is True


async def test_server_with_other_limits_is_outdated(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    machine.control("set_default_active_thread_percentage 50", "start_server -uid 0")
    seen = await backend(machine).observe(machine.uuid())
    assert (seen.state, seen.outdated) == (MPS.STARTING, True)
    assert seen.reason == f"server {machine.server()} gives its clients 50 % of the threads at most"


async def test_server_lives_on_for_us_while_its_daemon_does_not_answer(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    machine.control("start_server -uid 0")
    server = machine.server()
    mps = backend(machine, timeout_seconds=2)
    await mps.observe(machine.uuid())
    (machine.state.root / "mps_hangs").touch()
    seen = await mps.observe(machine.uuid())
    assert (seen.state, seen.pid) == (MPS.STARTING, server)
    assert "did not answer" in (seen.reason or "")


async def test_stopped_server_is_gone_and_stopping_it_again_changes_nothing(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    mps = backend(machine)
    await mps.start(machine.uuid())
    await mps.stop(machine.uuid())
    await mps.stop(machine.uuid())
    assert (await mps.observe(machine.uuid())).state is MPS.STOPPED


async def test_server_that_initializes_for_ever_is_ended(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    (machine.state.root / "mps_initializing").touch()
    mps = backend(machine)
    await mps.start(machine.uuid())
    await mps.stop(machine.uuid())
    assert (await mps.observe(machine.uuid())).state is MPS.STOPPED


def test_server_that_does_not_end_is_killed_and_no_process_of_another_name(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    server = machine.start_server()
    v2.kill(server)
    while machine.control("get_server_list"):
        pass
    v2.kill(os.getpid())
    v2.kill(server)


async def test_client_that_came_in_between_is_not_ended_with_the_server(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    tenant = machine.tenant()
    await backend(machine).stop(machine.uuid())
    assert machine.control(f"get_client_list {machine.server()}").split() == [str(tenant.pid)]


async def test_server_at_fault_is_ended_with_the_clients_that_stay(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    machine.tenant("--ignore-faults")
    machine.cuda("--crash").end()
    await backend(machine).stop(machine.uuid())
    assert machine.control("get_server_list") == ""


async def test_terminated_client_leaves_its_neighbours_alone(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    neighbour, ended = machine.tenant(), machine.tenant("--busy")
    mps = backend(machine)
    await mps.terminate(machine.uuid(), ended.pid)
    assert "CLIENT_TERMINATED" in ended.end()
    await mps.terminate(machine.uuid(), ended.pid)
    seen = await mps.observe(machine.uuid())
    assert (seen.state, seen.clients) == (MPS.ACTIVE, (neighbour.pid,))


@pytest.mark.parametrize(
    ("answer", "state", "reason"),
    [
        ("11 12 100.0", MPS.STARTING, "several servers: 11, 12; one replaces another"),
        ("nonsense", MPS.STARTING, "the MPS control daemon said to get_server_list: 'nonsense'"),
    ],
)
async def test_answer_that_names_no_one_server_is_not_active(
    tmp_path: Path, answer: str, state: MPS, reason: str
) -> None:
    layout.pipe(tmp_path, GPUID).mkdir(parents=True)
    mps = v2.MPSv2(tmp_path, cuda_version="13.0", program=["sh", "-c", f"echo {answer}"])
    seen = await mps.observe(GPUID)
    assert (seen.state, seen.pid, seen.clients) == (state, None, ())
    assert reason in (seen.reason or "")


async def test_server_that_ends_between_two_questions_is_being_replaced(tmp_path: Path) -> None:
    answers = "get_server_list) echo 11;; get_default*) echo 100.0;; *) echo Server 11 not found;;"
    program = f"while read line; do case $line in {answers} esac; done"
    layout.pipe(tmp_path, GPUID).mkdir(parents=True)
    mps = v2.MPSv2(tmp_path, cuda_version="13.0", program=["sh", "-c", program])
    seen = await mps.observe(GPUID)
    assert (seen.state, seen.reason) == (MPS.STARTING, "server 11 is being replaced")


@pytest.mark.parametrize("listed", ["11 12", "11"])
async def test_server_that_lives_has_not_ended_whatever_its_daemon_answers(tmp_path: Path, listed: str) -> None:
    confused = tmp_path / "confused"
    program = f"""
    confused() {{ test -e {confused}; }}
    read first; count=1; while read more; do count=$((count + 1)); done
    case "$count $first" in
    "2 get_server_list") if confused; then echo {listed}; else echo 11; fi; echo 100.0 ;;
    "1 get_server_status 11") echo ACTIVE ;;
    *) confused || printf '11\\nACTIVE\\n100.0\\n100.0\\n' ;;
    esac"""
    layout.pipe(tmp_path, GPUID).mkdir(parents=True)
    mps = v2.MPSv2(tmp_path, cuda_version="13.0", program=["sh", "-c", program], alive=lambda pid: pid == 11)
    assert (await mps.observe(GPUID)).state is MPS.ACTIVE
    confused.touch()
    seen = await mps.observe(GPUID)
    assert (seen.state, seen.pid) == (MPS.STARTING, 11)


async def test_nothing_can_be_asked_of_an_absent_daemon(machine: gpu_machine.Machine) -> None:
    with pytest.raises(errors.TemporaryError):
        await backend(machine).start(machine.uuid())


async def test_quiet_server_has_not_stirred_and_a_new_client_stirs_it(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    mps = backend(machine)
    await mps.start(machine.uuid())
    assert mps.stirred(machine.uuid())
    await mps.observe(machine.uuid())
    assert not mps.stirred(machine.uuid())
    machine.tenant()
    assert mps.stirred(machine.uuid())


async def test_server_that_died_has_stirred(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    mps = backend(machine)
    await mps.start(machine.uuid())
    server = (await mps.observe(machine.uuid())).pid
    assert server is not None
    os.kill(server, signal.SIGKILL)
    await quick.until(lambda: mps.stirred(machine.uuid()))


async def test_container_gets_pipe_and_limits_that_mps_enforces(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    booking = placement.GPUBooking(
        uuid=machine.uuid(), share=40, active_thread_percentage=45, memory_mib=9001, client_priority=1
    )
    mps = backend(machine)
    await mps.observe(machine.uuid())
    edits = mps.edits(machine.uuid(), booking, processes=2)
    (mount,) = edits.mounts
    assert (mount["hostPath"], mount["containerPath"]) == (
        str(machine.pipe().with_name("client-pipe")),
        edits.environment["CUDA_MPS_PIPE_DIRECTORY"],
    )
    limits = {**edits.environment, "CUDA_MPS_PIPE_DIRECTORY": mount["hostPath"]}
    report = machine.cuda(limits=limits).report()
    assert (report["threadPercentage"], report["memoryLimitMiB"], report["clientPriority"]) == (22, 4500, 1)


def test_limit_is_never_divided_to_nothing(machine: gpu_machine.Machine) -> None:
    booking = placement.GPUBooking(uuid=machine.uuid(), share=1, active_thread_percentage=3, memory_mib=2)
    environment = backend(machine).edits(machine.uuid(), booking, processes=4).environment
    assert environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "1"
    assert environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=1M"
    assert environment["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_root_that_makes_a_socket_unreachable_is_refused(machine: gpu_machine.Machine) -> None:
    booking = placement.GPUBooking(uuid=machine.uuid(), share=1, active_thread_percentage=3, memory_mib=2)
    mps = v2.MPSv2(machine.folder / ("x" * 80), cuda_version="13.0")
    with pytest.raises(errors.InvalidInputError, match="characters at most"):
        mps.edits(GPUUID(machine.uuid()), booking, processes=1)


@pytest.mark.parametrize(("cuda_version", "clients"), [("12.9", 48), ("13.0", 48), ("13.1", 60), ("14", 60)])
def test_properties_say_what_holds_and_where_that_is_written(cuda_version: str, clients: int) -> None:
    found = v2.properties(cuda_version)
    assert (found.max_clients, found.threads, found.users) == (clients, Enforcement.COOPERATIVE, False)
    assert all(hasattr(found, fact) and "https://docs.nvidia.com" in text for fact, text in found.sources.items())
