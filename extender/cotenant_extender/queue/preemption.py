"""Who has to leave so that a job of higher priority fits. Pure over the ledger: nobody is evicted here.

A job gets GPUs of one node for each of its pods, which are looked for in the order in which they are placed, and nobody
leaves unless all of them are seated then (`seating`). Only pods of strictly lower priority than the job's leave, and no
more than needed: from those GPUs, and from others of the node where it is short of CPU, memory or pods. One that is not
ready to leave, or that must not be asked, stays. A gang leaves as a whole or not at all, unless it is larger than gangs
may be. It costs least:

1. to wait for those who are leaving already;
2. to take back earmarks;
3. to evict, and of several ways the one whose victims have the lowest highest priority, then the fewest pods, then the
   least time run, then the first GPU in strict order.

Of as many victims of no higher priority those go who are gone within `SOON_SECONDS`. Who leaves later is waited for
only where somebody would be evicted else who might stay for as long: GPUs that are held until then stand empty, and an
author may write any grace period.

Victims are looked for on the GPUs, or nodes for several whole GPUs, that look cheapest (see `ways`); a tenant that need
not leave after all stays, the most expensive first. On a node that kube-scheduler refused, the pods that explain it
(see `blocking`) leave, too, if all of them may. Pods of a gang that are alike take the next best of the ways that were
found for the first. Where the namespace of a job may be on no further GPU, only GPUs that it is on are looked at, and
as many of them as it has to give up. A gang of more than `PODS` evicts nobody.
"""

import itertools
import math
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import fleet, rules, spaces, view
from cotenant_extender.queue import blocking, leavers, parties, roster, scene, seating, ways

PODS = 128
SOON_SECONDS = 300.0
"""Ten times the grace period that a pod has by default; an author may write any, and it costs him nothing.

Less would evict pods, and lose what they have done, for those that save their state within minutes.
"""
ENOUGH = 4
"""Ways that work, of which the cheapest is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How a job gets room.

    Attributes:
        gpus: what it gets, by node.
        evict: running pods that have to be evicted.
        revoke: pods that lose their earmarks.
        awaited: pods that are leaving already, and that it needs gone.
        needs: what its pods need of the nodes beside GPUs.
    """

    gpus: dict[NodeName, frozenset[GPUUID]]
    evict: tuple[records.Pod, ...]
    revoke: tuple[PodUID, ...]
    awaited: frozenset[PodUID]
    needs: dict[NodeName, list[view.HostNeed]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """What is asked about.

    Attributes:
        staying: pods that must not be asked to leave, nor be waited for.
        avoided: a node that kube-scheduler refused.
    """

    source: ledger.Ledger
    seen: fleet.Fleet
    held: roster.Roster
    now: float
    staying: Collection[PodUID] = ()
    avoided: NodeName | None = None


class _Way(NamedTuple):
    """A way to make room for one pod; what it costs, and who leaves."""

    cost: tuple[int, int, float, int, tuple[int, ...]]
    row: int
    slots: tuple[int, ...]
    leaving: frozenset[PodUID]


def choose(field: Field, requests: Sequence[view.Request]) -> Choice | None:
    """Return how a job of these pods gets room; None where it cannot, or where nobody has to leave."""
    if len(requests) > PODS:
        return None
    soon, keeping = field.now + SOON_SECONDS, blocking.Blocking(field.source)
    found = _chosen(_Search(field, requests[0].priority, keeping, awaits=soon), field, requests)
    gone = field.now + max((victim.tenure.grace_seconds for victim in found.evict), default=0.0) if found else 0.0
    if found is None or gone <= soon:
        return found
    just = math.nextafter(soon, math.inf)
    sooner = _chosen(_Search(field, requests[0].priority, keeping, awaits=soon, evicts=just), field, requests)
    if sooner is not None and _loss(sooner) <= _loss(found):
        return sooner
    waiting = _chosen(_Search(field, requests[0].priority, keeping, awaits=gone, evicts=-math.inf), field, requests)
    if waiting is None:
        return found
    leaves = (record.tenure.leaves or 0.0 for uid in waiting.awaited if (record := field.source.pods.get(uid)))
    search = _Search(field, requests[0].priority, keeping, awaits=soon, evicts=max(leaves, default=field.now))
    return _chosen(search, field, requests) or waiting


def awaited(field: Field, requests: Sequence[view.Request]) -> Choice | None:
    """Return how a job gets room with nobody evicted; None where it cannot so, or where nobody has to leave."""
    if len(requests) > PODS:
        return None
    keeping = blocking.Blocking(field.source)
    search = _Search(field, requests[0].priority, keeping, awaits=field.now + SOON_SECONDS, evicts=-math.inf)
    return _chosen(search, field, requests)


def _loss(choice: Choice) -> tuple[int, int]:
    """Return the highest priority of those that are evicted, and how many they are."""
    return max((victim.priority for victim in choice.evict), default=parties.LEAST), len(choice.evict)


def _chosen(search: "_Search", field: Field, requests: Sequence[view.Request]) -> Choice | None:
    """Return how a job gets room by one search."""
    gpus: dict[NodeName, set[GPUUID]] = {}
    needs: dict[NodeName, list[view.HostNeed]] = {}
    for number in search.order(requests):
        found = search.room(requests[number])
        if found is None:
            return None
        node = field.seen.nodes[found[0]]
        gpus.setdefault(node.name, set()).update(node.gpus[slot].uuid for slot in found[1])
        needs.setdefault(node.name, []).append(requests[number].host)
    return search.choice(gpus, needs) if search.seats_all() else None


class _Search:
    """One search for all pods of a job.

    Of those that are leaving already it counts on who is gone by `awaits`, and of others on who would be before
    `evicts`.
    """

    def __init__(
        self, field: Field, priority: int, keeping: blocking.Blocking, *, awaits: float, evicts: float = math.inf
    ) -> None:
        self._field, self._priority = field, priority
        self._scene = self._begun()
        self._bounded = field.seen.policy.spec.max_gpus_per_namespace is not None
        self._leavers: set[PodUID] = set()
        self._emptier: dict[Hashable, set[NodeName]] = {}
        self._blocking = keeping
        self._blockers: dict[PodUID, blocking.Blockers] = {}
        self._placed: list[tuple[view.Request, int, tuple[int, ...]]] = []
        self._ways: dict[Hashable, Iterator[ways.Way]] = {}
        self._parties = parties.Parties(
            field.source, priority=priority, staying=field.staying, now=field.now, evicts=evicts
        )
        self._open = leavers.others(field.source, field.seen, field.held, field.staying)
        standing = np.where(self._open, field.held.standing, roster.Standing.FIXED)
        self._standing = standing
        leaving = (standing == roster.Standing.LEAVING) & (field.held.leaves <= awaits)
        self._scene.remove({uid for uid, _ in _where(field, leaving)})
        self._cheaper = (standing == roster.Standing.EARMARKED) & (field.held.priority < priority)
        running = (standing == roster.Standing.RUNNING) & (field.now + field.held.grace < evicts)
        self._running = running & (field.held.priority < priority) & (field.held.ready <= field.now)

    def _begun(self) -> scene.Scene:
        """Return what there is, with nobody gone yet."""
        field, made = self._field, scene.Scene(self._field.source, self._field.seen)
        if field.avoided in field.seen.rows:
            made.fleet.schedulable[field.seen.rows[field.avoided]] = False
        return made

    def order(self, requests: Sequence[view.Request]) -> list[int]:
        """For which of a job's pods room is made first."""
        return seating.in_order(self._scene.looks, requests)

    def seats_all(self) -> bool:
        """Return whether the job's pods will be seated when those have left: so nobody leaves in vain."""
        requests = [request for request, *_ in self._placed]
        if not self._bounded and len(set(map(self._scene.looks.kind, requests))) == 1:
            # As many places are left for the others whichever one of them takes.
            return True
        play = self._begun()
        play.remove(self._scene.gone)
        return seating.seats(play, requests, self._field.source.known) is not None

    def room(self, request: view.Request) -> tuple[int, tuple[int, ...]] | None:
        """Room for one more pod, which takes it."""
        found = self._fits(request)
        if found is not None:
            self._placed.append((request, *found))
            return found
        request = self._unblocked(request)
        way = next(self._left(request), None)
        if way is None:
            way = next((way for mask in self._masks() if (way := self._cheapest(request, mask)) is not None), None)
        if way is None:
            return None
        self._scene.remove(way.leaving)
        self._leavers |= way.leaving
        self._scene.put(request, way.row, way.slots)
        self._placed.append((request, way.row, way.slots))
        claims = self._field.source.claims
        for names in self._emptier.values():
            # A gang leaves other nodes, too.
            names.update(claim.node for uid in way.leaving if (claim := claims.get(uid)) is not None)
            names.add(self._field.seen.nodes[way.row].name)
        return way.row, way.slots

    def _fits(self, request: view.Request) -> tuple[int, tuple[int, ...]] | None:
        """Return a place where nobody else has to leave.

        Where a pod like it found none, only nodes left since may help.
        """
        kind = self._scene.looks.kind(request)
        since = self._emptier.get(kind)
        if since is None:
            found = self._scene.place(request, self._field.source.known)
        else:
            found = self._scene.place_on(request, sorted(since))
        if found is None:
            self._emptier[kind] = set()
        return found

    def _unblocked(self, request: view.Request) -> view.Request:
        """Return a request that also takes the nodes which only pods that may leave keep it away from."""
        uid = request.demand.uid
        if uid not in self._blockers:
            self._blockers[uid] = self._blocking.blockers(request)
        open_to = [name for name, uids in self._blockers[uid].items() if all(map(self._parties.may_leave, uids))]
        verdict = request.constraints.refused
        if verdict is None or not open_to:
            return request
        where = replace(request.constraints, refused=verdict.without(open_to))
        return records.constrained(request, where)

    def _left(self, request: view.Request) -> Iterator[_Way]:
        """Ways that were found for a pod like it, and still work."""
        for row, slots, leaving in self._ways.get(request.fit_key, ()):
            way = self._checked(request, row, slots, leaving)
            if way is not None:
                yield way

    def choice(self, gpus: dict[NodeName, set[GPUUID]], needs: dict[NodeName, list[view.HostNeed]]) -> Choice | None:
        """Return what was found for all pods."""
        source = self._field.source
        awaited = self._awaited(gpus)
        earmarked = [uid for uid in self._leavers if self._parties.is_earmarked(uid)]
        running = [source.pods[uid] for uid in self._leavers if not self._parties.is_earmarked(uid)]
        if not (awaited or earmarked or running):
            return None
        return Choice(
            gpus={name: frozenset(uuids) for name, uuids in gpus.items()},
            evict=tuple(sorted(running, key=lambda record: record.uid)),
            revoke=tuple(sorted(earmarked)),
            awaited=awaited,
            needs=needs,
        )

    def _awaited(self, gpus: dict[NodeName, set[GPUUID]]) -> frozenset[PodUID]:
        """Who is leaving already and has to be gone: those on its GPUs, and others only where that is not enough.

        Others may have what it needs of its nodes, or a GPU that counts for its namespace, which may be on no more.
        """
        source, taken = self._field.source, {uuid for uuids in gpus.values() for uuid in uuids}
        leaving = {uid: source.claims[uid] for uid in self._scene.gone - self._leavers}
        namespaces = {request.demand.namespace for request, *_ in self._placed}
        there = {uid for uid, claim in leaving.items() if any(booking.uuid in taken for booking in claim.bookings)}
        beside = there.union(uid for uid, claim in leaving.items() if claim.node in gpus)
        own = beside.union(uid for uid, claim in leaving.items() if claim.namespace in namespaces)
        wider = (found for found in (there, beside, own) if found == own or self._seated_without(found))
        return frozenset(next(wider))

    def _seated_without(self, gone: Collection[PodUID]) -> bool:
        """Return whether its pods have their places when only these of those who are leaving already have left."""
        play = self._begun()
        play.remove({*self._leavers, *gone})
        for request, row, slots in self._placed:
            if not play.takes(request, row, slots, ()):
                return False
            play.put(request, row, slots)
        return True

    def _masks(self) -> Iterator[rules.Array]:
        """Who may leave, shape (N, G, T): one level of priority after the other."""
        field = self._field
        gone = leavers.others(field.source, field.seen, field.held, self._scene.gone)
        yield self._cheaper & gone
        for level in self._field.held.levels(self._priority):
            yield (self._cheaper | (self._running & (self._field.held.priority <= level))) & gone

    def _cheapest(self, request: view.Request, mask: rules.Array) -> _Way | None:
        if not mask.any():
            return None
        relaxed = scene.without_all(self._scene.fleet, self._field.held, mask)
        offers = rules.offers(relaxed, request, check_host=True)
        namespace = request.demand.namespace
        beyond = spaces.beyond(self._scene.fleet, namespace, offers.gpus)
        own = spaces.held(self._scene.fleet, namespace)
        if beyond:
            fits = offers.fits & (
                own if offers.gpus == 1 else (own & offers.cells).sum(axis=1, keepdims=True) >= beyond
            )
            offers = offers._replace(fits=fits)
        if not offers.fits.any():
            return None
        short = ~rules.hosts(self._scene.fleet, request)
        ground = ways.Ground(self._scene.fleet, self._field.held, self._field.now)
        some = (
            ways.on_one(ground, offers, mask, beyond=beyond, short=short)
            if offers.gpus == 1
            else ways.on_several(ground, offers, mask, own=own, beyond=beyond)
        )
        found: list[_Way] = []
        for number, (row, slots, leaving) in enumerate(some):
            way = self._checked(request, row, slots, leaving)
            if way is None and short[row]:
                way = self._checked(request, row, slots, self._of_node(row, mask))
            if way is not None:
                found.append(way)
            if len(found) >= ENOUGH or number >= ways.LOOKED_AT:
                break
        found.sort()
        others = ((way.row, way.slots, sorted(way.leaving)) for way in found[1:])
        self._ways[request.fit_key] = itertools.chain(others, some)
        return found[0] if found else None

    def _of_node(self, row: int, mask: rules.Array) -> list[PodUID]:
        """Who may leave a node."""
        uids = self._field.held.uids[row]
        return [uids[slot][place] for slot, place in np.argwhere(mask[row]).tolist()]

    def _checked(self, request: view.Request, row: int, slots: tuple[int, ...], leaving: list[PodUID]) -> _Way | None:
        """Return the way by the rules themselves, with nobody leaving who need not; None where it does not work."""
        in_the_way = self._blockers[request.demand.uid].get(self._field.seen.nodes[row].name, ())
        leave = {self._parties.of(uid) for uid in (*leaving, *in_the_way)}
        if not all(map(self._parties.all_may_leave, leave)):
            return None
        if not self._scene.takes(request, row, slots, frozenset().union(*leave)):
            return None
        for party in sorted(leave, key=self._parties.cost, reverse=True):
            fewer = leave - {party}
            if not (fewer or (self._leavers and self._bounded)):
                # It fits nowhere with nobody else gone; where GPUs of its namespace count, on others than were left.
                break
            if party.isdisjoint(in_the_way) and self._scene.takes(request, row, slots, frozenset().union(*fewer)):
                leave = fewer
        everyone = frozenset().union(*leave)
        highest, pods, lost, _ = self._parties.cost(everyone)
        return _Way((highest, pods, lost, row, slots), row, slots, everyone)


def _where(field: Field, mask: rules.Array) -> list[tuple[PodUID, int]]:
    """Who is there, and on which row."""
    return [(field.held.uids[row][slot][place], int(row)) for row, slot, place in np.argwhere(mask)]
