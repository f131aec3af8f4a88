"""The part of pynvml that the harness uses, for the modelled GPU: same names, same errors, same units."""

from __future__ import annotations

import dataclasses
import os
import time

from . import physics
from .device import FOLDER, SimulatedDevice

NVML_GPM_METRICS_GET_VERSION = 1
NVML_GPM_METRIC_SM_UTIL = 2
NVML_GPM_METRIC_SM_OCCUPANCY = 3
NVML_GPM_METRIC_DRAM_BW_UTIL = 10
NVML_COMPUTEMODE_DEFAULT = 0
_IDLE_WATTS, _BUSY_WATTS = 80.0, 620.0


class NVMLError(Exception):
    """As pynvml raises."""


@dataclasses.dataclass
class c_nvmlGpmMetric_t:  # noqa: N801  # pynvml's name
    """One metric of a query."""

    metricId: int = 0  # noqa: N815
    nvmlReturn: int = 0  # noqa: N815
    value: float = 0.0


class c_nvmlGpmMetricsGet_t:  # noqa: N801
    """A query of two samples."""

    def __init__(self) -> None:
        self.version = self.numMetrics = 0
        self.sample1: dict[str, float] = {}
        self.sample2: dict[str, float] = {}
        self.metrics = [c_nvmlGpmMetric_t() for _ in range(16)]


@dataclasses.dataclass(frozen=True)
class _Utilization:
    gpu: int
    memory: int


@dataclasses.dataclass(frozen=True)
class _Memory:
    total: int
    used: int


@dataclasses.dataclass(frozen=True)
class _Support:
    isSupportedDevice: int  # noqa: N815


_millijoules = {"energy": 0.0, "time": 0.0}


def nvmlInit() -> None:  # noqa: N802
    """Refused where the environment names no device."""
    if FOLDER not in os.environ:
        raise NVMLError(f"{FOLDER} names no simulated device")


def nvmlShutdown() -> None:  # noqa: N802
    """Nothing to unload."""


def nvmlSystemGetDriverVersion() -> str:  # noqa: N802
    """Names itself."""
    return "simulated"


def nvmlSystemGetCudaDriverVersion_v2() -> int:  # noqa: N802
    """CUDA 13.0."""
    return 13_000


def nvmlDeviceGetHandleByIndex(index: int) -> SimulatedDevice:  # noqa: N802
    """Return the one device."""
    if index != 0:
        raise NVMLError("Invalid Argument")
    return SimulatedDevice.attached()


def nvmlDeviceGetName(device: SimulatedDevice) -> str:  # noqa: N802
    """As the device's folder says."""
    return str(device.facts["name"])


def nvmlDeviceGetUUID(device: SimulatedDevice) -> str:  # noqa: N802
    """As the device's folder says."""
    return str(device.facts["uuid"])


def nvmlDeviceGetComputeMode(device: SimulatedDevice) -> int:  # noqa: N802
    """Default, unless the device's folder says otherwise."""
    return int(device.facts.get("computeMode", NVML_COMPUTEMODE_DEFAULT))


def nvmlDeviceGetMemoryInfo(device: SimulatedDevice) -> _Memory:  # noqa: N802
    """Bytes."""
    return _Memory(device.facts["memoryMiB"] * 2**20, device.used_mib() * 2**20)


def nvmlDeviceGetComputeRunningProcesses(device: SimulatedDevice) -> list[int]:  # noqa: N802
    """Return the processes that hold memory."""
    return list(device.tenants())


def nvmlDeviceGetUtilizationRates(device: SimulatedDevice) -> _Utilization:  # noqa: N802
    """Whole percent, of this moment."""
    dram = min(1.0, sum(load.demand.dram for load in device.running()))
    return _Utilization(round(100 * physics.utilization(device.running())), round(100 * dram))


def nvmlDeviceGetTotalEnergyConsumption(device: SimulatedDevice) -> int:  # noqa: N802
    """Millijoules: the power of now since the last call."""
    now = time.monotonic()
    watts = _IDLE_WATTS + _BUSY_WATTS * physics.utilization(device.running())
    if _millijoules["time"]:
        _millijoules["energy"] += 1000 * watts * (now - _millijoules["time"])
    _millijoules["time"] = now
    return round(_millijoules["energy"])


def nvmlGpmQueryDeviceSupport(device: SimulatedDevice) -> _Support:  # noqa: N802
    """Supported, unless the device's folder says otherwise."""
    return _Support(int(device.facts.get("counters", True)))


def nvmlGpmSampleAlloc() -> dict[str, float]:  # noqa: N802
    """Return an empty sample."""
    return {}


def nvmlGpmSampleFree(sample: dict[str, float]) -> None:  # noqa: N802
    """Nothing to free."""


def nvmlGpmSampleGet(device: SimulatedDevice, sample: dict[str, float]) -> None:  # noqa: N802
    """Note what the device does now."""
    running = device.running()
    sample["sm"] = min(1.0, sum(load.demand.sm for load in running))
    sample["dram"] = min(1.0, sum(load.demand.dram for load in running))


def nvmlGpmMetricsGet(query: c_nvmlGpmMetricsGet_t) -> c_nvmlGpmMetricsGet_t:  # noqa: N802
    """Return the mean of the two samples, in percent."""
    keys = {NVML_GPM_METRIC_SM_UTIL: "sm", NVML_GPM_METRIC_SM_OCCUPANCY: "sm", NVML_GPM_METRIC_DRAM_BW_UTIL: "dram"}
    for metric in query.metrics[: query.numMetrics]:
        key = keys[metric.metricId]
        metric.value = 50 * (query.sample1[key] + query.sample2[key])
    return query
