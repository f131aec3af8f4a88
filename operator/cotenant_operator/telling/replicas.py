"""Which pod stands for which replica, and where it is. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cotenant_api import dljob
from cotenant_api.names import GPUUID, PodUID
from cotenant_operator.state import views
from cotenant_operator.state.observed import GPU
from cotenant_operator.telling import hindrances
from cotenant_operator.telling.hindrances import Hindrance

MAX_CO_TENANTS: Final = 64
MAX_GPUS: Final = 2048
MAX_NAMES: Final = 1024
"""Of all replicas together: a status with so many stays below 1 MiB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How far the replicas are.

    Attributes:
        wanted: how many there are to be.
        seen: have a pod.
        placed: have, or had until they succeeded, a GPU.
        ready: are ready, or have succeeded.
        hindrance: what keeps the first that has its GPUs from starting, or from being heard of.
    """

    wanted: int
    seen: int
    placed: int
    ready: int
    hindrance: Hindrance | None = None


def of_attempt(pods: Sequence[views.Pod], attempt: int) -> tuple[views.Pod, ...]:
    """Return the pod of each index of a training job: the one that lives or succeeded, else the youngest."""
    best: dict[int, views.Pod] = {}
    for pod in pods:
        if pod.attempt != attempt or pod.index is None:
            continue
        other = best.get(pod.index)
        if other is None or _rank(pod) > _rank(other):
            best[pod.index] = pod
    return tuple(best[index] for index in sorted(best))


def of_deployment(pods: Sequence[views.Pod]) -> tuple[views.Pod, ...]:
    """Return the living pods of a Deployment, oldest first."""
    living = (pod for pod in pods if not pod.ended and not pod.meta.deleting)
    return tuple(sorted(living, key=lambda pod: (pod.meta.created, pod.meta.key.name)))


def counts(pods: Sequence[views.Pod], *, wanted: int, observed_only: bool, now: datetime) -> Counts:
    """Return how far these pods are.

    Args:
        pods: one a replica. One that failed counts as placed until there is one in its stead.
        wanted: how many replicas there are to be.
        observed_only: mode Observe: bound is placed, there is no placement.
        now: the time.
    """
    placed = [pod for pod in pods if is_placed(pod, observed_only=observed_only)]
    return Counts(
        wanted=wanted,
        seen=len(pods),
        placed=len(placed),
        ready=sum(pod.ready or pod.phase == "Succeeded" for pod in pods),
        hindrance=hindrances.first(placed, now),
    )


def is_placed(pod: views.Pod, *, observed_only: bool) -> bool:
    """Return whether a pod has been given its GPUs."""
    return pod.node is not None and (observed_only or pod.placement is not None)


def listed(pods: Sequence[views.Pod], gpus: Mapping[GPUUID, GPU]) -> tuple[dljob.Replica, ...]:
    """Return the replicas as the status shows them: as many GPUs and neighbours in all as an object can hold."""
    own = {views.pod_uid(pod) for pod in pods}
    found, places, names = [], MAX_GPUS, MAX_NAMES
    for position, pod in enumerate(pods):
        booked = () if pod.placement is None or len(pod.placement.gpus) > places else pod.placement.gpus
        others = sorted(_co_tenants(pod, gpus, own))[: min(MAX_CO_TENANTS, names)]
        places, names = places - len(booked), names - len(others)
        found.append(
            dljob.Replica(
                index=position if pod.index is None else pod.index,
                pod=pod.meta.key.name,
                node=pod.node,
                gpus=tuple(
                    dljob.PlacedGPU(
                        uuid=gpu.uuid,
                        share=gpu.share,
                        active_thread_percentage=gpu.active_thread_percentage,
                        memory_mib=gpu.memory_mib,
                    )
                    for gpu in booked
                ),
                co_tenants=tuple(others),
            )
        )
    return tuple(found)


def _co_tenants(pod: views.Pod, gpus: Mapping[GPUUID, GPU], own: Collection[PodUID]) -> set[str]:
    """Return the pods of others on the pod's GPUs."""
    booked = () if pod.placement is None or pod.ended else pod.placement.gpus
    holders = (gpus[gpu.uuid].holders.items() for gpu in booked if gpu.uuid in gpus)
    return {name for held in holders for uid, name in held if uid not in own}


def _rank(pod: views.Pod) -> tuple[bool, bool, str, str]:
    created = pod.meta.created.isoformat()
    return pod.phase != "Failed", not pod.meta.deleting, created, pod.meta.key.name
