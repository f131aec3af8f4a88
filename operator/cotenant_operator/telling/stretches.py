"""For how long a job has had all its GPUs, stretch by stretch: what `activeDeadlineSeconds` counts. Pure.

A stretch begins when the last pod is bound, and ends when one has ended, or another has come in its stead, by their own
times: the operator may have been away. A pod that failed and waits for its successor has no GPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cotenant_operator.state import views


@dataclass(frozen=True, slots=True)
class Stretches:
    """What has counted.

    Attributes:
        seconds: of the stretches that are over; None: there was none.
        since: when the present one began; None: there is none.
    """

    seconds: int | None
    since: datetime | None


def updated(before: Stretches, pods: Sequence[views.Pod], *, whole: bool, stopped: datetime | None) -> Stretches:
    """Return what has counted until now.

    Args:
        before: what had counted.
        pods: one a replica.
        whole: whether all replicas have their GPUs, or had until they were done.
        stopped: when the Job was suspended, or the time at which to end a stretch of which nothing else says when.
    """
    whole = whole and all(pod.phase != "Failed" for pod in pods)
    bound = [pod.scheduled_at for pod in pods if pod.scheduled_at is not None]
    began = max(bound) if whole and bound else None
    since = before.since
    if since is None:
        return Stretches(before.seconds, began)
    if began is not None and began <= since:
        return before
    ends = [pod.ended_at for pod in pods if pod.ended_at is not None and pod.phase == "Failed"]
    ends += [pod.meta.created for pod in pods if pod.meta.created > since]
    ends += [] if stopped is None else [stopped]
    seconds = min((int((end - since).total_seconds()) for end in ends if end >= since), default=0)
    return Stretches((before.seconds or 0) + seconds, began)
