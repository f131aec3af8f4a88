"""What the driver says of a GPU, read only: no setting is ever changed through here.

What cannot be read is None with a reason. Under sharing these are figures of the whole GPU, not of one tenant.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping
from typing import Any

from . import nvml_answers, statistics
from .nvml_answers import Asked

POLL_SECONDS = 0.1
_STAND_IN = "stand-in"
_MIB = 2**20


@dataclasses.dataclass(frozen=True)
class Readings:
    """Means over a window, in percent and watts; `reasons` for each that is None."""

    utilization: float | None
    memory_utilization: float | None
    sm_activity: float | None
    dram_activity: float | None
    power_watts: float | None
    reasons: Mapping[str, str]

    def to_object(self) -> dict[str, Any]:
        """With the keys of the measurement document."""
        return {
            "utilization": self.utilization,
            "memoryUtilization": self.memory_utilization,
            "smActivity": self.sm_activity,
            "dramActivity": self.dram_activity,
            "powerWatts": self.power_watts,
            "reasons": dict(self.reasons),
        }


class Gpu:
    """One GPU of this machine. `nvml`: pynvml, or what stands for it."""

    def __init__(self, nvml: Any, index: int) -> None:
        self._nvml, self._handle = nvml, nvml.nvmlDeviceGetHandleByIndex(index)
        self.model = text(nvml.nvmlDeviceGetName(self._handle)).replace(" ", "-")
        self.uuid = text(nvml.nvmlDeviceGetUUID(self._handle))
        self.memory_mib = int(nvml.nvmlDeviceGetMemoryInfo(self._handle).total) // _MIB

    def used_mib(self) -> int:
        """Memory in use by everyone."""
        return int(self._nvml.nvmlDeviceGetMemoryInfo(self._handle).used) // _MIB

    def processes(self) -> int:
        """Count the processes that compute on it, of everyone; 0 where the driver does not tell."""
        return len(next(iter(self._tried({}, (), "nvmlDeviceGetComputeRunningProcesses")), ()))

    @property
    def is_stand_in(self) -> bool:
        """Whether the driver names itself a stand-in: nothing behind it is a GPU."""
        return _STAND_IN in self.versions()["driver"]

    def memory_by_process(self) -> dict[int, int]:
        """MiB of each process that the driver lists, MPS clients among them; numbers as the driver counts."""
        asked = self.asked()
        rows = [*asked.values.get("computeProcesses", ()), *asked.values.get("mpsProcesses", ())]
        return {int(row["pid"]): int(row["memoryMiB"] or 0) for row in rows}

    def asked(self) -> Asked:
        """Everything that matters under MPS, as far as the driver tells; see `nvml_answers`."""
        return nvml_answers.ask(self._nvml, self._handle)

    def takes_several_processes(self) -> bool:
        """Return whether the compute mode lets more than one process in without MPS."""
        mode = int(self._nvml.nvmlDeviceGetComputeMode(self._handle))
        return mode == int(self._nvml.NVML_COMPUTEMODE_DEFAULT)

    def versions(self) -> dict[str, str]:
        """Of driver and CUDA."""
        number = int(self._nvml.nvmlSystemGetCudaDriverVersion_v2())
        cuda = f"{number // 1000}.{number % 1000 // 10}"
        return {"driver": text(self._nvml.nvmlSystemGetDriverVersion()), "cuda": cuda}

    def watch(self, *, begin: float, end: float) -> Readings:
        """Wait for the window on the monotonic clock, and read through it."""
        time.sleep(max(0.0, begin - time.monotonic()))
        with self._counters() as counters:
            return self._watched(counters, end)

    def _watched(self, counters: Counters, end: float) -> Readings:
        reasons: dict[str, str] = {}
        rates: list[Any] = []
        watts: list[float] = []
        energy, started = self._energy_joules(), time.monotonic()
        while True:
            rates.extend(self._tried(reasons, ("utilization", "memoryUtilization"), "nvmlDeviceGetUtilizationRates"))
            if energy is None:
                milliwatts = self._tried(reasons, ("powerWatts",), "nvmlDeviceGetPowerUsage")
                watts.extend(value / 1000 for value in milliwatts)
            if time.monotonic() >= end:
                break
            time.sleep(max(0.0, min(POLL_SECONDS, end - time.monotonic())))
        last = self._energy_joules()
        if energy is not None and last is not None:
            watts.append((last - energy) / max(time.monotonic() - started, 1e-9))
        sm, dram, more = counters.read()
        return Readings(
            utilization=mean([float(rate.gpu) for rate in rates]),
            memory_utilization=mean([float(rate.memory) for rate in rates]),
            sm_activity=sm,
            dram_activity=dram,
            power_watts=mean(watts),
            reasons={**reasons, **more},
        )

    def _tried(self, reasons: dict[str, str], names: tuple[str, ...], function: str) -> list[Any]:
        try:
            return [getattr(self._nvml, function)(self._handle)]
        except (self._nvml.NVMLError, AttributeError) as error:
            reasons.update(dict.fromkeys(names, f"{function}: {error}"[:256]))
            return []

    def _energy_joules(self) -> float | None:
        """Since the driver was loaded; None before Volta."""
        found = self._tried({}, (), "nvmlDeviceGetTotalEnergyConsumption")
        return float(found[0]) / 1000 if found else None

    @contextlib.contextmanager
    def _counters(self) -> Iterator[Counters]:
        counters = Counters(self._nvml, self._handle)
        try:
            yield counters
        finally:
            counters.close()


class Counters:
    """SM and DRAM activity from the driver's GPM counters (Hopper and newer), between `__init__` and `read`."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle, self._reason = nvml, handle, ""
        self._samples: list[Any] = []
        try:
            if nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
                self._sample()
            else:
                self._reason = "the GPU has no GPM counters (before Hopper), and Nsight is not used"
        except (nvml.NVMLError, AttributeError) as error:
            self._reason = f"GPM counters: {error}"[:256]

    def read(self) -> tuple[float | None, float | None, dict[str, str]]:
        """Percent of SMs that were busy, percent of the memory's bandwidth that was used, reasons for what is None."""
        found: list[float | None] = [None, None]
        if not self._reason:
            try:
                self._sample()
                found = self._between()
            except self._nvml.NVMLError as error:
                self._reason = f"GPM counters: {error}"[:256]
        names = zip(("smActivity", "dramActivity"), found, strict=True)
        reason = self._reason or "GPM counters: not given for this GPU"
        return found[0], found[1], {name: reason for name, value in names if value is None}

    def close(self) -> None:
        """Free the samples."""
        for sample in self._samples:
            self._nvml.nvmlGpmSampleFree(sample)

    def _sample(self) -> None:
        sample = self._nvml.nvmlGpmSampleAlloc()
        self._samples.append(sample)
        self._nvml.nvmlGpmSampleGet(self._handle, sample)

    def _between(self) -> list[float | None]:
        query = self._nvml.c_nvmlGpmMetricsGet_t()
        query.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        query.sample1, query.sample2 = self._samples[0], self._samples[-1]
        wanted = (self._nvml.NVML_GPM_METRIC_SM_UTIL, self._nvml.NVML_GPM_METRIC_DRAM_BW_UTIL)
        query.numMetrics = len(wanted)
        for index, metric in enumerate(wanted):
            query.metrics[index].metricId = metric
        self._nvml.nvmlGpmMetricsGet(query)
        return [float(metric.value) if metric.nvmlReturn == 0 else None for metric in query.metrics[: len(wanted)]]


def mean(values: list[float]) -> float | None:
    """None of nothing."""
    found = statistics.distribution(values)
    return None if found is None else found["mean"]


def text(value: str | bytes) -> str:
    """Older bindings return bytes."""
    return value.decode() if isinstance(value, bytes) else value
