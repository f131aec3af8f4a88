"""The gate before the GPUs, and the machines behind it: modes and MPS servers of all GPUs."""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant_api import errors, gpunode, placement
from cotenant_api.names import GPUUID, Namespace, PodUID
from cotenant_deviceplugin.binding.grants import Grant
from cotenant_deviceplugin.gpus.hardware import ComputeMode, Readings
from cotenant_deviceplugin.gpus.processes import Processes
from cotenant_deviceplugin.mps import proof, supervision
from cotenant_deviceplugin.mps.backend import Server
from cotenant_deviceplugin.node import looks, machines, usage
from cotenant_deviceplugin.node.gate import WHOLE_EDITS, Gate
from cotenant_deviceplugin.node.strangers import Strangers
from cotenant_deviceplugin.pods import Refusal
from deviceplugin import fakes
from node_kit import quick
from node_kit.whole_node import CONTAINER_UID, SERVER_PID, MemoryGPUs, MemoryModes, MemoryMPS

LOG = logging.getLogger("test")
UID = CONTAINER_UID.format(1)


def grant(gpu: GPUUID, *, backend: str = "MPS", share: int = 30, uid: str = UID) -> Grant:
    value = fakes.placement(fakes.PodSpec(uid=uid, backend=backend, booked=share))
    value["gpus"][0]["uuid"] = gpu
    booked = placement.Placement.from_object(value, source="test")
    return Grant(pod_uid=PodUID(uid), namespace=Namespace("team"), pod="train", container="main", booked=booked)


class Bench:
    """Machines over hardware and MPS in memory, and the gate before them. `proc`: of processes that live."""

    def __init__(self, proc: Path = Path("/nowhere")) -> None:
        self.time = fakes.Clockwork()
        self.gpus = MemoryGPUs(2)
        self.mps = MemoryMPS()
        self.standing: list[Grant] = []
        self.unfit = False
        self.reserved: gpunode.Mode | None = None
        self.given_back = False
        self.own: frozenset[int] = frozenset()
        self.ill: str | None = None
        self.took: list[supervision.Decision] = []
        doors = machines.Doors(
            tenants=lambda gpu: tuple(each for each in self.standing if each.booked.gpus[0].uuid == gpu),
            unfit=lambda: self.unfit,
            reserved=lambda _: self.reserved,
            given_back=lambda _: self.given_back,
            took=lambda _gpu, _before, decision: self.took.append(decision),
        )
        remembering = looks.Remembering(self.mps)
        self.modes = MemoryModes()
        self.looks = looks.Looks(self.gpus, self.modes, own=lambda: self.own)
        self.machines = machines.Machines(
            remembering, self.looks, doors=doors, monotonic=self.time.now, policy=supervision.Policy()
        )
        self.machines.know([device.uuid for device in self.gpus.listed])
        devices = {device.uuid: device for device in self.gpus.listed}
        sampled = usage.Sampled(
            self.gpus,
            Processes(proc=proc),
            ours=self.machines.server_pids,
            clients=self.machines.seen_clients,
            monotonic=self.time.now,
        )
        self.strangers = Strangers(sampled, doors.tenants)
        self.gate = Gate(
            device=devices.get,
            unhealthy=lambda _: self.ill,
            machines=self.machines,
            mps=remembering,
            strangers=self.strangers,
        )

    @property
    def gpu(self) -> GPUUID:
        """The first."""
        return self.gpus.listed[0].uuid


# The gate


async def test_a_part_of_a_gpu_gets_pipe_and_limits() -> None:
    bench = Bench()
    bench.standing = [grant(bench.gpu)]
    edits = await bench.gate.admit(bench.standing[0], new=True)
    assert edits.environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=8000M"
    assert bench.gpus.states[bench.gpu].compute_mode is ComputeMode.EXCLUSIVE_PROCESS


async def test_a_whole_gpu_gets_neither() -> None:
    bench = Bench()
    bench.standing = [grant(bench.gpu, backend="Whole", share=100)]
    assert await bench.gate.admit(bench.standing[0], new=True) == WHOLE_EDITS


async def test_a_gpu_that_the_node_has_not_is_refused_for_good() -> None:
    with pytest.raises(errors.PermanentError, match=Refusal.UNKNOWN_GPU):
        await Bench().gate.admit(grant(GPUUID("GPU-elsewhere")), new=True)


async def test_a_gpu_in_mig_mode_is_refused_for_good() -> None:
    bench = Bench()
    device = replace(bench.gpus.listed[0], mig=True)
    gate = Gate(
        device=lambda _: device,
        unhealthy=lambda _: None,
        machines=bench.machines,
        mps=bench.mps,
        strangers=bench.strangers,
    )
    with pytest.raises(errors.PermanentError, match=Refusal.GPU_NOT_SERVED):
        await gate.admit(grant(bench.gpu), new=True)


async def test_a_part_of_a_gpu_whose_threads_mps_cannot_limit_is_refused_for_good() -> None:
    bench = Bench()
    device = replace(bench.gpus.listed[0], compute_capability="6.1")
    gate = Gate(
        device=lambda _: device,
        unhealthy=lambda _: None,
        machines=bench.machines,
        mps=bench.mps,
        strangers=bench.strangers,
    )
    with pytest.raises(errors.PermanentError, match=r"GPUNotServed: .* limits no threads on compute capability 6\.1"):
        await gate.admit(grant(bench.gpu), new=True)


async def test_an_ill_gpu_is_refused_for_now() -> None:
    bench = Bench()
    bench.ill = "the GPU is Suspect"
    with pytest.raises(errors.TemporaryError, match="Suspect"):
        await bench.gate.admit(grant(bench.gpu), new=True)


async def test_a_server_that_does_not_start_is_refused_for_now() -> None:
    bench = Bench()
    bench.mps.daemons = False
    bench.standing = [grant(bench.gpu)]
    with pytest.raises(errors.TemporaryError, match="mode Shared: no control daemon"):
        await bench.gate.admit(bench.standing[0], new=True)


async def test_a_process_in_the_way_of_another_mode_is_refused_for_now() -> None:
    bench = Bench()
    await bench.machines.settle(bench.gpu)
    bench.gpus.processes[bench.gpu] = {SERVER_PID: 30, 77: 10}
    bench.standing = [grant(bench.gpu, backend="Whole", share=100)]
    with pytest.raises(errors.TemporaryError, match="77"):
        await bench.gate.admit(bench.standing[0], new=True)


async def test_a_part_of_a_gpu_that_another_has_whole_is_refused_for_now() -> None:
    bench = Bench()
    bench.standing = [grant(bench.gpu, backend="Whole", share=100, uid=CONTAINER_UID.format(2)), grant(bench.gpu)]
    with pytest.raises(errors.TemporaryError, match="other tenants have it in mode Whole"):
        await bench.gate.admit(grant(bench.gpu), new=True)


async def test_only_a_new_tenant_is_kept_from_a_gpu_with_a_process_that_nobody_explains(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.machines.settle(bench.gpu)
    bench.standing = [grant(bench.gpu)]
    (tmp_path / "77").mkdir()
    (tmp_path / "77" / "cgroup").write_text(f"0::/kubepods/pod{CONTAINER_UID.format(3)}/abc\n")
    bench.gpus.processes[bench.gpu] = {77: 10}
    with pytest.raises(errors.TemporaryError, match="no tenant explains its processes 77"):
        await bench.gate.admit(grant(bench.gpu, uid=CONTAINER_UID.format(2)), new=True)
    assert (await bench.gate.admit(bench.standing[0], new=False)).mounts


# Machines


async def test_a_gpu_that_is_not_ours_to_manage_is_left_as_it_is() -> None:
    bench = Bench()
    bench.reserved = gpunode.Mode.EXCLUDED
    decision = await bench.machines.settle(bench.gpu)
    assert (decision.published, bench.mps.servers.get(bench.gpu)) == (
        gpunode.MPS.NOT_USED,
        bench.mps.servers[bench.gpu],
    )
    assert bench.mps.pid(bench.gpu) is None
    assert bench.gpus.states[bench.gpu].compute_mode is ComputeMode.DEFAULT


@pytest.mark.parametrize("before", [ComputeMode.DEFAULT, ComputeMode.PROHIBITED])
async def test_a_gpu_that_is_given_back_is_what_it_was_before(before: ComputeMode) -> None:
    bench = Bench()
    bench.gpus.states[bench.gpu] = Readings(compute_mode=before)
    await bench.machines.settle(bench.gpu)
    assert bench.gpus.states[bench.gpu].compute_mode is ComputeMode.EXCLUSIVE_PROCESS
    bench.reserved, bench.given_back = gpunode.Mode.EXCLUDED, True
    decision = await bench.machines.settle(bench.gpu)
    assert (decision.published, bench.mps.pid(bench.gpu)) == (gpunode.MPS.NOT_USED, None)
    assert (bench.gpus.states[bench.gpu].compute_mode, bench.modes.kept) == (before, {})


async def test_a_gpu_that_was_never_taken_is_left_as_it_is_when_it_is_given_back() -> None:
    bench = Bench()
    bench.reserved, bench.given_back = gpunode.Mode.EXCLUDED, True
    bench.gpus.states[bench.gpu] = Readings(compute_mode=ComputeMode.EXCLUSIVE_PROCESS)
    assert (await bench.machines.settle(bench.gpu)).published is gpunode.MPS.NOT_USED
    assert bench.gpus.states[bench.gpu].compute_mode is ComputeMode.EXCLUSIVE_PROCESS


async def test_a_gpu_is_not_given_back_under_a_process_that_uses_it() -> None:
    bench = Bench()
    await bench.machines.settle(bench.gpu)
    bench.gpus.processes[bench.gpu] = {77: 10}
    bench.reserved, bench.given_back = gpunode.Mode.EXCLUDED, True
    decision = await bench.machines.settle(bench.gpu)
    assert (decision.published, decision.reason, decision.actions) == (gpunode.MPS.ACTIVE, "used by 77", ())
    bench.gpus.processes[bench.gpu] = {}
    assert (await bench.machines.settle(bench.gpu)).published is gpunode.MPS.NOT_USED


async def test_a_tenant_is_served_on_though_its_gpu_is_excluded() -> None:
    bench = Bench()
    bench.reserved = gpunode.Mode.EXCLUDED
    bench.standing = [grant(bench.gpu)]
    assert bench.machines.wanted(bench.gpu) is gpunode.Mode.SHARED


async def test_nothing_is_changed_under_a_driver_that_is_too_old_though_tenants_stand() -> None:
    bench = Bench()
    bench.standing, bench.unfit = [grant(bench.gpu)], True
    decision = await bench.machines.step(bench.gpu)
    assert (decision.ready, decision.actions) == (False, ())
    assert bench.gpus.states[bench.gpu].compute_mode is ComputeMode.DEFAULT


async def test_a_fault_is_taken_in_though_whoever_waited_has_given_up() -> None:
    """What a daemon says is read once."""
    bench = Bench()
    bench.standing = [grant(bench.gpu)]
    await bench.machines.settle(bench.gpu)
    await seen(bench, occupied(51))
    bench.machines.heard(bench.gpu)
    bench.mps.put(bench.gpu, occupied(said="fatal"))
    bench.mps.silent[bench.gpu] = asyncio.Event()
    before = bench.mps.asked[bench.gpu]
    waiting = asyncio.create_task(bench.machines.settle(bench.gpu))
    await quick.until(lambda: bench.mps.asked[bench.gpu] > before)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    bench.mps.silent[bench.gpu].set()
    await quick.until(lambda: any(each.fault for each in bench.took))


async def test_a_calm_gpu_is_looked_at_rarely_and_at_once_when_something_happens() -> None:
    bench = Bench()
    for gpu in bench.machines.due():
        await bench.machines.settle(gpu)
    assert bench.machines.due() == ()
    bench.mps.put(bench.gpu, Server(state=gpunode.MPS.FAULT, pid=SERVER_PID))
    assert bench.machines.due() == (bench.gpu,)
    await bench.machines.step(bench.gpu)
    bench.standing = [grant(bench.gpus.listed[1].uuid, backend="Whole", share=100)]
    assert bench.machines.due() == (bench.gpus.listed[1].uuid,)
    bench.time.seconds += machines.CALM_SECONDS
    assert set(bench.machines.due()) == {device.uuid for device in bench.gpus.listed}


def occupied(*clients: int, said: str | None = None) -> Server:
    """A server with clients; `said`: by its daemon."""
    return Server(state=gpunode.MPS.ACTIVE, pid=SERVER_PID, clients=clients, faults=() if said is None else (said,))


async def seen(bench: Bench, server: Server) -> supervision.Decision:
    """One look at a server."""
    bench.mps.put(bench.gpu, server)
    return await bench.machines.step(bench.gpu)


async def test_a_gpu_of_which_a_fault_is_told_is_looked_at_again_soon_and_not_for_ever() -> None:
    bench = Bench()
    for gpu in bench.machines.due():
        await bench.machines.settle(gpu)
    assert (await seen(bench, occupied(51, said="fatal"))).ready
    for _ in range(proof.LOOKS):
        assert bench.machines.due() == ()
        bench.time.seconds += machines.BUSY_SECONDS
        assert bench.machines.due() == (bench.gpu,)
        decision = await bench.machines.step(bench.gpu)
    assert (decision.unproven, decision.ready) == (("fatal",), True)
    bench.time.seconds += machines.BUSY_SECONDS
    assert bench.machines.due() == ()


@pytest.mark.parametrize("about_all", [True, False])
async def test_a_fault_that_is_told_is_one_where_the_driver_tells_of_an_event(*, about_all: bool) -> None:
    bench = Bench()
    await bench.machines.settle(bench.gpu)
    await seen(bench, occupied(51))
    bench.machines.heard(bench.gpus.listed[1].uuid)
    assert (await seen(bench, occupied(51, said="fatal"))).fault is None
    bench.machines.heard(None if about_all else bench.gpu)
    assert (await seen(bench, occupied(51))).fault is not None


async def test_what_a_daemon_says_is_not_lost_while_the_driver_cannot_be_asked() -> None:
    bench = Bench()
    await bench.machines.settle(bench.gpu)
    bench.mps.put(bench.gpu, occupied(51, said="fatal"))
    bench.gpus.there = False
    with pytest.raises(errors.TemporaryError):
        await bench.machines.step(bench.gpu)
    bench.gpus.there = True
    bench.machines.heard(bench.gpu)
    assert (await bench.machines.step(bench.gpu)).fault is not None


@pytest.mark.parametrize("canary", [True, False])
async def test_a_client_of_the_agents_own_or_that_it_ended_shows_no_fault(*, canary: bool) -> None:
    bench = Bench()
    await bench.machines.settle(bench.gpu)
    bench.own = frozenset({51}) if canary else frozenset()
    await seen(bench, occupied(51))
    if not canary:
        await bench.machines.terminate(bench.gpu, 51)
    bench.own = frozenset()
    assert (await seen(bench, occupied(said="fatal"))).fault is None
    await seen(bench, occupied(52))
    assert (await seen(bench, occupied(said="fatal"))).fault is not None


async def test_what_a_server_says_of_its_gpus_health() -> None:
    bench = Bench()
    assert bench.machines.evidence(bench.gpu) is gpunode.MPS.STOPPED
    await bench.machines.settle(bench.gpu)
    assert bench.machines.evidence(bench.gpu) is gpunode.MPS.ACTIVE
    bench.mps.daemons = False
    bench.mps.servers.pop(bench.gpu)
    await bench.machines.step(bench.gpu)
    assert bench.machines.evidence(bench.gpu) is gpunode.MPS.NOT_USED
    bench.time.seconds += machines.PATIENCE_SECONDS
    await bench.machines.step(bench.gpu)
    assert bench.machines.evidence(bench.gpu) in {gpunode.MPS.STARTING, gpunode.MPS.STOPPED}


async def test_a_driver_that_is_away_is_a_temporary_matter() -> None:
    bench = Bench()
    bench.gpus.there = False
    with pytest.raises(errors.TemporaryError):
        await bench.machines.step(bench.gpu)


async def test_a_gpu_that_nobody_knows_is_a_temporary_matter() -> None:
    with pytest.raises(errors.TemporaryError, match="not known yet"):
        await Bench().machines.settle(GPUUID("GPU-elsewhere"))


async def test_a_gpu_that_cannot_be_read_is_not_touched() -> None:
    bench = Bench()
    bench.gpus.states[bench.gpu] = Readings(fault="GPU is lost")
    with pytest.raises(errors.TemporaryError, match="GPU is lost"):
        await bench.looks.look(bench.gpu)
    del bench.gpus.states[bench.gpu]
    with pytest.raises(errors.TemporaryError, match="cannot be read"):
        await bench.looks.look(bench.gpu)


async def test_a_look_is_never_older_than_its_asking_and_is_shared_by_all_who_ask_meanwhile() -> None:
    bench, gpu = Bench(), MemoryGPUs(2).listed[0].uuid
    asked, answering = 0, asyncio.Event()

    async def readings(gpu: GPUUID) -> Readings | None:
        nonlocal asked
        asked += 1
        seen = bench.gpus.states[gpu]
        await answering.wait()
        return seen

    bench.gpus.readings_of = readings  # type: ignore[method-assign]
    first = asyncio.create_task(bench.looks.look(gpu))
    await fakes.settled()
    bench.gpus.states[gpu] = Readings(compute_mode=ComputeMode.PROHIBITED)
    later = [asyncio.create_task(bench.looks.look(gpu)) for _ in range(2)]
    await fakes.settled()
    answering.set()
    assert (await first).compute_mode is ComputeMode.DEFAULT
    assert [(await each).compute_mode for each in later] == [ComputeMode.PROHIBITED] * 2
    assert asked == 2


async def test_a_gpu_whose_processes_cannot_be_read_is_not_active_on_what_was_seen_before() -> None:
    bench = Bench()
    bench.standing = [grant(bench.gpu)]
    await bench.machines.settle(bench.gpu)
    assert (await bench.machines.step(bench.gpu)).ready
    assert bench.machines.evidence(bench.gpu) is gpunode.MPS.ACTIVE
    held = bench.gpus.processes.pop(bench.gpu)
    with pytest.raises(errors.TemporaryError, match="cannot be read"):
        await bench.machines.step(bench.gpu)
    assert await bench.machines.provable(bench.gpu) is None
    bench.time.seconds += machines.PATIENCE_SECONDS
    assert bench.machines.evidence(bench.gpu) is gpunode.MPS.STARTING
    bench.gpus.processes[bench.gpu] = held
    await bench.machines.step(bench.gpu)
    assert bench.machines.evidence(bench.gpu) is gpunode.MPS.ACTIVE


async def test_nothing_is_left_to_be_done_by_a_decision_once_the_driver_cannot_be_asked() -> None:
    bench = Bench()
    await bench.machines.settle(bench.gpu)
    await seen(bench, replace(occupied(51), state=gpunode.MPS.FAULT))
    bench.time.seconds += supervision.Policy().evict_seconds
    bench.gpus.processes[bench.gpu] = {51: 1}
    decided = await seen(bench, replace(occupied(51), state=gpunode.MPS.FAULT))
    assert bench.machines.decision(bench.gpu) is decided
    assert decided.actions
    bench.gpus.there = False
    with pytest.raises(errors.TemporaryError):
        await bench.machines.step(bench.gpu)
    last = bench.machines.decision(bench.gpu)
    assert last is not None
    assert (last.actions, last.blocking) == ((), frozenset())
