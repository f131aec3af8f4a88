"""When a job's namespace may be on further GPUs, by when its pods are expected to end: `maxGPUsPerNamespace`. Pure."""

from typing import NamedTuple

import numpy as np

from cotenant_api.names import Namespace
from cotenant_extender.packing import fleet, rules, spaces


class Bound(NamedTuple):
    """What bounds a namespace.

    Attributes:
        most: on how many GPUs it may be.
        own: shape (N, G, T), which tenants of some nodes are its pods.
        elsewhere: shape (K,), when it leaves each GPU of other nodes, in seconds since the epoch; inf: never.
    """

    namespace: Namespace
    most: int
    own: rules.Array
    elsewhere: rules.Array

    def at(self, rows: rules.Array, ends: rules.Array) -> "Bound":
        """Of these rows alone; `ends`: shape (N, G, T), when all tenants are expected to end."""
        until = self.until(ends)
        until[rows] = -np.inf
        return self._replace(own=self.own[rows], elsewhere=np.append(self.elsewhere, _known(until)))

    def joined(self, cell: tuple[int, int], namespace: Namespace) -> "Bound":
        """With one more tenant on a GPU, the last of T."""
        own = np.pad(self.own, ((0, 0), (0, 0), (0, 1)))
        own[(*cell, -1)] = namespace == self.namespace
        return self._replace(own=own)

    def until(self, ends: rules.Array) -> rules.Array:
        """When it leaves each GPU, shape (N, G); -inf: it is not there."""
        until: rules.Array = np.where(self.own, ends, -np.inf).max(axis=2, initial=-np.inf)
        return until


def of(seen: fleet.Fleet, shape: tuple[int, ...], namespace: Namespace) -> Bound | None:
    """Return the bound on a namespace in a whole fleet, with tenants of shape (N, G, T); None: there is none."""
    most = seen.policy.spec.max_gpus_per_namespace
    if most is None:
        return None
    own = np.zeros(shape, dtype=np.bool_)
    for row, slot in np.argwhere(spaces.held(seen, namespace)).tolist():
        tenants = seen.nodes[row].gpus[slot].tenants
        own[row, slot, : len(tenants)] = [tenant.namespace == namespace for tenant in tenants]
    return Bound(namespace, most, own, np.zeros(0))


class Seats:
    """Until when a namespace is on which GPUs; a job's pods are put there one after the other."""

    def __init__(self, bound: Bound, ends: rules.Array, *, now: float) -> None:
        self._bound, self._until, self._now = bound, bound.until(ends), now

    def starts(self, times: rules.Array, count: int) -> rules.Array:
        """When a pod of so many GPUs may be on each, shape (N, G), that has room for it from some time on.

        Where the namespace is still on the GPU that is at once, else when it is on so many fewer.
        """
        return np.where(times < self._until, times, np.maximum(times, self._ready(count)))

    def take(self, row: int, slot: int) -> None:
        """One of the job's pods is there."""
        self._until[row, slot] = np.inf

    def _ready(self, count: int) -> float:
        """From when on it may be on so many further GPUs; inf: never."""
        until = np.sort(np.append(self._bound.elsewhere, _known(self._until)))
        beyond = len(until) + count - self._bound.most
        if beyond <= 0:
            return self._now
        return float(until[beyond - 1]) if beyond <= len(until) else np.inf


def _known(until: rules.Array) -> rules.Array:
    return until[until > -np.inf]
