"""Which GPUs are held for the oldest job that does not fit, and who may use them meanwhile.

Held is where the job is expected to start soonest (`forecast`), as far as is known when tenants end (`ends`); beside
somebody who never ends, nothing is. The pods of a gang share held GPUs where the rules let them.

A hold moves when its GPUs can serve the job no longer; else only for a gain: where the job is expected to wait at most
1 / `GAIN` as long, and `LEAST_GAIN_SECONDS` less. As expectations may be wrong, it moves so only when it is twice as
old as when it moved last: however wrong they are, it comes to rest until its GPUs are empty.

Others may use held GPUs (`guests`) if the job is expected to start no later for it. Who ends before may, by its
deadline or the longest run of a pod like it, but not after those have gone for whom the job waits: else a row of
guests who end late could keep it waiting. Who leaves room for the job may, even if it never ends, beside all guests
before it.

A hold in vain is given up (`vain`): where the job waits for nobody any more and does not start, where held GPUs stand
half empty for very long, and where pods of higher priority keep its namespace at its limit.

So with run times of at most R a hold stays at most 2 R in one place: those whom the job waits for end within R, guests
who were let in until then within R more. Of moves at ages that double the last is at most 4 R late. Within 6 R the job
starts, however wrong the expectations are.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cotenant_api.names import GPUUID, HUNDREDTHS, NodeName, PodUID
from cotenant_extender import records, steps, tenures
from cotenant_extender.ledger import ledger, runs
from cotenant_extender.packing import fleet, rules, spaces, view
from cotenant_extender.queue import bounds, ends, forecast, order, roster, shortage, vain

HOPELESS_SECONDS = 30.0
"""A job that is not expected to start anywhere is looked at again after this."""
WAITS_FOR_ANOTHER_LOOK_SECONDS = 600.0
"""So long it may then wait for that look, until all others were tried."""
REVIEW_SECONDS = 10.0
"""A better place is looked for, and the expected start worked out again, this often at most."""
GAIN = 2
LEAST_GAIN_SECONDS = 60.0
MOST_CELLS = 16
"""Held GPUs that are looked at for one guest."""


class Part(NamedTuple):
    """Held GPUs that are looked at for a guest: one at least.

    Attributes:
        start: the number of the first.
        pods: of the job that may be forecast.
    """

    start: int
    pods: int


class Look(NamedTuple):
    """What a look for places of a guest found.

    Attributes:
        opened: the nodes of held GPUs, with those open that it may use; None: it may use none.
        pods: of the job that were forecast.
        after: held GPUs that have been looked at; None: all.
        claim: what of the guest's run time is believed, where it is let in because it ends soon.
    """

    opened: fleet.Fleet | None
    pods: int = 0
    after: int | None = None
    claim: runs.Claim | None = None


class Reservation:
    """The one job for which GPUs are held because it has waited too long.

    Attributes:
        hold: what is held; None: nothing is.
        expected: where, and when, its job is expected to start.
    """

    def __init__(self) -> None:
        self.hold: view.Hold | None = None
        self.expected: forecast.Place | None = None
        self._checked: tuple[fleet.Fleet, list[int], float] | None = None
        self._reviewed = 0.0
        self._hopeless: dict[order.Name, tuple[float, str]] = {}
        self._vain = vain.Vain()
        self._keeps = False
        self._job: Sequence[view.Request] = ()

    def keep(
        self, source: ledger.Ledger, held: roster.Roster, entry: order.Entry, *, now: float, late: steps.Late
    ) -> bool:
        """Hold GPUs for a job's pods; whether there are any. `held`: the tenants of all GPUs as they are.

        When it is `late`, no better place is looked for.
        """
        if self.hopeless(entry.name, now=now):
            return False
        wanted, self._job = _wanted(entry), entry.requests
        standing = self._standing(source, wanted, now=now)
        if standing is not None and self._crowded_out(source, standing):
            self.end(source)
            self._give_up(entry, max(HOPELESS_SECONDS, now - standing.began), _CROWDED_OUT, now=now)
            return False
        until = self._pauses(source, held, now=now)
        if until is None and standing is not None and self._serves(source, held, standing, now=now):
            if not late(steps.BEGIN):
                self._review(source, held, standing, now=now)
            until = self._wasted(source, held, now=now)
            if until is None:
                return True
        if until is not None:
            if standing is not None:
                self.end(source)
            self._give_up(entry, min(until - now, HOPELESS_SECONDS), _told(until), now=now)
            return False
        field = _of_all(source, held, self.hold, self._job, now=now)
        found = forecast.soonest(field, self._job, now=now)
        if standing is not None or found is not None:
            self.end(source)
        if found is None:
            self._give_up(entry, HOPELESS_SECONDS, shortage.words(field, self._job), now=now)
            return False
        self._set(source, replace(wanted, began=now), found, now=now)
        return True

    def placed(self, source: ledger.Ledger, entry: order.Entry) -> bool:
        """Note that a job is promised GPUs; whether some were held for it, which then are not any more."""
        if self._vain:
            self._vain.placed(vain.kind(entry.requests))
        mine = self.holds_for(entry.members[0].uid)
        if mine:
            # Its pods count on their nodes now: what is kept for them would count twice.
            self.end(source)
        return mine

    def end(self, source: ledger.Ledger) -> None:
        """Hold nothing."""
        if self.hold is not None:
            source.end_hold(self.hold)
        self.hold = self.expected = self._checked = None

    def holds_for(self, uid: PodUID) -> bool:
        """Return whether GPUs are held for a pod."""
        return self.hold is not None and uid in self.hold.holders

    def hopeless(self, name: order.Name, *, now: float) -> bool:
        """Return whether a job was not expected to start anywhere when it was looked at last."""
        return self._hopeless.get(name, (now, ""))[0] > now

    def may_wait(self, name: order.Name, *, now: float) -> bool:
        """Return whether a job was not expected to start anywhere, and may wait until it is looked at again."""
        return self._hopeless.get(name, (-math.inf, ""))[0] > now - WAITS_FOR_ANOTHER_LOOK_SECONDS

    def why_none(self, name: order.Name, *, now: float) -> str:
        """Say why no GPU is held for a job that has waited too long; empty: some may be, or it was not looked at."""
        return self._hopeless[name][1] if self.hopeless(name, now=now) else ""

    def field(self, source: ledger.Ledger, held: roster.Roster, *, now: float) -> forecast.Field | None:
        """Return what `guests` looks at, valid until something is booked or believed; None: nothing is held."""
        return None if self.hold is None else _of_hold(source, held, self.hold, self._job, now=now)

    def guests(
        self, source: ledger.Ledger, field: forecast.Field | None, record: records.Pod, part: Part, *, now: float
    ) -> Look:
        """Which held GPUs a pod may use without delay for the job.

        Of them only a part is looked at where that takes forecasts. `field`: as of now.
        """
        request, place, hold = order.request_of(record), self.expected, self.hold
        if hold is None or place is None or field is None:
            return Look(None)
        latest = ends.at_the_latest(record, source.runs, now=now)
        if latest <= min(hold.expected, place.start) and self._awaited(source):
            opened = _opened_to_all(source.seen() if _counts(source, hold, request) else field.seen, hold)
            fits = bool(rules.offers(opened, request, check_host=True).fits.any())
            return Look(opened, claim=ends.claimed(record, source.runs)) if fits else Look(None)
        cells = _room_may_be(field, request, self._job)
        some = cells[part.start : part.start + max(part.pods // len(self._job) - 1, 1)]
        if not some:
            return Look(None)
        opened = _opened(field.seen, field.open)
        opened.present &= _leaving_room(_with_guests(field, hold), request, self._job, some, now=now)
        fits = bool(rules.offers(opened, request, check_host=True).fits.any())
        after = part.start + len(some)
        forecast_pods = (1 + len(some)) * len(self._job)
        return Look(opened if fits else None, forecast_pods, after if after < len(cells) else None)

    def _give_up(self, entry: order.Entry, seconds: float, why: str, *, now: float) -> None:
        """Nothing is held for a job for so long."""
        kept = now - WAITS_FOR_ANOTHER_LOOK_SECONDS
        self._hopeless = {name: known for name, known in self._hopeless.items() if known[0] > kept}
        self._hopeless[entry.name] = now + seconds, why

    def _pauses(self, source: ledger.Ledger, held: roster.Roster, *, now: float) -> float | None:
        """Until when nothing is held for the job, as it was in vain; None: it may be."""
        kind = vain.kind(self._job) if self._vain else None
        return self._vain.pauses(kind, lambda: _offers(source, held, self._job, now=now), now=now)

    def _wasted(self, source: ledger.Ledger, held: roster.Roster, *, now: float) -> float | None:
        """Until when the hold is given up, if it is in vain."""
        hold, place, seen = self.hold, self.expected, source.seen()
        if hold is None or place is None:
            return None
        mine, kind = seen.hold == seen.holds.get(hold, _NO_HOLD), vain.kind(self._job)
        idle = not place.blockers or bool((mine & (2 * seen.free >= HUNDREDTHS)).any())
        awaits = bool(place.blockers and place.needs)
        if not self._vain.wasted(kind, hold.namespace, idle=idle, awaits=awaits, now=now):
            return None
        return self._vain.give_up(kind, _offers(source, held, self._job, now=now), now=now)

    def _crowded_out(self, source: ledger.Ledger, hold: view.Hold) -> bool:
        """Return whether only pods of higher priority, which came after the hold, keep its namespace at its limit."""
        seen = source.seen()
        most = seen.policy.spec.max_gpus_per_namespace
        if most is None or self._awaited(source):
            return False
        mine, own = seen.hold == seen.holds.get(hold, _NO_HOLD), spaces.held(seen, hold.namespace)
        if int((mine | own).sum()) <= most:
            return False
        there = (seen.nodes[row].gpus[slot].tenants for row, slot in np.argwhere(own & ~mine).tolist())
        pods = (source.pods.get(tenant.uid) for tenants in there for tenant in tenants)
        return all(pod is not None and pod.priority > hold.priority for pod in pods)

    def _awaited(self, source: ledger.Ledger) -> bool:
        """Return whether anybody is there still for whom the job waited from the beginning."""
        return self.hold is not None and any(uid in source.claims for uid in self.hold.blockers)

    def _standing(self, source: ledger.Ledger, wanted: view.Hold, *, now: float) -> view.Hold | None:
        """Return what is held for this job already; what stands in the ledger is taken over."""
        if self.hold is None:
            self.hold = next((hold for hold in source.holds if _is_of(hold, wanted)), None)
            self._reviewed = now
        return self.hold if self.hold is not None and _is_of(self.hold, wanted) else None

    def _serves(self, source: ledger.Ledger, held: roster.Roster, hold: view.Hold, *, now: float) -> bool:
        """Return whether the GPUs that are held can still serve the job.

        Asked where a row was written, or time has passed.
        """
        seen = source.seen()
        rows = _rows(seen, source.holds.get(hold, {}))
        versions, checked = seen.versions[rows].tolist(), self._checked
        if checked is not None and checked[0] is seen and checked[1] == versions and now < checked[2] + REVIEW_SECONDS:
            return True
        place = self.expected = forecast.soonest(_of_hold(source, held, hold, self._job, now=now), self._job, now=now)
        self._checked = seen, versions, now
        if place is not None and bool(place.needs) is not self._keeps:
            # What pods without a share have of the nodes is more, or less, than it was.
            source.set_hold(hold, source.holds[hold], place.needs)
            self._keeps = bool(place.needs)
        return place is not None

    def _review(self, source: ledger.Ledger, held: roster.Roster, hold: view.Hold, *, now: float) -> None:
        """Move to where the job is expected to start much sooner, if the hold has been where it is for long enough."""
        here = self.expected
        if here is None or now < self._reviewed + REVIEW_SECONDS:
            return
        self._reviewed = now
        if here.start - now < LEAST_GAIN_SECONDS or now - hold.began < 2 * (hold.moved - hold.began):
            return
        found = forecast.soonest(_of_all(source, held, hold, self._job, now=now), self._job, now=now)
        if found is None or here.start - found.start < LEAST_GAIN_SECONDS:
            return
        if GAIN * (found.start - now) <= here.start - now:
            source.end_hold(hold)
            self._set(source, hold, found, now=now)

    def _set(self, source: ledger.Ledger, hold: view.Hold, place: forecast.Place, *, now: float) -> None:
        self.hold = replace(hold, expected=place.start, moved=now, blockers=place.blockers)
        self.expected, self._checked, self._reviewed = place, None, now
        self._vain.begin(vain.kind(self._job), now=now)
        source.set_hold(self.hold, place.gpus, place.needs)
        self._keeps = bool(place.needs)


def _wanted(entry: order.Entry) -> view.Hold:
    holders = frozenset(member.uid for member in entry.members)
    namespace = entry.members[0].namespace
    return view.Hold(holders=holders, priority=entry.priority, since=entry.since, namespace=namespace)


def _is_of(hold: view.Hold, wanted: view.Hold) -> bool:
    """Return whether a hold is for the same job."""
    return (hold.holders, hold.priority, hold.since) == (wanted.holders, wanted.priority, wanted.since)


def _rows(seen: fleet.Fleet, gpus: Mapping[NodeName, frozenset[GPUUID]]) -> rules.Array:
    """Return the rows of these nodes, as far as they are there, in ascending order."""
    return np.array(sorted(seen.rows[name] for name in gpus if name in seen.rows), dtype=np.intp)


def _of_all(
    source: ledger.Ledger, held: roster.Roster, hold: view.Hold | None, job: Sequence[view.Request], *, now: float
) -> forecast.Field:
    """All GPUs, but those that are held for others than this hold's job."""
    seen = source.seen()
    mine = seen.holds.get(hold, _NO_HOLD) if hold is not None else _NO_HOLD
    usable = (seen.hold == 0) | (seen.hold == mine)
    bound = bounds.of(seen, held.share.shape, job[0].demand.namespace)
    return forecast.Field(seen, held, ends.expected(held, source.runs, now=now), usable, bound)


def _of_hold(
    source: ledger.Ledger, held: roster.Roster, hold: view.Hold, job: Sequence[view.Request], *, now: float
) -> forecast.Field:
    """Return the nodes of held GPUs, with these alone."""
    whole = source.seen()
    rows, mine = _rows(whole, source.holds.get(hold, {})), whole.hold == whole.holds.get(hold, _NO_HOLD)
    if whole.policy.spec.max_gpus_per_namespace is not None:
        return _of_all(source, held, hold, job, now=now)._replace(open=mine).at(rows)
    seen, tenants = whole.at(rows), held.at(rows)
    return forecast.Field(seen, tenants, ends.expected(tenants, source.runs, now=now), mine[rows])


def _offers(source: ledger.Ledger, held: roster.Roster, job: Sequence[view.Request], *, now: float) -> vain.Offers:
    """Return how many of a job's pods each node could take if all were gone who ever go."""
    field = _of_all(source, held, None, job, now=now)
    seats = forecast.seats(field._replace(open=field.seen.present), forecast.kinds(job), forecast.beside_lasting(field))
    return {field.seen.nodes[row].name: int(seats[row]) for row in np.flatnonzero(seats).tolist()}


def _told(until: float) -> str:
    return (
        f"as some stood empty for it in vain, until {tenures.minute(until)}: look "
        "whether pods without a share have the CPU, memory or pods that it needs"
    )


_CROWDED_OUT = "as pods of higher priority keep its namespace at maxGPUsPerNamespace"
_NO_HOLD = -1


def _opened(seen: fleet.Fleet, cells: rules.Array) -> fleet.Fleet:
    """Return a copy in which these GPUs, shape (N, G), are held for nobody."""
    made = seen.emptied(np.zeros(seen.present.shape, dtype=np.bool_))
    made.hold[cells] = 0
    return made


def _opened_to_all(seen: fleet.Fleet, hold: view.Hold) -> fleet.Fleet:
    """Return a copy in which nothing is held by a hold."""
    return _opened(seen, seen.hold == seen.holds.get(hold, _NO_HOLD))


def _counts(source: ledger.Ledger, hold: view.Hold, request: view.Request) -> bool:
    """Return whether what is held counts for a pod's namespace: then it refuses the pod GPUs that are not held, too."""
    bounded = source.seen().policy.spec.max_gpus_per_namespace is not None
    return bounded and hold.namespace == request.demand.namespace


def _with_guests(field: forecast.Field, hold: view.Hold) -> forecast.Field:
    """As if nobody left the held GPUs but those for whom the job waits."""
    lasting = field.ends.copy()
    for row, slot in np.argwhere(field.open).tolist():
        for place, uid in enumerate(field.held.uids[row][slot]):
            if uid not in hold.blockers:
                lasting[row, slot, place] = np.inf
    return field._replace(ends=lasting)


def _room_may_be(field: forecast.Field, request: view.Request, job: Sequence[view.Request]) -> list[tuple[int, int]]:
    """On which of the held GPUs a pod fits now, `MOST_CELLS` at most; none where it leaves no share for the job."""
    least = min(int(np.min(_share(field, one))) for one in job)
    if int(np.min(_share(field, request))) + least > HUNDREDTHS:
        return []
    offers = rules.offers(_opened(field.seen, field.open), request, check_host=True)
    return [(row, slot) for row, slot in np.argwhere(offers.cells & field.open)[:MOST_CELLS].tolist()]


def _leaving_room(
    field: forecast.Field,
    request: view.Request,
    job: Sequence[view.Request],
    cells: Sequence[tuple[int, int]],
    *,
    now: float,
) -> rules.Array:
    """On which of these GPUs a pod may be, even for ever, without the job starting later."""
    found = np.zeros_like(field.open)
    place = forecast.soonest(field, job, now=now)
    if place is None:
        return found
    for cell in cells:
        with_it = forecast.soonest(field.joined(cell, request, end=math.inf), job, now=now)
        found[cell] = with_it is not None and with_it.start <= place.start and len(with_it.needs) >= len(place.needs)
    return found


def _share(field: forecast.Field, request: view.Request) -> rules.Array:
    """Hundredths that a pod needs on each of the held GPUs."""
    share = np.broadcast_to(np.asarray(rules.of_models(field.seen, request).share), field.open.shape)
    return share[field.open]
