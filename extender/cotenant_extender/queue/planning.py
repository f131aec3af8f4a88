"""One pass over the queue: what can be placed is earmarked in the ledger, and what is to be done outside handed back.

In order: end the earmarks and holds that have lost their ground; place whom the order and the rules allow; hold GPUs
for the oldest job that waits too long, and let others use them who do not delay it; make room for jobs of higher
priority; show the autoscaler what fits nowhere.
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from cotenant_api.names import NodeName, PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records, steps
from cotenant_extender.ledger import ledger, verdicts
from cotenant_extender.packing import policies, rules
from cotenant_extender.queue import (
    backfill,
    budgets,
    earmarking,
    holds,
    line,
    memory,
    obstacles,
    order,
    passes,
    preempting,
    preemption,
    questions,
    roster,
    searches,
    showing,
    sparing,
    vain,
)

PATIENCE = 4
"""So many passes that are late let nobody use what is held; the next does all the same.

After so many passes in a row that were cut, one catches up: see `memory`.
"""
_PREEMPT = 1
"""The phase, of those of a pass, in which victims are looked for."""
NEAR = 64
"""Jobs at the head of the line that are asked before one behind them evicts."""


class Queue:
    """The queue of one leader: what it knows from pass to pass.

    Attributes:
        line: who waits, in order.
        preemptions: for whom victims are leaving.
        reservation: for whom GPUs are held because it waits too long.
        showing: what an autoscaler is shown.
        questions: who would evict, and waits for kube-scheduler to say which nodes it accepts.
    """

    def __init__(self) -> None:
        self.line = line.Line()
        self.preemptions = preempting.Preemptions()
        self.showing = showing.Showing()
        self.questions = questions.Questions()
        self._roster, self._memory, self.reservation = roster.Roster(), memory.Memory(), holds.Reservation()
        self._backfill = backfill.Backfill(self.reservation, self._roster)
        self._searches = searches.Searches()
        self._begun = self._hurry = False
        self._phase = self._guests_waited = self._cuts = 0
        self._seats, self._lost = earmarking.Seats(), earmarking.Lost()
        self._put_off: set[order.Name] = set()
        self._found = searches.Found()

    def prepare(self, source: ledger.Ledger, policy: policies.InForce, *, now: float) -> steps.Steps[None]:
        """Do in steps what the next pass would have to do at once: at the beginning, and under another policy.

        What changes between two steps is touched in the ledger, and taken in by the pass. Another policy in the middle
        begins anew.
        """
        if not self._begun:
            source.touched.clear()
            yield from self._roster.prepare(source)
        if not self.line.follows(policy.spec.queue):
            self.line = yield from line.Line.made(source, policy.spec.queue, now=now)
        self._begun = True
        yield from self._memory.prepare(source, self.line)
        yield from self.showing.prepare(source, policy, now=now)

    def plan(
        self,
        source: ledger.Ledger,
        policy: policies.InForce,
        *,
        now: float,
        cells: int = passes.CELLS_PER_PASS,
        late: steps.Late = steps.never,
    ) -> passes.Plan:
        """One pass, which is cut when it has looked at so many GPUs, has lifted as many gates as may be, or is late.

        What a pass that was late had no time for, to make room and to show, the next one does first.
        """
        earmarking.end_left_alone(source, now=now)
        self._lost.end(source)
        verdicts.settle(source, now=now)
        source.runs.review(source.pods, now=now)
        self.preemptions.sparing.review(source, policy.generation, now=now)
        touched = set(source.touched) if self._begun else {*source.pods, *source.touched}
        source.touched.clear()
        self._begun = True
        self.line.update(source, policy.spec.queue, touched, now=now)
        self._roster.note(source, touched)
        self._searches.again(self.preemptions.review(source, self.line, now=now))
        self._searches.again(self.questions.heard_of(self.line, touched))
        this = passes.Pass(source, policy, now=now, cells=cells, late=late)
        if policy.places:
            self._memory.follow(source, self.line)
            self._do(this)
        else:
            self.reservation.end(source)
            self.preemptions.end_all(source)
        more = this.cut or this.more_guests or this.catches_up
        unheard = tuple(this.unheard)
        return passes.Plan(lifts=tuple(this.lifts), evictions=tuple(this.evictions), unheard=unheard, cut=more)

    def refused(
        self, source: ledger.Ledger, victim: records.Pod, budget: budgets.Budget | None = None, *, now: float
    ) -> None:
        """Leave alone for a while a victim that could not be evicted, and all that the budget selects."""
        self._searches.again(self.preemptions.refused(source, victim, budget, now=now))

    def overtaken(self, source: ledger.Ledger, uid: PodUID) -> None:
        """Take in that a victim has ended, or leaves, without having been asked.

        Those who wait for it may need no others.
        """
        self._searches.again(self.preemptions.end_for(source, uid))

    def _do(self, this: passes.Pass) -> None:
        """All phases in order, from the one on that the last pass left; one at least."""
        phases = (self._place, self._preempt, self._show)
        parts = (steps.BEGIN, steps.BEGIN_LONG, steps.BEGIN)
        begin, self._phase, this.hurry = self._phase, 0, self._hurry
        for number, phase in enumerate(phases[begin:], start=begin):
            if number > begin and not this.cut and this.late(parts[number]):
                this.cut, self._phase = True, number
                break
            phase(this)
        if this.tried_all:
            self._give_up(this)
        self._hurry = this.cut and not this.cells

    def _place(self, this: passes.Pass) -> None:
        """Earmark everything that fits, in order; hold GPUs for the first that has waited too long and does not."""
        found, source = self._memory, this.source
        this.catches_up = self._cuts >= PATIENCE
        this.hurry |= this.catches_up
        found.begin(source, catches_up=this.catches_up)
        aged = np.flatnonzero(found.columns.aged & ~found.columns.barred).tolist()
        place = found.next(0)
        while place is not None:
            self._reserve(this, aged, before=place)
            if this.cut:
                break
            entry = self.line.entries[place]
            stopped = obstacles.obstacle(source, entry, now=this.now)
            if stopped is None:
                if this.full or self._puts_off(this, entry):
                    this.cut = True
                    break
                self._try(this, place, entry)
            elif stopped[0] is PackedReason.INVALID_REQUEST:
                found.bar(place)
                if this.late(1.0):
                    # The next pass begins with one that is not barred.
                    this.cut = True
                    break
            place = found.next(place + 1)
        found.end()
        self._cuts = self._cuts + 1 if this.cut and not this.catches_up else 0
        this.tried_all = not this.cut
        if this.tried_all:
            self._put_off.clear()
            found.caught_up()
            self._reserve(this, aged, before=len(self.line.entries))
        if this.tried_all and not this.cut and not this.late(steps.BEGIN):
            self._reserve(this, this.looked_at_before, before=len(self.line.entries), again=True)
        if not this.cut:
            self._let_in(this)

    def _let_in(self, this: passes.Pass) -> None:
        """Let others use what is held for a job; nothing is held any more where none waits too long."""
        if not this.reserved:
            self.reservation.end(this.source)
            return
        if this.late(steps.BEGIN) and self._guests_waited < PATIENCE:
            this.more_guests, self._guests_waited = True, self._guests_waited + 1
            return
        waiting, self._guests_waited = self._guests(this), 0
        made, this.more_guests = self._backfill.lifts(this.source, this.policy, waiting, now=this.now, late=this.late)
        for lift in made:
            self._promise(this, self.line.get(lift.record.uid), [lift])

    def _promise(self, this: passes.Pass, entry: order.Entry | None, lifts: Sequence[earmarking.Lift]) -> None:
        """Note that a job gets GPUs."""
        this.lifts.extend(lifts)
        if entry is not None:
            this.lifted.add(entry.name)
            self.preemptions.sparing.promised(entry)

    def _guests(self, this: passes.Pass) -> Iterator[order.Entry]:
        """Who could use GPUs that are held for another, in order."""
        hold, source = self.reservation.hold, this.source
        if hold is None:
            return
        for place in self._memory.guests(source, hold)[: backfill.LOOKED_AT]:
            entry = self.line.entries[place]
            (record,) = entry.members
            setback = source.earmarks.setback(record.uid)
            if setback is None and record.uid not in hold.holders and self._stuck(this, entry):
                yield entry

    def _try(self, this: passes.Pass, place: int, entry: order.Entry) -> None:
        source, found = this.source, self._memory
        rows = found.rows(source, place) if entry.gang is None else None
        if rows is not None and not len(rows):
            found.failed(source, place)
            return
        this.cells += source.seen().present.shape[1] * (len(source.order) if rows is None else len(rows))
        this.cells += 0 if entry.gang is None else source.seen().present.size * len(entry.members)
        if entry.gang is not None and self._seats_a_new_one(this, entry):
            # When that took long the pass is cut, once, and the next one promises what it needs.
            this.cut |= this.late(1.0)
        if this.cut:
            return
        made = self._earmarked(this, entry, rows)
        if made:
            self._promise(this, entry, made)
            found.placed()
            if self.reservation.placed(source, entry):
                found.changed(source)
        else:
            found.failed(source, place)

    def _puts_off(self, this: passes.Pass, entry: order.Entry) -> bool:
        """Return whether a gang is left to the next pass, which has more time for it: once, whatever comes before."""
        if entry.gang is None or entry.name in self._put_off or not this.may_end(steps.BEGIN):
            self._put_off.discard(entry.name)
            return False
        self._put_off.add(entry.name)
        return True

    def _seats_a_new_one(self, this: passes.Pass, entry: order.Entry) -> bool:
        """Return whether a gang fits that is another than the one that did last."""
        before = self._seats.name
        return self._seats.find(this.source, entry) is not None and before != entry.name

    def _earmarked(
        self, this: passes.Pass, entry: order.Entry, rows: rules.Array | None = None
    ) -> list[earmarking.Lift]:
        """Promise GPUs to an entry; empty where it does not fit."""
        if entry.gang is None:
            return earmarking.earmarked(this.source, this.policy, entry, rows, now=this.now)
        seats = self._seats.find(this.source, entry)
        return [] if seats is None else earmarking.seated(this.source, this.policy, entry, seats, now=this.now)

    def _reserve(self, this: passes.Pass, aged: list[int], *, before: int, again: bool = False) -> None:
        """Hold GPUs for the first of these places in the line that did not fit, before anybody after it is tried.

        Those that were expected to start nowhere are left for later, unless it is looked `again`.
        """
        while aged and aged[0] < before and not this.reserved:
            place, as_of = aged.pop(0), this.source.version
            entry, kind = self.line.entries[place], int(self._memory.columns.kind[place])
            if kind in this.unsuited or not (self._stuck(this, entry) or self._pauses(this, entry)):
                continue
            hopeless = self.reservation.hopeless(entry.name, now=this.now)
            if not hopeless and not again and self.reservation.may_wait(entry.name, now=this.now):
                # Its next look comes when all were tried: many such jobs would keep all behind them waiting.
                this.looked_at_before.append(place)
                continue
            if not hopeless and not self._may_reserve(this):
                this.cut |= not again
                return
            if not hopeless and self.reservation.keep(this.source, self._roster, entry, now=this.now, late=this.late):
                this.reserved = True
                if this.source.version != as_of:
                    self._memory.changed(this.source)
                return
            this.hurry &= hopeless
            if entry.gang is None:
                # No GPU suits it, nor others of its kind: each would be looked for among all GPUs.
                this.unsuited.add(kind)

    def _may_reserve(self, this: passes.Pass) -> bool:
        """Return whether it is known who is on which GPU, and there is time to look where a job can start soonest."""
        if this.may_end(steps.BEGIN) or not self._roster.update(this.source, this.source.seen()):
            return False
        return not this.may_end(steps.BEGIN)

    def _stuck(self, this: passes.Pass, entry: order.Entry) -> bool:
        """Return whether an entry was tried in vain, and nobody is leaving for it."""
        tried = entry.name not in this.lifted and entry.name not in self.preemptions
        return tried and obstacles.obstacle(this.source, entry, now=this.now) is None

    def _pauses(self, this: passes.Pass, entry: order.Entry) -> bool:
        """Return whether kube-scheduler failed to place an entry just now, and what it was promised is held for it."""
        tried = entry.name not in this.lifted and entry.name not in self.preemptions
        return tried and obstacles.pauses(this.source, entry, now=this.now)

    def _preempt(self, this: passes.Pass) -> None:
        """Look for victims of those that may have some: of those that were not looked at for longest, in order."""
        lowest, priorities = next(iter(self._roster.levels(2**31)), None), self._memory.columns.priority
        above = [] if lowest is None else self.line.entries[: int((priorities > lowest).sum())]
        self.questions.keep(above)
        above = list(self.preemptions.admits(above))
        if not above or this.cut or self._searches.rests(now=this.now):
            return
        if this.lifts and self._searches.gives_way(now=this.now):
            this.cut = True
            return
        self._searches.begin(now=this.now)
        if not self._roster.update(this.source, this.source.seen()):
            this.cut = True
            return
        unsettled = (entry for entry in above if not self.preemptions.settled(entry.name, now=this.now))
        left = [entry for entry in above if entry.name == self._found.name]
        for entry in itertools.chain(left, self._searches.due(unsettled, now=this.now)):
            if self._searched_for(this, entry):
                break
        self._searches.forget(len(self.line.entries), now=this.now)

    def _give_up(self, this: passes.Pass) -> None:
        """Wait no longer for jobs whose victims have all gone, and that do not fit all the same: all were tried."""
        entries = (self.line.get(name) for name in self.preemptions.without_victims(this.source, now=this.now))
        waiting = [entry for entry in entries if entry is not None and entry.name not in this.lifted]
        waiting = [entry for entry in waiting if not obstacles.pauses(this.source, entry, now=this.now)]
        if waiting and not self._roster.update(this.source, this.source.seen()):
            this.cut = True
            return
        for entry in waiting:
            self.preemptions.gone(this.source, entry, self._offered(this, entry), now=this.now)
            self._searches.again([entry.name])

    def _searched_for(self, this: passes.Pass, entry: order.Entry) -> bool:
        """Look for victims of an entry, if it may have some; whether it may."""
        self._searches.looked_at(entry.name, now=this.now)
        self.questions.forget(entry.name)
        tried = entry.name not in this.lifted and obstacles.obstacle(this.source, entry, now=this.now) is None
        may = all(member.preempts for member in entry.members) and tried
        if may:
            self._search(this, entry)
        return may

    def _search(self, this: passes.Pass, entry: order.Entry) -> None:
        source = this.source
        setback = source.earmarks.setback(entry.members[0].uid)
        field = preemption.Field(
            source=source,
            seen=source.seen(),
            held=self._roster,
            now=this.now,
            staying=self.preemptions.staying(source, now=this.now),
            avoided=None if setback is None else setback.node,
        )
        spared = self.preemptions.sparing.until(entry, now=this.now, offers=self._offered(this, entry))
        find = preemption.choose if spared is None else preemption.awaited
        left = self._found.name == entry.name
        found = self._found.take(source, entry) or find(field, entry.requests)
        if found is None and setback is not None:
            # Where it failed last is the last to be tried; what kube-scheduler's plugins refuse is a verdict.
            found = find(replace(field, avoided=None), entry.requests)
        if entry.name in self.preemptions and (found is None or (found.awaited and not found.evict)):
            self.preemptions.wait_on(entry.name, now=this.now)
            return
        if found is None:
            self._searches.in_vain(now=this.now)
            return
        if found.evict and self._gives_up(this, entry, found.gpus):
            return
        promises = entry.gang is not None and not (found.evict or found.awaited)
        if promises and not left and this.late(steps.BEGIN):
            self._found.keep(source, entry, found)
            this.cut, self._phase = True, _PREEMPT
            return
        eviction = self.preemptions.begin(source, entry, found, now=this.now)
        if eviction is not None:
            this.evictions.append(eviction)
        elif not found.awaited:
            made = self._earmarked(this, entry)
            if made:
                self._promise(this, entry, made)

    def _offered(self, this: passes.Pass, entry: order.Entry) -> Callable[[], vain.Offers]:
        """Return what nodes have for jobs of an entry's kind, when it is asked."""
        return lambda: sparing.offered(this.source, self._roster, entry.requests)

    def _gives_up(self, this: passes.Pass, entry: order.Entry, nodes: Collection[NodeName]) -> bool:
        """Return whether nobody is evicted for a job now although some could be."""
        if self._searches.lets_past(entry.name, self._ahead(this, entry), now=this.now):
            return True
        question = self.questions.put(this.source, entry, nodes, now=this.now)
        if question is not None:
            this.lifts.extend(question.lifts)
            this.unheard.extend(question.unheard)
        return question is not None

    def _ahead(self, this: passes.Pass, entry: order.Entry) -> list[order.Name]:
        """Return the first jobs before one in the line that want no more, and may have victims."""
        wanted = sum(request.demand.share for request in entry.requests)
        found = (
            other.name
            for other in itertools.takewhile(lambda other: other.name != entry.name, self.line.entries[:NEAR])
            if len(other.members) <= len(entry.members)
            and sum(request.demand.share for request in other.requests) <= wanted
            and all(member.preempts for member in other.members)
            and not self.preemptions.settled(other.name, now=this.now)
            and self.preemptions.sparing.until(other, now=this.now) is None
            and self._stuck(this, other)
        )
        return list(itertools.islice(found, searches.AHEAD))

    def _show(self, this: passes.Pass) -> None:
        """Lift, without earmarks, what has waited long enough and would fit new nodes."""
        if not this.cut:
            waiting = showing.Waiting(
                line=self.line, columns=self._memory.columns, stuck=lambda entry: self._stuck(this, entry)
            )
            this.lifts.extend(self.showing.lifts(this.source, this.policy, waiting, now=this.now))
