"""What packing sees: nodes, their GPUs and tenants, and the request. Frozen values.

`fleet.Fleet` holds many nodes as arrays; what is looked at one by one is looked at here.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from cotenant_api import pod, prediction
from cotenant_api.names import GPUUID, GPUModel, Namespace, NodeName, PodUID
from cotenant_extender.packing import causes, constraints


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A pod that counts against a GPU: bound, being bound or earmarked.

    Attributes:
        labels: the pod's labels, for `tenancy: Label`.
        share: hundredths booked on this GPU.
        memory_mib: memory booked on this GPU, in MiB.
        predicted: the prediction for this GPU's model, if the pod has one.
        thread_percentage: percentage of the SMs that it may use.
        client_priority: MPS client priority: 0 normal, 1 below.
        promised: whether it has an earmark alone.
        suspect: the job that may be with no other suspect; empty: it is none.
    """

    uid: PodUID
    namespace: Namespace
    labels: Mapping[str, str]
    workload_type: pod.WorkloadType
    share: int
    memory_mib: int
    predicted: prediction.GPUPrediction | None = None
    thread_percentage: int = 100
    client_priority: int = 0
    promised: bool = False
    suspect: str = ""


NO_NAMESPACE = Namespace("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """GPUs kept for a job that waits: nothing newer of no higher priority goes there.

    Attributes:
        holders: its pods.
        since: when that job joined the queue, in seconds since the epoch; -inf: nobody else of its priority goes there.
        expected: when that job was expected to start when these GPUs were chosen, in seconds since the epoch.
        began: since when any are held for it, in seconds since the epoch.
        moved: since when these are.
        blockers: whom that job waited for then: who was expected to end first.
        namespace: of its pods.
    """

    holders: frozenset[PodUID]
    priority: int
    since: float
    expected: float = math.inf
    began: float = 0.0
    moved: float = 0.0
    blockers: frozenset[PodUID] = frozenset()
    namespace: Namespace = NO_NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a job for which GPUs of a node are held needs of the node beside them: kept free for it, too."""

    hold: Hold
    cpu_millis: int
    memory_bytes: int
    pods: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GPU:
    """One GPU and what is booked on it.

    Attributes:
        memory_mib: the GPU's whole memory, in MiB.
        closed: why it takes none at all, if it does not.
        share: sum of the tenants' hundredths.
        booked_mib: sum of the tenants' memory, in MiB.
    """

    uuid: GPUUID
    index: int
    model: GPUModel
    memory_mib: int
    closed: causes.Cause | None
    tenants: tuple[Tenant, ...]
    share: int
    booked_mib: int
    hold: Hold | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNeed:
    """What a pod requests of its node beside the GPU share."""

    cpu_millis: int
    memory_bytes: int


class Lasting(NamedTuple):
    """What pods that ask for no share and run until somebody deletes them request of a node."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    pods: int = 0

    def plus(self, need: HostNeed, count: int) -> "Lasting":
        """With so many more, or fewer, of such pods."""
        cpu, memory = self.cpu_millis + count * need.cpu_millis, self.memory_bytes + count * need.memory_bytes
        return Lasting(cpu, memory, self.pods + count)


NONE_LASTING: Final = Lasting()


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What is free on a node, and who may go there. Free amounts are negative where more is requested than offered.

    Attributes:
        free_share: hundredths of `cotenant.dev/gpu-share` that no pod has requested.
        free_pods: how many more pods the node takes.
        cpu_millis, memory_bytes, pods: what it has allocatable.
        schedulable: whether it is Ready and not cordoned.
        lasting: what of it never becomes free by itself, beside what GPU tenants have.
    """

    free_share: int
    free_cpu_millis: int
    free_memory_bytes: int
    free_pods: int
    cpu_millis: int
    memory_bytes: int
    pods: int
    schedulable: bool
    labels: Mapping[str, str]
    taints: tuple[constraints.Taint, ...]
    lasting: Lasting = NONE_LASTING


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node with GPUs, these by index.

    Attributes:
        closed: why none of its GPUs takes any pod, if so.
        kept: what is kept of it, for whom it was kept first in front.
    """

    name: NodeName
    gpus: tuple[GPU, ...]
    closed: causes.Cause | None
    host: Host
    kept: tuple[Kept, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A pod that wants a place.

    Attributes:
        priority: `spec.priority`.
        since: when it joined the queue, in seconds since the epoch.
        fit_key: requests with equal keys, and equal tenancy labels, are taken and refused alike by any view.
        alike: the part of `fit_key` that does not follow from the constraints.
    """

    demand: pod.Demand
    labels: Mapping[str, str]
    priority: int
    since: float
    host: HostNeed
    constraints: constraints.Constraints
    fit_key: Hashable
    alike: Hashable = None
