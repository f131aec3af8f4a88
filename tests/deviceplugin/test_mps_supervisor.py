"""The supervisor over real processes of the stand-in: faults, changes of modes, and lives of the agent."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from cotenant_api import errors
from cotenant_api.gpunode import MPS, Mode
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus.hardware import ComputeMode
from cotenant_deviceplugin.mps import proof, supervision, supervisor, v2
from cotenant_deviceplugin.mps.steps import EvictStayers
from cotenant_standin import state
from mps_kit import standin
from mps_kit.exchanges import FORGED
from node_kit import gpu_machine, quick

SHARED = Mode.SHARED
WHOLE = Mode.WHOLE
POLICY = supervision.Policy(first_backoff_seconds=0, longest_backoff_seconds=0)


@pytest.fixture
def machine() -> Iterator[gpu_machine.Machine]:
    with gpu_machine.started() as found:
        yield found


class Time:
    """A clock that stands still until told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


class KilledError(Exception):
    """The agent is killed here."""


class Killed(gpu_machine.MachineDriver):
    """A driver and a backend of an agent that is killed after so many changes."""

    def __init__(self, machine: gpu_machine.Machine, backend: v2.MPSv2, *, after: int) -> None:
        super().__init__(machine)
        self._backend, self._left = backend, after
        self.properties, self.observe, self.answers = backend.properties, backend.observe, backend.answers
        self.edits, self.terminate = backend.edits, backend.terminate

    def _count(self) -> None:
        if self._left == 0:
            raise KilledError
        self._left -= 1

    async def set_compute_mode(self, gpu: GPUUID, mode: ComputeMode) -> None:
        """Changes, or dies before it does."""
        self._count()
        await super().set_compute_mode(gpu, mode)

    async def start(self, gpu: GPUUID) -> None:
        """Changes, or dies before it does."""
        self._count()
        await self._backend.start(gpu)

    async def stop(self, gpu: GPUUID) -> None:
        """Changes, or dies before it does."""
        self._count()
        await self._backend.stop(gpu)


def backend(machine: gpu_machine.Machine) -> v2.MPSv2:
    return v2.MPSv2(machine.mps_root, cuda_version="13.0", program=machine.program, timeout_seconds=20)


def supervised(machine: gpu_machine.Machine, time: Time | None = None) -> supervisor.Supervisor:
    """A supervisor as a fresh agent has it."""
    return supervisor.Supervisor(
        machine.uuid(),
        backend=backend(machine),
        driver=gpu_machine.MachineDriver(machine),
        monotonic=time or Time(),
        policy=POLICY,
    )


async def proven(gpu: supervisor.Supervisor) -> supervision.Decision:
    """Steps until the GPU is ready again."""
    for _ in range(20):
        decision = await gpu.settle(SHARED)
        if decision.ready:
            break
    return decision


async def test_fresh_gpu_becomes_shared_in_one_go(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    decision = await supervised(machine).settle(SHARED)
    assert (decision.ready, decision.published) == (True, MPS.ACTIVE)
    assert machine.state.gpu(0).compute_mode is state.ComputeMode.EXCLUSIVE_PROCESS
    assert "busy or unavailable" in machine.cuda(mps=False).end()


async def test_server_that_takes_a_while_to_start_is_waited_for(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    initializing = machine.state.root / "mps_initializing"
    initializing.touch()
    settling = asyncio.create_task(supervised(machine).settle(SHARED))
    await quick.until(lambda: "Cmd:get_server_status" in machine.said())
    assert not settling.done()
    initializing.unlink()
    decision = await settling
    assert (decision.ready, decision.published) == (True, MPS.ACTIVE)


async def test_server_that_does_not_get_ready_is_not_waited_for_beyond_a_bound(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    (machine.state.root / "mps_initializing").touch()
    policy = supervision.Policy(settle_seconds=0)
    driver = gpu_machine.MachineDriver(machine)
    gpu = supervisor.Supervisor(
        machine.uuid(), backend=backend(machine), driver=driver, monotonic=Time(), policy=policy
    )
    decision = await gpu.settle(SHARED)
    assert (decision.ready, decision.published, decision.starts) == (False, MPS.STARTING, True)
    assert decision.reason == f"server {machine.server()} says INITIALIZING"


async def test_server_that_initializes_for_ever_is_replaced(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    (machine.state.root / "mps_initializing").touch()
    time = Time()
    gpu = supervised(machine, time)
    await gpu.step(SHARED)
    await gpu.step(SHARED)
    await gpu.step(SHARED)
    stuck = machine.server()
    time.now += POLICY.starting_seconds
    await gpu.step(SHARED)
    (machine.state.root / "mps_initializing").unlink()
    decision = await gpu.settle(SHARED)
    assert (decision.ready, machine.server() == stuck) == (True, False)


async def test_gpu_without_control_daemon_is_not_ready_and_closed_to_others(machine: gpu_machine.Machine) -> None:
    gpu = supervised(machine)
    decision = await gpu.settle(SHARED)
    assert (decision.ready, machine.state.gpu(0).compute_mode) == (False, state.ComputeMode.EXCLUSIVE_PROCESS)
    assert "no MPS control daemon" in (decision.reason or "")
    machine.control_daemon()
    assert (await gpu.settle(SHARED)).ready


async def test_agent_that_starts_again_adopts_server_and_clients(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    await supervised(machine).settle(SHARED)
    tenant, server = machine.tenant(), machine.server()
    decision = await supervised(machine).settle(SHARED)
    assert (decision.ready, machine.server(), tenant.process.poll()) == (True, server, None)


@pytest.mark.parametrize("changes", [0, 1, 2])
@pytest.mark.parametrize("to_whole", [True, False])
async def test_change_of_modes_survives_an_agent_that_is_killed_in_it(
    machine: gpu_machine.Machine, to_whole: bool, changes: int
) -> None:
    machine.control_daemon()
    first, then = (SHARED, WHOLE) if to_whole else (WHOLE, SHARED)
    await supervised(machine).settle(first)
    dying = Killed(machine, backend(machine), after=changes)
    killed = supervisor.Supervisor(machine.uuid(), backend=dying, driver=dying, monotonic=Time(), policy=POLICY)
    if changes < 2:
        with pytest.raises(KilledError):
            await killed.settle(then)
    else:
        await killed.settle(then)
    assert (await supervised(machine).settle(then)).ready
    servers = machine.control("get_server_list").split()
    expected = (state.ComputeMode.DEFAULT, 0) if to_whole else (state.ComputeMode.EXCLUSIVE_PROCESS, 1)
    assert (machine.state.gpu(0).compute_mode, len(servers)) == expected


async def test_whole_gpu_serves_several_processes_without_mps(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    await supervised(machine).settle(SHARED)
    assert (await supervised(machine).settle(WHOLE)).ready
    reports = [machine.cuda(*gpu_machine.HOLD, mps=False).report() for _ in range(2)]
    assert [report["mps"] for report in reports] == [False, False]


async def test_mode_does_not_change_under_a_tenant(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    await supervised(machine).settle(SHARED)
    tenant = machine.tenant()
    decision = await supervised(machine).settle(WHOLE)
    assert (decision.ready, decision.reason, tenant.process.poll()) == (False, f"used by {tenant.pid}", None)
    assert machine.state.gpu(0).compute_mode is state.ComputeMode.EXCLUSIVE_PROCESS


async def test_unmanaged_compute_mode_is_left_alone(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    policy = supervision.Policy(manage_compute_mode=False)
    driver = gpu_machine.MachineDriver(machine)
    gpu = supervisor.Supervisor(
        machine.uuid(), backend=backend(machine), driver=driver, monotonic=Time(), policy=policy
    )
    assert (await gpu.settle(SHARED)).ready
    assert machine.state.gpu(0).compute_mode is state.ComputeMode.DEFAULT


async def test_fault_ends_with_a_new_server_once_all_have_ended(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    gpu = supervised(machine)
    await gpu.settle(SHARED)
    old, victim = machine.server(), machine.tenant("--ignore-faults")
    await gpu.settle(SHARED)
    machine.cuda("--crash").end()
    began = await gpu.settle(SHARED)
    assert began.fault is not None
    assert (began.published, began.fault.server) == (MPS.FAULT, old)
    assert victim.pid in began.fault.affected
    victim.process.kill()
    await quick.until(lambda: not machine.state.gpu(0).mps_processes())
    decision = await proven(gpu)
    assert (decision.ready, machine.server() == old) == (True, False)
    assert machine.cuda().report()["mps"] is True


async def test_fault_that_was_over_before_the_next_look_is_known_by_its_line_and_those_it_ended(
    machine: gpu_machine.Machine,
) -> None:
    machine.control_daemon()
    gpu = supervised(machine)
    await gpu.settle(SHARED)
    old, victim = machine.server(), machine.tenant()
    await gpu.settle(SHARED)
    machine.cuda("--crash").end()
    victim.end()
    await quick.until(lambda: not machine.state.gpu(0).mps_processes())
    assert machine.control(f"get_server_status {old}") == "ACTIVE\n"
    began = await gpu.settle(SHARED)
    assert began.fault is not None
    assert began.fault.affected == frozenset({victim.pid})
    assert (await proven(gpu)).ready


async def test_fault_that_a_tenant_has_made_up_does_nothing_to_anybody(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    gpu = supervised(machine)
    await gpu.settle(SHARED)
    server, tenants = machine.server(), [machine.tenant(), machine.tenant()]
    await gpu.settle(SHARED)
    standin.give(machine.pipe(), f"x\n{FORGED}\n")
    await quick.until(lambda: FORGED in machine.said())
    seen = [await gpu.settle(SHARED) for _ in range(proof.LOOKS + 1)]
    assert [(each.ready, each.fault, each.actions) for each in seen] == [(True, None, ())] * len(seen)
    assert [each.unproven for each in seen] == [*[()] * proof.LOOKS, (FORGED,)]
    assert (machine.server(), [each.process.poll() for each in tenants]) == (server, [None, None])


async def test_stuck_client_is_ended_through_the_server_and_keeps_the_gpu_closed_while_it_lives(
    machine: gpu_machine.Machine,
) -> None:
    machine.control_daemon()
    time = Time()
    gpu = supervised(machine, time)
    await gpu.settle(SHARED)
    stuck = machine.tenant("--ignore-faults")
    machine.cuda("--crash").end()
    await gpu.step(SHARED)
    time.now += POLICY.terminate_seconds
    await gpu.step(SHARED)
    await quick.until(lambda: f"PID: {stuck.pid}, Context ID: 1}} terminated" in machine.said())
    assert machine.control(f"get_client_list {machine.server()}") == f"{stuck.pid}\n"
    assert not (await gpu.step(SHARED)).ready
    assert machine.said().count(f"terminate_client {machine.server()} {stuck.pid}") == 1
    stuck.process.kill()
    await quick.until(lambda: not machine.state.gpu(0).mps_processes())
    assert (await proven(gpu)).ready


async def test_stuck_client_is_named_for_eviction_after_a_longer_bound(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    time = Time()
    gpu = supervised(machine, time)
    await gpu.settle(SHARED)
    stuck = machine.tenant("--ignore-faults")
    machine.cuda("--crash").end()
    await gpu.step(SHARED)
    time.now += POLICY.evict_seconds
    decision = await gpu.step(SHARED)
    assert decision.actions == (EvictStayers(pids=frozenset({stuck.pid})),)
    stuck.process.kill()
    await quick.until(lambda: not machine.state.gpu(0).mps_processes())
    assert (await proven(gpu)).ready


async def test_server_that_dies_is_replaced_and_its_clients_are_told_as_victims(
    machine: gpu_machine.Machine,
) -> None:
    machine.control_daemon()
    gpu = supervised(machine)
    await gpu.settle(SHARED)
    tenant = machine.tenant()
    await gpu.settle(SHARED)
    os.kill(machine.server(), signal.SIGKILL)
    tenant.end()
    await quick.until(lambda: not machine.state.gpu(0).mps_processes())
    began = await gpu.step(SHARED)
    assert began.fault is not None
    assert began.fault.affected == frozenset({tenant.pid})
    assert (await proven(gpu)).ready


async def test_control_daemon_that_dies_takes_its_server_and_is_recovered_from(machine: gpu_machine.Machine) -> None:
    daemon = machine.control_daemon()
    gpu = supervised(machine)
    await gpu.settle(SHARED)
    tenant = machine.tenant()
    await gpu.settle(SHARED)
    daemon.kill()
    tenant.end()
    await quick.until(lambda: not machine.state.gpu(0).processes())
    assert (await gpu.settle(SHARED)).ready is False
    machine.control_daemon()
    assert (await proven(gpu)).ready


async def test_foreign_process_keeps_the_server_from_starting(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    foreign = machine.cuda(*gpu_machine.HOLD, mps=False)
    foreign.report()
    decision = await supervised(machine).settle(SHARED)
    assert (decision.ready, decision.actions) == (False, ())
    assert f"used by {foreign.pid}" in (decision.reason or "")


async def test_gpu_that_cannot_be_read_is_not_decided_on(machine: gpu_machine.Machine) -> None:
    class Lost(gpu_machine.MachineDriver):
        async def look(self, gpu: GPUUID) -> supervisor.Look:
            raise errors.TemporaryError(f"{gpu}: GPU is lost", delay_seconds=1)

    machine.control_daemon()
    gpu = supervisor.Supervisor(
        machine.uuid(), backend=backend(machine), driver=Lost(machine), monotonic=Time(), policy=POLICY
    )
    with pytest.raises(errors.TemporaryError, match="GPU is lost"):
        await gpu.settle(SHARED)
    assert machine.control("get_server_list") == ""


async def test_action_that_fails_is_the_reason_and_is_tried_again(machine: gpu_machine.Machine) -> None:
    class Denying(gpu_machine.MachineDriver):
        denies = True

        async def set_compute_mode(self, gpu: GPUUID, mode: ComputeMode) -> None:
            if self.denies:
                raise errors.TemporaryError("the driver refuses", delay_seconds=1)
            await super().set_compute_mode(gpu, mode)

    machine.control_daemon()
    driver = Denying(machine)
    gpu = supervisor.Supervisor(
        machine.uuid(), backend=backend(machine), driver=driver, monotonic=Time(), policy=POLICY
    )
    decision = await gpu.settle(SHARED)
    assert (decision.ready, decision.reason) == (False, "the driver refuses")
    driver.denies = False
    assert (await gpu.settle(SHARED)).ready
