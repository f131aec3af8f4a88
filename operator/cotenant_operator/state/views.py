"""What the operator keeps of the objects that it watches: small, immutable, read once. Pure.

A finished DLJob keeps neither its spec nor its status: ten thousand of them must cost next to nothing.
"""

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from cotenant_api import conditions, dljob, gpunode, packingpolicy, placement, success
from cotenant_api.names import GPUUID, GraphDigest, NodeName, PodUID
from cotenant_operator.state import grants
from cotenant_operator.state.carried import FIRST, Carried, Ended
from cotenant_operator.state.demand import Demand
from cotenant_operator.state.origins import Origin
from cotenant_operator.state.setbacks import Setback
from cotenant_operator.state.shortages import NONE, Shortage
from cotenant_operator.state.suspicions import Suspicion

Object = Mapping[str, Any]
DECODED: Final = 16
"""Specs, and statuses, that are kept as values: those that are being worked on."""


class Key(NamedTuple):
    """A DLJob's namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Meta:
    """What every object has.

    Attributes:
        version: `resourceVersion` as a number: the API server compares them so since 1.35.
        owner_uid: UID of the controlling owner.
    """

    key: Key
    uid: str
    version: int
    generation: int
    created: datetime
    deleting: bool
    owner_uid: str | None
    labels: Mapping[str, str]


Count = Callable[[Meta, object], None]
"""Counts what is kept of an object. Raises InvalidInputError where that is too much."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DLJob:
    """A DLJob.

    Attributes:
        text, status_text: its spec and status as JSON, of which a few bytes may be hundreds as values. `text` is None
            where there is no `spec`; the status of a finished one is only the condition that ended it.
        problem: why the spec cannot be read.
        status_problem: why the status cannot be read: another release wrote it.
        finished: the condition Complete or Failed that ended it.
        phase, observed_generation: as they are written.
        ready: whether its condition Ready is True.
        is_sweep: whether it has runs, also after its end.
        stalled: whether its condition Stalled is True.
        suspended: whether its spec says so, also where all else of that cannot be read.
        suspend_written: of a run of a sweep: what the sweep last wrote into its `suspend`.
        sweep_digest: of a run of a sweep: digest of the spec of the sweep that it is of, where that is known.
        started: whether it has had all its GPUs, now or before.
        outdated: whether its condition Current is False.
    """

    meta: Meta
    text: bytes | None
    problem: str | None
    status_text: bytes
    status_problem: str | None
    ttl_seconds: int | None
    finished: conditions.Condition | None
    phase: dljob.Phase | None
    observed_generation: int | None
    ready: bool = False
    is_sweep: bool = False
    stalled: bool = False
    suspended: bool = False
    suspend_written: bool | None = None
    sweep_digest: str | None = None
    started: bool = False
    outdated: bool = False

    @property
    def spec(self) -> dljob.Spec | None:
        """What the user wrote; None where it is finished or cannot be read."""
        return None if self.text is None else _spec(self.text)

    @property
    def status(self) -> dljob.Status:
        """What was written of it; nothing where that cannot be read."""
        return _status(self.status_text)

    @property
    def written(self) -> Object:
        """The status as it stands in the API server."""
        return dict(json.loads(self.status_text))


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """An owned batch/v1 Job: one attempt.

    Attributes:
        complete, failed: its terminal condition.
        ending: the Job controller is ending its pods, or will at once.
        origin: digests of the spec that it was made from.
        grant: what its pods ask for; None where it is complete.
        external: another decides when it runs: Kueue by its label, or whoever has suspended it since we last wrote.
        backoff_limit: how many failures the Job controller restarts its pods after.
        failures: pods that the Job controller has counted as failed.
        graph: what its pods compute, where it is known.
        carried: what it takes over from the attempts before it.
        ended: why it was ended, where that was written on it.
        problem: why one of these two cannot be read: somebody, or another release, wrote it.
        size: how many pods it has.
        demand: what a gang asks of the quotas of its namespace; None where it is no gang, or over.
        setback: how a quota stopped it before.
        disrupted: UID of a single replica's pod that was taken away, where no other followed it; of a gang, a word that
            a member ended well when it was stopped.
        queued_since: since when its pods count as waiting, where its template says so.
        settled: it is suspended, and its pods are gone.
        suspended_at: when it was suspended, of one that is.
        succeeded: pods that the Job controller has counted as done.
        terminating: pods of it that are being deleted, and have not ended.
        active, ready: its other pods that have not ended, wherever they are, and those that are ready.
        remote: MultiKueue runs it in another cluster, from when it is no longer suspended.
        suspend_written: what the operator last wrote into `suspended`, where that is known.
        success_policy: of a gang: when it has succeeded although members still run.
        completed: members that the Job controller has counted as done.
        criteria_met: the Job controller has found the policy met, and ends the members that still run.
        met_first: it had found that before it took note of a suspension that stands.
        parallelism: how many pods it may have at once, where that was changed to fewer than `size`.
        parallelism_by: who changed it, where that is known.
    """

    meta: Meta
    attempt: int
    suspended: bool
    deadline_seconds: int | None
    terminating: int
    start_time: datetime | None
    complete: conditions.Condition | None
    failed: conditions.Condition | None
    ending: bool
    origin: Origin
    grant: grants.Grant | None
    external: bool
    backoff_limit: int | None = None
    failures: int = 0
    graph: GraphDigest | None = None
    carried: Carried = FIRST
    ended: Ended | None = None
    problem: str | None = None
    size: int = 1
    demand: Demand | None = None
    setback: Setback | None = None
    disrupted: str | None = None
    queued_since: datetime | None = None
    settled: bool = False
    suspended_at: datetime | None = None
    succeeded: int = 0
    active: int = 0
    ready: int = 0
    remote: bool = False
    suspend_written: bool | None = None
    success_policy: success.SuccessPolicy | None = None
    completed: frozenset[int] = frozenset()
    criteria_met: bool = False
    met_first: bool = False
    parallelism: int | None = None
    parallelism_by: str | None = None

    @property
    def finished(self) -> bool:
        """Whether the Job controller is done with it: no pod of it runs any more."""
        return (self.complete is not None or self.failed is not None) and self.terminating == 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployment:
    """An owned Deployment.

    Attributes:
        owner: the name of the DLJob that controls it; None: none does.
        replicas_written: what the operator last wrote into `replicas`, where that is known.
        refused: whether it says that pods of it cannot be made, of whichever template; False while it is behind.
        revision: number of its pod template, from 0.
        shortage: what running out of GPU memory has taught.
        suspicion: what is held against it.
        changed_by: who else has written into its pod template.
        surges: whether a rollout makes a new pod before it takes a former one away.
        paused: whether it rolls out nothing, because another has paused it.
        paused_by: who has, where that is known.
    """

    meta: Meta
    replicas: int
    available: int
    rolled_out: bool
    origin: Origin
    grant: grants.Grant | None
    owner: str | None = None
    replicas_written: int | None = None
    refused: bool = False
    revision: int = 0
    shortage: Shortage = NONE
    suspicion: Suspicion | None = None
    surges: bool = True
    changed_by: str | None = None
    paused: bool = False
    paused_by: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PodEnd:
    """How a pod failed, or why it is being taken away.

    Attributes:
        started: some container of it has run, or could not be run for what it is.
        disrupted: reason of the condition `DisruptionTarget`; None: nobody took it away before it had ended.
        out_of_memory: the line in which a container said that the GPU had no memory left.
        host_killed: the container that the kernel killed for the host's memory.
        reason, message: the pod's own, as kubelet writes them where it does not admit one.
    """

    started: bool
    disrupted: str | None = None
    out_of_memory: str | None = None
    host_killed: str | None = None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pod:
    """A pod of a DLJob.

    Attributes:
        dljob_uid: the UID of the DLJob that it was made for, from its label.
        packed: reason and message of the condition `cotenant.dev/Packed`.
        unschedulable: message of `PodScheduled=False`, or the gate that is not ours for which nobody looks at it.
        scheduled_at: when it was bound.
        why: why its container ended, where it failed.
        end: of one that failed, or is being taken away.
        revision: of a Deployment's: number of the template that it was made from.
        ran_out: the line in which a container that has ended, and may run again, said that the GPU had no memory left.
        hindrance: which of its containers fails to start, and why.
        silent: the node controller says that nothing is heard of it.
        gone_by: when it is to be gone, of one that is being deleted.
        ended_at: when the last of its containers ended.
        told_to_end: somebody deleted it before it had ended.
        idle: tells this stretch on its node without any work from others; None: it works, or is on no node.
    """

    meta: Meta
    dljob_uid: str
    attempt: int
    index: int | None
    node: NodeName | None
    placement: placement.Placement | None
    phase: str
    ready: bool
    packed: tuple[str, str] | None
    unschedulable: str | None
    scheduled_at: datetime | None
    why: str | None
    end: PodEnd | None = None
    revision: int = 0
    ran_out: str | None = None
    hindrance: str | None = None
    silent: bool = False
    gone_by: datetime | None = None
    told_to_end: bool = False
    ended_at: datetime | None = None
    idle: str | None = None

    @property
    def ended(self) -> bool:
        """Whether none of its containers will run again."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def taken_away(self) -> bool:
        """Whether it was disrupted or deleted, and has not failed: the Job controller replaces one that has."""
        disrupted = self.end is not None and self.end.disrupted is not None
        return (disrupted or self.told_to_end) and self.phase != "Failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class GPUNode:
    """A node's GPUs, and the pods that its agent refuses for good: UID -> why."""

    name: NodeName
    uid: str
    version: int
    gpus: Mapping[GPUUID, gpunode.GPU]
    refused: Mapping[PodUID, str] = field(default_factory=dict)
    simulated: bool = False
    driver: str | None = None
    cuda: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """The PackingPolicy."""

    uid: str
    version: int
    spec: packingpolicy.Spec


@functools.lru_cache(maxsize=DECODED)
def _spec(text: bytes) -> dljob.Spec:
    return dljob.Spec.model_validate_json(text)


@functools.lru_cache(maxsize=DECODED)
def _status(text: bytes) -> dljob.Status:
    return dljob.Status.model_validate_json(text)


def finished(status: dljob.Status) -> conditions.Condition | None:
    """Return the condition that ended a DLJob."""
    for condition_type in (dljob.COMPLETE, dljob.FAILED):
        found = conditions.find(status.conditions, condition_type)
        if found is not None and found.status is conditions.Status.TRUE:
            return found
    return None


def pod_uid(seen: Pod) -> PodUID:
    """Return the pod's UID, as placements and GPUNodes write it."""
    return PodUID(seen.meta.uid)
