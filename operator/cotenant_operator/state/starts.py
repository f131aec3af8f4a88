"""What keeps a pod that has its GPUs from starting, from its status as kubelet writes it. Pure.

Kubernetes 1.36: kubelet names in `state.waiting.reason` why a container does not run. Two of these reasons say that it
is about to; every other one names a failure that kubelet tries again, such as `ImagePullBackOff` or
`CreateContainerConfigError`.
"""

from datetime import datetime
from typing import Final

from cotenant_operator.state import endings, exhaustion, views

_ABOUT_TO_START: Final = frozenset({"ContainerCreating", "PodInitializing"})


def hindrance(status: views.Object) -> str | None:
    """Return which container fails to start, and why; None where none does, or the pod runs already."""
    if status.get("phase", "Pending") != "Pending":
        return None
    for container in endings.containers(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason")
        if reason and reason not in _ABOUT_TO_START:
            said = exhaustion.last_line(waiting.get("message") or "")
            text = f"container {container.get('name', '')}: {reason}"
            return f"{text}: {said}" if said else text
    return None


def idle_since(status: views.Object, scheduled_at: datetime) -> datetime | None:
    """Return since when none of its containers runs, of a pod that has not started; None where one does.

    What an init container takes does not count: the time begins again when it has ended.
    """
    if status.get("phase", "Pending") != "Pending":
        return None
    states = [container.get("state") or {} for container in endings.containers(status)]
    if any("running" in state for state in states):
        return None
    ended = [(state.get("terminated") or {}).get("finishedAt") for state in states]
    return max([scheduled_at, *(datetime.fromisoformat(text) for text in ended if text)])
