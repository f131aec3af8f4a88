"""Who may use GPUs that are held for another job meanwhile (`holds`): single pods, in order, some in each pass.

Who was refused is asked about again when a held node has changed, or some time later, as expectations change with time.
A pass ends after `FORECASTS` pods of the job. The next goes on with the same kind of pod, at the next held GPU.
"""

from collections.abc import Hashable, Iterable, Iterator

from cotenant_extender import steps
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import policies, view
from cotenant_extender.queue import earmarking, forecast, holds, order, roster

ASKED = 16
"""Kinds of pods that are looked at in a pass."""
FORECASTS = 32
"""Pods of the job that are forecast in a pass; a look at one GPU forecasts them all twice."""
LOOKED_AT = 2000
"""Pods of the line that are looked at in a pass."""


class Backfill:
    """Remembers who was refused.

    Args:
        reservation: what is held, and for whom.
        tenants: of all GPUs.
    """

    def __init__(self, reservation: holds.Reservation, tenants: roster.Roster) -> None:
        self._reservation, self._tenants = reservation, tenants
        self._refused: set[Hashable] = set()
        self._next: tuple[Hashable, int] | None = None
        self._as_of: tuple[view.Hold, list[int]] | None = None
        self._since = 0.0

    def lifts(
        self,
        source: ledger.Ledger,
        policy: policies.InForce,
        waiting: Iterable[order.Entry],
        *,
        now: float,
        late: steps.Late,
    ) -> tuple[list[earmarking.Lift], bool]:
        """Earmark held GPUs for those who may use them; and whether more can be decided at once.

        One kind is looked at also when it is late.
        """
        made: list[earmarking.Lift] = []
        field: forecast.Field | None = None
        asked, pods = 0, FORECASTS
        self._forget(source, now=now)
        for entry, kind, start in self._in_turn(source, waiting):
            if kind in self._refused:
                continue
            asked += 1
            if (
                asked > ASKED
                or (asked > 1 and late(steps.BEGIN))
                or self._spent(pods)
                or not self._tenants.update(source, source.seen())
            ):
                self._next = kind, start
                return made, True
            record = entry.members[0]
            part = holds.Part(start, pods)
            # The same for all until one is let in.
            field = field or self._reservation.field(source, self._tenants, now=now)
            look = self._reservation.guests(source, field, record, part, now=now)
            pods -= look.pods
            lift = None if look.opened is None else earmarking.guest(source, policy, record, look.opened, now=now)
            if lift is not None:
                made.append(lift)
                field = None
                if look.claim is not None:
                    source.runs.believe(record.uid, look.claim)
                self._forget(source, now=now)
            elif look.after is None:
                self._refused.add(kind)
            else:
                self._next = kind, look.after
                return made, True
        self._next = None
        return made, False

    def _spent(self, pods: int) -> bool:
        """Return whether so few pods may still be forecast in this pass that no look has room; the first always has."""
        hold = self._reservation.hold
        return pods < FORECASTS and hold is not None and pods < 2 * len(hold.holders)

    def _in_turn(
        self, source: ledger.Ledger, waiting: Iterable[order.Entry]
    ) -> Iterator[tuple[order.Entry, Hashable, int]]:
        """Who waits, by kind, and the held GPU to begin with; from the kind on at which the last pass ended."""
        skipped: list[tuple[order.Entry, Hashable, int]] = []
        turn = self._next
        for entry in waiting:
            kind = _kind(source, entry)
            if turn is None:
                yield entry, kind, 0
            elif kind == turn[0]:
                yield entry, kind, turn[1]
                turn = None
            else:
                skipped.append((entry, kind, 0))
        yield from skipped

    def _forget(self, source: ledger.Ledger, *, now: float) -> None:
        """Who was refused may be let in where a held node has changed, and after a while."""
        hold, seen = self._reservation.hold, source.seen()
        if hold is None:
            return
        rows = [row for name in source.holds.get(hold, ()) if (row := seen.rows.get(name)) is not None]
        as_of = hold, seen.versions[rows].tolist()
        if as_of != self._as_of or now >= self._since + holds.REVIEW_SECONDS:
            self._as_of, self._since = as_of, now
            self._refused.clear()


def _kind(source: ledger.Ledger, entry: order.Entry) -> Hashable:
    """Pods of one kind are let in and refused alike."""
    record, label = entry.members[0], None if source.policy is None else source.policy.spec.tenancy_label
    request = order.request_of(record)
    return request.fit_key, label and record.labels.get(label), record.likeness, record.tenure.deadline_seconds
