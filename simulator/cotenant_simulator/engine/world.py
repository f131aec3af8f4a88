"""One run: jobs arrive, are placed by the extender's queue, slow each other down, run out of memory, and end.

Whenever the tenants of a GPU change, each has come as far as its speed took it, and all get the speeds that the new set
has. A job that starts where its memory does not suffice runs for `START_SECONDS` and fails; it is submitted again.
"""

import dataclasses
import functools
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from cotenant_api import names, placement, pod, prediction
from cotenant_api.names import GPUUID, GPUModel, PodUID
from cotenant_extender.packing import policies
from cotenant_simulator.engine import history, interference, jobs, ways
from cotenant_simulator.twin import leader, sites

START_SECONDS: Final = 30.0
"""From a container's start to the memory peak of its first step; an assumption."""

Progress = Callable[[int], None]
"""Told how many jobs have ended."""


class _Event(NamedTuple):
    seconds: float
    number: int
    act: Callable[[], None]


@dataclass(slots=True, eq=False, kw_only=True)
class _Run:
    """One attempt on its GPUs.

    Attributes:
        left: seconds of work alone that are left, as of `since`.
        speed: from `since` on, of its speed alone.
        alone_since: since when it has had no neighbour; None: it has one.
        turn: grows whenever its end is computed again; earlier ones are void.
    """

    place: int
    uid: PodUID
    gpus: tuple[GPUUID, ...]
    share: int
    memory_mib: int
    tenant: interference.Tenant
    left: float
    since: float
    began: float
    lacks_memory: bool = False
    ended: bool = False
    speed: float = 0.0
    alone_since: float | None = None
    turn: int = 0


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
        speeds: interference.Interference,
    ) -> None:
        self._given, self._way, self._policy, self._speeds = given, way, policy, speeds
        self._leader = leader.Leader(nodes, policy)
        self._gpus = {gpu.uuid: gpu for node in nodes for gpu in node.gpus}
        self._tenants: dict[GPUUID, list[_Run]] = {}
        self._busy: dict[GPUUID, float] = {}
        self._past: dict[int, ways.Past] = {}
        self._remembered: dict[jobs.Kind, prediction.Prediction] = {}
        self._agenda: list[_Event] = []
        self._number = self._attempts = self._running = self._ended = 0
        self._utilization = self.now = 0.0
        models = {gpu.model for gpu in self._gpus.values()}
        lives = [
            history.Life(name=job.name, arrived=job.arrives, alone=min(_seconds(job, models), default=0.0))
            for job in given
        ]
        self.history = history.History(gpus=len(self._gpus), lives=lives)

    def run(self, progress: Progress | None = None) -> history.History:
        """Until nothing happens any more."""
        for place, job in enumerate(self._given):
            self._at(job.arrives, functools.partial(self._submit, place))
        while self._agenda:
            self.now = self._agenda[0].seconds
            while self._agenda and self._agenda[0].seconds <= self.now:
                heapq.heappop(self._agenda).act()
            for placed in self._leader.place(now=self.now):
                self._start(placed)
            self._note()
            if progress is not None:
                progress(self._ended)
        return self.history

    def _at(self, seconds: float, act: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._agenda, _Event(seconds, self._number, act))

    def _submit(self, place: int) -> None:
        job, past = self._given[place], self._past.get(place, ways.NOTHING)
        if past.measured is None:
            past = dataclasses.replace(past, measured=self._remembered.get(job.kind))
        asked = ways.WHOLE._replace(share=names.HUNDREDTHS * job.gpus)
        if job.gpus == 1:
            asked = self._way.booking(job, past, self._policy)
        self._attempts += 1
        uid = PodUID(f"{place:08}.{self._attempts}")
        demand = pod.Demand(
            uid=uid,
            namespace=job.namespace,
            name=f"{job.name}-{self._attempts}",
            container="main",
            share=asked.share,
            predicted=asked.predicted,
            memory_mib=asked.memory_mib,
            gpu_models=frozenset(job.seconds),
            workload_type=job.workload_type,
            processes_per_gpu=1,
            gang=None,
            queued_since=None,
            minimum_run_seconds=0,
        )
        source = None if asked.predicted is None else asked.predicted.source
        like = job.namespace, asked.share, asked.memory_mib, demand.gpu_models, source and (job.kind.name, source)
        self._leader.submit(demand, like=like, since=job.arrives, priority=job.priority, now=self.now)

    def _start(self, placed: placement.Placement) -> None:
        place = int(placed.pod_uid.partition(".")[0])
        job, life, first = self._given[place], self.history.lives[place], placed.gpus[0]
        gpu = self._gpus[first.uuid]
        run = _Run(
            place=place,
            uid=placed.pod_uid,
            gpus=tuple(booked.uuid for booked in placed.gpus),
            share=first.share,
            memory_mib=first.memory_mib,
            tenant=interference.Tenant(
                real=job.kind.real[gpu.model],
                gpu_memory_mib=gpu.memory_mib,
                threads=first.active_thread_percentage,
                priority=first.client_priority,
            ),
            left=job.seconds[gpu.model],
            since=self.now,
            began=self.now,
        )
        life.attempts += 1
        life.started = self.now if life.started is None else life.started
        self._running += 1
        for uuid in run.gpus:
            self._tenants.setdefault(uuid, []).append(run)
        run.lacks_memory = self._lacks_memory(run)
        if run.lacks_memory:
            self._at(self.now + START_SECONDS, functools.partial(self._out_of_memory, run))
        self._changed(run.gpus)

    def _lacks_memory(self, run: _Run) -> bool:
        """Under MPS each has a limit of its own; without, who comes last finds what the others left."""
        needed = run.tenant.real.memory_mib.q50
        if self._speeds.mechanism == interference.MPS:
            return needed > run.memory_mib
        return sum(one.tenant.real.memory_mib.q50 for one in self._tenants[run.gpus[0]]) > run.tenant.gpu_memory_mib

    def _changed(self, gpus: Sequence[GPUUID]) -> None:
        """Who shares these GPUs is not who did: everybody there has another speed from now on."""
        for uuid in gpus:
            here = self._tenants.get(uuid, [])
            found = self._speeds.together([run.tenant for run in here])
            self._utilization += found.utilization - self._busy.get(uuid, 0.0)
            self._busy[uuid] = found.utilization
            for run, speed in zip(here, found.speeds, strict=True):
                self._set_speed(run, speed, alone=len(here) == 1)

    def _set_speed(self, run: _Run, speed: float, *, alone: bool) -> None:
        run.left -= (self.now - run.since) * run.speed
        run.since, run.speed = self.now, speed
        life = self.history.lives[run.place]
        life.slowest = min(life.slowest, speed)
        run.turn += 1
        turn = run.turn
        if not run.lacks_memory:
            self._at(self.now + max(run.left, 0.0) / speed, functools.partial(self._finish, run, turn))
        if not alone:
            run.alone_since = None
        elif run.alone_since is None:
            run.alone_since = self.now
            if self._way.then is not ways.Then.NOTHING and len(run.gpus) == 1:
                self._at(self.now + ways.MEASURE_SECONDS, functools.partial(self._measure, run, self.now))

    def _finish(self, run: _Run, turn: int) -> None:
        if run.turn == turn:
            self.history.lives[run.place].ended = self.now
            self._ended += 1
            self._leave(run)

    def _measure(self, run: _Run, since: float) -> None:
        """It has been alone for long enough, unless it has ended or got a neighbour meanwhile."""
        job, past = self._given[run.place], self._past.get(run.place, ways.NOTHING)
        seen = ways.seen(job)
        if run.alone_since != since or run.ended or past.measured is not None or seen is None:
            return
        if self._way.then is ways.Then.REMEMBER:
            self._remembered[job.kind] = seen
            return
        self._past[run.place] = dataclasses.replace(past, measured=seen)
        self._leave(run)
        self._submit(run.place)

    def _out_of_memory(self, run: _Run) -> None:
        life, past = self.history.lives[run.place], self._past.get(run.place, ways.NOTHING)
        life.out_of_memory += 1
        self._leave(run)
        if run.share >= names.HUNDREDTHS:
            life.failed = True
            self._ended += 1
            return
        self._past[run.place] = dataclasses.replace(
            past, out_of_memory=past.out_of_memory + 1, booked_mib=run.memory_mib
        )
        self._submit(run.place)

    def _leave(self, run: _Run) -> None:
        run.turn += 1
        run.ended = True
        self._running -= 1
        self.history.lives[run.place].ran += self.now - run.began
        self._leader.end(run.uid)
        for uuid in run.gpus:
            self._tenants[uuid].remove(run)
            if not self._tenants[uuid]:
                del self._tenants[uuid]
        self._changed(run.gpus)

    def _note(self) -> None:
        self.history.note(
            history.Moment(
                seconds=self.now,
                utilization=max(self._utilization, 0.0),
                occupied=len(self._tenants),
                running=self._running,
                waiting=self._leader.waiting,
            )
        )


def _seconds(job: jobs.Job, models: set[GPUModel]) -> list[float]:
    return [seconds for model, seconds in job.seconds.items() if model in models]
