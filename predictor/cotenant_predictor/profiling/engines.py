"""What carries out a job's steps inside a worker: the surface, and which one a device has."""

from __future__ import annotations

import dataclasses
import enum
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .catalog import Job


class Device(enum.StrEnum):
    """Where jobs run. Only `cuda` is a measurement; the others are named simulated in every result."""

    CUDA = "cuda"
    CPU = "cpu"
    """Real torch steps on the processor."""
    MODELLED = "modelled"
    """No torch: a clock that follows a model of a GPU."""


class OutOfMemoryError(Exception):
    """The job does not fit into the GPU's memory, or into its limit."""


@dataclasses.dataclass
class Report:
    """What one tenant did: begin and end of each step in seconds of the monotonic clock, and its requests."""

    spans: list[tuple[float, float]] = dataclasses.field(default_factory=list)
    host_to_device_milliseconds: list[float] = dataclasses.field(default_factory=list)
    turnaround_milliseconds: list[float] = dataclasses.field(default_factory=list)

    def to_object(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "spans": [[round(begin, 6), round(end, 6)] for begin, end in self.spans],
            "hostToDeviceMilliseconds": [round(value, 4) for value in self.host_to_device_milliseconds],
            "turnaroundMilliseconds": [round(value, 4) for value in self.turnaround_milliseconds],
        }


class Engine(Protocol):
    """The jobs of one process. Several: threads with streams of different priority, the first job's is higher."""

    def load(self, jobs: Sequence[Job]) -> None:
        """Build the jobs and run some steps. Raises OutOfMemoryError."""

    def reserved_mib(self) -> int:
        """Return the most memory that the jobs have held, without the driver's context."""

    def steps(self, index: int, *, start_at: float, until: float | None, stop: threading.Event) -> Report:
        """Run steps of a job, one behind the other, until a time or until told to stop. Raises OutOfMemoryError."""

    def requests(
        self, index: int, *, start_at: float, arrivals: Sequence[float] | int, stop: threading.Event
    ) -> Report:
        """Answer requests one by one: so many, each as the last is answered, or as they arrive (seconds from start)."""

    def profile(self) -> Mapping[str, Any]:
        """Return the kernels of one step: `kernels`, shares, and `reasons` for what is not known."""


def create(device: Device) -> Engine:
    """Return the device's engine; imports torch where it needs it."""
    if device is Device.MODELLED:
        from .simulated import engine as modelled

        return modelled.ModelledEngine.attached()
    from . import torch_engine

    if device is Device.CPU:
        from .simulated import mps_client

        return torch_engine.TorchEngine("cpu", mps_client.connected(os.environ))
    return torch_engine.TorchEngine("cuda")
