"""The stand-in's driver, MPS and CUDA program: each documented behaviour, shown by real processes."""

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from cotenant_standin import state
from node_kit import gpu_machine, quick

NOT_READY = "CUDA_ERROR_MPS_SERVER_NOT_READY"
OTHER_USER = 12345


@pytest.fixture
def machine() -> Iterator[gpu_machine.Machine]:
    with gpu_machine.started() as found:
        yield found


def clients(machine: gpu_machine.Machine) -> set[int]:
    return {int(pid) for pid in machine.control(f"get_client_list {machine.server()}").split()}


def status(machine: gpu_machine.Machine) -> str:
    return machine.control(f"get_server_status {machine.server()}").strip()


async def gone(machine: gpu_machine.Machine) -> None:
    await quick.until(lambda: not machine.state.gpu(0).mps_processes())


def shared(machine: gpu_machine.Machine) -> None:
    """EXCLUSIVE_PROCESS and a server that holds the context."""
    machine.state.gpu(0).compute_mode = state.ComputeMode.EXCLUSIVE_PROCESS
    machine.control_daemon()
    machine.start_server()


def test_program_without_daemon_runs_unlimited_in_default_mode(machine: gpu_machine.Machine) -> None:
    limits = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "10", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1G"}
    report = machine.cuda(mps=False, limits=limits).report()
    assert (report["mps"], report["threadPercentage"], report["memoryLimitMiB"]) == (False, 100, None)


def test_program_without_daemon_is_refused_where_the_server_holds_the_gpu(machine: gpu_machine.Machine) -> None:
    shared(machine)
    assert "all CUDA-capable devices are busy or unavailable" in machine.cuda(mps=False).end()


def test_prohibited_mode_refuses_everybody(machine: gpu_machine.Machine) -> None:
    machine.state.gpu(0).compute_mode = state.ComputeMode.PROHIBITED
    assert "busy or unavailable" in machine.cuda(mps=False).end()


def test_client_gets_the_limits_of_its_environment(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    limits = {
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "30",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=2G",
        "CUDA_MPS_CLIENT_PRIORITY": "1",
    }
    report = machine.cuda(limits=limits).report()
    assert (report["mps"], report["gpu"]) == (True, machine.uuid())
    assert (report["threadPercentage"], report["memoryLimitMiB"], report["clientPriority"]) == (30, 2048, 1)


def test_environment_of_a_client_can_only_lower_what_the_server_allows(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    machine.control("set_default_active_thread_percentage 40", "set_default_device_pinned_mem_limit 0 1G")
    limits = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "90", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=8G"}
    report = machine.cuda(limits=limits).report()
    assert (report["threadPercentage"], report["memoryLimitMiB"]) == (40, 1024)


def test_defaults_reach_later_servers_alone(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    machine.start_server()
    machine.control("set_default_active_thread_percentage 20")
    assert machine.cuda().report()["threadPercentage"] == 100
    assert machine.control("get_default_active_thread_percentage") == "20.0\n"
    assert machine.control(f"get_active_thread_percentage {machine.server()}") == "100.0\n"


def test_allocation_beyond_the_limit_is_out_of_memory_and_hurts_nobody(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    neighbour = machine.tenant()
    greedy = machine.cuda("--memory", "1025", limits={"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1G"})
    assert "CUDA out of memory" in greedy.end()
    assert (status(machine), clients(machine)) == ("ACTIVE", {neighbour.pid})


def test_clients_together_get_no_more_than_the_gpu_has(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    machine.tenant("--memory", "100000")
    assert "CUDA out of memory" in machine.cuda("--memory", "50000").end()


async def test_driver_lists_server_and_clients_while_they_live(machine: gpu_machine.Machine) -> None:
    shared(machine)
    tenant = machine.tenant("--memory", "700")
    gpu = machine.state.gpu(0)
    assert (set(gpu.processes()), gpu.mps_processes()) == ({machine.server(), tenant.pid}, {tenant.pid: 700})
    tenant.process.terminate()
    assert (tenant.end(), tenant.process.returncode) == ("", 0)
    await gone(machine)


async def test_fatal_fault_hits_all_clients_and_new_ones_are_refused_until_all_ended(
    machine: gpu_machine.Machine,
) -> None:
    shared(machine)
    stuck, victim = machine.tenant("--ignore-faults"), machine.tenant()
    assert "illegal memory access" in machine.cuda("--crash").end()
    assert "an illegal memory access was encountered" in victim.end()
    assert (status(machine), clients(machine)) == ("FAULT", {stuck.pid})
    assert NOT_READY in machine.cuda().end()
    stuck.process.kill()
    await gone(machine)
    assert machine.cuda().report()["mps"] is True
    assert machine.state.xids() == ((0, 31),)


def test_program_faults_after_the_time_that_it_holds_its_gpu(machine: gpu_machine.Machine) -> None:
    shared(machine)
    neighbour, later = machine.tenant(), machine.cuda("--hold", "0.1", "--crash")
    assert later.report()["mps"] is True
    assert "illegal memory access" in later.end()
    assert "an illegal memory access was encountered" in neighbour.end()


def test_program_that_is_told_to_end_before_its_fault_hurts_nobody(machine: gpu_machine.Machine) -> None:
    shared(machine)
    neighbour, later = machine.tenant(), machine.tenant("--crash")
    assert clients(machine) == {neighbour.pid, later.pid}
    later.process.terminate()
    assert (later.end(), later.process.returncode) == ("", 0)
    assert (status(machine), machine.state.xids()) == ("ACTIVE", ())


async def test_busy_client_that_is_killed_takes_its_neighbours_along(machine: gpu_machine.Machine) -> None:
    shared(machine)
    neighbour, busy = machine.tenant(), machine.tenant("--busy")
    busy.process.kill()
    assert "an illegal memory access was encountered" in neighbour.end()


async def test_idle_client_that_is_killed_hurts_nobody(machine: gpu_machine.Machine) -> None:
    shared(machine)
    neighbour, idle = machine.tenant(), machine.tenant()
    idle.process.kill()
    await quick.until(lambda: set(machine.state.gpu(0).mps_processes()) == {neighbour.pid})
    assert status(machine) == "ACTIVE"


async def test_terminated_client_may_be_killed_without_harm(machine: gpu_machine.Machine) -> None:
    shared(machine)
    neighbour, busy = machine.tenant(), machine.tenant("--busy", "--ignore-faults")
    machine.control(f"terminate_client {machine.server()} {busy.pid}")
    assert clients(machine) == {neighbour.pid, busy.pid}
    busy.process.kill()
    busy.end()
    assert (status(machine), clients(machine)) == ("ACTIVE", {neighbour.pid})


def test_terminated_client_is_told(machine: gpu_machine.Machine) -> None:
    shared(machine)
    tenant = machine.tenant()
    machine.control(f"terminate_client {machine.server()} {tenant.pid}")
    assert "CUDA_ERROR_MPS_CLIENT_TERMINATED" in tenant.end()


@pytest.mark.parametrize(("version", "most"), [(13000, 48), (13010, 60)])
def test_server_takes_so_many_clients(machine: gpu_machine.Machine, version: int, most: int) -> None:
    (machine.state.root / "cuda_version").write_text(f"{version}\n")
    shared(machine)
    for _ in range(most):
        machine.tenant("--memory", "1")
    assert "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED" in machine.cuda().end()


async def test_client_of_another_user_waits_without_multiuser_server(machine: gpu_machine.Machine) -> None:
    machine.control_daemon(multiuser=False)
    first = machine.tenant()
    server = machine.server()
    other = machine.cuda(*gpu_machine.HOLD, user=OTHER_USER)
    pending = f"from user {OTHER_USER}: Server is not ready, push client to pending list"
    await quick.until(lambda: pending in machine.said())
    assert clients(machine) == {first.pid}
    first.process.terminate()
    assert other.report()["server"] != server
    assert clients(machine) == {other.pid}


def test_clients_of_all_users_share_a_multiuser_server(machine: gpu_machine.Machine) -> None:
    shared(machine)
    first = machine.tenant()
    other = machine.cuda(*gpu_machine.HOLD, user=OTHER_USER)
    assert other.report()["server"] == machine.server()
    assert clients(machine) == {first.pid, other.pid}


def test_clients_of_a_server_that_dies_lose_their_connection(machine: gpu_machine.Machine) -> None:
    shared(machine)
    tenant = machine.tenant()
    os.kill(machine.server(), signal.SIGKILL)
    assert "CUDA_ERROR_MPS_RPC_FAILURE" in tenant.end()
    assert machine.control("get_server_list") == ""


def test_server_does_not_start_beside_another_process(machine: gpu_machine.Machine) -> None:
    machine.state.gpu(0).compute_mode = state.ComputeMode.EXCLUSIVE_PROCESS
    machine.cuda(*gpu_machine.HOLD, mps=False).report()
    machine.control_daemon()
    assert machine.control("start_server -uid 0") == ""
    assert "CUDA_ERROR_MPS_CONNECTION_FAILED" in machine.cuda().end()


def test_server_that_is_shut_down_takes_no_new_clients_and_ends_with_its_last(machine: gpu_machine.Machine) -> None:
    shared(machine)
    tenant, server = machine.tenant(), machine.server()
    machine.control(f"shutdown_server {server}")
    waiting = machine.cuda(*gpu_machine.HOLD)
    assert machine.server() == server
    tenant.process.terminate()
    assert waiting.report()["server"] != server


def test_server_that_is_shut_down_by_force_ends_at_once(machine: gpu_machine.Machine) -> None:
    shared(machine)
    tenant = machine.tenant()
    machine.control(f"shutdown_server {machine.server()} -f")
    assert "CUDA_ERROR_MPS_RPC_FAILURE" in tenant.end()


def test_quit_waits_for_clients(machine: gpu_machine.Machine) -> None:
    daemon = machine.control_daemon()
    tenant = machine.tenant()
    tenant.process.send_signal(signal.SIGSTOP)
    assert machine.control("quit -t 0.1") == ""
    assert daemon.wait(timeout=20) == 0
    tenant.process.send_signal(signal.SIGCONT)
    assert "RPC_FAILURE" in tenant.end()


def test_program_fails_without_daemon(machine: gpu_machine.Machine) -> None:
    assert machine.control("get_server_list") == "Cannot find MPS control daemon process\n"


COMMANDS: list[tuple[str, Callable[[gpu_machine.Machine, int, int], str]]] = [
    ("get_default_device_pinned_mem_limit 0", lambda *_: ""),
    ("get_device_client_list", lambda *words: f"[0] 00:00.0, NVIDIA H200\n{words[2]}.1\n"),
    ("terminate_client SERVER 1", lambda *_: "Invalid process 1!\n1\n"),
    ("start_server -uid 0", lambda *_: ""),
    ("set_active_thread_percentage SERVER 50", lambda *_: "50.0\n"),
    ("get_device_pinned_mem_limit SERVER 0", lambda *_: ""),
]


@pytest.mark.parametrize(("command", "expected"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_answer_to(
    machine: gpu_machine.Machine, command: str, expected: Callable[[gpu_machine.Machine, int, int], str]
) -> None:
    machine.control_daemon()
    client, server = machine.tenant().pid, machine.server()
    assert machine.control(command.replace("SERVER", str(server))) == expected(machine, server, client)


def test_limits_of_a_running_server_reach_its_later_clients(machine: gpu_machine.Machine) -> None:
    shared(machine)
    server = machine.server()
    machine.control(f"set_active_thread_percentage {server} 25", f"set_device_pinned_mem_limit {server} 0 512M")
    assert machine.control(f"get_device_pinned_mem_limit {server} 0") == "512M\n"
    report = machine.cuda().report()
    assert (report["threadPercentage"], report["memoryLimitMiB"]) == (25, 512)


def test_ps_numbers_clients_and_no_number_is_given_twice(machine: gpu_machine.Machine) -> None:
    shared(machine)
    first, second = machine.tenant(), machine.tenant()
    first.process.terminate()
    first.end()
    third = machine.tenant()
    _, *rows = machine.control("ps").splitlines()
    assert [row.split()[:2] for row in rows] == [[str(second.pid), "2"], [str(third.pid), "3"]]
