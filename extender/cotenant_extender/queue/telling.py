"""What waiting pods are told: reason and message, the same words in the condition, in the explanation and in metrics.

A tally over all GPUs is made once for pods that are refused alike, and kept until the ledger changes.
"""

from collections.abc import Callable, Hashable
from typing import NamedTuple

from cotenant_api import places
from cotenant_api.pod import PackedReason
from cotenant_extender import records, steps, tenures
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import fleet, holding, policies, rules, view
from cotenant_extender.queue import earmarking, never, obstacles, order, planning, scene, seating, shortage, showing

MAX_NAMED = 5
ENTRIES_PER_STEP = 1000
"""A step takes about two milliseconds: filter waits for it."""
_UNTRIED = "; evicts nobody before kube-scheduler has said which nodes it accepts"
_SURPLUS = "the gang has its {size} pods without this one: give the pods of another job a gang of another name"
_LASTING = (
    PackedReason.GPU_MODEL_MISMATCH,
    PackedReason.NEVER_FITS,
    PackedReason.UNHEALTHY_GPU,
    PackedReason.FOREIGN_USE,
    PackedReason.INVALID_REQUEST,
)
"""Reasons that no other pod's end changes."""
Words = tuple[PackedReason, str]


class Waiting(NamedTuple):
    """A pod that waits.

    Attributes:
        position: its place in the queue, from 1; 0 where it has none.
        entry: what it waits as; None where its request cannot be read.
    """

    record: records.Pod
    position: int
    entry: order.Entry | None


def _anybody(_record: records.Pod) -> bool:
    return True


class Teller:
    """Says why pods wait.

    Attributes:
        queue: of which it tells.
        asked: how many tallies were made.
    """

    def __init__(self, queue: planning.Queue) -> None:
        self.queue = queue
        self._known: dict[Hashable, Words] = {}
        self._as_of: tuple[int, fleet.Fleet] | None = None
        self.asked = 0

    def waiting(self, source: ledger.Ledger, *, among: Callable[[records.Pod], bool] = _anybody) -> list[Waiting]:
        """Everybody who waits, or some of them, in order; those whose requests cannot be read last."""
        return steps.finish(self.looked_for(source, among=among))

    def looked_for(
        self, source: ledger.Ledger, *, among: Callable[[records.Pod], bool] = _anybody
    ) -> steps.Steps[list[Waiting]]:
        """Look in steps for those who wait, as they were when the first began: see `waiting`."""
        found: list[Waiting] = []
        ahead = 0
        for number, entry in enumerate(list(self.queue.line.entries), start=1):
            still = [record for record in entry.members if source.earmarks.get(record.uid) is None]
            found.extend(Waiting(record, ahead + 1, entry) for record in still if among(record))
            ahead += len(still)
            if number % ENTRIES_PER_STEP == 0:
                yield
        for number, pod in enumerate(list(source.index.pending.values()), start=1):
            if pod.invalid is not None and among(pod):
                found.append(Waiting(pod, 0, None))
            if number % ENTRIES_PER_STEP == 0:
                yield
        return found

    def find(self, source: ledger.Ledger, record: records.Pod) -> Waiting | None:
        """One pod, if it waits."""
        return next(iter(self.waiting(source, among=lambda pod: pod.uid == record.uid)), None)

    def explain(self, source: ledger.Ledger, policy: policies.InForce, pod: Waiting, *, now: float) -> Words:
        """Why a pod waits, with its place in the queue."""
        if pod.entry is None:
            return PackedReason.INVALID_REQUEST, pod.record.invalid or ""
        reason, message = self._why(source, policy, pod.entry, pod.record, now=now)
        return reason, places.told(message, pod.position)

    def _why(
        self, source: ledger.Ledger, policy: policies.InForce, entry: order.Entry, record: records.Pod, *, now: float
    ) -> Words:
        if not policy.places:
            return PackedReason.WAITING_FOR_TURN, policy.standstill
        if entry.surplus and entry.gang is not None:
            return PackedReason.WAITING_FOR_GANG, _SURPLUS.format(size=entry.gang[0])
        stopped = obstacles.obstacle(source, entry, now=now)
        if stopped is not None:
            return stopped
        victims = self.queue.preemptions.victims(source, entry.name)
        if victims:
            names = [f"{victim.namespace}/{victim.name}" for victim in victims]
            rest = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
            return PackedReason.WAITING_FOR_TURN, f"waits for {', '.join(names[:MAX_NAMED])}{rest} to leave"
        reason, message = self._tally(source, policy, entry, record)
        guarded = "" if reason in _LASTING else self._guarded(source, entry)
        spared = self.queue.preemptions.sparing.until(entry, now=now)
        asked = (
            ""
            if spared is None
            else f"; evicts nobody before {tenures.minute(spared)}, as pods left in vain for such jobs"
        )
        asked += _UNTRIED if entry.name in self.queue.questions else ""
        words = reason, message + guarded + asked + self._outlook(source, entry, now=now)
        return _while_shown(words, self.queue.showing.standing(entry, policy, now=now))

    def expected_start(self, entry: order.Entry | None) -> float | None:
        """When an entry for which GPUs are held is expected to start, in seconds since the epoch."""
        hold, place = self.queue.reservation.hold, self.queue.reservation.expected
        if entry is None or hold is None or place is None or entry.members[0].uid not in hold.holders:
            return None
        return place.start

    def _guarded(self, source: ledger.Ledger, entry: order.Entry) -> str:
        """Say which budgets keep pods of lower priority than an entry; empty: none is known.

        What other namespaces have is nobody else's to know by name.
        """
        found = self.queue.preemptions.guarded(source, entry)
        own = [f"{namespace}/{name}" for namespace, name in found if namespace == entry.members[0].namespace]
        kept = []
        if own:
            kind = "PodDisruptionBudget" if len(own) == 1 else "PodDisruptionBudgets"
            rest = f" and {len(own) - MAX_NAMED} more" if len(own) > MAX_NAMED else ""
            kept.append(f"{kind} {', '.join(own[:MAX_NAMED])}{rest}")
        if len(own) < len(found):
            kept.append("PodDisruptionBudgets of other namespaces")
        return f"; pods of lower priority are kept by {', and by '.join(kept)}" if kept else ""

    def _outlook(self, source: ledger.Ledger, entry: order.Entry, *, now: float) -> str:
        """Return what is expected of an entry that has waited so long that GPUs are to be held for it."""
        start, reservation = self.expected_start(entry), self.queue.reservation
        if start is not None and reservation.hold is not None:
            count = sum(map(len, source.holds.get(reservation.hold, {}).values()))
            held = "1 GPU is held for it" if count == 1 else f"{count} GPUs are held for it"
            return f"; {held}, to start about {tenures.minute(start)} (an estimate)"
        seen, requests = source.seen(), entry.requests
        why = reservation.why_none(entry.name, now=now)
        return f"; no GPU is held for it, {why}" if why and shortage.room(seen, requests) == len(requests) else ""

    def _tally(self, source: ledger.Ledger, policy: policies.InForce, entry: order.Entry, record: records.Pod) -> Words:
        seen = source.seen()
        if self._as_of is None or self._as_of[0] != source.version or self._as_of[1] is not seen:
            self._as_of = source.version, seen
            self._known.clear()
        request, label = order.request_of(record), policy.spec.tenancy_label
        mine = tuple(holding.may_use(hold, request) for hold in source.holds)
        key: Hashable = entry.name if entry.gang else (request.fit_key, label and record.labels.get(label), mine)
        found = self._known.get(key)
        if found is None:
            self.asked += 1
            found = self._known[key] = _of_gang(source, entry) if entry.gang else _of_one(seen, request)
        return found


def _while_shown(words: Words, standing: showing.Standing) -> Words:
    """Add to a tally what an autoscaler is shown of the job."""
    reason, message = words
    match standing:
        case showing.Standing.SHOWN:
            return PackedReason.WAITING_FOR_SCALE_UP, f"waits for another node: {message}"
        case showing.Standing.LATER:
            return PackedReason.WAITING_FOR_TURN, f"others are shown to the autoscaler first: {message}"
        case showing.Standing.OVER:
            return reason, f"no other node came while it was shown to the autoscaler, others have their turn: {message}"
        case showing.Standing.HIDDEN:
            return words


def _of_one(seen: fleet.Fleet, request: view.Request) -> Words:
    if rules.offers(seen, request, check_host=True).fits.any():
        return PackedReason.WAITING_FOR_TURN, "others go first"
    hopeless = never.words(seen, [request])
    if hopeless is not None:
        return hopeless
    rejected = rules.rejection(seen, request, check_host=True)
    return rejected.reason, rejected.message


def _of_gang(source: ledger.Ledger, entry: order.Entry) -> Words:
    """Return how many of a gang's pods fit beside each other, and why the next does not."""
    requests = entry.requests
    hopeless = never.words(source.seen(), requests)
    if hopeless is not None:
        return hopeless
    if earmarking.seats(source, entry) is not None:
        return PackedReason.WAITING_FOR_TURN, "others go first"
    play = scene.Scene(source, source.seen())
    for count, number in enumerate(seating.in_order(play.looks, requests)):
        request = requests[number]
        if play.place(request, source.known) is None:
            rejected = rules.rejection(play.fleet, request, check_host=True)
            room = shortage.room(source.seen(), requests)
            if room < len(requests):
                alike = len({play.looks.kind(each) for each in requests}) == 1
                # Unlike pods that fit in one of very many ways may be missed.
                where = (
                    "all GPUs together, if empty, have room" if alike else "one after the other, empty GPUs have room"
                )
                return rejected.reason, f"{where} for {room} of the gang's {len(requests)} waiting pods"
            message = f"{count} of the gang's {len(requests)} waiting pods fit; for the next {rejected.message}"
            return rejected.reason, message
    return PackedReason.WAITING_FOR_TURN, "others go first"
