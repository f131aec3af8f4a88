"""The jobs of a snapshot: who came when, asked for what, and how long it has run. Pure, and without chance.

A job is a DLJob's replica, a gang, or a pod of nobody's. Of several attempts the last one counts; the job came when the
first one did. What a snapshot leaves open (how long something will run) stays open here.
"""

import enum
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cotenant_api import pod
from cotenant_api.dljob import Phase
from cotenant_api.names import GPUUID, HUNDREDTHS, GPUModel, Namespace
from cotenant_simulator.live import snapshot

_ENDED: Final = ("Succeeded", "Failed")
_OVER: Final = (Phase.SUCCEEDED, Phase.FAILED)


class State(enum.StrEnum):
    """Where a job was when the snapshot was taken."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One job as it was seen.

    Attributes:
        arrived: when it first asked.
        started: its last attempt.
        ended: when it was done.
        ran_on: the GPU model of its last attempt.
        replicas: pods that start together.
        gpus: whole GPUs of each pod, or 1.
        share: hundredths that a pod of nobody's, or an exclusive one, asks for; 0: by its prediction.
        memory_mib: GPU memory that was asked for.
        gpu_models: that it may use; empty: any.
        believed: what is predicted.
        numbers: what its DLJob's status says, where no pod is there.
        used: what monitoring says.
        held: the GPUs of its last attempt, where that had a placement.
        threads: percentage of their SMs that it might use.
        pace: mean speed of its last attempt, of its speed alone (`paces`).
    """

    name: str
    namespace: Namespace
    state: State
    arrived: datetime
    started: datetime | None
    ended: datetime | None
    ran_on: GPUModel | None
    replicas: int
    gpus: int
    share: int
    priority: int
    workload_type: pod.WorkloadType
    memory_mib: int | None
    gpu_models: tuple[GPUModel, ...]
    believed: snapshot.Believed | None
    numbers: snapshot.Numbers | None
    used: snapshot.Usage | None
    held: tuple[GPUUID, ...] = ()
    threads: int = 100
    pace: float = 1.0

    @property
    def serves(self) -> bool:
        """Whether it runs until somebody deletes it."""
        return self.workload_type is pod.WorkloadType.INFERENCE

    @property
    def ran_seconds(self) -> float | None:
        """How long it has run from start to end; None: it has not ended."""
        if self.started is None or self.ended is None:
            return None
        return max((self.ended - self.started).total_seconds(), 0.0)


def of(whole: snapshot.Snapshot) -> tuple[Case, ...]:
    """All jobs, by arrival. Where Cotenant packs, only those that ask it; elsewhere all that ask for GPUs."""
    packs = whole.policy is not None and whole.policy.spec.mode == "Pack"
    models = {gpu.uuid: gpu.model for node in whole.nodes for gpu in node.gpus}
    of_nodes = {str(node.name): node.gpus[0].model for node in whole.nodes}
    used = {(one.namespace, one.pod): one for one in whole.usage}
    groups: dict[tuple[str, ...], list[snapshot.Pod]] = defaultdict(list)
    for one in whole.pods:
        if one.share or (one.whole_gpus and not packs):
            groups[_key(one)].append(one)
    found = [_of_pods(pods, models, of_nodes, used) for pods in groups.values()]
    found += [case for one in whole.dljobs for case in _of_dljob(one)]
    known = (case for case in found if case is not None)
    return tuple(sorted(known, key=lambda case: (case.arrived, case.namespace, case.name)))


def _key(one: snapshot.Pod) -> tuple[str, ...]:
    if one.gang is not None:
        return ("gang", one.namespace, one.dljob or one.gang)
    if one.dljob is not None and one.index is not None:
        return ("replica", one.namespace, one.dljob, str(one.index))
    return ("pod", one.uid)


def _of_pods(
    pods: Sequence[snapshot.Pod],
    models: Mapping[GPUUID, GPUModel],
    of_nodes: Mapping[str, GPUModel],
    used: Mapping[tuple[Namespace, str], snapshot.Usage],
) -> Case | None:
    """None: it ended before it ever ran."""
    last = max(pods, key=lambda one: (one.created, one.name))
    members = [one for one in pods if one.gang == last.gang] if last.gang else [last]
    state = _state(members)
    starts = [one.started for one in members if one.started is not None]
    ends = [one.finished for one in members if one.finished is not None]
    if state is State.FINISHED and (not starts or not ends):
        return None
    ran_on = next((models[gpu.uuid] for gpu in last.placement if gpu.uuid in models), None)
    predicted = last.believed is not None
    name = last.dljob if last.dljob and last.index in (None, 0) else last.name
    return Case(
        name=name or last.name,
        namespace=last.namespace,
        state=state,
        arrived=min(min(one.queued_since or one.created, one.created) for one in pods),
        started=min(starts, default=None) if state is not State.WAITING else None,
        ended=max(ends) if state is State.FINISHED else None,
        ran_on=ran_on or of_nodes.get(last.node or ""),
        replicas=last.gang_size or len(members),
        gpus=max(last.whole_gpus, last.share // HUNDREDTHS, 1),
        share=0 if predicted or last.whole_gpus else last.share,
        priority=last.priority,
        workload_type=last.workload_type,
        memory_mib=last.gpu_memory_mib,
        gpu_models=last.gpu_models,
        believed=last.believed,
        numbers=None,
        used=used.get((last.namespace, last.name)),
        held=tuple(gpu.uuid for gpu in last.placement),
        threads=max((gpu.active_thread_percentage for gpu in last.placement), default=100),
    )


def _state(members: Iterable[snapshot.Pod]) -> State:
    """Of a gang: it waits as long as one of its pods does."""
    phases = [one.phase for one in members]
    if all(phase in _ENDED for phase in phases):
        return State.FINISHED
    bound = all(one.node is not None and one.started is not None for one in members)
    return State.RUNNING if bound else State.WAITING


def _of_dljob(one: snapshot.DLJob) -> list[Case | None]:
    """Return a DLJob of which no pod is there: it has ended, or has none yet."""
    if one.phase is Phase.SUSPENDED or not one.replicas:
        return []
    over = one.phase in _OVER
    if over and (one.started is None or one.completed is None):
        return []
    gang = one.workload_type is pod.WorkloadType.TRAINING
    case = Case(
        name=one.name,
        namespace=one.namespace,
        state=State.FINISHED if over else State.WAITING,
        arrived=one.created,
        started=one.started if over else None,
        ended=one.completed if over else None,
        ran_on=one.numbers.gpu_model,
        replicas=one.replicas if gang else 1,
        gpus=one.gpus_per_replica,
        share=HUNDREDTHS if one.exclusive else 0,
        priority=0,
        workload_type=one.workload_type,
        memory_mib=None,
        gpu_models=one.gpu_models,
        believed=None,
        numbers=one.numbers,
        used=None,
    )
    return [case] * (1 if gang else one.replicas)
