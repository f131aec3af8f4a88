"""A subject of experiments on the modelled GPU: a behaviour.driver.Device without a driver.

What the model does not know it refuses by that name, so that a report shows a gap and no invention.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

from cotenant_predictor.profiling import mechanisms
from cotenant_predictor.profiling.behaviour.driver import NOT_MODELLED, DriverError

from . import mps_client, physics
from .device import SimulatedDevice

_DEMAND = physics.Demand(step_seconds=0.003, busy=1.0, sm=1.0, dram=0.1, memory_mib=0, copy_seconds=0.0)
_BELOW_NORMAL = 0.5
_CONTEXT_MIB, _CONTEXT_MIB_PER_SM = 28.0, 3.68
"""Of an H200 under driver 580: 72 MiB at 12 SMs, 514 at 132 (e2e/gpu/results)."""


class ModelledDevice:
    """See `behaviour.driver.Device`."""

    def __init__(self) -> None:
        self._device = SimulatedDevice.attached()
        self._client: mps_client.Client | None = None
        self._held_mib = 0

    def open(self) -> None:
        """Connect to the daemon that the environment names; without one it runs without MPS."""
        try:
            self._client = mps_client.connected(os.environ)
        except RuntimeError as error:
            raise DriverError("connect", -1, str(error), "the modelled server takes no client") from error
        self._held_mib = round(_CONTEXT_MIB + _CONTEXT_MIB_PER_SM * self._sm_count())
        self._hold(running=False)

    def facts(self) -> dict[str, Any]:
        """SMs in proportion to the granted threads, parted two by two as an H200's are."""
        return {"smCount": self._sm_count(), "smCountReason": "modelled"}

    def _sm_count(self) -> int:
        share = self._client.thread_percentage if self._client else 100
        return max(2, int(self._device.facts["smCount"]) * share // 200 * 2)

    def memory(self) -> dict[str, int]:
        """Not known."""
        raise DriverError("memory", -1, NOT_MODELLED, "what mem_get_info says under a limit")

    def allocate(self, mib: int) -> None:
        """Within the limit and what is free."""
        limit = self._client.memory_mib if self._client else None
        free = self._device.facts["memoryMiB"] - self._device.used_mib()
        if mib > free or (limit is not None and self._held_mib + mib > limit):
            raise DriverError("allocate", 2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory")
        self._held_mib += mib
        self._hold(running=False)

    def second_context(self) -> None:
        """Not known."""
        raise DriverError("second_context", -1, NOT_MODELLED, "a context's memory")

    def step(self) -> None:
        """As long as the model says, beside what runs at that moment."""
        self._require_no_fault()
        own = self._load()
        self._hold(running=True)
        others = list(self._device.running())
        others.remove(own)
        time.sleep(_DEMAND.step_seconds / physics.speed(own, others))
        self._require_no_fault()

    def fault(self) -> None:
        """Let the server hear of it, and all its clients."""
        if self._client is not None:
            path = Path(os.environ[mechanisms.PIPE_DIRECTORY]) / mps_client.SOCKET
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
                connection.sendall(b"fault\n")
        raise DriverError("step", 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered")

    def _require_no_fault(self) -> None:
        if self._client is None:
            return
        try:
            self._client.require_no_fault()
        except RuntimeError as error:
            raise DriverError("step", 700, "CUDA_ERROR_ILLEGAL_ADDRESS", str(error)) from error

    def _load(self) -> physics.Load:
        if self._client is None:
            return physics.Load(_DEMAND, str(os.getpid()))
        below = os.environ.get(mechanisms.CLIENT_PRIORITY) == "1"
        weight = _BELOW_NORMAL if below else 1.0
        return physics.Load(_DEMAND, f"server {self._client.server}", self._client.thread_percentage / 100, weight)

    def _hold(self, *, running: bool) -> None:
        self._device.hold(memory_mib=self._held_mib, loads=(self._load(),) if running else ())
