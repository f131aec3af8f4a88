"""CPU and memory requests of a pod, added up as kube-scheduler adds them. Pure.

The rules are those of `PodRequests` in k8s.io/component-helpers v0.36, `resource/helpers.go`:

    containers  sum of containers and sidecars, but at least the largest step of the start:
                an init container beside the sidecars that were started before it
    pod         spec.resources.requests replaces that sum, resource by resource
    overhead    added on top, whichever of the two counts
    resize      what a status reports counts where it is larger: max(spec, allocated, actuated);
                max(allocated, actuated) while the resize is infeasible. Not for init containers that end.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cotenant_extender import amounts, sharing
from cotenant_extender.packing import view

Object = Mapping[str, Any]

_RESIZE_PENDING = "PodResizePending"
_INFEASIBLE = "Infeasible"
_SIDECAR = "Always"


class _Resource(NamedTuple):
    """A resource, and how its quantities are read."""

    name: str
    read: Callable[[str | int], int]

    def of(self, requests: Object | None) -> int:
        """Return the amount in a list of resources, 0 where the list lacks the resource."""
        return self.read((requests or {}).get(self.name, 0))


_CPU = _Resource("cpu", amounts.millis)
_MEMORY = _Resource("memory", amounts.whole)


def host_need(spec: Object, status: Object) -> view.HostNeed:
    """Return what a pod requests of its node beside the GPU share."""
    return _need(_requests(spec, status, _CPU), _requests(spec, status, _MEMORY))


@functools.lru_cache(maxsize=sharing.LIMIT)
def _need(cpu_millis: int, memory_bytes: int) -> view.HostNeed:
    return view.HostNeed(cpu_millis=cpu_millis, memory_bytes=memory_bytes)


def _requests(spec: Object, status: Object, resource: _Resource) -> int:
    own = (spec.get("resources") or {}).get("requests") or {}
    if resource.name in own:
        found = _while_resized(resource.of(own), status, status, resource)
    else:
        found = _of_containers(spec, status, resource)
    return min(found + resource.of(spec.get("overhead")), amounts.MOST)


def _of_containers(spec: Object, status: Object, resource: _Resource) -> int:
    reported = _reported(status, "containerStatuses")
    running = sum(_of_container(one, reported, status, resource) for one in spec.get("containers") or ())
    if not spec.get("initContainers"):
        return running
    reported = _reported(status, "initContainerStatuses")
    sidecars = starting = 0
    for container in spec["initContainers"]:
        if container.get("restartPolicy") == _SIDECAR:
            sidecars += _of_container(container, reported, status, resource)
            starting = max(starting, sidecars)
        else:
            starting = max(starting, sidecars + _of_container(container, {}, status, resource))
    return max(running + sidecars, starting)


def _reported(status: Object, kind: str) -> dict[str, Object]:
    """Return the container statuses by name."""
    return {report.get("name", ""): report for report in status.get(kind) or ()}


def _of_container(container: Object, reported: Mapping[str, Object], status: Object, resource: _Resource) -> int:
    wanted = resource.of((container.get("resources") or {}).get("requests"))
    return _while_resized(wanted, reported.get(container.get("name", ""), {}), status, resource)


def _while_resized(wanted: int, report: Object, status: Object, resource: _Resource) -> int:
    """Return what counts of a container, or of the pod itself, with what `report` tells of its resources."""
    actuated = report.get("resources")
    if actuated is None:
        return wanted
    held = max(resource.of(actuated.get("requests")), resource.of(report.get("allocatedResources")))
    return held if _is_infeasible(status) else max(wanted, held)


def _is_infeasible(status: Object) -> bool:
    reports = (report for report in status.get("conditions") or () if report.get("type") == _RESIZE_PENDING)
    return next((report.get("reason") == _INFEASIBLE for report in reports), False)


def priority(spec: Object) -> int:
    """Return the priority of a pod, which admission has set.

    Raises:
        TypeError: it is no integer, so the API server did not write it.
    """
    found = spec.get("priority") or 0
    if not isinstance(found, int):
        raise TypeError(f"spec.priority: {found!r}: must be an integer")
    return found
