"""How far a rollout of a Deployment is, and what it waits for. Pure.

By default the Deployment controller makes a pod of the new template before it takes one of the former away. Where all
GPUs that the job may use are in use, or a quota is used up, that pod waits for ever, and the former pods with it.
Whether there is room say the packing queue, kube-scheduler (mode Observe), Kueue and the API server. Where one has said
no for a while, former pods go first, one at a time: until the next rollout.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from cotenant_api.pod import PackedReason
from cotenant_operator import labels
from cotenant_operator.life import outgrowing
from cotenant_operator.plans import actions
from cotenant_operator.state import setbacks, views
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import Observed
from cotenant_operator.state.setbacks import FailedCreation
from cotenant_operator.workloads import builders

PATIENCE_SECONDS: Final = 60
"""So long a pod of the new template may wait for room before one of the former goes for it."""
_NO_ROOM: Final = frozenset(
    {
        PackedReason.INSUFFICIENT_SHARE,
        PackedReason.INSUFFICIENT_MEMORY,
        PackedReason.TENANT_LIMIT,
        PackedReason.TENANCY_CONFLICT,
        PackedReason.WAITING_FOR_TURN,
        PackedReason.WAITING_FOR_SCALE_UP,
        PackedReason.INSUFFICIENT_HOST_RESOURCES,
    }
)
"""What the packing queue says where a pod would fit if another went."""


def makes_room_at(observed: Observed, current: views.Deployment) -> datetime | None:
    """When former pods go first; None: they need not, or do already."""
    waiting, refused = _waiting(observed, current), _refused(observed)
    since = [pod.meta.created for pod in waiting] + ([] if refused is None else [refused.since])
    if not current.surges or not current.replicas or not since or not _former(observed, current):
        return None
    return min(since) + timedelta(seconds=PATIENCE_SECONDS)


def make_room(current: views.Deployment) -> actions.Change:
    """Let former pods go first. The template stays, so this is no rollout of its own."""
    return actions.Change.of(Kind.DEPLOYMENT, current.meta, {"spec": {"strategy": builders.FORMER_FIRST}})


def words(observed: Observed, current: views.Deployment) -> str | None:
    """Return how far a rollout is, and what it waits for; None: there is none."""
    if not _former(observed, current):
        return None
    present = [pod for pod in outgrowing.pods_of_template(observed, current) if pod.ready and not pod.meta.deleting]
    text = f"{len(present)} of {current.replicas} replicas are ready from the present template"
    waiting, refused = _waiting(observed, current), _refused(observed)
    if not waiting and refused is None:
        return text
    if current.surges:
        follows = f"one of the former template goes for it when it has waited for {PATIENCE_SECONDS} s"
    else:
        follows = "those of the former template go first, one at a time"
    if not waiting:
        return f"{text}; the quota has no room for another pod: {follows}"
    said = waiting[0].packed[1] if waiting[0].packed is not None else waiting[0].unschedulable
    return f"{text}; pod {waiting[0].meta.key.name} finds no room ({said}): {follows}"


def _waiting(observed: Observed, current: views.Deployment) -> Sequence[views.Pod]:
    """Pods of the present template for which there is no room, by whoever decides that."""
    pods = outgrowing.pods_of_template(observed, current)
    unbound = (pod for pod in pods if pod.node is None and not pod.ended and not pod.meta.deleting)
    return [pod for pod in unbound if _has_no_room(pod, current)]


def _has_no_room(pod: views.Pod, current: views.Deployment) -> bool:
    """Return whether there is no room by the packing queue; before it by Kueue, or in its stead by kube-scheduler."""
    if pod.packed is not None:
        return pod.packed[0] in _NO_ROOM
    observed_only = current.grant is not None and current.grant.observed_only
    return pod.unschedulable is not None and (observed_only or labels.KUEUE in pod.unschedulable)


def _refused(observed: Observed) -> FailedCreation | None:
    """Return that a quota leaves no room for another pod, if it does not."""
    failure = observed.failed_creation
    return failure if failure is not None and setbacks.is_of_quota(failure.message) else None


def _former(observed: Observed, current: views.Deployment) -> Sequence[views.Pod]:
    """Pods of former templates that have GPUs."""
    present = {pod.meta.uid for pod in outgrowing.pods_of_template(observed, current)}
    living = (pod for pod in observed.pods if not pod.ended and not pod.meta.deleting and pod.node is not None)
    return [pod for pod in living if pod.meta.uid not in present]
