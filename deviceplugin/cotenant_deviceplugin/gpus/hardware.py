"""What an agent asks of a node's GPUs, as an interface. No implementation lives here, and no I/O."""

import enum
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
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
        minor: N of its device node /dev/nvidiaN, which need not be its index; None: the driver does not tell.
        model: as NVIDIA's feature discovery writes it (`NVIDIA-H200`).
        memory_mib: as NVML reports it.
        compute_capability: `"9.0"`.
        mig: whether it is in MIG mode; such a GPU gives no shares.
    """

    uuid: GPUUID
    index: int
    minor: int | None
    model: GPUModel
    memory_mib: int
    sm_count: int
    compute_capability: str
    mig: bool = False


def updated(known: Mapping[GPUUID, Device], listed: Mapping[GPUUID, Device]) -> dict[GPUUID, Device]:
    """Return the known devices as the driver lists them now.

    One that is not listed stays as it was, but without a minor number that another device has now.
    """
    taken = {device.minor for device in listed.values()}
    kept = {uuid: replace(each, minor=None) if each.minor in taken else each for uuid, each in known.items()}
    return {uuid: listed.get(uuid, each) for uuid, each in kept.items()}


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
        """Return the driver's versions."""

    async def devices(self) -> tuple[Device, ...]:
        """All GPUs, by index."""

    async def usage(self) -> Mapping[GPUUID, Usage]:
        """Return what each GPU does now, or did last where it is late; a GPU that cannot be read is absent."""


class ProcessOwners(Protocol):
    """Tells which pod a process belongs to: the driver knows PIDs only."""

    def pod_of(self, pid: int) -> PodUID | None:
        """Return the pod of a process that `Hardware.usage` named last; None: no pod's."""


class ComputeMode(enum.StrEnum):
    """Who may open contexts on a GPU, in NVML's words."""

    DEFAULT = "DEFAULT"
    EXCLUSIVE_PROCESS = "EXCLUSIVE_PROCESS"
    PROHIBITED = "PROHIBITED"


class RecoveryAction(enum.StrEnum):
    """What the driver asks for before a GPU may be used again (NVML_FI_DEV_GET_GPU_RECOVERY_ACTION)."""

    NONE = "NONE"
    GPU_RESET = "GPU_RESET"
    NODE_REBOOT = "NODE_REBOOT"
    DRAIN_P2P = "DRAIN_P2P"
    DRAIN_AND_RESET = "DRAIN_AND_RESET"
    RECOVER_IMEX_DOMAIN = "RECOVER_IMEX_DOMAIN"
    BUS_RESET = "BUS_RESET"
    SYSTEM_REBOOT = "SYSTEM_REBOOT"
    UNKNOWN = "UNKNOWN"
    """A newer driver asks for something that this program does not know: never taken for NONE."""


@dataclass(frozen=True, kw_only=True)
class Readings:
    """What one GPU says of its own state.

    Attributes:
        fault: why it could not be asked; the rest then means nothing.
        recovery_action: None: this driver does not tell.
        remap_pending, remap_failed: of memory rows; None: this GPU has none to remap.
    """

    fault: str | None = None
    compute_mode: ComputeMode = ComputeMode.DEFAULT
    recovery_action: RecoveryAction | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None


@dataclass(frozen=True, kw_only=True)
class XIDEvent:
    """A critical event of the driver.

    Attributes:
        uuid: None where it names no GPU: then it is about all.
        late: whether it may have happened long before it is told: who holds the GPU now may not have held it then.
    """

    uuid: GPUUID | None
    xid: int
    late: bool = False


class ManagedHardware(Hardware, Protocol):
    """GPUs whose state can be read closely, and whose compute mode can be set."""

    async def usage_of(self, gpu: GPUUID) -> Usage:
        """Return what one GPU does now, and wait for no other. Raises TemporaryError where it cannot be read."""

    async def readings(self) -> Mapping[GPUUID, Readings]:
        """Return what each GPU that the driver lists says of itself; waits for all of them."""

    async def readings_of(self, gpu: GPUUID) -> Readings | None:
        """Return what one GPU says of itself, and wait for no other; None: the driver does not list it."""

    async def set_compute_mode(self, gpu: GPUUID, mode: ComputeMode) -> None:
        """Set it. Raises TemporaryError where the driver refuses, with its words."""

    def events(self) -> AsyncIterator[XIDEvent]:
        """Critical events from now on, for ever; survives a driver that goes and comes back."""
