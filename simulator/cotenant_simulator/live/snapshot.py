"""The snapshot document, version 1: a cluster at one moment, as far as packing depends on it. Frozen values.

Every field is listed here, and nothing that a user may write freely is taken over but names: no environment, arguments,
commands, volumes, images, labels, or annotations of others. Memory in MiB, shares in hundredths of a GPU, times in UTC.
"""

from typing import Annotated

from pydantic import AwareDatetime, Field

from cotenant_api import documents, errors, packingpolicy, pod, prediction
from cotenant_api.dljob import Phase
from cotenant_api.names import GPUUID, GPUModel, Namespace, NodeName, PodUID
from cotenant_predictor import devices

Count = Annotated[int, Field(ge=0)]
Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
WholePercent = Annotated[int, Field(ge=0, le=100)]
Name = Annotated[str, Field(min_length=1, max_length=253)]


class GPU(documents.Model):
    """One GPU.

    Attributes:
        model: as NVIDIA's feature discovery names it.
        memory_mib: None: as the model's data sheet says.
        usable: whether it takes pods: healthy, and neither partitioned nor excluded.
    """

    uuid: GPUUID = Field(min_length=1)
    index: Count
    model: Annotated[GPUModel, Field(min_length=1, max_length=63)]
    memory_mib: Annotated[int, Field(ge=1)] | None = Field(default=None, alias="memoryMiB")
    usable: bool = True


class Node(documents.Model):
    """A node with GPUs.

    Attributes:
        ready: whether it takes pods.
        served: whether a node agent tells of it; else its labels do.
    """

    name: NodeName = Field(min_length=1)
    ready: bool
    served: bool
    gpus: Annotated[tuple[GPU, ...], Field(min_length=1)]


class Booked(documents.Model):
    """What a bound pod has of one GPU."""

    uuid: GPUUID
    share: Annotated[int, Field(ge=1, le=100)]
    active_thread_percentage: Annotated[int, Field(ge=1, le=100)]
    memory_mib: Count = Field(alias="memoryMiB")


class Believed(documents.Model):
    """A prediction without who made it.

    Attributes:
        graph: tells jobs of one graph from others.
    """

    graph: Name
    source: prediction.Source
    by_gpu: Annotated[dict[GPUModel, prediction.GPUPrediction], Field(min_length=1)] = Field(alias="byGPU")


class Pod(documents.Model):
    """A pod that asks for GPUs.

    Attributes:
        dljob: name of the DLJob that it is of.
        index: its number in a Job.
        share: hundredths of a GPU asked for; 0: none.
        whole_gpus: `nvidia.com/gpu` asked for.
        queued_since: when its job first asked.
        gpu_memory_mib: annotated.
        gpu_models: that it may use; empty: any.
        gang: tells gangs from each other; None: it is in none.
    """

    uid: PodUID = Field(min_length=1)
    namespace: Namespace = Field(min_length=1)
    name: Name
    dljob: Name | None = None
    index: Count | None = None
    created: AwareDatetime
    queued_since: AwareDatetime | None = None
    started: AwareDatetime | None = None
    finished: AwareDatetime | None = None
    phase: Annotated[str, Field(max_length=16)]
    node: NodeName | None = None
    priority: int = 0
    share: Count = 0
    whole_gpus: Count = Field(default=0, alias="wholeGPUs")
    gpu_memory_mib: Count | None = Field(default=None, alias="gpuMemoryMiB")
    gpu_models: tuple[GPUModel, ...] = ()
    workload_type: pod.WorkloadType = pod.WorkloadType.TRAINING
    gang: Name | None = None
    gang_size: Annotated[int, Field(ge=1)] | None = None
    believed: Believed | None = None
    placement: tuple[Booked, ...] = ()


class Numbers(documents.Model):
    """What a DLJob's status says of it: predicted for one GPU model, and observed.

    Attributes:
        observed_percent: GPU utilization while it was alone.
    """

    gpu_model: GPUModel | None = None
    utilization_percent: WholePercent | None = None
    upper_percent: WholePercent | None = None
    memory_mib: Count | None = Field(default=None, alias="memoryMiB")
    observed_percent: Percent | None = None
    observed_memory_mib: Count | None = Field(default=None, alias="observedMemoryMiB")


class DLJob(documents.Model):
    """A DLJob."""

    namespace: Namespace = Field(min_length=1)
    name: Name
    created: AwareDatetime
    started: AwareDatetime | None = None
    completed: AwareDatetime | None = None
    phase: Phase | None = None
    workload_type: pod.WorkloadType = pod.WorkloadType.TRAINING
    replicas: Count = 1
    gpus_per_replica: Annotated[int, Field(ge=1)] = 1
    gpu_models: tuple[GPUModel, ...] = ()
    exclusive: bool = False
    numbers: Numbers = Numbers()


class Usage(documents.Model):
    """What monitoring saw of a pod's GPUs while it ran: means over time and over its GPUs, and the memory peak of one.

    Attributes:
        sm_activity_percent, dram_activity_percent: None: not recorded.
        memory_peak_mib: None: not recorded.
    """

    namespace: Namespace
    pod: Name
    utilization_percent: Percent
    sm_activity_percent: Percent | None = None
    dram_activity_percent: Percent | None = None
    memory_peak_mib: Count | None = Field(default=None, alias="memoryPeakMiB")


class Unread(documents.Model):
    """A pod that asks for a GPU in a way that cannot be read, and the field that is wrong."""

    namespace: Namespace
    name: Name
    field: str


class Snapshot(documents.Document):
    """A cluster.

    Attributes:
        redacted: whether names are hashed.
        policy: in force; None: Cotenant is not installed.
        dljobs: those of which no pod is there.
        usage: from monitoring; empty: there was none.
    """

    taken: AwareDatetime
    redacted: bool = False
    policy: packingpolicy.PackingPolicy | None = None
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    dljobs: tuple[DLJob, ...] = ()
    usage: tuple[Usage, ...] = ()
    unread: tuple[Unread, ...] = ()


def require_whole(found: Snapshot, *, source: str) -> None:
    """Nothing, if every GPU has a memory, its own or that of its model's data sheet.

    Raises:
        InvalidInputError: one has none; the file and the path are named.
    """
    for row, node in enumerate(found.nodes):
        for slot, gpu in enumerate(node.gpus):
            if gpu.memory_mib is None and gpu.model not in devices.load():
                remedy = (
                    f"must be there: this release has no data sheet of {gpu.model}; set the node's label "
                    "nvidia.com/gpu.memory, as GPU feature discovery does, or write it into the file"
                )
                raise errors.InvalidInputError(f"{source}.nodes[{row}].gpus[{slot}].memoryMiB", None, remedy)
