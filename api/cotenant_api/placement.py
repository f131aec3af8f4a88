"""The documents by which a pod is bound to GPUs: placement and earmark."""

import enum
from typing import Annotated

from pydantic import Field

from cotenant_api import documents
from cotenant_api.names import GPUUID, HUNDREDTHS, NodeName, PodUID


class Backend(enum.StrEnum):
    """What holds a tenant to its share."""

    MPS = "MPS"
    WHOLE = "Whole"


class GPUBooking(documents.Model):
    """What a pod is booked for on one GPU. Limits are the pod's; the agent divides them by its processes."""

    uuid: GPUUID
    share: Annotated[int, Field(ge=1, le=HUNDREDTHS)]
    active_thread_percentage: Annotated[int, Field(ge=1, le=100)]
    memory_mib: Annotated[int, Field(ge=0)] = Field(alias="memoryMiB")
    client_priority: Annotated[int, Field(ge=0, le=1)] = 0


class Placement(documents.Document):
    """A placement document, version 1: the annotation `cotenant.dev/placement`, written in the Binding."""

    pod_uid: PodUID = Field(alias="podUID")
    node: NodeName
    container: str
    policy_generation: int
    backend: Backend
    processes_per_gpu: Annotated[int, Field(ge=1)] = Field(default=1, alias="processesPerGPU")
    gpus: Annotated[tuple[GPUBooking, ...], Field(min_length=1)]


class Earmark(documents.Document):
    """An earmark document, version 1: the annotation `cotenant.dev/earmark`."""

    node: NodeName
    gpus: Annotated[tuple[GPUUID, ...], Field(min_length=1)]
