"""NVML's answers about processes, events and health of one GPU, each with its reason where there is none. Read only."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

_MIB = 2**20


@dataclasses.dataclass(frozen=True)
class Asked:
    """Answers by name, and the driver's words where it gave none."""

    values: Mapping[str, Any]
    reasons: Mapping[str, str]

    def to_object(self) -> dict[str, Any]:
        """As JSON."""
        return {"values": dict(self.values), "reasons": dict(self.reasons)}


def ask(nvml: Any, handle: Any) -> Asked:
    """Ask everything. `nvml`: pynvml, or what stands for it, which may lack functions."""
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for name, question in _QUESTIONS.items():
        try:
            values[name] = question(nvml, handle)
        except AttributeError:
            reasons[name] = "this library has no such function"
        except nvml.NVMLError as error:
            reasons[name] = str(error)[:256]
    return Asked(values, reasons)


def _compute(nvml: Any, handle: Any) -> list[dict[str, Any]]:
    return _processes(nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle))


def _mps(nvml: Any, handle: Any) -> list[dict[str, Any]]:
    return _processes(nvml.nvmlDeviceGetMPSComputeRunningProcesses_v3(handle))


def _processes(entries: Any) -> list[dict[str, Any]]:
    held = [(int(entry.pid), entry.usedGpuMemory) for entry in entries]
    return [{"pid": pid, "memoryMiB": None if used is None else int(used) // _MIB} for pid, used in held]


def _process_utilization(nvml: Any, handle: Any) -> list[dict[str, Any]]:
    samples = nvml.nvmlDeviceGetProcessUtilization(handle, 0)
    return [{"pid": int(one.pid), "sm": int(one.smUtil), "memory": int(one.memUtil)} for one in samples]


def _utilization(nvml: Any, handle: Any) -> int:
    return int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)


def _events(nvml: Any, handle: Any) -> str:
    kinds = int(nvml.nvmlDeviceGetSupportedEventTypes(handle))
    return f"{kinds:#x}, XID {'yes' if kinds & nvml.nvmlEventTypeXidCriticalError else 'no'}"


def _recovery_action(nvml: Any, handle: Any) -> int | str:
    value = nvml.nvmlDeviceGetFieldValues(handle, [nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])[0]
    return int(value.value.uiVal) if value.nvmlReturn == 0 else f"not told: {value.nvmlReturn}"


def _remapped_rows(nvml: Any, handle: Any) -> list[int]:
    return [int(value) for value in nvml.nvmlDeviceGetRemappedRows(handle)]


def _cores(nvml: Any, handle: Any) -> int:
    return int(nvml.nvmlDeviceGetNumGpuCores(handle))


def _attributes(nvml: Any, handle: Any) -> int:
    return int(nvml.nvmlDeviceGetAttributes(handle).multiprocessorCount)


_QUESTIONS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "computeProcesses": _compute,
        "mpsProcesses": _mps,
        "processUtilization": _process_utilization,
        "utilization": _utilization,
        "events": _events,
        "recoveryAction": _recovery_action,
        "remappedRows": _remapped_rows,
        "cores": _cores,
        "attributes": _attributes,
    }
)
