"""Which tenants could leave a GPU together, for many GPUs at once. Pure functions of arrays."""

from collections.abc import Collection, Iterator

import numpy as np

from cotenant_api.names import PodUID
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import fleet, rules
from cotenant_extender.queue import roster


def by_gpu(values: rules.Array, leaving: rules.Array) -> rules.Array:
    """Return what leaves each GPU, shape (N, G), of shape (N, G, T).

    No array of products is made, a third of the time.
    """
    found: rules.Array = np.einsum("ngt,ngt->ng", values, leaving)
    return found


def by_node(values: rules.Array, leaving: rules.Array) -> rules.Array:
    """Return what leaves each node, shape (N,), of shape (N, G, T)."""
    found: rules.Array = np.einsum("ngt,ngt->n", values, leaving)
    return found


def by_tenant(values: rules.Array, cells: tuple[rules.Array, ...]) -> rules.Array:
    """Return what there is of the tenants of C GPUs, shape (T, C): sums over tenants are quicker so than by GPU."""
    return np.ascontiguousarray(values[cells].T)


def total(values: rules.Array, option: rules.Array) -> rules.Array:
    """Return what leaves each of C GPUs with these tenants, both of shape (T, C)."""
    found: rules.Array = np.einsum("tc,tc->c", values, option)
    return found


def stays(own: rules.Array, option: rules.Array) -> rules.Array:
    """Return whether one of its own, shape (T, C), stays on each of C GPUs when these leave.

    There may be more of either.
    """
    both = min(len(own), len(option))
    found: rules.Array = np.any(own[both:], axis=0) | np.any(own[:both] & ~option[:both], axis=0)
    return found


def singles(leaving: rules.Array) -> Iterator[rules.Array]:
    """Each tenant alone, shape (T, C)."""
    for place in range(len(leaving)):
        option = np.zeros_like(leaving)
        option[place] = leaving[place]
        yield option


def prefixes(leaving: rules.Array, held: roster.Roster, cells: tuple[rules.Array, ...]) -> Iterator[rules.Array]:
    """Yield the cheapest two, three, ... of each GPU, shape (T, C)."""
    several = np.flatnonzero(leaving.sum(axis=0) > 1)
    some = cells[0][several], cells[1][several]
    keys = (-held.started[some], held.pods[some], held.priority[some], ~leaving[:, several].T)
    ranks = np.zeros(leaving.shape, dtype=np.intp)
    ranks[:, several] = np.argsort(np.lexsort(keys, axis=1), axis=1).T
    for count in range(2, len(leaving) + 1):
        yield leaving & (ranks < count)


def others(source: ledger.Ledger, seen: fleet.Fleet, held: roster.Roster, uids: Collection[PodUID]) -> rules.Array:
    """Which tenants are none of these, shape (N, G, T)."""
    found = np.ones(held.share.shape, dtype=np.bool_)
    for uid in uids:
        claim = source.claims.get(uid)
        row = None if claim is None else seen.rows.get(claim.node)
        if row is None:
            continue
        for slot, here in enumerate(held.uids[row]):
            if uid in here:
                found[row, slot, here.index(uid)] = False
    return found
