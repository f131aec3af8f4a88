"""What late binding asks of the GPUs and of the API server, as interfaces and their values. No I/O."""

from dataclasses import dataclass
from typing import Protocol

from cotenant_api import placement
from cotenant_api.names import GPUUID, Namespace, PodUID
from cotenant_deviceplugin import pods
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


class PodReader(Protocol):
    """Reads pods freshly from the API server, never from a cache."""

    async def read(self, namespace: Namespace, name: str) -> pods.BoundPod | None:
        """The pod as it stands; None: there is none. Raises TemporaryError while nobody can tell."""


class Publisher(Protocol):
    """The GPUNode as others see it."""

    async def list_tenant(self, grant: Grant) -> None:
        """Return once a GPUNode that lists this tenant has been written."""

    def refuse(self, pod_uid: PodUID, reason: str) -> None:
        """Put a permanent refusal into the status, until that pod is gone."""


class Gate(Protocol):
    """Whether the node's GPUs may serve a grant now."""

    def tenants(self, gpu: GPUUID) -> tuple[Grant, ...]:
        """The grants that stand on a GPU now."""

    async def admit(self, grant: Grant) -> Edits:
        """Make the GPUs ready for the grant (mode, MPS server), and say what its container gets.

        Raises:
            TemporaryError: not now (GPU not healthy, mode still changes, MPS server not active, a process in the way).
            PermanentError: never (a GPU that is not the node's, or in MIG mode).
        """
