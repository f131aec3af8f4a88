"""The PackingPolicy: the one object that an admin tunes, cluster-scoped and named `default`.

An enumeration lists what this release does; what it does not do, the API server refuses.
"""

import enum
from typing import Annotated, Any, Self

from pydantic import Field

from cotenant_api import choices, documents
from cotenant_api.conditions import Condition
from cotenant_api.names import HUNDREDTHS, GPUModel

NAME = "default"


class Mode(enum.StrEnum):
    """Pack jobs, or predict and advise only."""

    PACK = "Pack"
    OBSERVE = "Observe"


class Metric(enum.StrEnum):
    """Which predicted figure a share stands for."""

    GPU_UTILIZATION = "GPUUtilization"
    SM_ACTIVITY = "SMActivity"


Placement = choices.Placement


class ThreadPartition(enum.StrEnum):
    """Which percentage of the SMs a tenant's kernels may use."""

    DEMAND = "Demand"
    PROPORTIONAL = "Proportional"
    THROUGHPUT = "Throughput"
    """The largest sum of predicted speeds on the GPU."""
    MAX_MIN = "MaxMin"
    """The largest smallest predicted speed on the GPU."""
    PRIMARY = "Primary"
    """Inference, else who is there already, keeps 95 % of its predicted speed."""
    NONE = "None"


class Tenancy(enum.StrEnum):
    """Who may share a GPU."""

    SAME_NAMESPACE = "SameNamespace"
    ANY = "Any"
    LABEL = "Label"


class TenantUser(enum.StrEnum):
    """Whom the containers of pods that share a GPU may run as."""

    NON_ROOT = "NonRoot"
    """Nobody who is root of the node: `cotenant_api.rootless` says what a pod has to say."""
    ANY = "Any"


class MemoryOveruse(enum.StrEnum):
    """What happens to a tenant that uses more memory than it booked."""

    EVENT = "Event"
    EVICT = "Evict"


class Order(enum.StrEnum):
    """The order of the queue among jobs of one priority."""

    DECREASING_SHARE = "DecreasingShare"
    FIFO = "FIFO"


class OnMissingPrediction(enum.StrEnum):
    """What becomes of a DLJob without a prediction."""

    EXCLUSIVE = "Exclusive"
    HOLD = "Hold"
    PROFILE = "Profile"
    """Alone on a GPU until it has been measured for a minute, then packed by what was measured."""


class Correction(enum.StrEnum):
    """What becomes of a prediction when the job has been measured."""

    NONE = "None"
    HYBRID = "Hybrid"
    """The next placement rests on the utilization that was measured alone for a minute, on that GPU model."""


Tenants = Annotated[int, Field(ge=1, le=16)]
UtilizationPercent = Annotated[int, Field(ge=10, le=300)]
HeadroomPercent = Annotated[int, Field(ge=0, le=90)]


class Queue(documents.Model):
    """How waiting jobs are ordered and when they are helped."""

    order: Order = Order.DECREASING_SHARE
    """Order among jobs of one priority."""
    max_wait_seconds: Annotated[int, Field(ge=1, le=604800)] = 3600
    """A job that has waited longer goes before all others of its priority, and GPUs are reserved for it."""
    scale_up_after_seconds: Annotated[int, Field(ge=1, le=86400)] = 30
    """When a job that fits nowhere, but would fit another node, is lifted so that an autoscaler sees it."""
    on_missing_prediction: OnMissingPrediction = OnMissingPrediction.EXCLUSIVE
    """What becomes of a DLJob without a prediction: a whole GPU, a whole GPU until measured, or nothing."""
    max_minimum_run_seconds: Annotated[int, Field(ge=0, le=604800)] = 3600
    """The longest time that a pod can keep itself from being evicted for another, by `minimumRunSeconds`."""
    max_gang_size: Annotated[int, Field(ge=1, le=1024)] = 256
    """Pods that a gang may have at most."""
    start_timeout_seconds: Annotated[int, Field(ge=60, le=604800)] | None = None
    """How long a pod of a training DLJob may have its GPUs without its container running, its image being pulled
    included; then it gives them back, and comes again later. Absent: for ever."""


class Packing(documents.Model):
    """The packing fields in force for one GPU model."""

    max_tenants_per_gpu: Tenants = Field(default=3, alias="maxTenantsPerGPU")
    """Jobs on one GPU at most."""
    metric: Metric = Metric.GPU_UTILIZATION
    """What the upper bound of a prediction is taken from."""
    max_utilization_percent: UtilizationPercent = 100
    """Predicted utilization that counts as one GPU; above 100 packs more tightly than predicted."""
    memory_headroom_percent: HeadroomPercent = 5
    """Part of a GPU memory that is never booked."""
    placement: Placement = choices.DEFAULT_PLACEMENT
    """How a GPU is chosen among those that fit. Exclusive, Reactive and MemoryOnly also say what a job costs."""
    thread_partition: ThreadPartition = ThreadPartition.DEMAND
    """Which percentage of the SMs a tenant may use: what it needs, its share, what suits all on the GPU, or all."""
    tenancy: Tenancy = Tenancy.SAME_NAMESPACE
    """Who may share a GPU."""
    memory_overuse: MemoryOveruse = MemoryOveruse.EVENT
    """What happens to a pod that uses more GPU memory than was booked for it: an event, or also an eviction."""


class Override(documents.Model):
    """Packing fields that differ for some GPU models; the placement is the whole cluster's."""

    gpu_models: Annotated[tuple[documents.GPUModelName, ...], Field(min_length=1, max_length=16)]
    max_tenants_per_gpu: Tenants | None = Field(default=None, alias="maxTenantsPerGPU")
    metric: Metric | None = None
    max_utilization_percent: UtilizationPercent | None = None
    memory_headroom_percent: HeadroomPercent | None = None
    thread_partition: ThreadPartition | None = None
    tenancy: Tenancy | None = None
    memory_overuse: MemoryOveruse | None = None


class Spec(Packing):
    """What an admin writes."""

    mode: Mode = Mode.PACK
    """Pack shares GPUs; Observe predicts and advises, and shares none."""
    tenancy_label: Annotated[str, Field(min_length=1, max_length=316)] | None = None
    """The pod label whose equal values may share a GPU, with tenancy Label."""
    tenant_user: TenantUser = TenantUser.NON_ROOT
    """Whom the containers of pods that share a GPU may run as. NonRoot: with `runAsNonRoot: true` (or another
    `runAsUser` than 0), `allowPrivilegeEscalation: false` and `capabilities: {drop: [ALL]}` (or `[SETUID]`), or in pods
    with `hostUsers: false`. Any: also as root, whom the GPU's MPS control daemon obeys."""
    max_gpus_per_namespace: Annotated[int, Field(ge=1, le=100000)] | None = Field(
        default=None, alias="maxGPUsPerNamespace"
    )
    """GPUs that the pods of one namespace may be on at a time, whatever part of each they book; absent: any number."""
    queue: Queue = Queue()
    """How waiting jobs are ordered and when they are helped."""
    correction: Correction = Correction.NONE
    """Whether a next placement of a DLJob rests on what was measured instead of what was predicted."""
    paused: bool = False
    """Lift and place nothing; what runs goes on."""
    overrides: Annotated[tuple[Override, ...], Field(max_length=16)] = ()
    """Packing fields that differ for some GPU models; the placement is the whole cluster's."""

    def refuses_root(self, share: int) -> bool:
        """Return whether pods that ask for so many hundredths must not run as root: those that may share a GPU."""
        whole = share >= HUNDREDTHS or self.placement is Placement.EXCLUSIVE
        return self.tenant_user is TenantUser.NON_ROOT and not whole

    def packing(self, gpu_model: GPUModel) -> Packing:
        """Return the packing fields in force for one GPU model; the first override that names it wins."""
        base = {name: getattr(self, name) for name in Packing.model_fields}
        for override in self.overrides:
            if gpu_model in override.gpu_models:
                changed = override.model_dump(exclude_none=True, exclude={"gpu_models"})
                return Packing.model_validate(base | changed)
        return Packing.model_validate(base)


class ModelNames(documents.Model):
    """The prediction models, as `name@sha256:..`."""

    active: str | None = None
    candidate: str | None = None


class Status(documents.Model):
    """What is in force."""

    observed_generation: int | None = None
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = ()
    model: ModelNames | None = None


class PackingPolicy(documents.Model):
    """A policy as read from the API server; `generation` names the version that a placement rests on."""

    generation: int
    spec: Spec

    @classmethod
    def from_object(cls, value: dict[str, Any]) -> Self:
        """Read the object.

        Raises:
            InvalidInputError: a field is wrong; nothing of it may be applied.
        """
        metadata = value.get("metadata") or {}
        spec = documents.validated(Spec, value.get("spec") or {}, source="PackingPolicy.spec")
        return cls(generation=metadata.get("generation", 0), spec=spec)
