"""On which GPUs a namespace has pods, and on how many: what `maxGPUsPerNamespace` bounds.

Of each tenant of a GPU the code of its namespace is kept, in the order of the tenants. Nothing is kept where the policy
does not bound it.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotenant_api.names import Namespace

if TYPE_CHECKING:
    from cotenant_extender.packing import fleet, view

NOBODY = 0
_UNKNOWN = -1

Cell = tuple[int, int]


def write(seen: "fleet.Fleet", cell: Cell, tenants: Sequence["view.Tenant"]) -> bool:
    """Note the tenants of a GPU; whether a namespace has left it that was there before."""
    if seen.policy.spec.max_gpus_per_namespace is None:
        return False
    before = set(seen.space[cell].tolist())
    codes = [_code(seen, tenant.namespace) for tenant in tenants]
    _widen(seen, len(codes))
    seen.space[cell] = NOBODY
    seen.space[cell][: len(codes)] = codes
    return bool(before.difference(codes, (NOBODY,)))


def enter(seen: "fleet.Fleet", cell: Cell, namespace: Namespace) -> None:
    """Put a pod of a namespace on a GPU of a copy, in the place of one that left, or behind all."""
    if seen.policy.spec.max_gpus_per_namespace is None:
        return
    if seen.space[cell].all():
        _widen(seen, seen.space.shape[2] + 1)
    seen.space[cell][int(seen.space[cell].argmin())] = _code(seen, namespace)


def leave(seen: "fleet.Fleet", cell: Cell, place: int) -> None:
    """Take the tenant at this place off a GPU of a copy."""
    if place < seen.space.shape[2]:
        seen.space[cell][place] = NOBODY


def widened(seen: "fleet.Fleet", row: NDArray[Any]) -> NDArray[Any]:
    """Return what stood in a row of a fleet that has had fewer tenants, shape (G, T)."""
    return np.pad(row, ((0, 0), (0, seen.space.shape[2] - row.shape[1])))


def of(seen: "fleet.Fleet", namespace: Namespace) -> NDArray[np.bool_]:
    """Return which tenants are of a namespace, shape (N, G, T)."""
    found: NDArray[Any] = seen.space == seen.spaces.get(namespace, _UNKNOWN)
    return found


def held(seen: "fleet.Fleet", namespace: Namespace) -> NDArray[np.bool_]:
    """Return on which GPUs a namespace has pods, shape (N, G)."""
    code = seen.spaces.get(namespace, _UNKNOWN)
    found: NDArray[np.bool_] = seen.space[:, :, 0] == code
    for place in range(1, seen.space.shape[2]):  # many times as quick as `any` over so short an axis
        found |= seen.space[:, :, place] == code
    return found


def count(seen: "fleet.Fleet", marked: Callable[["fleet.Fleet"], NDArray[np.bool_]]) -> int:
    """Return how many GPUs are marked, those of rows included that were left out; `marked`: shape (N, G) of a fleet."""
    own = int(marked(seen).sum())
    if seen.cut is None:
        return own
    whole, rows = seen.cut
    found = marked(whole)
    everywhere = int(found.sum()) if whole.cut is None else count(whole, marked)
    return own + everywhere - int(found[rows].sum())


def beyond(seen: "fleet.Fleet", namespace: Namespace, gpus: int) -> int:
    """Return on how many GPUs more than it may a namespace would be with so many further ones; 0: it may be on them."""
    most = seen.policy.spec.max_gpus_per_namespace
    return 0 if most is None else max(count(seen, lambda one: held(one, namespace)) + gpus - most, 0)


def _code(seen: "fleet.Fleet", namespace: Namespace) -> int:
    return seen.spaces.setdefault(namespace, len(seen.spaces) + 1)


def _widen(seen: "fleet.Fleet", tenants: int) -> None:
    wider = tenants - seen.space.shape[2]
    if wider > 0:
        seen.space = np.pad(seen.space, ((0, 0), (0, 0), (0, wider)))
