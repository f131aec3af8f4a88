"""What keeps a pod that has its GPUs from starting, from its status as kubelet writes it. Pure.

Kubernetes 1.36: kubelet names in `state.waiting.reason` why a container does not run. Two of these reasons say that it
is about to; every other one names a failure that kubelet tries again, such as `ImagePullBackOff` or
`CreateContainerConfigError`. A volume that cannot be mounted is told by events alone.
"""

from collections.abc import Mapping
from typing import Any, Final

from cotenant_operator.state import endings, exhaustion, views

_CRASHES: Final = "CrashLoopBackOff"
_ABOUT_TO_START: Final = frozenset({"ContainerCreating", "PodInitializing"})


def hindrance(status: views.Object) -> str | None:
    """Return which container fails to start, and why; None where none does.

    Of a pod that runs: which of its containers ends again and again. A sidecar may do so beside one that works.
    """
    phase = status.get("phase", "Pending")
    if phase == "Running":
        return next((_crash(one) for one in status.get("containerStatuses") or () if _crashes(one)), None)
    if phase != "Pending":
        return None
    for container in endings.containers(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason")
        if reason and reason not in _ABOUT_TO_START:
            said = exhaustion.last_line(waiting.get("message") or "")
            text = f"container {container.get('name', '')}: {reason}"
            return f"{text}: {said}" if said else text
    return None


def _crashes(container: views.Object) -> bool:
    return ((container.get("state") or {}).get("waiting") or {}).get("reason") == _CRASHES


def _crash(container: views.Object) -> str:
    """Return which container ends again and again, and how it last did."""
    ended = (container.get("lastState") or {}).get("terminated") or {}
    said = exhaustion.last_line(ended.get("message") or "")
    text = f"container {container.get('name', '')}: {_CRASHES}"
    if "exitCode" in ended:
        text = f"{text}: it ends with exit code {ended['exitCode']}"
    return f"{text}: {said}" if said else text


def is_silent(spec: views.Object, conditions: Mapping[str, Any]) -> bool:
    """Return whether nothing is heard of a pod's node any more.

    kubelet writes `Ready` and `ContainersReady` together, and they differ only by the pod's readiness gates. The node
    controller takes `Ready` alone away when a node has not renewed its Lease.

    Args:
        spec: the pod's.
        conditions: of its status, by type.
    """
    ready, containers = (conditions.get(one, {}).get("status") for one in ("Ready", "ContainersReady"))
    return ready == "False" and containers == "True" and not spec.get("readinessGates")


def idle(spec: views.Object, status: views.Object, *, container: str | None) -> str | None:
    """Return what tells this stretch without work from others, of a pod that has not started; None: it works.

    What works is an init container, or the container that has the share. Sidecars and helpers run beside it and need no
    GPU. A stretch ends when one of those ran: their ends tell it from the next, whatever the node's clock says.

    Args:
        spec: the pod's.
        status: the pod's.
        container: the one that has the share; None: any.
    """
    if status.get("phase", "Pending") != "Pending":
        return None
    sidecars = {one.get("name") for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    working = [one for one in status.get("initContainerStatuses") or () if one.get("name") not in sidecars]
    working += [one for one in status.get("containerStatuses") or () if container in (None, one.get("name"))]
    if any("running" in (one.get("state") or {}) for one in working):
        return None
    ends = [
        f"{one.get('name')} {(one.get(state) or {})['terminated'].get('finishedAt')}"
        for one in working
        for state in ("lastState", "state")
        if (one.get(state) or {}).get("terminated")
    ]
    return ", ".join(ends)
