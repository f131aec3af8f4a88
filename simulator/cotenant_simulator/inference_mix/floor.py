"""Services and training jobs on the GPUs of a cluster in virtual time, placed by the extender's queue. Pure.

Services stay once they are placed. Training jobs end when their work is done; what they have done by the end counts.
One that is evicted for a service loses what it has done, and comes again at once.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from cotenant_api import booking, placement, pod, prediction
from cotenant_api.names import GPUUID, Namespace, PodUID
from cotenant_extender.packing import policies
from cotenant_simulator.engine import interference
from cotenant_simulator.inference_mix import population, serving
from cotenant_simulator.twin import leader, sites

_NAMESPACE: Final = Namespace("simulated")
_SERVICES_PRIORITY: Final = 1

Asked = population.Service | population.Training


@dataclass(slots=True, kw_only=True)
class Life:
    """What became of one of them.

    Attributes:
        asked: what came.
        started: when it was placed; None: never.
        ended: when its work was done; None: it was not.
        ran: how long it held a GPU, evicted attempts included.
        worked: seconds of work, counted alone, that a training job has done, and `lost` that were for nothing.
        evictions: how often it was evicted.
        speeds: of a service while it answers, of its speed alone with all threads.
    """

    asked: Asked
    started: float | None = None
    ended: float | None = None
    ran: float = 0.0
    worked: float = 0.0
    lost: float = 0.0
    evictions: int = 0
    speeds: list[serving.Speed] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A whole run.

    Attributes:
        services, trainings: in the order given.
        occupied: mean number of GPUs with a tenant.
        utilization: mean over GPUs of the time in which a kernel runs, 0..1.
    """

    services: Sequence[Life]
    trainings: Sequence[Life]
    occupied: float
    utilization: float


class _Event(NamedTuple):
    seconds: float
    number: int
    act: Callable[[], None]


@dataclass(slots=True, eq=False, kw_only=True)
class _Tenant:
    """One of them on its GPU; `left` seconds of work as of `since`, and a `turn` for each speed that it has had."""

    uid: PodUID
    life: Life
    average: interference.Tenant
    answering: interference.Tenant | None
    gpu: GPUUID
    left: float = 0.0
    since: float = 0.0
    speed: float = 0.0
    turn: int = 0


class Floor:
    """One run.

    Args:
        nodes: the cluster, of one GPU model.
        policy: how it is packed.
        speeds: how fast tenants are together.
        priorities: whether MPS client priorities are obeyed; otherwise all are alike.
    """

    def __init__(
        self,
        nodes: Sequence[sites.Node],
        policy: policies.InForce,
        *,
        speeds: interference.Interference,
        priorities: bool = True,
    ) -> None:
        self._policy, self._speeds, self._priorities = policy, speeds, priorities
        self._gpus = {gpu.uuid: gpu for node in nodes for gpu in node.gpus}
        self._leader = leader.Leader(nodes, policy)
        self._lives: dict[PodUID, Life] = {}
        self._placed: dict[PodUID, _Tenant] = {}
        self._tenants: dict[GPUUID, list[_Tenant]] = {}
        self._busy: dict[GPUUID, float] = {}
        self._agenda: list[_Event] = []
        self._number = self._pods = 0
        self._looks_again = False
        self._now = self._occupied = self._utilized = 0.0

    def run(
        self, services: Sequence[population.Service], trainings: Sequence[population.Training], *, until: float
    ) -> Outcome:
        """All that happens until then; once."""
        asked: list[Asked] = [*services, *trainings]
        lives = [Life(asked=one) for one in asked]
        for life in lives:
            self._at(life.asked.arrives, partial(self._submit, life))
        while self._agenda and self._agenda[0].seconds < until:
            self._advance(self._agenda[0].seconds)
            while self._agenda and self._agenda[0].seconds <= self._now:
                heapq.heappop(self._agenda).act()
            self._place()
        self._advance(until)
        for tenant in self._placed.values():
            self._progress(tenant)
        return Outcome(
            services=lives[: len(services)],
            trainings=lives[len(services) :],
            occupied=self._occupied / until,
            utilization=self._utilized / until / len(self._gpus),
        )

    def _at(self, seconds: float, act: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._agenda, _Event(seconds, self._number, act))

    def _advance(self, seconds: float) -> None:
        passed = seconds - self._now
        self._occupied += passed * len(self._tenants)
        self._utilized += passed * sum(self._busy.values())
        self._now = seconds

    def _place(self) -> None:
        """All that the queue decides now; it looks for victims again after a while."""
        more = True
        while more:
            step = self._leader.step(now=self._now)
            for placed in step.promised:
                self._start(placed)
            for uid in step.evicted:
                self._evict(uid)
            more = step.cut or bool(step.evicted)
        if self._leader.contested and not self._looks_again:
            self._looks_again = True
            self._at(self._now + leader.LOOK_AGAIN_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._looks_again = False

    def _submit(self, life: Life) -> None:
        self._pods += 1
        uid = PodUID(f"{self._pods:06}")
        asked, predicted = life.asked, life.asked.predicted
        serves = isinstance(asked, population.Service)
        share = booking.requested_share(predicted.by_gpu, self._policy.packing, source=predicted.source)
        self._lives[uid] = life
        demand = pod.Demand(
            uid=uid,
            namespace=_NAMESPACE,
            name=asked.name,
            container="main",
            share=share,
            predicted=predicted,
            memory_mib=None,
            gpu_models=frozenset(predicted.by_gpu),
            workload_type=pod.WorkloadType.INFERENCE if serves else pod.WorkloadType.TRAINING,
            processes_per_gpu=1,
            gang=None,
            queued_since=None,
            minimum_run_seconds=0,
        )
        priority = _SERVICES_PRIORITY if serves else 0
        self._leader.submit(
            demand, like=(share, predicted.graph), since=asked.arrives, priority=priority, now=self._now
        )

    def _start(self, placed: placement.Placement) -> None:
        life, first = self._lives[placed.pod_uid], placed.gpus[0]
        gpu, asked = self._gpus[first.uuid], life.asked
        alike = partial(
            interference.Tenant,
            gpu_memory_mib=gpu.memory_mib,
            threads=first.active_thread_percentage,
            priority=first.client_priority if self._priorities else 0,
        )
        tenant = _Tenant(
            uid=placed.pod_uid,
            life=life,
            average=alike(real=_average(asked)),
            answering=alike(real=asked.answering) if isinstance(asked, population.Service) else None,
            gpu=first.uuid,
            left=0.0 if isinstance(asked, population.Service) else asked.seconds,
            since=self._now,
        )
        life.started = self._now if life.started is None else life.started
        self._placed[tenant.uid] = tenant
        self._tenants.setdefault(first.uuid, []).append(tenant)
        self._changed(first.uuid)

    def _changed(self, gpu: GPUUID) -> None:
        """Who shares the GPU is not who did."""
        here = self._tenants.get(gpu, [])
        averages = [tenant.average for tenant in here]
        together = self._speeds.together(averages)
        self._busy[gpu] = together.utilization
        for place, (tenant, speed) in enumerate(zip(here, together.speeds, strict=True)):
            if tenant.answering is None:
                self._set_speed(tenant, speed)
                continue
            among = [*averages[:place], tenant.answering, *averages[place + 1 :]]
            tenant.life.speeds.append(serving.Speed(self._now, self._speeds.together(among).speeds[place]))

    def _progress(self, tenant: _Tenant) -> None:
        passed = self._now - tenant.since
        done = passed * tenant.speed
        tenant.life.ran += passed
        tenant.life.worked += done
        tenant.left -= done
        tenant.since = self._now

    def _set_speed(self, tenant: _Tenant, speed: float) -> None:
        self._progress(tenant)
        tenant.speed = speed
        tenant.turn += 1
        self._at(self._now + max(tenant.left, 0.0) / speed, partial(self._finish, tenant, tenant.turn))

    def _finish(self, tenant: _Tenant, turn: int) -> None:
        if tenant.turn != turn:
            return
        self._leave(tenant)
        tenant.life.ended = self._now

    def _evict(self, uid: PodUID) -> None:
        tenant = self._placed[uid]
        self._leave(tenant, phase="Failed")
        life = tenant.life
        life.evictions += 1
        life.lost, life.worked = life.lost + life.worked, 0.0
        self._submit(life)

    def _leave(self, tenant: _Tenant, *, phase: str = "Succeeded") -> None:
        self._progress(tenant)
        tenant.turn += 1
        del self._placed[tenant.uid]
        self._leader.end(tenant.uid, phase=phase, now=self._now)
        self._tenants[tenant.gpu].remove(tenant)
        if not self._tenants[tenant.gpu]:
            del self._tenants[tenant.gpu]
        self._changed(tenant.gpu)


def _average(asked: Asked) -> prediction.GPUPrediction:
    return asked.average if isinstance(asked, population.Service) else asked.needs
