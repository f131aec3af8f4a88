"""The DLJob: what a user applies. Namespaced, short name `dlj`."""

import enum
from typing import Annotated, Any

from pydantic import Field

from cotenant_api import documents, graph, pod, prediction
from cotenant_api.conditions import Condition
from cotenant_api.names import GPUUID, GPUModel

MAX_NAME = 52
"""A name becomes a Job's (with its attempt) and a pod's: 63 characters in all."""

PREDICTED = "Predicted"
QUEUED = "Queued"
PLACED = "Placed"
READY = "Ready"
SUSPENDED = "Suspended"
COMPLETE = "Complete"
FAILED = "Failed"


class Phase(enum.StrEnum):
    """Derived from the conditions, for people."""

    PENDING = "Pending"
    QUEUED = "Queued"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Sharing(enum.StrEnum):
    """Whether a job may have co-tenants."""

    SHARED = "Shared"
    EXCLUSIVE = "Exclusive"


ModelName = Annotated[GPUModel, Field(min_length=1, max_length=63)]
ShortName = Annotated[str, Field(min_length=1, max_length=253)]
Quantity = Annotated[str, Field(json_schema_extra={"x-cotenant-quantity": True})]


class ConfigMapRef(documents.Model):
    """A graph document in a ConfigMap: `data`, or gzipped in `binaryData` where the key ends in `.gz`."""

    name: ShortName
    key: ShortName = "graph.json.gz"


class ONNX(documents.Model):
    """An ONNX file in the image or on a volume."""

    path: Annotated[str, Field(min_length=1, max_length=4096)]
    claim_name: ShortName | None = None


class Entrypoint(documents.Model):
    """A Python callable in the user's image that builds the model."""

    callable: Annotated[str, Field(min_length=3, max_length=1024, pattern=r"^[\w.]+:[\w.]+$")]
    args: Annotated[dict[str, Annotated[str, Field(max_length=1024)]], Field(max_length=64)] = Field(
        default_factory=dict
    )
    timeout_seconds: Annotated[int, Field(ge=1, le=3600)] = 300


class ModelSource(documents.Model):
    """Where the computation graph comes from: at most one of these; none: no prediction."""

    features: dict[str, Any] | None = None
    config_map_ref: ConfigMapRef | None = None
    onnx: ONNX | None = None
    entrypoint: Entrypoint | None = None


class InputShape(documents.Model):
    """One input tensor, for `onnx` and `entrypoint`."""

    name: ShortName
    dims: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1, max_length=16)]
    dtype: Annotated[str, Field(max_length=16)] = "fp32"


class SLO(documents.Model):
    """What an inference job promises."""

    latency_milliseconds: Annotated[int, Field(ge=1)] | None = None
    percentile: Annotated[int, Field(ge=1, le=100)] = 99
    requests_per_second: Quantity | None = None


class OOMPolicy(documents.Model):
    """How often, and with how much more, a job is resubmitted that ran out of GPU memory."""

    max_resubmissions: Annotated[int, Field(ge=0, le=10)] = 3
    growth_percent: Annotated[int, Field(ge=101, le=1000)] = 150


class Spec(documents.Model):
    """What a user writes."""

    workload_type: pod.WorkloadType = pod.WorkloadType.TRAINING
    """Training runs to its end; Inference serves until it is deleted. Immutable."""
    replicas: Annotated[int, Field(ge=0, le=1024)] = 1
    """Pods of the job; those of a training job start and fail together."""
    gpus_per_replica: Annotated[int, Field(ge=1, le=64)] = 1
    """GPUs of each pod; above 1 they are whole GPUs of one node."""
    processes_per_gpu: Annotated[int, Field(ge=1, le=16)] = Field(default=1, alias="processesPerGPU")
    """CUDA processes on each GPU: limits are divided by them."""
    model: ModelSource | None = None
    """Where the computation graph comes from; without it there is no prediction."""
    batch_size: Annotated[int, Field(ge=1)] | None = None
    """Samples of one step, for onnx and entrypoint."""
    precision: graph.Precision | None = None
    """Type of the matrix work, for onnx and entrypoint."""
    input_shapes: Annotated[tuple[InputShape, ...], Field(max_length=64)] = ()
    """Input tensors, for onnx and entrypoint."""
    gpu_memory: Quantity | None = None
    """GPU memory to book, instead of the predicted."""
    gpu_models: Annotated[tuple[ModelName, ...], Field(max_length=64)] = ()
    """GPU models that the job may use, as NVIDIA feature discovery names them; empty: any."""
    sharing: Sharing = Sharing.SHARED
    """Exclusive: a GPU without co-tenants."""
    container: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """The container that gets the GPU; default: the first."""
    slo: SLO | None = None
    """What an inference job promises. Not acted on in this release."""
    oom_policy: OOMPolicy = Field(default=OOMPolicy(), alias="oomPolicy")
    """What happens when the job runs out of GPU memory. Not acted on in this release."""
    suspend: bool = False
    """No pods while true."""
    backoff_limit: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Failures before the job is Failed; default 6."""
    active_deadline_seconds: Annotated[int, Field(ge=1)] | None = None
    """Time from the first Placed after which the job is Failed."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0)] | None = None
    """Time after its end when the DLJob is deleted; default: never."""
    managed_by: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Another controller of the Job, as batch/v1 managedBy."""
    template: dict[str, Any]
    """A PodTemplateSpec; the API server checks the parts that the protocol depends on."""


class PredictionStatus(documents.Model):
    """The prediction for one GPU model, for people: the one placed on, else the one of the smallest share."""

    gpu_model: GPUModel | None = None
    utilization_percent: Annotated[int, Field(ge=0)] | None = None
    upper_percent: Annotated[int, Field(ge=0)] | None = None
    memory_mib: Annotated[int, Field(ge=0)] | None = Field(default=None, alias="memoryMiB")
    source: prediction.Source | None = None
    model: Annotated[str, Field(max_length=253)] | None = None
    reason: Annotated[str, Field(max_length=1024)] | None = None


class PlacedGPU(documents.Model):
    """One GPU that a replica holds."""

    uuid: GPUUID
    share: Annotated[int, Field(ge=1, le=100)]
    active_thread_percentage: Annotated[int, Field(ge=1, le=100)]
    memory_mib: Annotated[int, Field(ge=0)] = Field(alias="memoryMiB")


class Replica(documents.Model):
    """Where one replica is."""

    index: Annotated[int, Field(ge=0)]
    pod: ShortName
    node: ShortName | None = None
    gpus: Annotated[tuple[PlacedGPU, ...], Field(max_length=64)] = ()
    co_tenants: Annotated[tuple[ShortName, ...], Field(max_length=64)] = ()


class Observed(documents.Model):
    """What was measured; `stepsPerSecond` only by the profiler."""

    gpu_utilization_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    memory_peak_mib: Annotated[int, Field(ge=0)] | None = Field(default=None, alias="memoryPeakMiB")
    steps_per_second: Quantity | None = None
    alone_seconds: Annotated[int, Field(ge=0)] | None = None


class Status(documents.Model):
    """What the operator writes."""

    observed_generation: int | None = None
    phase: Phase | None = None
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = ()
    attempts: Annotated[int, Field(ge=0)] | None = None
    start_time: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    completion_time: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    prediction: PredictionStatus | None = None
    replicas: Annotated[tuple[Replica, ...], Field(max_length=1024)] = ()
    observed: Observed | None = None
