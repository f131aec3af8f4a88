"""What sharing leaves of each job's speed if nothing interferes but the lack of a resource. Pure arithmetic.

    speed_i = min(alone_i, a_i / u_i)                       the least over resources

u_i is what the job needs of a resource (share of its time or rate) at full speed, alone_i its speed alone on its share
of the threads (`curves`), and a_i what max-min fairness gives it among tenants that need u x alone (Bertsekas, Gallager
1992): nobody gets more than it needs, and nobody gives up what another does not lack. A resource that is not known does
not limit. Jobs of a lower client priority get what the others leave. A further tenant never makes anyone faster.
"""

import types
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from cotenant_predictor.colocation import curves, profiles
from cotenant_predictor.trees import Array

UNRECORDED: Final = "Unrecorded"
"""The mechanism of measurements that do not say which one it was; never mixed with one that is known."""

RESOURCES: Final[Mapping[str, Sequence[str]]] = types.MappingProxyType(
    {
        "MPS": ("smActivity", "dramActivity"),
        "PriorityStreams": ("smActivity", "dramActivity"),
        "TimeSlicing": ("utilization",),
        UNRECORDED: ("utilization",),
    }
)
"""What tenants compete for: kernels run side by side under MPS, and in turns under time slicing."""

LEAST_SHARE: Final = 0.02
"""What is left to a job that others of higher priority crowd out."""


def speeds(tenants: Array, mechanism: str) -> Array:
    """Normalised speeds, shape (n_groups, n_tenants), NaN where a place is empty.

    Args:
        tenants: shape (n_groups, n_tenants, n_columns), columns as `profiles.COLUMNS`, NaN rows where a place is empty.
        mechanism: one of `RESOURCES`.

    Raises:
        KeyError: no such mechanism.
    """
    here = profiles.present(tenants)
    by_threads = alone(tenants)
    kept = by_threads.copy()
    low = tenants[..., profiles.INDEX["priority"]] > 0
    for name in RESOURCES[mechanism]:
        full = np.nan_to_num(tenants[..., profiles.INDEX[name]])
        needed = full * np.nan_to_num(by_threads)
        first = fair_shares(np.where(low, 0.0, needed), np.ones(len(tenants)))
        left = np.maximum(LEAST_SHARE, 1.0 - first.sum(axis=1))
        given = np.where(low, fair_shares(np.where(low, needed, 0.0), left), first)
        kept = np.minimum(kept, np.divide(given, full, out=np.ones_like(full), where=full > 0))
    return np.where(here, kept, np.nan)


def alone(tenants: Array) -> Array:
    """Speeds without neighbours on the threads that are allowed, shape (n_groups, n_tenants)."""
    threads, knee = tenants[..., profiles.INDEX["threads"]], tenants[..., profiles.INDEX["knee"]]
    return np.where(np.isfinite(knee), curves.speed(threads, np.nan_to_num(knee)), 1.0)


def fair_shares(needed: Array, capacity: Array) -> Array:
    """Return what max-min fairness gives, shape (n_groups, n_tenants).

    Args:
        needed: shape (n_groups, n_tenants), at least 0; 0 where there is nobody.
        capacity: shape (n_groups,).
    """
    order = np.argsort(needed, axis=1, kind="stable")
    ascending = np.take_along_axis(needed, order, axis=1)
    given, left = np.zeros_like(ascending), capacity.astype(np.float64)
    count = ascending.shape[1]
    for place in range(count):
        given[:, place] = np.minimum(ascending[:, place], left / (count - place))
        left = left - given[:, place]
    result = np.empty_like(given)
    np.put_along_axis(result, order, given, axis=1)
    return result
