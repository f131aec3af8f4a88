"""Runs jobs on the modelled GPU: a step takes as long as the model says, beside what runs there at that moment.

A step begins where the last one ended by the model, not where this process woke up: a busy host changes no figure.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from cotenant_predictor.profiling import kernels, mechanisms
from cotenant_predictor.profiling.catalog import Job
from cotenant_predictor.profiling.engines import OutOfMemoryError, Report

from . import mps_client, physics
from .device import SimulatedDevice

_BELOW_NORMAL = 0.5
"""Weight of an MPS client of lower priority."""
_HIGH_STREAM = 4.0
"""Weight of a stream of high priority beside one of normal priority."""


class ModelledEngine:
    """See `engines.Engine`."""

    def __init__(
        self, device: SimulatedDevice, client: mps_client.Client | None, environment: Mapping[str, str]
    ) -> None:
        self._device, self._client, self._environment = device, client, environment
        self._jobs: list[Job] = []
        self._running: dict[int, physics.Load] = {}
        self._lock = threading.Lock()

    @classmethod
    def attached(cls) -> ModelledEngine:
        """On the device and the control daemon that the environment names; without a daemon it runs without MPS."""
        return cls(SimulatedDevice.attached(), mps_client.connected(os.environ), os.environ)

    def load(self, jobs: Sequence[Job]) -> None:
        """Take the jobs' memory."""
        needed = sum(physics.demand(job).memory_mib for job in jobs)
        limit = self._client.memory_mib if self._client else None
        free = self._device.facts["memoryMiB"] - self._device.used_mib()
        if needed > (free if limit is None else min(free, limit)):
            raise OutOfMemoryError(f"CUDA out of memory: needs {needed} MiB")
        self._jobs = list(jobs)
        self._device.hold(memory_mib=needed, loads=())

    def reserved_mib(self) -> int:
        """Return the jobs' memory."""
        return sum(physics.demand(job).memory_mib for job in self._jobs)

    def steps(self, index: int, *, start_at: float, until: float | None, stop: threading.Event) -> Report:
        """Run steps until a time or until told to stop."""
        report, now = Report(), start_at or time.monotonic()
        stop.wait(max(0.0, start_at - time.monotonic()))
        self._begin(index)
        last = math.inf if until is None else until
        while now < last:
            now = self._step(index, now, report)
            if stop.is_set():
                last = min(last, time.monotonic())
        self._end(index)
        return report

    def requests(
        self, index: int, *, start_at: float, arrivals: Sequence[float] | int, stop: threading.Event
    ) -> Report:
        """Answer requests one by one."""
        report, now = Report(), start_at or time.monotonic()
        stop.wait(max(0.0, start_at - time.monotonic()))
        for number in range(arrivals if isinstance(arrivals, int) else len(arrivals)):
            arrival = now if isinstance(arrivals, int) else start_at + arrivals[number]
            if stop.wait(max(0.0, arrival - time.monotonic())):
                break
            self._begin(index)
            now = self._step(index, max(now, arrival), report)
            report.turnaround_milliseconds.append(1000 * (now - arrival))
        self._end(index)
        return report

    def profile(self) -> Mapping[str, Any]:
        """Two made-up kernels, one of them long and large."""
        micros = 1e6 * physics.demand(self._jobs[0]).step_seconds * physics.demand(self._jobs[0]).busy
        limits = kernels.Limits(sm_count=self._device.facts["smCount"])
        rows = [
            kernels.Launch("modelled_gemm", (64, 64, 1), (256, 1, 1), 128, 49_152, 1, 0.4 * micros, 0.0),
            kernels.Launch("modelled_elementwise", (64, 1, 1), (128, 1, 1), 32, 0, 6, 0.6 * micros, 0.0),
        ]
        return {"kernels": [row.to_object() for row in rows], **kernels.shares(rows, limits), "reasons": {}}

    def _step(self, index: int, begin: float, report: Report) -> float:
        """One step from a moment on; waits for its end, and returns it."""
        fault = self._device.facts["faults"].get(self._jobs[index].name)
        if fault == "Crash":
            os._exit(1)
        if fault == "Hang":
            threading.Event().wait()
        if self._client is not None:
            self._client.require_no_fault()
        with self._lock:
            own = self._running[index]
            others = [load for load in self._device.running() if load != own]
        seconds = physics.demand(self._jobs[index]).step_seconds / physics.speed(own, others)
        end = begin + seconds / float(self._device.facts["speedup"])
        time.sleep(max(0.0, end - time.monotonic()))
        report.spans.append((begin, end))
        report.host_to_device_milliseconds.append(1000 * self._copy_seconds(index))
        return end

    def _copy_seconds(self, index: int) -> float:
        return physics.demand(self._jobs[index]).copy_seconds / float(self._device.facts["speedup"])

    def _begin(self, index: int) -> None:
        if index not in self._running:
            self._change(index, self._load_of(index))

    def _end(self, index: int) -> None:
        self._change(index, None)

    def _change(self, index: int, load: physics.Load | None) -> None:
        with self._lock:
            self._running.pop(index, None)
            if load is not None:
                self._running[index] = load
            self._device.hold(memory_mib=self.reserved_mib(), loads=tuple(self._running.values()))

    def _load_of(self, index: int) -> physics.Load:
        """MPS clients share the server's context; streams of one process share the process's."""
        demand = physics.demand(self._jobs[index])
        if self._client is None:
            weight = _HIGH_STREAM if index == 0 and len(self._jobs) > 1 else 1.0
            return physics.Load(demand, str(os.getpid()), weight=weight)
        below = self._environment.get(mechanisms.CLIENT_PRIORITY) == "1"
        share, weight = self._client.thread_percentage / 100, _BELOW_NORMAL if below else 1.0
        return physics.Load(demand, f"server {self._client.server}", share, weight)
