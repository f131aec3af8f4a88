"""Simulated GPUs: deterministic, and used exactly as the pods placed on them are predicted to use them.

Nothing here is measured. A process exists while its pod runs; it holds the memory that was predicted, never
more than was booked.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from cotenant_api import errors, placement, prediction
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_deviceplugin import pods
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.simulated.models import SimulatedModel

MEMORY_USED_PERCENT = 80
"""Of the memory booked: what a pod without a prediction holds."""
VERSION = "simulated"
"""Stands where a driver's version would."""

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "simulated-gpus.cotenant.dev")
_FIRST_PID = 1000


@dataclass(frozen=True)
class Load:
    """What one pod does to one GPU, in percent and MiB."""

    utilization_percent: float
    memory_mib: int


def gpu_uuid(node: NodeName, index: int) -> GPUUID:
    """Return the UUID of a node's simulated GPU: the same in every run."""
    return GPUUID(f"GPU-{uuid.uuid5(_NAMESPACE, f'{node}/{index}')}")


def devices(node: NodeName, *, model: SimulatedModel, count: int) -> tuple[hardware.Device, ...]:
    """So many GPUs of one model."""
    return tuple(
        hardware.Device(
            uuid=gpu_uuid(node, index),
            index=index,
            minor=index,
            model=model.name,
            memory_mib=model.memory_mib,
            sm_count=model.sm_count,
            compute_capability=model.compute_capability,
        )
        for index in range(count)
    )


def load(bound: pods.BoundPod, booking: placement.GPUBooking, device: hardware.Device) -> Load:
    """Return what a running pod does to a GPU: its predicted medians, else what was booked for it."""
    limit = min(booking.memory_mib or device.memory_mib, device.memory_mib)
    predicted = _predicted(bound, device)
    if predicted is None:
        return Load(booking.share, limit * MEMORY_USED_PERCENT // 100)
    return Load(predicted.utilization.q50, min(predicted.memory_mib.q50, limit))


class SimulatedGPUs:
    """The simulated GPUs of one node, and the processes on them.

    Args:
        node: the node; a pod placed elsewhere has no process here.
        devices: its GPUs.
        running: gives the pods that run on the node now.
    """

    simulated = True

    def __init__(
        self,
        node: NodeName,
        devices: tuple[hardware.Device, ...],
        *,
        running: Callable[[], Collection[pods.BoundPod]],
    ) -> None:
        self._node = node
        self._devices = {device.uuid: device for device in devices}
        self._running = running
        self._owners: dict[int, PodUID] = {}

    async def driver(self) -> hardware.Driver:
        """No driver: both versions say so."""
        return hardware.Driver(driver_version=VERSION, cuda_version=VERSION)

    async def devices(self) -> tuple[hardware.Device, ...]:
        """All of them, by index."""
        return tuple(self._devices.values())

    async def usage(self) -> Mapping[GPUUID, hardware.Usage]:
        """Return the sum of what the running pods do, utilization at most 100."""
        loads: dict[GPUUID, list[Load]] = {gpu: [] for gpu in self._devices}
        processes: dict[GPUUID, list[hardware.Process]] = {gpu: [] for gpu in self._devices}
        self._owners = {}
        for bound, booking in self._tenancies():
            caused = load(bound, booking, self._devices[booking.uuid])
            loads[booking.uuid].append(caused)
            processes[booking.uuid].append(self._process(bound, caused))
        return {gpu: _usage(loads[gpu], processes[gpu]) for gpu in self._devices}

    def pod_of(self, pid: int) -> PodUID | None:
        """Return the pod of a process that `usage` named last."""
        return self._owners.get(pid)

    def _tenancies(self) -> Iterable[tuple[pods.BoundPod, placement.GPUBooking]]:
        for bound in sorted(self._running(), key=lambda each: each.uid):
            refused = pods.refusal(bound, node=self._node, known=self._devices.keys())
            if refused is None and bound.booked is not None:
                yield from ((bound, booking) for booking in bound.booked.gpus)

    def _process(self, bound: pods.BoundPod, caused: Load) -> hardware.Process:
        pid = _FIRST_PID + len(self._owners)
        self._owners[pid] = bound.uid
        return hardware.Process(pid=pid, memory_mib=caused.memory_mib)


def _usage(loads: list[Load], processes: list[hardware.Process]) -> hardware.Usage:
    return hardware.Usage(
        utilization_percent=min(round(sum(each.utilization_percent for each in loads)), 100),
        memory_used_mib=sum(each.memory_mib for each in loads),
        processes=tuple(processes),
    )


def _predicted(bound: pods.BoundPod, device: hardware.Device) -> prediction.GPUPrediction | None:
    if bound.prediction is None:
        return None
    try:
        document = prediction.Prediction.from_json(bound.prediction, source="prediction")
    except errors.InvalidInputError:
        # Whoever books by predictions refuses this one; here it only shapes what is simulated.
        return None
    return document.by_gpu.get(device.model)
