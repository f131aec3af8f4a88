"""The GPUNode: what a node agent tells of its node's GPUs. Cluster-scoped, named as the node."""

import enum
from typing import Annotated

from pydantic import Field

from cotenant_api import documents
from cotenant_api.conditions import Condition
from cotenant_api.names import GPUUID, GPUModel, PodUID

READY = "Ready"
OVERBOOKED = "Overbooked"
"""Condition: True while pods bound to the node book more of a GPU than it has."""
LEASE_SECONDS = 40
"""A Lease that is older is expired: the node takes no new placements."""
LEASE_RENEW_SECONDS = 10
ENDED_LIMIT = 32
ENDED_SECONDS = 600
MEASURED_SECONDS = 60
"""A tenant that was alone for so long has been measured: its GPUNode is written at once."""


class Mode(enum.StrEnum):
    """How a GPU is used."""

    SHARED = "Shared"
    WHOLE = "Whole"
    MIG = "MIG"
    EXCLUDED = "Excluded"


class Health(enum.StrEnum):
    """Only a Healthy GPU takes placements."""

    HEALTHY = "Healthy"
    SUSPECT = "Suspect"
    UNHEALTHY = "Unhealthy"
    PROBATION = "Probation"


class MPS(enum.StrEnum):
    """State of the GPU's MPS server."""

    ACTIVE = "Active"
    STARTING = "Starting"
    FAULT = "Fault"
    STOPPED = "Stopped"
    NOT_USED = "NotUsed"


class EvictionReason(enum.StrEnum):
    """Why an agent wants a tenant evicted. It evicts nobody: the extender does, on the GPUNode's own node alone."""

    MEMORY_OVERUSE = "GPUMemoryOveruse"
    """It uses more GPU memory than was booked, and `memoryOveruse` of the PackingPolicy is Evict."""
    BLOCKS_RECOVERY = "BlocksGPURecovery"
    """Its processes keep a GPU from recovering after a fault."""


MAX_MIB = 4 * 1024 * 1024
"""Of one GPU: 4 TiB, some twenty times what the largest has."""
MAX_SECONDS = 2**31 - 1
"""68 years."""
MAX_GPUS = 64
"""Of one node."""

Name = Annotated[str, Field(max_length=253)]
MiB = Annotated[int, Field(ge=0, le=MAX_MIB)]
Seconds = Annotated[int, Field(ge=0, le=MAX_SECONDS)]
Percent = Annotated[int, Field(ge=0, le=100)]


class Tenant(documents.Model):
    """A pod that holds a GPU or a part of it."""

    pod_uid: PodUID = Field(alias="podUID", max_length=64)
    namespace: Name
    pod: Name
    memory_used_mib: MiB = Field(default=0, alias="memoryUsedMiB")
    memory_peak_mib: MiB = Field(default=0, alias="memoryPeakMiB")
    memory_limit_mib: MiB | None = Field(default=None, alias="memoryLimitMiB")
    alone_seconds: Seconds | None = None
    """How long it ran with the GPU to itself: no other tenant, and no process that no tenant explains."""
    alone_utilization_percent: Percent | None = None
    """The GPU's mean utilization in that time."""
    evict: EvictionReason | None = None
    """Why the agent wants it evicted: overuse stands until it is gone, what blocks a GPU until that serves again."""


class Ended(documents.Model):
    """A tenant that ended lately."""

    pod_uid: PodUID = Field(alias="podUID", max_length=64)
    memory_peak_mib: MiB = Field(default=0, alias="memoryPeakMiB")
    alone_seconds: Seconds | None = None
    alone_utilization_percent: Percent | None = None
    evict: EvictionReason | None = None
    """Why the agent wanted it evicted."""
    time: str = Field(json_schema_extra={"format": "date-time"})


class Fault(documents.Model):
    """The last fatal fault; each `id` is acted on once."""

    id: Name
    time: str = Field(json_schema_extra={"format": "date-time"})
    xid: Annotated[int, Field(ge=0, le=65535)] | None = None
    culprit_pod_uid: PodUID | None = Field(default=None, alias="culpritPodUID")
    victim_pod_uids: Annotated[tuple[PodUID, ...], Field(max_length=64)] = Field(default=(), alias="victimPodUIDs")
    suspect_pod_uids: Annotated[tuple[PodUID, ...], Field(max_length=64)] = Field(default=(), alias="suspectPodUIDs")
    """Those of the victims of whom one may have caused it: all, where a tenant did and nobody knows which."""


class GPU(documents.Model):
    """One GPU as its agent sees it."""

    uuid: GPUUID = Field(min_length=1, max_length=96)
    index: Annotated[int, Field(ge=0, le=MAX_GPUS - 1)]
    model: GPUModel = Field(min_length=1, max_length=63)
    memory_mib: MiB = Field(alias="memoryMiB")
    sm_count: Annotated[int, Field(ge=0, le=65535)] = 0
    compute_capability: Annotated[str, Field(max_length=16)] | None = None
    mode: Mode = Mode.SHARED
    health: Health
    reason: Annotated[str, Field(max_length=1024)] | None = None
    mps: MPS = MPS.NOT_USED
    utilization_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    memory_used_mib: MiB | None = Field(default=None, alias="memoryUsedMiB")
    foreign_processes: Annotated[int, Field(ge=0, le=2**22)] = 0
    """At most as many as Linux has process ids."""
    tenants: Annotated[tuple[Tenant, ...], Field(max_length=64)] = ()
    ended: Annotated[tuple[Ended, ...], Field(max_length=ENDED_LIMIT)] = ()
    last_fault: Fault | None = None


class Refused(documents.Model):
    """A pod that the agent refused for good, and why."""

    pod_uid: PodUID = Field(alias="podUID", max_length=64)
    reason: Annotated[str, Field(max_length=1024)]


class Spec(documents.Model):
    """What an admin may set."""

    excluded_gpus: Annotated[tuple[GPUUID, ...], Field(max_length=64)] = Field(default=(), alias="excludedGPUs")
    """UUIDs of GPUs that give no shares."""


class Status(documents.Model):
    """What the agent writes."""

    nonce: Name | None = None
    """Another in each write: none is without effect, so that one that was sent before it and comes after is refused."""
    observed_generation: int | None = None
    agent_version: Name | None = None
    driver_version: Name | None = None
    cuda_version: Name | None = None
    container_runtime: Name | None = None
    simulated: bool = False
    """Whether the GPUs are simulated; whatever shows them must say so."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = ()
    refused: Annotated[tuple[Refused, ...], Field(max_length=128)] = ()
    gpus: Annotated[tuple[GPU, ...], Field(max_length=MAX_GPUS)] = ()
