"""What an agent asks of a node's GPUs, as an interface. No implementation lives here, and no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cotenant_api.names import GPUUID, GPUModel, PodUID


@dataclass(frozen=True, kw_only=True)
class Driver:
    """Versions of the driver and of the newest CUDA that it serves."""

    driver_version: str
    cuda_version: str


@dataclass(frozen=True, kw_only=True)
class Device:
    """What never changes of one GPU.

    Attributes:
        index: its place among the node's GPUs, from 0.
        model: as NVIDIA's feature discovery writes it (`NVIDIA-H200`).
        memory_mib: as NVML reports it.
        compute_capability: `"9.0"`.
    """

    uuid: GPUUID
    index: int
    model: GPUModel
    memory_mib: int
    sm_count: int
    compute_capability: str


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process that holds memory of a GPU; `pid` as the host counts."""

    pid: int
    memory_mib: int


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What one GPU does now. Utilization is 0 to 100; it is per GPU, never per process."""

    utilization_percent: int
    memory_used_mib: int
    processes: tuple[Process, ...] = ()


class Hardware(Protocol):
    """The GPUs of one node. Methods are coroutines, because a driver may take its time.

    Each raises TemporaryError while the driver is not there.
    """

    @property
    def simulated(self) -> bool:
        """Whether there is no such hardware."""

    async def driver(self) -> Driver:
        """The driver's versions."""

    async def devices(self) -> tuple[Device, ...]:
        """All GPUs, by index."""

    async def usage(self) -> Mapping[GPUUID, Usage]:
        """What each GPU does now; a GPU that cannot be read is absent."""


class ProcessOwners(Protocol):
    """Tells which pod a process belongs to: the driver knows PIDs only."""

    def pod_of(self, pid: int) -> PodUID | None:
        """The pod of a process that `Hardware.usage` named last; None: no pod's."""
