"""Why a pod, and with it an attempt, came to its end. Pure.

The evidence is what is there now: the pod's own status, and what the agents of its GPUs publish about it. A pod that
goes on is left alone, whatever befell its GPU; so nothing is acted on twice, and no fault has to be remembered.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cotenant_api import gpunode, packingpolicy, placement
from cotenant_api.names import NodeName, PodUID
from cotenant_operator.state import endings, grants, texts, views
from cotenant_operator.state.carried import Cause
from cotenant_operator.state.observed import Observed

STRENGTH: Final = (
    Cause.OUT_OF_MEMORY,
    Cause.VICTIM_OF_FAULT,
    Cause.NEVER_STARTED,
    Cause.HOST_OUT_OF_MEMORY,
    Cause.DISRUPTED,
    Cause.FAILED,
)
"""Which of several pods' causes is the attempt's: what drags others down comes before what is only seen in its wake."""
_SKEW: Final = timedelta(seconds=5)
"""By which the clocks of two components of the control plane may differ; times in objects are whole seconds."""
HIT_SECONDS: Final = 600
"""Whom a fault hits has ended by then: its GPU serves nobody before, and who stays is evicted after half a minute."""
REFUSED_SECONDS: Final = 90
"""So long a bound pod that its node agent refuses for good may wait for somebody else to take it away."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Why one pod ended, and what happened, in words."""

    cause: Cause
    pod: views.Pod
    message: str
    suspected: "Suspected | None" = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Suspected:
    """A fault that hit a pod, of which it may be the cause.

    Attributes:
        fault: its id.
        seconds: how long the pod had been on its node.
        words: what happened.
    """

    fault: str
    seconds: int
    words: str


def findings(observed: Observed, current: views.Job) -> tuple[Finding, ...]:
    """Why pods of this attempt ended or are being taken away; the strongest cause first."""
    found = (of_pod(observed, pod) for pod in pods_of(observed, current))
    present = (finding for finding in found if finding is not None)
    return tuple(sorted(present, key=_rank))


def pods_of(observed: Observed, current: views.Job) -> tuple[views.Pod, ...]:
    """Return the Job's pods since it was started last: those of before a suspension were stopped, and say nothing.

    The start is by the clock of kube-controller-manager, and a pod's creation by that of the API server.
    """
    began = current.start_time
    own = observed.pods_of(current)
    return tuple(pod for pod in own if began is None or not pod.meta.deleting or pod.meta.created + _SKEW >= began)


def of_pod(observed: Observed, pod: views.Pod) -> Finding | None:
    """Why it ended; None while nothing has happened to it, and where it succeeded."""
    if pod.end is None:
        return None
    if pod.end.disrupted is not None:
        return _taken_away(observed, pod, pod.end)
    return _out_of_memory(pod, pod.end) or _by_others(observed, pod, pod.end) or _by_itself(observed, pod)


def ran_out(observed: Observed, pod: views.Pod) -> Finding | None:
    """Tell that a Deployment's pod ran out of GPU memory.

    It may run all the same: kubelet starts its containers again.
    """
    found = of_pod(observed, pod)
    if found is not None and found.cause is Cause.OUT_OF_MEMORY:
        return found
    if pod.ran_out is None:
        return None
    return Finding(cause=Cause.OUT_OF_MEMORY, pod=pod, message=f"pod {pod.meta.key.name}: {pod.ran_out}")


def unproven(observed: Observed) -> dict[PodUID, NodeName]:
    """Evicted pods of which their node's agent has to tell whether they were evicted for their memory."""
    job = observed.job
    if job.meta.deleting or job.finished is not None or job.spec is None:
        return {}
    found = {views.pod_uid(pod): pod.node for pod in observed.pods if _may_be_overuse(observed, pod)}
    return {uid: NodeName(node) for uid, node in found.items() if node is not None and uid not in observed.overused}


def _taken_away(observed: Observed, pod: views.Pod, end: views.PodEnd) -> Finding:
    overuse, name = _overuse(observed, pod), pod.meta.key.name
    if overuse is not None:
        return Finding(cause=Cause.OUT_OF_MEMORY, pod=pod, message=f"pod {name} was evicted: {overuse}")
    return Finding(cause=Cause.DISRUPTED, pod=pod, message=f"pod {name} was taken away ({end.disrupted})")


def _out_of_memory(pod: views.Pod, end: views.PodEnd) -> Finding | None:
    """Of the host first: what a killed program had said of the GPU is not what it died of."""
    name = pod.meta.key.name
    if end.host_killed is not None:
        text = (
            f"pod {name}: container {end.host_killed} was killed for the host's memory (OOMKilled): raise "
            f"resources.limits.memory of container {end.host_killed}; more GPU memory does not help"
        )
        return Finding(cause=Cause.HOST_OUT_OF_MEMORY, pod=pod, message=text)
    if end.out_of_memory is not None:
        return Finding(cause=Cause.OUT_OF_MEMORY, pod=pod, message=f"pod {name}: {end.out_of_memory}")
    return None


def _by_others(observed: Observed, pod: views.Pod, end: views.PodEnd) -> Finding | None:
    suspected = suspected_of(observed, pod)
    if suspected is not None:
        return Finding(cause=Cause.VICTIM_OF_FAULT, pod=pod, message=suspected.words, suspected=suspected)
    fault = _fault(observed, pod)
    if fault is not None:
        return Finding(cause=Cause.VICTIM_OF_FAULT, pod=pod, message=f"pod {pod.meta.key.name} was a victim of {fault}")
    if not end.started and end.reason != endings.DEADLINE_EXCEEDED:
        return Finding(cause=Cause.NEVER_STARTED, pod=pod, message=_never_started(observed, pod, end))
    return None


def is_culprit(observed: Observed, pod: views.Pod) -> bool:
    """Return whether the last fault of a GPU of the pod was its own."""
    return any(True for _ in _own_faults(observed, pod))


def _own_faults(observed: Observed, pod: views.Pod) -> Iterator[tuple[gpunode.GPU, gpunode.Fault]]:
    faults = ((gpu.seen, gpu.seen.last_fault) for gpu in _gpus(observed, pod))
    return ((gpu, fault) for gpu, fault in faults if fault and fault.culprit_pod_uid == views.pod_uid(pod))


def _by_itself(observed: Observed, pod: views.Pod) -> Finding:
    named = (f"; it caused a fault on {_where(gpu, pod, fault)}" for gpu, fault in _own_faults(observed, pod))
    text = f"pod {pod.meta.key.name}: {pod.why or 'failed'}{next(named, '')}"
    return Finding(cause=Cause.FAILED, pod=pod, message=text)


class _Wait(NamedTuple):
    """A pod that has its GPUs and does not start: until when that is borne, and what keeps it."""

    until: datetime
    pod: views.Pod
    why: str


def not_started(observed: Observed, current: views.Job, now: datetime) -> tuple[Finding | None, datetime | None]:
    """Return a pod that has had its GPUs for too long without starting, and else when one will have had."""
    waits = (_wait(observed, pod) for pod in pods_of(observed, current))
    first = min((wait for wait in waits if wait is not None), key=lambda wait: wait.until, default=None)
    if first is None or now < first.until:
        return None, None if first is None else first.until
    text = f"pod {first.pod.meta.key.name} cannot start on node {first.pod.node}: {first.why}"
    return Finding(cause=Cause.NEVER_STARTED, pod=first.pod, message=text), None


def _wait(observed: Observed, pod: views.Pod) -> _Wait | None:
    if pod.phase != "Pending" or pod.meta.deleting or pod.scheduled_at is None:
        return None
    refused, policy = observed.refused.get(views.pod_uid(pod)), observed.policy
    since = observed.idle.get(views.pod_uid(pod))
    if refused is not None:
        return _Wait((since or pod.scheduled_at) + timedelta(seconds=REFUSED_SECONDS), pod, refused)
    seconds = None if policy is None else policy.queue.start_timeout_seconds
    if seconds is None or pod.placement is None or since is None:
        return None
    why = f"{pod.hindrance or 'its container does not run'}; queue.startTimeoutSeconds is {seconds}"
    return _Wait(since + timedelta(seconds=seconds), pod, why)


def peak_mib(observed: Observed, pods: Iterable[views.Pod]) -> int:
    """Return the most GPU memory that one of these pods was seen to use; 0 where nobody has looked."""
    own = {views.pod_uid(pod) for pod in pods}
    return max((entry.memory_peak_mib for gpu in observed.gpus.values() for entry in gpu.told_of(own)), default=0)


def booked_mib(pods: Iterable[views.Pod]) -> int:
    """Return the most GPU memory of one GPU that was booked for one of these pods."""
    booked = (gpu.memory_mib for pod in pods if pod.placement is not None for gpu in pod.placement.gpus)
    return max(booked, default=0)


def alone_on_mib(observed: Observed, pod: views.Pod, grant: grants.Grant | None) -> int | None:
    """Memory of the GPU that the pod had to itself; None where it shared one."""
    if pod.placement is None:
        whole = grant is None or grant.prediction is None
    else:
        whole = pod.placement.backend is placement.Backend.WHOLE
    if not whole:
        return None
    seen = [gpu.seen.memory_mib for gpu in _gpus(observed, pod)]
    # Of a GPU that nobody knows any more: none is larger than the largest.
    return max(seen, default=max(observed.gpu_memory_mib.values(), default=0))


def had_company(observed: Observed, pods: Iterable[views.Pod]) -> bool:
    """Return whether another tenant, or the GPU itself, may have been the cause of what befell these pods."""
    members = list(pods)
    own = {views.pod_uid(pod) for pod in members}
    for gpu in (gpu for pod in members for gpu in _gpus(observed, pod)):
        others = {*gpu.holders, *(ended.pod_uid for ended in gpu.seen.ended)} - own
        if others or gpu.seen.health is not gpunode.Health.HEALTHY:
            return True
    return False


@dataclass(frozen=True, kw_only=True, slots=True)
class _Known:
    """A GPU of a pod that its agent has published."""

    seen: gpunode.GPU
    holders: frozenset[str]


def _gpus(observed: Observed, pod: views.Pod) -> list[_Known]:
    uuids = () if pod.placement is None else (gpu.uuid for gpu in pod.placement.gpus)
    found = (observed.gpus.get(uuid) for uuid in uuids)
    return [
        _Known(seen=gpu.seen, holders=frozenset(gpu.holders))
        for gpu in found
        if gpu is not None and gpu.seen is not None
    ]


def _overuse(observed: Observed, pod: views.Pod) -> str | None:
    """Return what an agent's watchdog evicted the pod for; None where it was somebody else, such as the packing queue.

    All evictions look alike on the pod. Its GPUNode says before that it should go: where it does not, it was not that.
    """
    if not _may_be_overuse(observed, pod) or not observed.overused.get(views.pod_uid(pod), False):
        return None
    peak, booked = peak_mib(observed, [pod]), booked_mib([pod])
    return f"it used {peak} MiB of GPU memory, and {booked} MiB were booked"


def _may_be_overuse(observed: Observed, pod: views.Pod) -> bool:
    """Return whether the pod was evicted, had used more memory than was booked, and a watchdog evicts for that."""
    end, policy = pod.end, observed.policy
    if end is None or end.disrupted != endings.EVICTED or pod.placement is None or policy is None:
        return False
    evicts = any(
        policy.packing(gpu.seen.model).memory_overuse is packingpolicy.MemoryOveruse.EVICT
        for gpu in _gpus(observed, pod)
    )
    return evicts and peak_mib(observed, [pod]) > booked_mib([pod])


def suspected_of(observed: Observed, pod: views.Pod) -> Suspected | None:
    """Return the fault of which the pod, or a tenant of another job, is the cause, and nobody knows which."""
    name = pod.meta.key.name
    for gpu, fault in _faults(observed, pod):
        if views.pod_uid(pod) not in fault.suspect_pod_uids:
            continue
        began = pod.scheduled_at or pod.meta.created
        seconds = _seconds(began, fault.time)
        where = _where(gpu, pod, fault)
        words = f"pod {name} was on {where} when a fault hit it; which of its tenants caused it is not known"
        return Suspected(fault=fault.id, seconds=seconds, words=words)
    return None


def _seconds(began: datetime, text: str) -> int:
    """From one time to another, which an agent wrote; 0 where it cannot be read: what is not known clears nobody."""
    found = texts.time(text)
    return 0 if found is None else max(int((found - began).total_seconds()), 0)


def _fault(observed: Observed, pod: views.Pod) -> str | None:
    """Return the fault that the pod is named a victim of, unless pods of the same DLJob alone can have caused it."""
    for gpu, fault in _faults(observed, pod):
        who = "a fault" if fault.culprit_pod_uid is None else "another tenant's fault"
        return f"{who} on {_where(gpu, pod, fault)}"
    return None


def _faults(observed: Observed, pod: views.Pod) -> Iterator[tuple[gpunode.GPU, gpunode.Fault]]:
    """Faults of the pod's GPUs that hit it, and that a pod of another DLJob, or the hardware, may have caused."""
    own = {views.pod_uid(other) for other in observed.pods}
    for gpu in _gpus(observed, pod):
        fault = gpu.seen.last_fault
        if (
            fault is None
            or _is_long_over(fault, pod)
            or views.pod_uid(pod) not in fault.victim_pod_uids
            or fault.culprit_pod_uid in own
        ):
            continue
        if not fault.suspect_pod_uids or not own.issuperset(fault.suspect_pod_uids):
            yield gpu.seen, fault


def _is_long_over(fault: gpunode.Fault, pod: views.Pod) -> bool:
    """Return whether a pod ended too long after a fault to have ended of it. Both times are of its node's clock."""
    begun = texts.time(fault.time)
    return pod.ended_at is not None and begun is not None and (pod.ended_at - begun).total_seconds() > HIT_SECONDS


def _where(gpu: gpunode.GPU, pod: views.Pod, fault: gpunode.Fault) -> str:
    xid = "" if fault.xid is None else f" (Xid {fault.xid})"
    return f"GPU {gpu.uuid} of node {pod.node}{xid}"


def _never_started(observed: Observed, pod: views.Pod, end: views.PodEnd) -> str:
    why = observed.refused.get(views.pod_uid(pod))
    said = [why] if why is not None else [part for part in (end.reason, end.message) if part]
    return f"pod {pod.meta.key.name} failed before any container started: {': '.join(said) or 'nobody has said why'}"


def _rank(finding: Finding) -> tuple[int, bool, datetime, str]:
    meta = finding.pod.meta
    # A pod that was deleted before it started may well have been so because another one had failed.
    follows = finding.cause is Cause.NEVER_STARTED and meta.deleting
    strength = len(STRENGTH) if follows else STRENGTH.index(finding.cause)
    return strength, meta.deleting, meta.created, meta.key.name
