"""Amounts in raw objects, counted as Kubernetes counts them. Pure."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from cotenant_api import names, quantity
from cotenant_extender import sharing
from cotenant_extender.packing import view

Object = Mapping[str, Any]

MOST = 2**53
"""No amount is taken for more (a pod may ask for 1E cores): sums of a node's pods stay within 64 bits."""


def counted_share(spec: Object) -> int:
    """The hundredths that kubelet would count, however the request is written; at least 1 where any is asked."""
    total = 0
    for container in spec.get("containers") or ():
        resources = container.get("resources") or {}
        value = (resources.get("limits") or {}).get(names.GPU_SHARE)
        if value is None:
            value = (resources.get("requests") or {}).get(names.GPU_SHARE, 0)
        total += whole(value)
    return max(total, 1)


def host_need(spec: Object) -> view.HostNeed:
    """As kube-scheduler counts: containers and sidecars, or the largest init container, plus overhead."""
    own = (spec.get("resources") or {}).get("requests") or {}
    overhead = spec.get("overhead") or {}
    return _need(
        millis(own["cpu"]) if "cpu" in own else _sum(spec, "cpu", millis) + millis(overhead.get("cpu", 0)),
        whole(own["memory"]) if "memory" in own else _sum(spec, "memory", whole) + whole(overhead.get("memory", 0)),
    )


@functools.lru_cache(maxsize=sharing.LIMIT)
def _need(cpu_millis: int, memory_bytes: int) -> view.HostNeed:
    return view.HostNeed(cpu_millis=cpu_millis, memory_bytes=memory_bytes)


def _sum(spec: Object, resource: str, read: Callable[[str | int], int]) -> int:
    def of(container: Object) -> int:
        requests = (container.get("resources") or {}).get("requests") or {}
        return read(requests.get(resource, 0))

    running = 0
    for container in spec.get("containers") or ():
        running += of(container)
    if not spec.get("initContainers"):
        return running
    sidecars, starting = 0, 0
    for container in spec["initContainers"]:
        need = of(container)
        if container.get("restartPolicy") == "Always":
            sidecars += need
            starting = max(starting, sidecars)
        else:
            starting = max(starting, sidecars + need)
    return max(running + sidecars, starting)


@functools.lru_cache(maxsize=sharing.LIMIT)
def millis(value: str | int) -> int:
    """A quantity of CPU in thousandths, rounded up."""
    return min(quantity.millis(value, field="cpu"), MOST)


@functools.lru_cache(maxsize=sharing.LIMIT)
def whole(value: str | int) -> int:
    """A quantity rounded up to a whole number."""
    return min(-int(-quantity.parse(value, field="quantity") // 1), MOST)
