"""On which GPUs jobs are that may have caused a fault: no two of them share one, as long as they are suspects.

Of each GPU it is kept how many such tenants it has, and the code of their job: pods of one job may be together.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cotenant_extender.packing import fleet, view

NOBODY = 0
SEVERAL = -1
"""Suspects of several jobs, as after a restart that forgot who had been cleared: no other joins them."""
_UNKNOWN = -2

Cell = tuple[int, int]


def write(seen: "fleet.Fleet", cell: Cell, tenants: Sequence["view.Tenant"]) -> None:
    """Note the tenants of a GPU."""
    seen.suspects[cell], seen.suspect[cell] = 0, NOBODY
    for tenant in tenants:
        enter(seen, cell, tenant.suspect)


def enter(seen: "fleet.Fleet", cell: Cell, job: str) -> None:
    """Note that a pod is on a GPU; `job` is empty where it is no suspect."""
    if not job:
        return
    code, standing = seen.accused.setdefault(job, len(seen.accused) + 1), seen.suspect[cell]
    seen.suspects[cell] += 1
    seen.suspect[cell] = code if standing in (NOBODY, code) else SEVERAL


def leave(seen: "fleet.Fleet", cell: Cell, job: str) -> None:
    """Note that a pod has left a GPU of a copy."""
    if job:
        seen.suspects[cell] -= 1
        seen.suspect[cell] = seen.suspect[cell] if seen.suspects[cell] else NOBODY


def without(seen: "fleet.Fleet", leaving: NDArray[Any]) -> None:
    """So many suspects have left each GPU of a copy, shape (N, G)."""
    seen.suspects -= leaving.astype(seen.suspects.dtype)
    seen.suspect[seen.suspects <= 0] = NOBODY


def strange(seen: "fleet.Fleet", job: str) -> NDArray[np.bool_]:
    """Return on which GPUs there are suspects of other jobs, shape (N, G); none matter to a job that is no suspect."""
    if not job:
        return np.zeros(seen.suspect.shape, dtype=np.bool_)
    found: NDArray[np.bool_] = (seen.suspect != NOBODY) & (seen.suspect != seen.accused.get(job, _UNKNOWN))
    return found
