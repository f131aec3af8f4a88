"""One run: jobs arrive, are placed by the extender's queue, slow each other down, lose attempts, come again, and end.

Whenever the tenants of a GPU change, each has come as far as its speed took it, and all get the speeds that the new set
has. A job that starts where its memory does not suffice runs for `START_SECONDS` and fails; it is submitted again. An
attempt is lost, too, when a job of higher priority evicts it and when a GPU breaks (`faults`); the next one begins at
the last checkpoint. A gang starts when all its pods are bound, and ends when one of them does.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Final

from cotenant_api import placement
from cotenant_api.names import GPUModel, PodUID
from cotenant_extender.packing import policies
from cotenant_simulator.engine import (
    agenda,
    attempts,
    conditions,
    faults,
    floor,
    growing,
    history,
    interference,
    jobs,
    outages,
    seating,
    submission,
    ways,
)
from cotenant_simulator.twin import leader, sites

START_SECONDS: Final = 30.0
"""From a container's start to the memory peak of its first step; an assumption."""
MOST_LOOKS: Final = 64
"""How often the queue looks for victims again while nothing else happens."""
NO_MORE_MEMORY: Final = (
    "OutOfMemory: it had {} MiB of GPU memory to itself; no GPU that the job may use has more; make the job smaller "
    "(its batch size, say) or allow larger GPUs"
)

Progress = Callable[[int], None]
"""Told how many jobs have ended."""


class World:
    """A cluster and its jobs.

    Args:
        nodes: the cluster.
        given: the jobs.
        way: how they are booked.
        policy: how they are packed.
        speeds: how fast they are together.
    """

    def __init__(
        self,
        nodes: Sequence[sites.Node],
        given: Sequence[jobs.Job],
        *,
        way: ways.Way,
        policy: policies.InForce,
        speeds: interference.Speeds,
    ) -> None:
        self._given, self._speeds, self._floor = given, speeds, floor.Floor(speeds)
        self._desk = submission.Desk(nodes, way, policy)
        self._leader = leader.Leader(nodes, policy)
        self._most_guarded = policy.spec.queue.max_minimum_run_seconds
        self._outages = outages.Outages(nodes, self._leader)
        self._gpus = {gpu.uuid: gpu for node in nodes for gpu in node.gpus}
        self._courses = [submission.Course() for _ in given]
        self._pods: dict[PodUID, attempts.Attempt] = {}
        self._opening: dict[attempts.Attempt, None] = {}
        self._agenda, self._conditions = agenda.Agenda(), conditions.NORMAL
        self._running = self._ended = self._looks = 0
        self._looking, self.now = False, 0.0
        models = {gpu.model for gpu in self._gpus.values()}
        lives = [
            history.Life(name=job.name, arrived=job.arrives, alone=min(_seconds(job, models), default=0.0))
            for job in given
        ]
        self.history = history.History(gpus=len(self._gpus), lives=lives)

    def run(
        self, progress: Progress | None = None, *, under: conditions.Conditions = conditions.NORMAL
    ) -> history.History:
        """Until all jobs have ended, or nothing happens any more."""
        self._conditions, self.history.spans = under, [] if under.spans else None
        for place, job in enumerate(self._given):
            self._agenda.at(job.arrives, functools.partial(self._submit, place))
        for fault in under.faults:
            self._agenda.at(fault.seconds, functools.partial(self._strike, fault))
        while self._agenda and self._ended < len(self._given):
            self.now = self._agenda.next
            if self._agenda.do(now=self.now):
                self._pass()
                self._note()
            if progress is not None:
                progress(self._ended)
        self._explain()
        return self.history

    def _submit(self, place: int) -> bool:
        job, course = self._given[place], self._courses[place]
        past = self._desk.past(job, course)
        booked = self._desk.booking(job, course, past)
        if booked is None:
            self._settle(place, ways.HELD)
            return False
        course.attempts += 1
        asked = list(self._desk.pods(place, job, course.attempts, booked))
        uids = tuple(one.demand.uid for one in asked)
        attempt = attempts.Attempt(place=place, past=past, booked=booked, pods=uids, saved=course.saved)
        for one in asked:
            self._pods[one.demand.uid] = attempt
            self._leader.submit(one.demand, like=one.like, since=job.arrives, priority=job.priority, now=self.now)
        return True

    def _pass(self) -> None:
        """All that the queue decides now."""
        waits, more = self._conditions.bind_seconds, True
        while more:
            step = self._leader.step(now=self.now, binds=not waits)
            for placed in step.promised:
                if waits:
                    self._agenda.at(self.now + waits, functools.partial(self._bind, placed))
                else:
                    self._bound(placed)
            for uid in step.evicted:
                self._evict(uid)
            more = step.cut or bool(step.evicted)
        if not self._looking and self._looks < min(self._leader.contenders, MOST_LOOKS):
            self._looking = True
            self._agenda.at(self.now + leader.LOOK_AGAIN_SECONDS, self._look)

    def _look(self) -> bool:
        """Have the queue look for victims, for one job after the other and some time apart.

        Return whether it changed anything.
        """
        self._looking, self._looks = False, self._looks + 1
        return True

    def _bind(self, placed: placement.Placement) -> bool:
        attempt = self._pods.get(PodUID(placed.pod_uid))
        if attempt is None:
            return False
        if self._leader.bind(placed, now=self.now):
            self._bound(placed)
        elif len(attempt.pods) > 1:
            self._agenda.at(self.now + leader.SPLIT_SECONDS, functools.partial(self._split, attempt))
        return True

    def _bound(self, placed: placement.Placement) -> None:
        attempt = self._pods[PodUID(placed.pod_uid)]
        attempt.placed[PodUID(placed.pod_uid)] = placed
        self._opening[attempt] = None
        if len(attempt.placed) < len(attempt.pods):
            return
        attempt.bound = self.now
        self.history.lives[attempt.place].attempts += 1
        if self._conditions.start_seconds:
            self._agenda.at(self.now + self._conditions.start_seconds, functools.partial(self._start, attempt))
        else:
            self._start(attempt)

    def _start(self, attempt: attempts.Attempt) -> bool:
        if attempt.ended:
            return False
        job, life = self._given[attempt.place], self.history.lives[attempt.place]
        del self._opening[attempt]
        life.started = self.now if life.started is None else life.started
        self._running, self._looks = self._running + 1, 0
        attempt.then = self._desk.then(job, attempt.past)
        attempt.begin(seating.seats(attempt, job, self._gpus), now=self.now)
        met = self._floor.enter(attempt, now=self.now)
        attempt.lacks_memory = seating.lacks_memory(attempt, self._floor, mechanism=self._speeds.mechanism)
        if attempt.lacks_memory:
            self._agenda.at(self.now + START_SECONDS, functools.partial(self._out_of_memory, attempt))
        if job.minimum_run_seconds:
            ready = (attempt.bound or 0.0) + min(job.minimum_run_seconds, self._most_guarded)
            self._agenda.at(max(ready, self.now), functools.partial(self._may_be_evicted, attempt))
        self._await(met)
        return True

    def _may_be_evicted(self, attempt: attempts.Attempt) -> bool:
        if attempt.ended:
            return False
        for uid in attempt.pods:
            self._leader.may_be_evicted(uid)
        self._looks = 0
        return self._leader.contenders > 0

    def _await(self, met: Sequence[attempts.Attempt]) -> None:
        """Await the ends, and minutes alone, of attempts whose speed or company is another."""
        for attempt in met:
            if attempt.awaited != attempt.turn:
                attempt.awaited = attempt.turn
                life = self.history.lives[attempt.place]
                life.slowest = min(life.slowest, attempt.speed)
                if not attempt.lacks_memory:
                    self._agenda.at(attempt.end, functools.partial(self._finish, attempt, attempt.turn))
            if attempt.then is not ways.Then.NOTHING:
                self._await_minute(attempt)

    def _await_minute(self, attempt: attempts.Attempt) -> None:
        if not self._floor.alone(attempt):
            attempt.alone_since = None
        elif attempt.alone_since is None:
            attempt.alone_since = self.now
            self._agenda.at(self.now + ways.MEASURE_SECONDS, functools.partial(self._measure, attempt, self.now))

    def _finish(self, attempt: attempts.Attempt, turn: int) -> bool:
        if attempt.ended or attempt.turn != turn:
            return False
        self._teach(attempt)
        self._end(attempt)
        self.history.lives[attempt.place].ended = self.now
        self._ended += 1
        return True

    def _measure(self, attempt: attempts.Attempt, since: float) -> bool:
        """Measure an attempt that was alone for long enough, unless it has ended or got a neighbour meanwhile."""
        if attempt.ended or attempt.alone_since != since:
            return False
        course = self._courses[attempt.place]
        attempt.measured = frozenset(self._gpus[seat.gpu].model for seat in attempt.seats)
        course.measured |= attempt.measured
        if attempt.then is ways.Then.REMEMBER:
            return False
        self.history.lives[attempt.place].measured += 1
        self._teach(attempt)
        self._lose(attempt)
        return self._submit(attempt.place)

    def _out_of_memory(self, attempt: attempts.Attempt) -> bool:
        if attempt.ended:
            return False
        job, course = self._given[attempt.place], self._courses[attempt.place]
        self.history.lives[attempt.place].out_of_memory += 1
        self._teach(attempt)
        had = seating.had_mib(attempt)
        if attempt.whole_gpus:
            grown = growing.alone(course.grown, gpu_mib=had, usable=self._desk.usable(job))
        else:
            largest = self._desk.largest_mib(attempt.past, attempt.booked)
            grown = growing.shared(course.grown, booked_mib=had, largest_mib=largest)
        self._lose(attempt)
        if grown is None:
            self.history.lives[attempt.place].failed = True
            self._settle(attempt.place, NO_MORE_MEMORY.format(had))
            return True
        course.grown = grown
        return self._submit(attempt.place)

    def _teach(self, attempt: attempts.Attempt) -> None:
        """Teach jobs of its kind what an attempt that ended by itself tells: its peak, as far as it got memory."""
        job, peak = self._given[attempt.place], seating.peak_mib(attempt)
        self._desk.lessons.ended(job, measured=attempt.measured, peak_mib=peak)

    def _evict(self, uid: PodUID) -> None:
        """For a job of higher priority. The Job controller replaces a single pod; a gang is made again later."""
        attempt = self._pods.get(uid)
        if attempt is None:
            return
        course = self._courses[attempt.place]
        self.history.lives[attempt.place].evictions += 1
        self._looks = 0
        self._lose(attempt)
        if len(attempt.pods) > 1:
            self._restart(attempt.place)
        else:
            course.again = attempt.booked
            self._submit(attempt.place)

    def _split(self, attempt: attempts.Attempt) -> bool:
        """Evict a gang whole of which some pods were bound and others lost their GPUs; return whether it was."""
        if attempt.ended or not 0 < len(attempt.placed) < len(attempt.pods):
            return False
        self.history.lives[attempt.place].evictions += 1
        self._lose(attempt)
        self._restart(attempt.place)
        return True

    def _strike(self, fault: faults.Fault) -> bool:
        gpus, shared = self._outages.gpus(fault), self._speeds.mechanism == interference.MPS
        seats = [seat for gpu in gpus for seat in self._floor.on(gpu)]
        if fault.what is faults.What.TENANT:
            if not seats:
                return False
            culprit = seats[int(fault.lot * len(seats))]
            shared = shared and not culprit.attempt.whole_gpus
            victims = [seat.attempt for seat in seats] if shared else [culprit.attempt]
        else:
            here = set(gpus)
            opening = [attempt for attempt in self._opening if any(booked.uuid in here for booked in attempt.bookings)]
            victims, shared = [*(seat.attempt for seat in seats), *opening], True
        if shared:
            self._outages.begin(fault, now=self.now)
            self._agenda.at(self.now + fault.repair_seconds, functools.partial(self._repair, fault))
        for attempt in dict.fromkeys(victims):
            self.history.lives[attempt.place].faults += 1
            self._lose(attempt)
            self._restart(attempt.place)
        return True

    def _repair(self, fault: faults.Fault) -> bool:
        self._outages.end(fault, now=self.now)
        return True

    def _restart(self, place: int) -> None:
        """Another attempt, after the operator's delay."""
        course = self._courses[place]
        course.restarts += 1
        later = self.now + faults.restart_seconds(course.restarts)
        self._agenda.at(later, functools.partial(self._submit, place))

    def _lose(self, attempt: attempts.Attempt) -> None:
        """End an attempt before its work is done: what is safe is kept."""
        course, life = self._courses[attempt.place], self.history.lives[attempt.place]
        self._end(attempt, phase="Failed")
        course.saved = attempt.safe(self._given[attempt.place].checkpoint_seconds)
        life.lost += attempt.lost(course.saved)

    def _end(self, attempt: attempts.Attempt, *, phase: str = "Succeeded") -> None:
        attempt.ended = True
        attempt.advance(now=self.now)
        self._opening.pop(attempt, None)
        for uid in attempt.pods:
            del self._pods[uid]
            self._leader.end(uid, phase=phase, now=self.now)
        if attempt.seats:
            self._running -= 1
            self._await(self._floor.leave(attempt, now=self.now))
        if attempt.bound is not None:
            self.history.lives[attempt.place].ran += self.now - attempt.bound
            if self.history.spans is not None:
                self.history.spans.extend(
                    history.Span(booked, attempt.place, attempt.bound, self.now) for booked in attempt.bookings
                )

    def _settle(self, place: int, why: str) -> None:
        """Nothing more will become of a job."""
        self.history.lives[place].why = why
        self._ended += 1

    def _explain(self) -> None:
        """Why those who still wait do."""
        if not self._pods:
            return
        words = self._leader.why(now=self.now)
        for uid, attempt in self._pods.items():
            life = self.history.lives[attempt.place]
            life.why = life.why or words.get(uid, "")

    def _note(self) -> None:
        self.history.note(
            history.Moment(
                self.now, max(self._floor.utilization, 0.0), self._floor.occupied, self._running, self._leader.waiting
            )
        )


def _seconds(job: jobs.Job, models: set[GPUModel]) -> list[float]:
    return [seconds for model, seconds in job.seconds.items() if model in models]
