"""The GPUs through the real nvidia-ml-py, over the stand-in's library."""

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pynvml
import pytest
import pytest_asyncio

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus import events, hardware, nvml, session
from cotenant_standin import building, state
from deviceplugin import fakes

QUICK = events.Timing(wait_milliseconds=50, renew_seconds=0.05, lost_seconds=0.01, retry_seconds=0.05)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> state.State:
    monkeypatch.setenv(state.FOLDER_VARIABLE, str(tmp_path))
    return state.create(tmp_path, (state.H200, state.T4))


@pytest_asyncio.fixture
async def gpus(machine: state.State) -> AsyncIterator[nvml.NVML]:
    made = nvml.NVML(library=building.nvml(), timing=QUICK)
    yield made
    await made.close()


async def test_the_driver_tells_its_versions_and_that_it_is_a_stand_in(gpus: nvml.NVML) -> None:
    assert await gpus.driver() == hardware.Driver(driver_version=state.DRIVER_VERSION, cuda_version="13.0")
    assert gpus.simulated


async def test_devices_are_told_as_feature_discovery_names_them(gpus: nvml.NVML, machine: state.State) -> None:
    first, second = await gpus.devices()
    assert first == hardware.Device(
        uuid=first.uuid, index=0, minor=0, model=first.model, memory_mib=143771, sm_count=132, compute_capability="9.0"
    )
    assert (first.uuid, first.model) == (machine.gpu(0).uuid, "NVIDIA-H200")
    assert (second.model, second.sm_count, second.mig) == ("Tesla-T4", 40, False)
    assert "nvmlDeviceGetMigMode" in gpus.untold


async def test_a_gpu_in_mig_mode_says_so(gpus: nvml.NVML, machine: state.State) -> None:
    machine.gpu(0).set("mig", 1)
    assert (await gpus.devices())[0].mig


async def test_an_sm_count_that_cannot_be_derived_is_unknown(gpus: nvml.NVML, machine: state.State) -> None:
    machine.gpu(0).set("compute_capability", "99.0")
    machine.gpu(1).unset("sm_count")
    assert [device.sm_count for device in await gpus.devices()] == [0, 0]


async def test_usage_names_every_process_once_with_all_it_holds(gpus: nvml.NVML, machine: state.State) -> None:
    gpu = machine.gpu(0)
    gpu.set("utilization", 37)
    gpu.add_process(900, 500)
    gpu.add_process(901, 10)
    gpu.add_process(901, 2048, mps=True)
    usage = (await gpus.usage())[(await gpus.devices())[0].uuid]
    assert (usage.utilization_percent, usage.memory_used_mib) == (37, 2548)
    assert usage.processes == (
        hardware.Process(pid=900, memory_mib=500),
        hardware.Process(pid=901, memory_mib=2048),
    )


async def test_usage_of_a_gpu_that_cannot_be_read_is_absent(gpus: nvml.NVML, machine: state.State) -> None:
    machine.gpu(0).unset("utilization")
    assert list(await gpus.usage()) == [machine.gpu(1).uuid]


async def test_readings_leave_out_what_an_older_gpu_does_not_tell(gpus: nvml.NVML, machine: state.State) -> None:
    readings = await gpus.readings()
    assert readings[machine.gpu(0).uuid] == hardware.Readings(  # type: ignore[index]
        recovery_action=hardware.RecoveryAction.NONE, remap_pending=False, remap_failed=False
    )
    assert readings[machine.gpu(1).uuid] == hardware.Readings()  # type: ignore[index]


@pytest.mark.parametrize(
    ("number", "action"),
    [(1, "GPU_RESET"), (2, "NODE_REBOOT"), (4, "DRAIN_AND_RESET"), (7, "SYSTEM_REBOOT"), (99, "UNKNOWN")],
)
async def test_the_recovery_action_is_told(gpus: nvml.NVML, machine: state.State, number: int, action: str) -> None:
    machine.gpu(0).set("recovery_action", number)
    assert [each.recovery_action for each in (await gpus.readings()).values()] == [action, None]


async def test_remapped_rows_are_told(gpus: nvml.NVML, machine: state.State) -> None:
    machine.gpu(0).set("remap_pending", 1)
    machine.gpu(0).set("remap_failed", 1)
    first = next(iter((await gpus.readings()).values()))
    assert (first.remap_pending, first.remap_failed) == (True, True)


async def test_a_compute_mode_that_cuda_has_no_more_is_a_fault(gpus: nvml.NVML, machine: state.State) -> None:
    machine.gpu(0).set("compute_mode", 1)
    assert next(iter((await gpus.readings()).values())).fault == "NVML: unknown compute mode 1"


async def test_a_lost_gpu_does_not_hide_the_others(gpus: nvml.NVML, machine: state.State) -> None:
    devices = await gpus.devices()
    machine.gpu(0).lose()
    assert await gpus.devices() == devices
    assert list(await gpus.usage()) == [devices[1].uuid]
    readings = await gpus.readings()
    assert [readings[device.uuid].fault for device in devices] == ["NVML: GPU is lost", None]
    machine.gpu(0).restore()
    assert [each.fault for each in (await gpus.readings()).values()] == [None, None]


async def test_a_gpu_that_was_lost_from_the_start_is_not_listed(gpus: nvml.NVML, machine: state.State) -> None:
    machine.gpu(0).lose()
    assert [device.index for device in await gpus.devices()] == [1]


@pytest.mark.parametrize("mode", list(hardware.ComputeMode))
async def test_the_compute_mode_is_set(gpus: nvml.NVML, machine: state.State, mode: hardware.ComputeMode) -> None:
    (_, second) = await gpus.devices()
    await gpus.set_compute_mode(second.uuid, mode)
    assert (await gpus.readings())[second.uuid].compute_mode is mode
    assert machine.gpu(1).compute_mode.name == mode


async def test_a_refused_compute_mode_is_told_in_the_drivers_words(gpus: nvml.NVML, machine: state.State) -> None:
    machine.gpu(0).set("denied", "")
    first = (await gpus.devices())[0].uuid
    with pytest.raises(errors.TemporaryError, match=r"refuses compute mode DEFAULT .* Insufficient Permissions"):
        await gpus.set_compute_mode(first, hardware.ComputeMode.DEFAULT)


@pytest.mark.parametrize("call", ["driver", "devices", "usage", "readings"])
async def test_without_a_driver_every_question_is_worth_another_try(
    gpus: nvml.NVML, machine: state.State, call: str
) -> None:
    machine.unload()
    with pytest.raises(errors.TemporaryError, match="driver cannot be asked"):
        await getattr(gpus, call)()
    machine.load()
    assert await getattr(gpus, call)()


async def test_a_driver_that_goes_and_comes_back_is_asked_anew(gpus: nvml.NVML, machine: state.State) -> None:
    devices = await gpus.devices()
    machine.unload()
    with pytest.raises(errors.TemporaryError):
        await gpus.devices()
    with pytest.raises(errors.TemporaryError):
        await gpus.set_compute_mode(devices[0].uuid, hardware.ComputeMode.DEFAULT)
    machine.load()
    assert await gpus.devices() == devices


async def test_a_driver_that_was_replaced_between_two_questions_is_asked_anew(
    gpus: nvml.NVML, machine: state.State
) -> None:
    devices = await gpus.devices()
    machine.load()
    with pytest.raises(errors.TemporaryError):
        await gpus.devices()
    assert await gpus.devices() == devices


async def test_a_driver_that_hangs_stops_nobody_but_who_asks(machine: state.State) -> None:
    gpus = nvml.NVML(library=building.nvml(), call_seconds=0.05)
    await gpus.devices()
    machine.stall()
    with pytest.raises(errors.TemporaryError, match="has not answered for"):
        await gpus.devices()
    with pytest.raises(errors.TemporaryError, match="still does not answer"):
        await gpus.readings()
    machine.resume()

    async def answered() -> bool:
        await asyncio.sleep(0.01)
        try:
            return len(await gpus.devices()) == 2
        except errors.TemporaryError:
            return False

    await until(answered)
    await gpus.close()


class Holding:
    """Holds the calls about one GPU until they are let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, gpu: str) -> None:
        self._open, by_uuid = threading.Event(), pynvml.nvmlDeviceGetHandleByUUID
        self._open.set()

        def handle(uuid: str) -> object:
            if uuid == gpu:
                self._open.wait()
            return by_uuid(uuid)

        monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", handle)

    def __enter__(self) -> None:
        self._open.clear()

    def __exit__(self, *_: object) -> None:
        self._open.set()


async def test_a_gpu_that_hangs_keeps_no_other_gpu_from_being_asked(
    machine: state.State, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = nvml.NVML(library=building.nvml(), gpu_seconds=0.5)
    first, second = [device.uuid for device in await gpus.devices()]
    with Holding(monkeypatch, first):
        for said in ("has not answered for", "still does not answer"):
            readings = await gpus.readings()
            assert said in (readings[first].fault or "")
            assert (readings[second].fault, list(await gpus.usage())) == (None, [second])
            assert [device.uuid for device in await gpus.devices()] == [first, second]
            await gpus.set_compute_mode(second, hardware.ComputeMode.EXCLUSIVE_PROCESS)
    await gpus.close()


async def test_a_question_about_one_gpu_does_not_wait_for_another(
    machine: state.State, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = nvml.NVML(library=building.nvml(), gpu_seconds=600)
    first, second = [device.uuid for device in await gpus.devices()]
    with Holding(monkeypatch, first):
        waiting = [asyncio.create_task(gpus.readings_of(first)), asyncio.create_task(gpus.usage_of(first))]
        assert await gpus.readings_of(second) == hardware.Readings()
        assert (await gpus.usage_of(second)).processes == ()
        assert not any(task.done() for task in waiting)
    assert all(await asyncio.gather(*waiting))
    await gpus.close()


async def test_a_question_about_all_takes_the_last_answer_of_a_gpu_that_is_late(
    machine: state.State, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = nvml.NVML(library=building.nvml(), gpu_seconds=600, late_seconds=0.01)
    first, second = [device.uuid for device in await gpus.devices()]
    holding = Holding(monkeypatch, first)
    assert [each.processes for each in (await gpus.usage()).values()] == [(), ()]
    with holding:
        for index in (0, 1):
            machine.gpu(index).add_process(900, 500)

        async def told() -> bool:
            found = await gpus.usage()
            return (len(found[first].processes), len(found[second].processes)) == (0, 1)

        await until(told)
        # Another one of a GPU that is late is not added to the first.
        assert [device.uuid for device in await gpus.devices()] == [first, second]

    async def caught_up() -> bool:
        return len((await gpus.usage())[first].processes) == 1

    await until(caught_up)
    await gpus.close()


async def test_a_gpu_that_the_driver_does_not_list_has_no_readings(gpus: nvml.NVML) -> None:
    assert await gpus.readings_of(GPUUID("GPU-elsewhere")) is None
    with pytest.raises(errors.TemporaryError, match="the driver does not list it"):
        await gpus.usage_of(GPUUID("GPU-elsewhere"))


async def test_processes_of_a_gpu_that_is_lost_are_not_known(gpus: nvml.NVML, machine: state.State) -> None:
    first = (await gpus.devices())[0].uuid
    machine.gpu(0).lose()
    with pytest.raises(errors.TemporaryError, match="cannot be read: GPU is lost"):
        await gpus.usage_of(first)


async def test_a_library_that_is_not_there_yet_is_worth_another_try(tmp_path: Path) -> None:
    gpus = nvml.NVML(library=tmp_path / "libnvidia-ml.so.1")
    with pytest.raises(errors.TemporaryError, match="No such file"):
        await gpus.devices()
    assert not gpus.simulated
    await gpus.close()


def test_a_machine_without_nvidias_library_is_worth_another_try() -> None:
    program = (
        "import asyncio\n"
        "from cotenant_api import errors\n"
        "from cotenant_deviceplugin.gpus import nvml\n"
        "try:\n"
        "    asyncio.run(nvml.NVML().devices())\n"
        "except errors.TemporaryError as error:\n"
        "    print(error)\n"
    )
    environment = {"LD_LIBRARY_PATH": "/nonexistent"}
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert "the NVIDIA driver cannot be asked" in told.stdout


def test_the_linker_finds_the_library_by_its_path_variable(machine: state.State) -> None:
    program = "import asyncio\nfrom cotenant_deviceplugin.gpus import nvml\nprint(asyncio.run(nvml.NVML().driver()))\n"
    environment = {"LD_LIBRARY_PATH": str(building.nvml().parent), state.FOLDER_VARIABLE: str(machine.root)}
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert state.DRIVER_VERSION in told.stdout


class Listening:
    """Iterates events in the background."""

    def __init__(self, gpus: nvml.NVML) -> None:
        self.seen: list[hardware.XIDEvent] = []
        self._task = asyncio.create_task(self._listen(gpus))

    async def _listen(self, gpus: nvml.NVML) -> None:
        stream = gpus.events()
        try:
            async for event in stream:
                self.seen.append(event)
        finally:
            await stream.aclose()  # type: ignore[attr-defined]

    async def end(self) -> None:
        """Stop."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def raised_until_seen(self, machine: state.State, index: int, xid: int) -> None:
        """Registration takes a moment that nobody tells: raise it until it is seen."""

        async def again() -> bool:
            machine.raise_xid(index, xid)
            await asyncio.sleep(0.02)
            return any(event.xid == xid for event in self.seen)

        await until(again)


async def until(done: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await done():
            pass


@pytest_asyncio.fixture
async def listening(gpus: nvml.NVML) -> AsyncIterator[Listening]:
    listens = Listening(gpus)
    yield listens
    await listens.end()


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 79, 109, 94, 12345])
async def test_every_xid_is_told_with_its_gpu(listening: Listening, machine: state.State, xid: int) -> None:
    await listening.raised_until_seen(machine, 1, xid)
    assert {event.uuid for event in listening.seen} == {machine.gpu(1).uuid}


async def test_questions_are_answered_while_events_are_waited_for(
    listening: Listening, gpus: nvml.NVML, machine: state.State
) -> None:
    await listening.raised_until_seen(machine, 0, 31)
    assert len(await gpus.devices()) == 2


async def test_events_survive_a_driver_that_goes_and_comes_back(
    listening: Listening, gpus: nvml.NVML, machine: state.State
) -> None:
    await listening.raised_until_seen(machine, 0, 31)
    machine.unload()
    with pytest.raises(errors.TemporaryError):
        await gpus.devices()
    machine.load()
    await listening.raised_until_seen(machine, 0, 48)
    assert len(await gpus.devices()) == 2


async def test_events_of_the_others_are_told_while_a_gpu_is_lost(listening: Listening, machine: state.State) -> None:
    await listening.raised_until_seen(machine, 0, 31)
    machine.raise_xid(0, 79)
    machine.gpu(0).lose()
    await listening.raised_until_seen(machine, 1, 13)
    assert 79 in {event.xid for event in listening.seen}
    machine.gpu(0).restore()
    await listening.raised_until_seen(machine, 0, 32)


async def test_a_gpu_without_events_is_read_nevertheless(
    listening: Listening, gpus: nvml.NVML, machine: state.State
) -> None:
    machine.gpu(0).set("no_events", "")
    await listening.raised_until_seen(machine, 1, 31)
    assert len(await gpus.readings()) == 2


async def test_gpus_that_all_tell_no_events_are_asked_again(
    gpus: nvml.NVML, machine: state.State, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="cotenant_deviceplugin.gpus.events")
    for gpu in machine.gpus():
        gpu.set("no_events", "")
    listens = Listening(gpus)

    async def watched() -> bool:
        await asyncio.sleep(0.01)
        return all(f"GPU {index} tells no events" in caplog.text for index in (0, 1))

    await until(watched)
    machine.gpu(0).unset("no_events")
    await listens.raised_until_seen(machine, 0, 31)
    await listens.end()


async def test_whoever_stops_iterating_leaves_no_thread(gpus: nvml.NVML, machine: state.State) -> None:
    listens = Listening(gpus)
    await listens.raised_until_seen(machine, 0, 31)
    await listens.end()

    async def left() -> bool:
        await asyncio.sleep(0.01)
        return not [thread for thread in threading.enumerate() if thread.name.startswith("nvml-events")]

    await until(left)


async def test_a_gpu_that_hangs_while_it_is_registered_keeps_no_other_unheard(
    gpus: nvml.NVML, machine: state.State, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, by_index = threading.Event(), pynvml.nvmlDeviceGetHandleByIndex

    def handle(index: int) -> object:
        if index == 1 and threading.current_thread().name.startswith("nvml-events"):
            hanging.wait()
        return by_index(index)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", handle)
    listens = Listening(gpus)
    try:
        await listens.raised_until_seen(machine, 0, 48)
        await listens.end()
    finally:
        hanging.set()


@pytest.mark.parametrize(
    ("registering_seconds", "waiting_seconds", "late"), [(0, 0.05, False), (3, 0, True), (0, 3, True)]
)
def test_an_event_that_nobody_listened_for_is_told_as_late(
    machine: state.State,
    monkeypatch: pytest.MonkeyPatch,
    registering_seconds: float,
    waiting_seconds: float,
    late: bool,
) -> None:
    time, stop, told = fakes.Clockwork(), threading.Event(), list[hardware.XIDEvent]()
    register, wait = pynvml.nvmlDeviceRegisterEvents, pynvml.nvmlEventSetWait_v2

    def registered(*arguments: object) -> object:
        time.seconds += registering_seconds
        return register(*arguments)

    def waited(events_of: object, timeout_milliseconds: int) -> object:
        if not told:
            machine.raise_xid(0, 48)
            time.seconds += waiting_seconds
        return wait(events_of, timeout_milliseconds)

    def deliver(event: hardware.XIDEvent) -> None:
        told.append(event)
        stop.set()

    monkeypatch.setattr(pynvml, "nvmlDeviceRegisterEvents", registered)
    monkeypatch.setattr(pynvml, "nvmlEventSetWait_v2", waited)
    used = session.Session(library=building.nvml())
    watch = events.Watch(used, 0, deliver=deliver, stop=stop, timing=QUICK)
    monkeypatch.setattr("time.monotonic", time.now)
    watch.run()
    used.close()
    assert told == [hardware.XIDEvent(uuid=GPUUID(machine.gpu(0).uuid), xid=48, late=late)]


async def test_what_breaks_the_thread_is_handed_over(machine: state.State) -> None:
    failed: list[BaseException] = []
    stop = threading.Event()

    def break_it(event: hardware.XIDEvent) -> None:
        raise ValueError(event.xid)

    used = session.Session(library=building.nvml())
    watch = events.Watch(used, 0, deliver=break_it, stop=stop, timing=QUICK)
    thread = threading.Thread(target=watch.run_to_the_end, args=(failed.append,))
    thread.start()

    async def broken() -> bool:
        machine.raise_xid(0, 31)
        await asyncio.sleep(0.02)
        return bool(failed)

    await until(broken)
    thread.join()
    used.close()
    assert str(failed[0]) == "31"


async def test_whoever_iterates_events_is_told_when_the_thread_broke(machine: state.State) -> None:
    nonsense = events.Timing(wait_milliseconds="soon")  # type: ignore[arg-type]
    gpus = nvml.NVML(library=building.nvml(), timing=nonsense)
    stream = gpus.events()
    with pytest.raises(TypeError):
        await anext(aiter(stream))
    await gpus.close()
