"""What late binding asks of the GPUs and of the API server, as interfaces and their values. No I/O."""

from dataclasses import dataclass
from typing import Protocol, Self

from cotenant_api import placement
from cotenant_api.names import GPUUID, Namespace, PodUID
from cotenant_deviceplugin import pods
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.kubelet.owners import Listed, Recorded
from cotenant_deviceplugin.mps.backend import Edits


@dataclass(frozen=True, kw_only=True)
class Grant:
    """A pod's GPUs and limits, proven once and for as long as the pod lives.

    Attributes:
        container: the one container that has them.
        booked: the placement as it was when it was proven; later edits of the annotation change nothing.
    """

    pod_uid: PodUID
    namespace: Namespace
    pod: str
    container: str
    booked: placement.Placement


@dataclass(frozen=True)
class Numbers:
    """The numbers of a GPU.

    Attributes:
        index: as NVML counts; names the GPU in a CDI specification without UUIDs.
        minor: N of its device node /dev/nvidiaN; None: the driver does not tell.
    """

    index: int
    minor: int | None

    @classmethod
    def of(cls, device: hardware.Device) -> Self:
        """Return those of a device."""
        return cls(device.index, device.minor)


@dataclass(frozen=True, kw_only=True)
class ServedGPU:
    """One GPU of the node, as far as shares of it go.

    Attributes:
        numbers: by which a CDI specification is found for it.
        closed: why it takes no new tenant (not Healthy, excluded, MIG, no CDI specification); None: it is open.
    """

    numbers: Numbers
    closed: str | None = None


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What tells that a pod has ended. An end is for ever, so evidence does not age.

    Attributes:
        ended: pods that have finished or are gone, by a fresh answer of the API server.
        listed, recorded: what kubelet said after that.
        alive: pods that had a process after that.
    """

    ended: frozenset[PodUID]
    listed: tuple[Listed, ...]
    recorded: tuple[Recorded, ...]
    alive: frozenset[PodUID]


class PodReader(Protocol):
    """Reads pods freshly from the API server, never from a cache. Raises TemporaryError while nobody can tell."""

    async def read(self, namespace: Namespace, name: str) -> pods.BoundPod | None:
        """Return the pod as it stands; None: there is none."""

    async def bound(self) -> tuple[pods.BoundPod, ...]:
        """Every pod that is bound to this node and asks for a share; never an older state than that of the call."""


class Processes(Protocol):
    """Whose processes live on this host."""

    async def alive(self) -> frozenset[PodUID]:
        """Pods of which any process lives, on a GPU or not; raises TemporaryError while nobody can tell.

        Any process, because a container that is being made has a living sandbox before it has a process of its own.
        """


class Publisher(Protocol):
    """The GPUNode as others see it."""

    async def list_tenant(self, grant: Grant) -> None:
        """Return once a GPUNode that lists this tenant has been written."""

    def refuse(self, pod_uid: PodUID, reason: str) -> None:
        """Put a permanent refusal into the status, until that pod is gone."""


class Gate(Protocol):
    """Whether the node's GPUs may serve a grant now."""

    async def admit(self, grant: Grant, *, new: bool) -> Edits:
        """Make the GPUs ready for the grant (mode, MPS server), and say what its container gets for all of them.

        Called again for each start of the container. Several calls may run at once, for one GPU too.

        Args:
            grant: what is to be served.
            new: it does not stand yet: nobody may be on its GPUs whom no tenant explains.

        Raises:
            TemporaryError: not now (GPU not healthy, mode still changes, MPS server not active, a process in the way).
            PermanentError: never (a GPU that is not the node's, or in MIG mode).
        """


class Tenants(Protocol):
    """Who has the GPUs; late binding itself."""

    def tenants(self, gpu: GPUUID) -> tuple[Grant, ...]:
        """Return the grants that stand on a GPU, and those that are being made ready for it."""

    def grants(self) -> tuple[Grant, ...]:
        """All grants that stand."""
