"""What keeps a pod that has its GPUs from starting, or from being heard of. Pure.

A node that does not answer is known by its pods. The node controller takes away the pod's `Ready` and leaves
`ContainersReady`, which kubelet writes with it; a pod that is being deleted is there long after its grace period.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cotenant_operator import reasons
from cotenant_operator.state import views

START_SECONDS: Final = 60
"""How long a pod may take to start before that is told: its image comes, its volumes are mounted."""
LATE_SECONDS: Final = 60
"""How long after its grace period a pod may be there that is being deleted."""


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Reason and message of the conditions Queued and Ready."""

    reason: str
    message: str


_WORST: Final = (reasons.PODS_LOST, reasons.PODS_NOT_STARTING, reasons.PODS_STARTING)


def first(pods: Iterable[views.Pod], now: datetime) -> Hindrance | None:
    """Return what hinders one of these pods that have GPUs, the worst first."""
    found = [one for pod in pods if (one := _of(pod, now)) is not None]
    return min(found, key=lambda one: _WORST.index(one.reason), default=None)


def next_look(pods: Iterable[views.Pod], now: datetime) -> datetime | None:
    """Return when one of these pods has been too long about it."""
    times = (time for pod in pods for time in (_late_at(pod), _slow_at(pod)) if time is not None and time > now)
    return min(times, default=None)


def _of(pod: views.Pod, now: datetime) -> Hindrance | None:
    where, late, slow = f"pod {pod.meta.key.name} on node {pod.node}", _late_at(pod), _slow_at(pod)
    if late is not None and now >= late:
        return Hindrance(reasons.PODS_LOST, f"{where} is being deleted, and its kubelet does not end it: {_REMEDY}")
    if pod.silent:
        return Hindrance(reasons.PODS_LOST, f"{where}: the node does not answer: {_REMEDY}")
    if pod.hindrance is not None:
        return Hindrance(reasons.PODS_NOT_STARTING, f"{where}: {pod.hindrance}")
    if slow is not None and now >= slow:
        text = f"{where} has not started for {START_SECONDS} s: its image is pulled, or a volume is not mounted yet"
        return Hindrance(reasons.PODS_STARTING, f"{text}: see kubectl describe pod")
    return None


_REMEDY: Final = (
    "it is replaced when the node answers again, or when an admin deletes the Node or taints it "
    "node.kubernetes.io/out-of-service, once it is known to be off"
)


def _late_at(pod: views.Pod) -> datetime | None:
    """When a pod should long have gone that is being deleted."""
    return None if pod.ended or pod.gone_by is None else pod.gone_by + timedelta(seconds=LATE_SECONDS)


def _slow_at(pod: views.Pod) -> datetime | None:
    """When a pod that is bound should have started."""
    if pod.phase != "Pending" or pod.scheduled_at is None or pod.meta.deleting or pod.idle is None:
        return None
    return pod.scheduled_at + timedelta(seconds=START_SECONDS)
