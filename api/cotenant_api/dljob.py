"""The DLJob: what a user applies. Namespaced, short name `dlj`."""

import enum
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from cotenant_api import choices, documents, graph, pod, prediction, quantity, services, success
from cotenant_api.conditions import Condition
from cotenant_api.names import GPUUID, GPUModel

MAX_NAME = 52
"""A name becomes a Job's (with its attempt) and a pod's: 63 characters in all."""
MAX_RUNS: Final = 1024
"""Runs of a sweep."""
MAX_SWEEP_NAME: Final = MAX_NAME - len(f"-{MAX_RUNS - 1}")
"""The names of the runs of a sweep are made from its own."""

PREDICTED = "Predicted"
QUEUED = "Queued"
PLACED = "Placed"
READY = "Ready"
STALLED = "Stalled"
SUSPENDED = "Suspended"
CURRENT = "Current"
COMPLETE = "Complete"
FAILED = "Failed"


MIN_GPU_MEMORY_MIB: Final = 64
"""Less than the context of any CUDA process: who asks for less has left out the unit."""
MAX_GPU_MEMORY_MIB: Final = 2**30
"""1 Pi: no GPU has so much, and every amount below it is understood by whoever reads it."""
MAX_ANNOTATIONS: Final = 49_000
"""Characters of a template's annotations: fewer than a pod may have (admission/pods.yaml), as controllers add some."""
MAX_SECONDS: Final = 2**31 - 1
"""Of a time that is added to another: 68 years."""
NEVER_OBSERVED: Final = -1
"""What the API server has in place of an observed generation before the operator has written one.

Without it tools that go by kstatus take an object without a status for current.
"""


class Phase(enum.StrEnum):
    """Derived from the conditions, for people."""

    PENDING = "Pending"
    QUEUED = "Queued"
    STARTING = "Starting"
    """It has its GPUs, and a container of it fails to start."""
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


Sharing = choices.Sharing
ShortName = Annotated[str, Field(min_length=1, max_length=253)]


def _text(value: object) -> object:
    """Return a whole number as text: Kubernetes takes a quantity as either."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Quantity = Annotated[str, BeforeValidator(_text), Field(json_schema_extra={"x-cotenant-quantity": True})]


class ManagedBy(enum.StrEnum):
    """Who runs a Job: those controllers that JobSet and TrainJob may be left to."""

    JOB_CONTROLLER = "kubernetes.io/job-controller"
    MULTIKUEUE = "kueue.x-k8s.io/multikueue"


class ConfigMapRef(documents.Model):
    """A graph document in a ConfigMap: `data`, or gzipped in `binaryData` where the key ends in `.gz`."""

    name: ShortName
    """Name of the ConfigMap, in the DLJob's namespace."""
    key: ShortName = "graph.json.gz"
    """Key in it: JSON in `data`, or gzipped JSON in `binaryData` where the key ends in `.gz`."""


class ONNX(documents.Model):
    """An ONNX file in the image or on a volume."""

    path: Annotated[str, Field(min_length=1, max_length=4096)]
    """Path of the file in the container that gets the GPU, or in the volume of `claimName`."""
    claim_name: ShortName | None = None
    """PersistentVolumeClaim that holds the file; default: the image holds it."""


class Entrypoint(documents.Model):
    """A Python callable in the user's image that builds the model."""

    callable: Annotated[str, Field(min_length=3, max_length=1024, pattern=r"^[\w.]+:[\w.]+$")]
    """`module:function`, importable from the container's `workingDir` or PYTHONPATH. It returns (model, inputs),
    (model, inputs, loss) or a dictionary: see `cotenant extract --help`."""
    args: Annotated[dict[str, Annotated[str, Field(max_length=1024)]], Field(max_length=64)] = Field(
        default_factory=dict
    )
    """Keyword arguments of the callable: Python literals, else text; `batch_size` is added."""
    timeout_seconds: Annotated[int, Field(ge=1, le=3600)] = 300
    """How long its container may run; placing the pod and pulling its image have 600 s of their own."""


class ModelSource(documents.Model):
    """Where the computation graph comes from: at most one of these; none: no prediction."""

    features: dict[str, Any] | None = None
    """A graph document inline, at most 64 KiB: what `cotenant extract` prints."""
    config_map_ref: ConfigMapRef | None = None
    """A graph document in a ConfigMap."""
    onnx: ONNX | None = None
    """An ONNX file, read by a small pod without GPU in the job's own image."""
    entrypoint: Entrypoint | None = None
    """A Python callable, run by a small pod without GPU in the job's own image."""


class InputShape(documents.Model):
    """One input tensor, for `onnx` and `entrypoint`."""

    name: ShortName
    """Name of the input."""
    dims: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1, max_length=16)]
    """Its dimensions, the batch included."""
    dtype: Annotated[str, Field(max_length=16)] = "fp32"
    """Type of its elements."""


class SLO(documents.Model):
    """What an inference job promises."""

    latency_milliseconds: Annotated[int, Field(ge=1)] | None = None
    """Time to answer a request."""
    percentile: Annotated[int, Field(ge=1, le=100)] = 99
    """Percentage of requests that are answered within it."""
    requests_per_second: Quantity | None = None
    """Requests that come: a replica is booked for all of them, unless the graph declares others."""


class OOMPolicy(documents.Model):
    """How often, and with how much more, a job is resubmitted that ran out of GPU memory."""

    max_resubmissions: Annotated[int, Field(ge=0, le=10)] = 3
    """Attempts with more memory, before the job gets a whole GPU; 0: a whole GPU at once."""
    growth_percent: Annotated[int, Field(ge=101, le=1000)] = 150
    """Memory of the next attempt, in percent of the larger of what was measured and what was booked."""


class FailureAction(enum.StrEnum):
    """What a matching failure does."""

    FAIL_JOB = "FailJob"


class ExitCodeOperator(enum.StrEnum):
    """How an exit code is compared with values."""

    IN = "In"
    NOT_IN = "NotIn"


class OnExitCodes(documents.Model):
    """Exit codes of containers that failed."""

    container_name: ShortName | None = None
    """Container that it looks at; default: any."""
    operator: ExitCodeOperator
    """In: one of the values. NotIn: none of them. 0 is never compared."""
    values: Annotated[tuple[Annotated[int, Field(ge=0, le=255)], ...], Field(min_length=1, max_length=255)]
    """Exit codes, each once."""


class FailureRule(documents.Model):
    """One rule of `podFailurePolicy`."""

    action: FailureAction
    """FailJob: the job has failed, whatever is left of `backoffLimit`."""
    on_exit_codes: OnExitCodes
    """The failures that it is for."""


class PodFailurePolicy(documents.Model):
    """Which failures end a training job at once, as `podFailurePolicy` of batch/v1."""

    rules: Annotated[tuple[FailureRule, ...], Field(min_length=1, max_length=16)]
    """Looked at in order. Pods that were evicted, ran out of GPU memory or were victims of a fault match none."""


class Spec(documents.Model):
    """What a user writes."""

    workload_type: pod.WorkloadType = pod.WorkloadType.TRAINING
    """Training runs to its end as a Job; Inference serves until it is deleted, as a Deployment."""
    replicas: Annotated[int, Field(ge=0, le=1024)] = 1
    """Pods of the job. More than one of a training job are a gang: they start together, and one that fails
    ends the attempt. A gang has at most the policy's `queue.maxGangSize` of them."""
    completions: Annotated[int, Field(ge=1, le=MAX_RUNS)] | None = None
    """Runs of a sweep: each is a DLJob `NAME-INDEX` of its own, with `replicas` pods, that fails, is packed and is
    resubmitted by itself. Its index, from 0, is in COTENANT_COMPLETION_INDEX. Without it the DLJob is one run."""
    parallelism: Annotated[int, Field(ge=1, le=MAX_RUNS)] | None = None
    """Runs of a sweep that are under way at the same time, waiting ones included; default: all."""
    gpus_per_replica: Annotated[int, Field(ge=1, le=64)] = 1
    """GPUs of each pod; more than one are whole GPUs of one node, without co-tenants."""
    processes_per_gpu: Annotated[int, Field(ge=1, le=16)] = Field(default=1, alias="processesPerGPU")
    """CUDA processes that a pod runs on each of its GPUs: they share its limits evenly."""
    model: ModelSource | None = None
    """Where the computation graph comes from. Without one there is no prediction, and
    `queue.onMissingPrediction` of the PackingPolicy decides."""
    batch_size: Annotated[int, Field(ge=1)] | None = None
    """Samples of one step. For `onnx` and `entrypoint`: a graph document says it itself."""
    precision: graph.Precision | None = None
    """Type of the matrix work. For `onnx` and `entrypoint`."""
    input_shapes: Annotated[tuple[InputShape, ...], Field(max_length=64)] = ()
    """Input tensors. For `onnx`, where the file leaves them open; a callable gets them as `input_shapes`."""
    gpu_memory: Quantity | None = None
    """GPU memory to book on each GPU, instead of what is predicted; at least 64Mi. Without a unit it counts bytes."""
    gpu_models: Annotated[tuple[documents.GPUModelName, ...], Field(max_length=64)] = ()
    """GPU models that the job may use, as the node label `nvidia.com/gpu.product` names them; empty: any."""
    sharing: Sharing = Sharing.SHARED
    """Shared: beside co-tenants, by prediction. Exclusive: whole GPUs, whatever is predicted."""
    container: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Container of the template that gets the GPU; default: the first."""
    slo: SLO | None = None
    """What an inference job promises. Only the requests that come are acted on in this release."""
    service: services.Service | None = None
    """Service that is made in front of the ready replicas of an inference job; default: none. A change restarts
    nothing. Only who may create Services in the namespace may set it."""
    oom_policy: OOMPolicy = Field(default=OOMPolicy(), alias="oomPolicy")
    """What happens when the job runs out of GPU memory."""
    suspend: bool = False
    """True: no pod runs; those that do are ended, uncounted. False: they start (again). Of a sweep: of all runs."""
    backoff_limit: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Failures that the job survives; the next one makes it Failed. Default 6. What is not the job's own fault is
    not counted."""
    pod_failure_policy: PodFailurePolicy | None = None
    """Exit codes after which it is not tried again: an error in its configuration, say. Running out of GPU memory and
    what is not the job's own fault come first."""
    success_policy: success.SuccessPolicy | None = None
    """When a gang has succeeded although members still run, as `successPolicy` of batch/v1; default: when all have."""
    active_deadline_seconds: Annotated[int, Field(ge=1, le=MAX_SECONDS)] | None = None
    """How long the job may have all its GPUs, all attempts together; then it is Failed. Waiting for them does not
    count, the first time or again, nor do suspension and backoff."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=MAX_SECONDS)] | None = None
    """Time from its end to the deletion of the DLJob with all that it owns; default: never."""
    minimum_run_seconds: Annotated[int, Field(ge=0)] | None = None
    """Time that a pod is left to run before a job of higher priority may take its GPU: long enough to reach a
    checkpoint. At most the policy's `queue.maxMinimumRunSeconds`."""
    managed_by: ManagedBy | None = None
    """Controller that runs the Job, as `managedBy` of batch/v1: Kubernetes' own, the default, or MultiKueue's."""
    template: dict[str, Any]
    """A PodTemplateSpec, as of a Job."""


class RefusedGraph(documents.Model):
    """A graph that cannot be read."""

    digest: Annotated[str, Field(max_length=71)]
    """Of the graph, of how it was read, and of the version that read it: the same is not read again."""
    message: Annotated[str, Field(max_length=2048)]
    """What is wrong, and what to do."""


class PredictionStatus(documents.Model):
    """The prediction for one GPU model, for people: the one placed on, else the one of the smallest share."""

    gpu_model: GPUModel | None = None
    """GPU model that it is for."""
    utilization_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """GPU utilization of the job alone, as likely above as below."""
    upper_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """Upper bound of it: what is booked."""
    memory_mib: Annotated[int, Field(ge=0)] | None = Field(default=None, alias="memoryMiB")
    """Upper bound of its GPU memory, in MiB."""
    source: prediction.Source | None = None
    """Model: learned. Formula: data sheets. Profile: measured. User: given."""
    model: Annotated[str, Field(max_length=253)] | None = None
    """Which predictor made it: `name@digest`."""
    reason: Annotated[str, Field(max_length=1024)] | None = None
    """Why, in words."""


class PlacedGPU(documents.Model):
    """One GPU that a replica holds."""

    uuid: GPUUID
    """The GPU."""
    share: Annotated[int, Field(ge=1, le=100)]
    """Hundredths of its time that are booked."""
    active_thread_percentage: Annotated[int, Field(ge=1, le=100)]
    """Percentage of its SMs that the pod may use, held by MPS."""
    memory_mib: Annotated[int, Field(ge=0)] = Field(alias="memoryMiB")
    """GPU memory that is booked, in MiB."""


class Replica(documents.Model):
    """Where one replica is."""

    index: Annotated[int, Field(ge=0)]
    """Its number, from 0."""
    pod: ShortName
    """Its pod."""
    node: ShortName | None = None
    """Node that the pod is bound to."""
    gpus: Annotated[tuple[PlacedGPU, ...], Field(max_length=64)] = ()
    """GPUs that it has; of a job with more than 2,048, those of its first replicas."""
    co_tenants: Annotated[tuple[ShortName, ...], Field(max_length=64)] = ()
    """Pods of others on the same GPUs: `namespace/pod`."""


class Observed(documents.Model):
    """What was measured; `stepsPerSecond` only by the profiler."""

    gpu_utilization_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """Utilization of the GPU while the job was alone on it: NVML knows it per GPU, not per job."""
    memory_peak_mib: Annotated[int, Field(ge=0)] | None = Field(default=None, alias="memoryPeakMiB")
    """The most GPU memory that a replica used, in MiB."""
    steps_per_second: Quantity | None = None
    """Steps a second, known where the profiler ran."""
    alone_seconds: Annotated[int, Field(ge=0)] | None = None
    """How long it was alone on its GPU."""


class Scale(documents.Model):
    """What the subresource `scale` tells autoscalers of an inference job."""

    replicas: Annotated[int, Field(ge=0)]
    """Pods that it has."""
    selector: Annotated[str, Field(max_length=512)]
    """Labels of these pods, as a selector."""


def _observed(value: object) -> object:
    return None if value == NEVER_OBSERVED else value


class Status(documents.Model):
    """What the operator writes."""

    observed_generation: Annotated[int | None, BeforeValidator(_observed)] = None
    """The `metadata.generation` that this status describes; -1 before there is one."""
    phase: Phase | None = None
    """The conditions in one word, for people; programs read the conditions."""
    queue_position: Annotated[int, Field(ge=1)] | None = None
    """Place in the packing queue, 1 is next; absent where nothing waits there."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = ()
    """What holds and why, by the rules of `metav1.Condition`."""
    attempts: Annotated[int, Field(ge=0)] | None = None
    """Attempts so far: a Job for each."""
    failures: Annotated[int, Field(ge=0)] | None = None
    """Failures so far that count against `backoffLimit`; absent before the first attempt."""
    start_time: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    """When the job first had all its GPUs; it stays."""
    placed_seconds: Annotated[int, Field(ge=0)] | None = None
    """How long the job had all its GPUs until it last lost one; `activeDeadlineSeconds` counts from there."""
    placed_since: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    """Since when it has all its GPUs; absent while it lacks one, and after its end."""
    completion_time: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    """When the job ended, well or not."""
    prediction: PredictionStatus | None = None
    """What is predicted, for the GPU model that the job is on, before that for the one of the smallest share."""
    refused_graph: RefusedGraph | None = None
    """The graph that cannot be read, if so."""
    replicas: Annotated[tuple[Replica, ...], Field(max_length=1024)] = ()
    """Where each replica is."""
    observed: Observed | None = None
    """What was measured."""
    scale: Scale | None = None
    """Of an inference job: what autoscalers read by the subresource `scale`."""
    active: Annotated[int, Field(ge=0)] | None = None
    """Runs of a sweep that are under way, as `active` of batch/v1."""
    succeeded: Annotated[int, Field(ge=0)] | None = None
    """Runs of a sweep that have ended well."""
    failed: Annotated[int, Field(ge=0)] | None = None
    """Runs of a sweep that have failed."""
    completed_indexes: Annotated[str, Field(max_length=8192)] | None = None
    """Indexes of the runs that have ended well, as batch/v1 writes them: `0-3,7`."""
    failed_indexes: Annotated[str, Field(max_length=8192)] | None = None
    """Indexes of the runs that have failed."""


def contradiction(spec: Spec) -> str | None:
    """Return what makes a spec unusable that its types allow; the API server refuses it since the rule is there."""
    extracted = spec.model is not None and (spec.model.onnx is not None or spec.model.entrypoint is not None)
    if extracted and spec.batch_size is None:
        return "spec.batchSize: is missing: model.onnx and model.entrypoint need the samples of one step"
    if spec.gpu_memory is not None:
        amount = quantity.counted(spec.gpu_memory, field="spec.gpuMemory") / quantity.BYTES_PER_MIB
        if amount > MAX_GPU_MEMORY_MIB:
            return f"spec.gpuMemory: {spec.gpu_memory!r}: must be at most 1Pi: no GPU has so much"
    return None
