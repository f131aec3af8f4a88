"""Amounts in raw objects, counted as Kubernetes counts them. Pure."""

import functools
import math
from collections.abc import Mapping
from typing import Any

from cotenant_api import names, quantity
from cotenant_extender import sharing

Object = Mapping[str, Any]

MOST = 2**53
"""No amount is taken for more (a pod may ask for 1E cores): sums of a node's pods stay within 64 bits."""


def counted_share(spec: Object) -> int:
    """Return the hundredths that kubelet would count, however the request is written; at least 1 where any is asked."""
    total = 0
    for container in spec.get("containers") or ():
        resources = container.get("resources") or {}
        value = (resources.get("limits") or {}).get(names.GPU_SHARE)
        if value is None:
            value = (resources.get("requests") or {}).get(names.GPU_SHARE, 0)
        total += whole(value)
    return max(total, 1)


@functools.lru_cache(maxsize=sharing.LIMIT)
def millis(value: str | int) -> int:
    """Return a quantity of CPU in thousandths, rounded up."""
    return min(math.ceil(quantity.counted(value, field="cpu") * 1000), MOST)


@functools.lru_cache(maxsize=sharing.LIMIT)
def whole(value: str | int) -> int:
    """Return a quantity rounded up to a whole number."""
    return min(math.ceil(quantity.counted(value, field="quantity")), MOST)
