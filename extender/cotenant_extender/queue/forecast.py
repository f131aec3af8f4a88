"""Where a job can start soonest, by when tenants are expected to end. Pure; it changes nothing.

For one GPU: its tenants leave in the order of their expected ends, and the job can start there at the first of these
times from which on the rules take it, and its node has the CPU, memory, pods and shares that all who have left by then
give back. Whole GPUs of one node are as late as the last of them, a gang as its last pod. Its pods are put one after
the other, who has the fewest GPUs to choose from first, of those the largest, each where it can start soonest beside
those before; of places that are equal the one with the least booked now. Where no node is expected to have the CPU,
memory or pods, it may have all that is allocatable, but for what never leaves: tenants that never end, and pods without
a share that run until somebody deletes them. Nobody knows when other pods without a share end. Where the policy bounds
on how many GPUs a namespace may be (`bounds`), the job starts on a further one when its namespace has left enough of
those that it is on; of equal places it gets one of these, which nobody has to wait for in vain.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from cotenant_api.names import GPUUID, HUNDREDTHS, NodeName, PodUID
from cotenant_extender.packing import fleet, rules, view
from cotenant_extender.queue import bounds, leavers, roster, scene

Held = dict[NodeName, set[GPUUID]]
Needs = dict[NodeName, list[view.HostNeed]]
FIRST_ROWS = 64
"""Nodes that are looked at first."""
MORE_ROWS = 8
"""How many times as many are looked at next; and at least so many for each pod of a gang."""
_PLENTY = 2**60


class Field(NamedTuple):
    """What there is, and when it is expected to become free.

    Attributes:
        held: tenants of the same rows.
        ends: shape (N, G, T), when they are expected to end, in seconds since the epoch; inf: never.
        open: shape (N, G), the GPUs that the job may have.
        bound: on how many GPUs its namespace may be; None: on any number.
    """

    seen: fleet.Fleet
    held: roster.Roster
    ends: rules.Array
    open: rules.Array
    bound: bounds.Bound | None = None

    def at(self, rows: rules.Array) -> "Field":
        """Return these rows alone, given in ascending order."""
        if len(rows) == len(self.seen):
            return self
        bound = None if self.bound is None else self.bound.at(rows, self.ends)
        return Field(self.seen.at(rows), self.held.at(rows), self.ends[rows], self.open[rows], bound)

    def joined(self, cell: tuple[int, int], request: view.Request, *, end: float) -> "Field":
        """As if a pod were on a GPU already, until a time."""
        share, memory = rules.of_models(self.seen, request).at(*cell)
        seen = scene.copied(self.seen)
        seen.take(*cell, request, share=share, memory_mib=memory)
        row = cell[0]
        seen.free_share[row] -= request.demand.share
        seen.free_cpu_millis[row] -= request.host.cpu_millis
        seen.free_memory_bytes[row] -= request.host.memory_bytes
        seen.free_pods[row] -= 1
        held = self.held.joined(cell, request, share=share, memory_mib=memory)
        ends = np.pad(self.ends, ((0, 0), (0, 0), (0, 1)), constant_values=np.inf)
        ends[(*cell, -1)] = end
        bound = None if self.bound is None else self.bound.joined(cell, request.demand.namespace)
        return Field(seen, held, ends, self.open, bound)


class Place(NamedTuple):
    """Where a job can start.

    Attributes:
        start: when it is expected to, in seconds since the epoch.
        gpus: for all of its pods.
        blockers: for whom it waits: who has what it needs and is expected to end by then.
        needs: what its pods need of the nodes beside GPUs; empty where tenants are not expected to give that back.
    """

    start: float
    gpus: Held
    blockers: frozenset[PodUID]
    needs: Needs


def soonest(field: Field, requests: Sequence[view.Request], *, now: float) -> Place | None:
    """Where all of a job's pods can start soonest; None where that is never expected.

    Nodes are looked at in the order of a bound on when they may be ready at the earliest, some at a time, until no
    other can be better.
    """
    choices = {request.fit_key: int(_usable(field, request).sum()) for request in kinds(requests)}
    ordered = sorted(requests, key=lambda request: (choices[request.fit_key], -request.demand.share))
    bound = np.min([_earliest(field, request, now=now) for request in kinds(ordered)], axis=0, initial=np.inf)
    rows = np.argsort(bound, kind="stable")[: int(np.isfinite(bound).sum())]
    for plentiful in (False, True):
        count = max(FIRST_ROWS, MORE_ROWS * len(ordered))
        while True:
            near = _useful(field.at(np.sort(rows[:count])), ordered)
            found = None if near is None else _placed(near, ordered, plentiful=plentiful, now=now)
            if count >= len(rows) or (found is not None and found.start <= bound[rows[count]]):
                break
            count *= MORE_ROWS
        if found is not None:
            return found._replace(blockers=found.blockers | _giving_up(field, by=found.start))
    return None


def _giving_up(field: Field, *, by: float) -> set[PodUID]:
    """Whose end by a time may let the job's namespace be on another GPU."""
    if field.bound is None:
        return set()
    leaving = np.argwhere(field.bound.own & (field.ends <= by)).tolist()
    return {field.held.uids[row][slot][place] for row, slot, place in leaving}


def _earliest(field: Field, request: view.Request, *, now: float) -> rules.Array:
    """When each node, shape (N,), can have enough hundredths free for a pod at the earliest; inf: never."""
    seen, needed, usable = field.seen, rules.of_models(field.seen, request), _usable(field, request)
    by_end = np.argsort(field.ends, axis=2, kind="stable")
    freed = np.take_along_axis(field.held.share, by_end, axis=2).cumsum(axis=2)
    ends = np.take_along_axis(field.ends, by_end, axis=2)
    lacks = np.asarray(needed.share) - seen.free
    ready = np.where(freed >= lacks[:, :, None], ends, np.inf).min(axis=2, initial=np.inf)
    ready = np.where(usable, np.where(lacks <= 0, now, ready), np.inf)
    count = request.demand.gpus
    if field.bound is not None:
        ready = bounds.Seats(field.bound, field.ends, now=now).starts(ready, count)
    return np.sort(ready, axis=1)[:, count - 1] if ready.shape[1] >= count else np.full(len(seen), np.inf)


def _usable(field: Field, request: view.Request) -> rules.Array:
    """Which GPUs, shape (N, G), are of a model for a pod, of a node that its constraints allow, and not closed."""
    seen = field.seen
    allowed = seen.schedulable & seen.allowed(request.constraints) & (seen.node_closed == 0)
    usable: rules.Array = seen.present & field.open & (seen.closed == 0) & allowed[:, None]
    usable &= np.asarray(rules.of_models(seen, request).refused) == 0
    return usable


def _useful(field: Field, requests: Sequence[view.Request]) -> Field | None:
    """Return the rows whose GPUs can take one of the pods at all, when everybody has left who is expected to leave."""
    useful = np.any([offers.fits.any(axis=1) for offers in taking(field, kinds(requests))], axis=0)
    return field.at(np.flatnonzero(useful)) if useful.any() else None


def taking(field: Field, requests: Sequence[view.Request]) -> list[rules.Offers]:
    """For each pod, where GPUs can take it when all have left who are expected to leave, as if nodes lacked nothing."""
    last = _emptied(field, np.isfinite(field.ends))
    return [rules.offers(last, request, check_host=True) for request in requests]


def kinds(requests: Sequence[view.Request]) -> Sequence[view.Request]:
    """One pod of each kind that is taken and refused alike."""
    return list({request.fit_key: request for request in requests}.values())


def _emptied(field: Field, leaving: rules.Array) -> fleet.Fleet:
    """Return the fleet without these tenants, with nothing but the open GPUs; its nodes lack nothing else."""
    made = scene.without_all(field.seen, field.held, leaving)
    made.present &= field.open
    made.hold[field.open] = 0
    for amounts in (made.free_share, made.free_cpu_millis, made.free_memory_bytes, made.free_pods):
        amounts[:] = _PLENTY
    return made


def beside_lasting(field: Field) -> rules.Array:
    """CPU in millis, memory in bytes, and pods that each node has for pods that end; shape (N, 3).

    Of what is allocatable that is all that tenants do not have which never end, nor pods without a share that do not.
    """
    seen, held, never = field.seen, field.held, np.isinf(field.ends) & (field.held.pods > 0)
    amounts = (held.cpu_millis, held.memory_bytes, never.astype(np.int64))
    tenants = np.stack([leavers.by_node(each, never) for each in amounts], axis=1)
    others = np.array([node.host.lasting for node in seen.nodes], dtype=np.int64).reshape(len(seen), 3)
    found: rules.Array = np.stack([seen.cpu_millis, seen.memory_bytes, seen.pods], axis=1) - tenants - others
    return found


def beside_others(field: Field) -> rules.Array:
    """CPU in millis, memory in bytes, and pods that nodes have beside pods without a share; shape (N, 3)."""
    seen, held = field.seen, field.held
    amounts = (held.cpu_millis, held.memory_bytes, (held.pods > 0).astype(np.int64))
    free = np.stack([seen.free_cpu_millis, seen.free_memory_bytes, seen.free_pods], axis=1)
    found: rules.Array = free + np.stack([leavers.by_node(each, held.pods > 0) for each in amounts], axis=1)
    return found


def seats(field: Field, requests: Sequence[view.Request], beside: rules.Array) -> rules.Array:
    """Return how many of some pods each node, shape (N,), could take at most if all were gone who ever go: the sum.

    `beside`: CPU in millis, memory in bytes, and pods that it has for them, shape (N, 3).
    """
    total = np.zeros(len(field.seen), dtype=np.int64)
    for request, offers in zip(requests, taking(field, requests), strict=True):
        needs = np.array((request.host.cpu_millis, request.host.memory_bytes, 1))
        hosts = np.where(needs > 0, beside // np.maximum(needs, 1), _PLENTY).min(axis=1)
        total += np.clip(hosts, 0, np.asarray(offers.cells).sum(axis=1) // max(offers.gpus, 1))
    return total


class _Hosts:
    """What nodes have free beside GPUs, and when more is given back; pods are put there one after the other."""

    def __init__(self, field: Field, *, plentiful: bool) -> None:
        seen, held, count = field.seen, field.held, len(field.seen)
        ends = field.ends.reshape(count, -1)
        by_end = np.argsort(ends, axis=1, kind="stable")
        self._ends = np.take_along_axis(ends, by_end, axis=1)
        given = (held.tokens, held.cpu_millis, held.memory_bytes, (held.pods > 0).astype(np.int64))
        self._given = [
            np.take_along_axis(amounts.reshape(count, -1), by_end, axis=1).cumsum(axis=1) for amounts in given
        ]
        if plentiful:
            self._free = [np.full(count, _PLENTY), *beside_lasting(field).T]
            self._given = [np.zeros_like(amounts) for amounts in self._given]
        else:
            free = (seen.free_share, seen.free_cpu_millis, seen.free_memory_bytes, seen.free_pods)
            self._free = [amounts.copy() for amounts in free]

    def ready(self, request: view.Request, *, now: float) -> rules.Array:
        """When each node, shape (N,), has what a pod requests of it; inf: never."""
        found = np.full(len(self._ends), now, dtype=np.float64)
        for free, given, need in zip(self._free, self._given, _needs(request), strict=True):
            lacks = need - free
            times = np.where(given >= lacks[:, None], self._ends, np.inf).min(axis=1, initial=np.inf)
            np.maximum(found, np.where(lacks <= 0, now, times), out=found)
        return found

    def take(self, row: int, request: view.Request) -> None:
        """Count a pod that is there: what it needs is free no longer."""
        for free, need in zip(self._free, _needs(request), strict=True):
            free[row] -= need


def _needs(request: view.Request) -> tuple[int, int, int, int]:
    return request.demand.share, request.host.cpu_millis, request.host.memory_bytes, 1


class _Steps:
    """The fleet after 0, 1, 2 .. tenants of each GPU have left."""

    def __init__(self, field: Field, *, plentiful: bool, now: float) -> None:
        rank = np.argsort(np.argsort(field.ends, axis=2, kind="stable"), axis=2, kind="stable")
        ends, leaves = np.sort(field.ends, axis=2), np.isfinite(field.ends)
        count = int(leaves.sum(axis=2).max(initial=0))
        self._now, self.hosts = now, _Hosts(field, plentiful=plentiful)
        self._seats = None if field.bound is None else bounds.Seats(field.bound, field.ends, now=now)
        self._fleets = [_emptied(field, (rank < step) & leaves) for step in range(count + 1)]
        self._times = np.stack([np.full(field.open.shape, now), *(ends[:, :, step] for step in range(count))])
        self._kind: Hashable = None
        self._room = np.zeros(self._times.shape, dtype=np.int64)

    def starts(self, request: view.Request) -> tuple[rules.Array, int]:
        """When each GPU, shape (N, G), takes one pod, or its part of one; and how many GPUs of a node that needs."""
        seats, times = self._seats, self._times
        if seats is None and request.demand.gpus == 1:
            cells = self._room_for(request) > 0
        else:
            cells = np.stack([rules.offers(seen, request, check_host=True).cells for seen in self._fleets])
        if seats is not None:
            times = np.stack([seats.starts(ready, request.demand.gpus) for ready in times])
        found = np.where(cells, times, np.inf).min(axis=0)
        found = np.maximum(found, self.hosts.ready(request, now=self._now)[:, None])
        return found, request.demand.gpus

    def _room_for(self, request: view.Request) -> rules.Array:
        """How many pods like this one each GPU takes after each step, shape (S, N, G).

        Once one was let in, those like it are refused only for what they have too little of: they are counted down.
        """
        kind = self._kind_of(request)
        if kind != self._kind:
            self._kind = kind
            self._room = np.stack([_room(seen, request) for seen in self._fleets])
        return self._room

    def _kind_of(self, request: view.Request) -> Hashable:
        label = self._fleets[0].policy.spec.tenancy_label
        return request.fit_key, request.demand.namespace, label and request.labels.get(label)

    def take(self, row: int, slots: Sequence[int], request: view.Request) -> None:
        """One of the job's pods is there from the beginning."""
        needed = rules.of_models(self._fleets[0], request)
        for slot in slots:
            share, memory = needed.at(row, slot)
            for seen in self._fleets:
                seen.take(row, slot, request, share=share, memory_mib=memory)
            if self._seats is not None:
                self._seats.take(row, slot)
        if self._kind_of(request) == self._kind:
            self._room[:, row, slots] -= 1
        else:
            self._kind = None
        self.hosts.take(row, request)


def _room(seen: fleet.Fleet, request: view.Request) -> rules.Array:
    """Return how many pods of one GPU like this one each GPU takes, shape (N, G)."""
    offers = rules.offers(seen, request, check_host=True)
    share, memory = np.asarray(offers.needs.share), np.asarray(offers.needs.memory_mib)
    most = np.minimum(seen.free // np.maximum(share, 1), seen.tenants_left)
    most = np.where(memory > 0, np.minimum(most, seen.free_mib // np.maximum(memory, 1)), most)
    return np.where(offers.cells, most, 0)


def _placed(field: Field, requests: Sequence[view.Request], *, plentiful: bool, now: float) -> Place | None:
    """All pods, one after the other."""
    cost = np.where(field.seen.present, HUNDREDTHS - field.seen.free, 0)
    if field.bound is not None:
        cost -= 2 * HUNDREDTHS * field.bound.own.any(axis=2)
    if len(requests) > 1:
        kept = _best_rows(field, requests, cost, plentiful=plentiful, now=now)
        field, cost = field.at(kept), cost[kept]
    steps = _Steps(field, plentiful=plentiful, now=now)
    start, gpus, blockers, needs = now, Held(), set[PodUID](), Needs()
    for request in requests:
        found = _first(*steps.starts(request), cost)
        if found is None:
            return None
        when, row, slots = found
        start, node = max(start, when), field.seen.nodes[row]
        needs.setdefault(node.name, []).append(request.host)
        gpus.setdefault(node.name, set()).update(node.gpus[slot].uuid for slot in slots)
        waits_for_host = steps.hosts.ready(request, now=now)[row] > now
        blockers |= _ending(field, row, range(len(node.gpus)) if waits_for_host else slots, by=when)
        cost[row, slots] = -1
        steps.take(row, slots, request)
    return Place(start, gpus, frozenset(blockers), {} if plentiful else needs)


def _ending(field: Field, row: int, slots: Iterable[int], *, by: float) -> set[PodUID]:
    """Who is on these GPUs of a node and is expected to end by a time."""
    return {
        uid
        for slot in slots
        for place, uid in enumerate(field.held.uids[row][slot])
        if field.ends[row, slot, place] <= by
    }


def _first(starts: rules.Array, count: int, cost: rules.Array) -> tuple[float, int, list[int]] | None:
    """Return the row, and so many of its GPUs, that are ready soonest; of those, where the least is booked."""
    if starts.shape[1] < count:
        return None
    slots = np.lexsort((cost, starts), axis=1)[:, :count]
    ready = np.take_along_axis(starts, slots, axis=1)[:, -1]
    total = np.take_along_axis(cost, slots, axis=1).sum(axis=1)
    row = int(np.lexsort((total, ready))[0])
    return None if math.isinf(ready[row]) else (float(ready[row]), row, [int(slot) for slot in slots[row]])


def _best_rows(
    field: Field, requests: Sequence[view.Request], cost: rules.Array, *, plentiful: bool, now: float
) -> rules.Array:
    """For each kind of a gang's pods as many rows as it has pods: no more can be used up by the others."""
    steps, kept = _Steps(field, plentiful=plentiful, now=now), np.zeros(len(field.seen), dtype=np.bool_)
    for request in kinds(requests):
        starts, count = steps.starts(request)
        if starts.shape[1] < count:
            continue
        slots = np.lexsort((cost, starts), axis=1)[:, :count]
        ready = np.take_along_axis(starts, slots, axis=1)[:, -1]
        total = np.take_along_axis(cost, slots, axis=1).sum(axis=1)
        kept[np.lexsort((total, ready))[: len(requests)]] = True
    return np.flatnonzero(kept)
