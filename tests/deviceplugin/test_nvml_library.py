"""The stand-in's library under the unmodified nvidia-ml-py: each behaviour as NVIDIA's documentation has it."""

import ctypes
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from cotenant_standin import building, state


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[state.State]:
    monkeypatch.setenv(state.FOLDER_VARIABLE, str(tmp_path))
    ctypes.CDLL(str(building.nvml()), mode=ctypes.RTLD_GLOBAL)
    made = state.create(tmp_path, (state.H200, state.T4))
    pynvml.nvmlInit()
    yield made
    pynvml.nvmlShutdown()


@pytest.fixture
def gpu(machine: state.State) -> Any:
    return pynvml.nvmlDeviceGetHandleByIndex(0)


@pytest.fixture
def old_gpu(machine: state.State) -> Any:
    return pynvml.nvmlDeviceGetHandleByIndex(1)


def test_the_library_names_itself_a_stand_in(machine: state.State) -> None:
    assert "stand-in" in pynvml.nvmlSystemGetDriverVersion()
    assert "stand-in" in pynvml.nvmlSystemGetNVMLVersion()
    assert pynvml.nvmlSystemGetCudaDriverVersion_v2() == 13000


def test_initialisations_are_counted(machine: state.State) -> None:
    pynvml.nvmlInit()
    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetCount() == 2


def test_calls_without_initialisation_are_refused(machine: state.State) -> None:
    pynvml.nvmlShutdown()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlShutdown()
    pynvml.nvmlInit()


def test_without_a_driver_there_is_no_initialisation(machine: state.State) -> None:
    machine.unload()
    with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
        pynvml.nvmlInit()


def test_a_session_outlives_no_driver(machine: state.State) -> None:
    machine.unload()
    machine.load()
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlDeviceGetCount()
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == 2


def test_a_gpu_says_what_it_is(gpu: Any, machine: state.State) -> None:
    assert pynvml.nvmlDeviceGetName(gpu) == "NVIDIA H200"
    assert pynvml.nvmlDeviceGetUUID(gpu) == machine.gpu(0).uuid
    assert (pynvml.nvmlDeviceGetIndex(gpu), pynvml.nvmlDeviceGetMinorNumber(gpu)) == (0, 0)
    assert pynvml.nvmlDeviceGetPciInfo_v3(gpu).busId == "00000000:01:00.0"
    assert pynvml.nvmlDeviceGetCudaComputeCapability(gpu) == (9, 0)
    assert pynvml.nvmlDeviceGetNumGpuCores(gpu) == 132 * 128


@pytest.mark.parametrize(("capability", "lanes"), [("6.0", 64), ("7.0", 64), ("7.5", 64), ("8.0", 64), ("8.9", 128)])
def test_cores_follow_from_the_compute_capability(gpu: Any, machine: state.State, capability: str, lanes: int) -> None:
    machine.gpu(0).set("compute_capability", capability)
    assert pynvml.nvmlDeviceGetNumGpuCores(gpu) == 132 * lanes


def test_attributes_are_told_of_mig_devices_alone(gpu: Any) -> None:
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetAttributes_v2(gpu)


def test_a_gpu_is_found_by_its_uuid(old_gpu: Any, machine: state.State) -> None:
    found = pynvml.nvmlDeviceGetHandleByUUID(machine.gpu(1).uuid)
    assert pynvml.nvmlDeviceGetIndex(found) == 1
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetHandleByUUID("GPU-none")


def test_there_is_no_gpu_beyond_the_last(machine: state.State) -> None:
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetHandleByIndex(2)


def test_a_lost_gpu_is_counted_and_answers_nothing_else(gpu: Any, machine: state.State) -> None:
    machine.gpu(0).lose()
    assert pynvml.nvmlDeviceGetCount() == 2
    for call in (pynvml.nvmlDeviceGetName, pynvml.nvmlDeviceGetUUID, pynvml.nvmlDeviceGetComputeMode):
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            call(gpu)
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetHandleByUUID(machine.gpu(0).uuid)


def test_memory_is_told_in_both_versions(gpu: Any, machine: state.State) -> None:
    machine.gpu(0).add_process(77, 100)
    for memory in (pynvml.nvmlDeviceGetMemoryInfo(gpu), pynvml.nvmlDeviceGetMemoryInfo(gpu, pynvml.nvmlMemory_v2)):
        assert (memory.total >> 20, memory.used >> 20, memory.free >> 20) == (143771, 100, 143671)
    with pytest.raises(pynvml.NVMLError, match=r"version|mismatch|Unknown"):
        pynvml.nvmlDeviceGetMemoryInfo(gpu, 1)


def test_memory_in_use_is_never_more_than_there_is(gpu: Any, machine: state.State) -> None:
    machine.gpu(0).add_process(77, 10**9)
    assert pynvml.nvmlDeviceGetMemoryInfo(gpu).free == 0


def test_processes_are_listed_by_what_they_have(gpu: Any, machine: state.State) -> None:
    for pid in range(100, 150):
        machine.gpu(0).add_process(pid, 1)
    machine.gpu(0).add_process(7, 3, mps=True)
    (client,) = pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3(gpu)
    assert (client.pid, client.usedGpuMemory) == (7, 3 << 20)
    assert sorted(each.pid for each in pynvml.nvmlDeviceGetComputeRunningProcesses_v3(gpu)) == [*range(100, 150)]
    assert pynvml.nvmlDeviceGetMemoryInfo(gpu).used >> 20 == 53


def test_fields_that_a_gpu_has_not_are_refused_one_by_one(gpu: Any, old_gpu: Any) -> None:
    wanted = [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, 1]
    told = [(value.nvmlReturn, value.value.uiVal) for value in pynvml.nvmlDeviceGetFieldValues(gpu, wanted)]
    assert told == [(pynvml.NVML_SUCCESS, 0), (pynvml.NVML_ERROR_NOT_SUPPORTED, 0)]
    (old,) = pynvml.nvmlDeviceGetFieldValues(old_gpu, wanted[:1])
    assert old.nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED


def test_what_an_old_model_has_not_is_not_supported(old_gpu: Any) -> None:
    for call in (pynvml.nvmlDeviceGetMigMode, pynvml.nvmlDeviceGetRemappedRows):
        with pytest.raises(pynvml.NVMLError_NotSupported):
            call(old_gpu)


def test_remapped_rows_and_mig_mode_are_told(gpu: Any, machine: state.State) -> None:
    machine.gpu(0).set("remap_pending", 1)
    assert pynvml.nvmlDeviceGetRemappedRows(gpu) == (0, 1, 1, 0)
    machine.gpu(0).set("mig", 1)
    assert pynvml.nvmlDeviceGetMigMode(gpu) == [1, 1]


def test_the_compute_mode_is_set(gpu: Any, machine: state.State) -> None:
    pynvml.nvmlDeviceSetComputeMode(gpu, pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
    assert pynvml.nvmlDeviceGetComputeMode(gpu) == pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceSetComputeMode(gpu, pynvml.NVML_COMPUTEMODE_EXCLUSIVE_THREAD)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceSetComputeMode(gpu, 9)
    machine.gpu(0).set("denied", "")
    with pytest.raises(pynvml.NVMLError_NoPermission):
        pynvml.nvmlDeviceSetComputeMode(gpu, pynvml.NVML_COMPUTEMODE_DEFAULT)


def test_utilization_is_told(gpu: Any, machine: state.State) -> None:
    machine.gpu(0).set("utilization", 80)
    rates = pynvml.nvmlDeviceGetUtilizationRates(gpu)
    assert (rates.gpu, rates.memory) == (80, 40)


def test_a_function_that_the_stand_in_lacks_is_missing_as_in_an_older_driver(gpu: Any) -> None:
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU)


@pytest.fixture
def events(gpu: Any) -> Iterator[Any]:
    made = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(gpu, pynvml.nvmlEventTypeXidCriticalError, made)
    yield made
    pynvml.nvmlEventSetFree(made)


def test_every_event_after_registration_is_told_once_and_in_order(machine: state.State, gpu: Any) -> None:
    machine.raise_xid(0, 13)
    made = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(gpu, pynvml.nvmlEventTypeXidCriticalError, made)
    machine.raise_xid(0, 31)
    machine.raise_xid(1, 45)
    machine.raise_xid(0, 79)
    told = [pynvml.nvmlEventSetWait_v2(made, 1000) for _ in range(2)]
    assert [(each.eventData, each.eventType) for each in told] == [(31, 8), (79, 8)]
    assert ctypes.cast(told[0].device, ctypes.c_void_p).value == ctypes.cast(gpu, ctypes.c_void_p).value
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait_v2(made, 0)
    pynvml.nvmlEventSetFree(made)


def test_a_waiting_call_is_woken(events: Any, machine: state.State) -> None:
    threading.Timer(0.05, machine.raise_xid, (0, 48)).start()
    assert pynvml.nvmlEventSetWait_v2(events, 60_000).eventData == 48


def test_a_line_that_is_being_written_is_no_event_yet(events: Any, machine: state.State) -> None:
    with (machine.root / "xids").open("a") as log:
        log.write("0 4")
        log.flush()
        with pytest.raises(pynvml.NVMLError_Timeout):
            pynvml.nvmlEventSetWait_v2(events, 10)
        log.write("8\nnonsense\n0 31\n")
    assert [pynvml.nvmlEventSetWait_v2(events, 1000).eventData for _ in range(2)] == [48, 31]


def test_waiting_ends_when_a_gpu_is_lost_after_what_it_had_to_say(events: Any, machine: state.State) -> None:
    machine.raise_xid(0, 79)
    machine.gpu(0).lose()
    assert pynvml.nvmlEventSetWait_v2(events, 1000).eventData == 79
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlEventSetWait_v2(events, 60_000)


def test_waiting_ends_when_the_driver_goes(events: Any, machine: state.State) -> None:
    threading.Timer(0.05, machine.unload).start()
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlEventSetWait_v2(events, 60_000)


def test_a_gpu_without_events_can_not_be_registered(events: Any, old_gpu: Any, machine: state.State) -> None:
    machine.gpu(1).set("no_events", "")
    assert pynvml.nvmlDeviceGetSupportedEventTypes(old_gpu) == 0
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceRegisterEvents(old_gpu, pynvml.nvmlEventTypeXidCriticalError, events)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceRegisterEvents(pynvml.nvmlDeviceGetHandleByIndex(0), pynvml.nvmlEventTypePState, events)
