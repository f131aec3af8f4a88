"""How a pod ended, from its status as kubelet and the API server write it. Pure.

Kubernetes 1.36: kubelet writes a pod that it does not admit as Failed with a reason and no container statuses
(`kubelet.rejectPod`), and a container that it cannot find any more as ended with `ContainerStatusUnknown`
(`status.TerminatePod`): neither shows that anything ran.

A pod that has ended may be evicted and deleted, too: `kubectl drain` does that, and the Eviction API adds
`DisruptionTarget` to a pod that has succeeded. Such a pod was not stopped. Which came first is known for certain only
where the pod was seen in between. Else two clocks are compared, the node's and the API server's. Where they do not
tell, the pod counts as stopped: another attempt costs less than work that is lost.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from cotenant_operator.state import exhaustion, views

DISRUPTION_TARGET: Final = "DisruptionTarget"
EVICTED: Final = "EvictionByEvictionAPI"
"""Reason of `DisruptionTarget` on a pod that somebody evicted."""
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
"""Reason of a pod that had a deadline of its own."""
SKEW_SECONDS: Final = 60
"""By which a node's clock and the API server's may differ."""
_HOST_KILLED: Final = "OOMKilled"
_UNKNOWN: Final = "ContainerStatusUnknown"


def of_pod(status: views.Object, *, before: views.Pod | None = None) -> views.PodEnd | None:
    """Return how it ended; None while it goes on, and where it succeeded.

    Args:
        status: of the pod.
        before: the pod as it was seen last.
    """
    disrupted = _disrupted(status, before)
    failed = status.get("phase") == "Failed"
    if not failed and disrupted is None:
        return None
    ends = list(_ends(status)) if failed else []
    words = (exhaustion.line(ended.get("message") or "") for _, ended in ends if ended.get("exitCode"))
    return views.PodEnd(
        started=_started(status),
        disrupted=disrupted,
        out_of_memory=next((line for line in words if line is not None), None),
        host_killed=next((name for name, ended in ends if ended.get("reason") == _HOST_KILLED), None),
        reason=status.get("reason") or "",
        message=exhaustion.last_line(status.get("message") or ""),
    )


def ran_out(status: views.Object) -> str | None:
    """Return the line in which a container that has ended, now or before a restart, said it of the GPU's memory."""
    for container in containers(status):
        for state in ("state", "lastState"):
            ended = (container.get(state) or {}).get("terminated") or {}
            said = exhaustion.line(ended.get("message") or "") if ended.get("exitCode") else None
            if said is not None and ended.get("reason") != _HOST_KILLED:
                return said
    return None


def was_told_to_end(metadata: views.Object, status: views.Object, *, before: views.Pod | None = None) -> bool:
    """Return whether a pod was deleted before it had ended: that it ends well then need not mean that it was done.

    Its time of deletion is when its grace period ends.

    Args:
        metadata: of the pod.
        status: of the pod.
        before: the pod as it was seen last.
    """
    gone_by = metadata.get("deletionTimestamp")
    if gone_by is None or status.get("phase") not in ("Running", "Succeeded"):
        return False
    if status["phase"] == "Running":
        return True
    if before is not None and (before.ended or before.meta.deleting):
        return before.told_to_end or not before.ended
    return not _had_ended(status, gone_by, grace=metadata.get("deletionGracePeriodSeconds") or 0)


def ended_at(status: views.Object) -> datetime | None:
    """Return when the last container of a pod that has ended did."""
    if status.get("phase") not in ("Failed", "Succeeded"):
        return None
    ends = (datetime.fromisoformat(ended["finishedAt"]) for _, ended in _ends(status) if ended.get("finishedAt"))
    return max(ends, default=None)


def why(status: views.Object) -> str | None:
    """Why it failed, in words; None where it did not, or nobody has said."""
    if status.get("phase") != "Failed":
        return None
    for name, ended in _ends(status):
        if ended.get("exitCode"):
            text = f"container {name} ended with {ended.get('reason')}, exit code {ended['exitCode']}"
            last = exhaustion.last_line(ended.get("message") or "")
            return f"{text}: {last}" if last else text
    said = [status.get("reason"), exhaustion.last_line(status.get("message") or "")]
    return ": ".join(part for part in said if part) or None


def _disrupted(status: views.Object, before: views.Pod | None) -> str | None:
    found = (item for item in status.get("conditions") or () if item["type"] == DISRUPTION_TARGET)
    item = next((item for item in found if item["status"] == "True"), None)
    if item is None:
        return None
    was_marked = before is not None and before.end is not None and before.end.disrupted is not None
    if before is not None and before.ended and not was_marked:
        return None
    if not was_marked and _had_ended(status, item.get("lastTransitionTime")):
        return None
    return item.get("reason") or DISRUPTION_TARGET


def _had_ended(status: views.Object, since: str | None, *, grace: int = 0) -> bool:
    """Return whether a pod had surely ended before a time, less a grace period in seconds."""
    end = ended_at(status)
    if end is None or since is None:
        return False
    # As numbers: a grace period may be longer than any time.
    return (datetime.fromisoformat(since) - end).total_seconds() - grace > SKEW_SECONDS


def containers(status: views.Object) -> Iterator[views.Object]:
    """Return the statuses of init containers and containers, in order."""
    for kind in ("initContainerStatuses", "containerStatuses"):
        yield from status.get(kind) or ()


def _ends(status: views.Object) -> Iterator[tuple[str, views.Object]]:
    """Containers that have ended, and how."""
    for container in containers(status):
        ended = (container.get("state") or {}).get("terminated")
        if ended:
            yield str(container.get("name", "")), ended


def _started(status: views.Object) -> bool:
    """Return whether some container ran, or failed for what it is: such as a command that does not exist."""
    for container in containers(status):
        state = container.get("state") or {}
        ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
        if "running" in state or (ended and ended.get("reason") != _UNKNOWN):
            return True
    return False
