"""What one decision about a DLJob rests on. Values only."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import NewType, TypeAlias

from cotenant_api import gpunode, packingpolicy
from cotenant_api.names import GPUUID, GPUModel, PodUID
from cotenant_operator.state import outcomes, views
from cotenant_operator.state.defaults import NONE as NO_DEFAULTS
from cotenant_operator.state.defaults import Defaults
from cotenant_operator.state.extractions import ExtractionJob, ExtractionPod
from cotenant_operator.state.fronts import Service
from cotenant_operator.state.measured import NOTHING, Learned
from cotenant_operator.state.quotas import Quota, Rival
from cotenant_operator.state.setbacks import FailedCreation


class Part(Enum):
    """What of a DLJob may be refused: nothing else rests on it. A run of a sweep is such a part, too."""

    WORKLOAD = "workload"
    SERVICE = "service"
    """The Service in front of the replicas of an inference job."""


RunName = NewType("RunName", str)
"""The name of the DLJob that is a run of a sweep."""
AnyPart: TypeAlias = Part | RunName


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """The API server refused a part of what is made for a DLJob.

    Attributes:
        generation: of the DLJob's spec that it was made from.
        labels: of the DLJob then. They are part of what is made, and move no generation.
        retry_at: when to try the same again.
    """

    generation: int
    labels: Mapping[str, str]
    reason: str
    message: str
    retry_at: datetime

    def stands(self, meta: views.Meta, now: datetime) -> bool:
        """Return whether the same would be refused again: of a DLJob that has not changed."""
        return (self.generation, self.labels) == (meta.generation, meta.labels) and self.retry_at > now


@dataclass(frozen=True, kw_only=True, slots=True)
class GPU:
    """A GPU that a pod of the DLJob is placed on.

    Attributes:
        seen: as its agent published it; None: not yet.
        holders: pods placed on it or listed by its agent: UID -> namespace/name.
        simulated: whether it exists.
        driver, cuda: versions on its node.
    """

    seen: gpunode.GPU | None
    holders: Mapping[PodUID, str]
    simulated: bool = False
    driver: str | None = None
    cuda: str | None = None

    def told_of(self, uids: Collection[PodUID]) -> tuple[gpunode.Tenant | gpunode.Ended, ...]:
        """Return what its agent tells of these pods: of those that hold it first, then of those that held it lately."""
        if self.seen is None:
            return ()
        entries: tuple[gpunode.Tenant | gpunode.Ended, ...] = (*self.seen.tenants, *self.seen.ended)
        return tuple(entry for entry in entries if entry.pod_uid in uids)


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """Everything that one decision rests on.

    Attributes:
        jobs: Jobs that the DLJob controls, by attempt.
        deployment: of its name, whoever owns it.
        pods: its own.
        departed: the last pods of replicas that were taken away, are gone, and have not been followed by others.
        outcome: None where it was not asked for.
        gpu_memory_mib: GPU models in the cluster -> memory that most GPUs of that model have.
        refusals: what the API server refused to take.
        refused: those of its pods that a node agent refuses for good -> why.
        learned: from former jobs of its graph, where it was asked for.
        extractions, extraction_pods: Jobs that extract its graph, and their pods; neither is among `jobs` and `pods`.
        pull_secrets: those of the ServiceAccount that an extraction that starts now borrows them from.
        quotas: the ResourceQuotas of its namespace.
        rivals: the other gangs there, where there is a quota, oldest first.
        failed_creation: why pods of the current Job, or of the Deployment's present template, cannot be made; None
            where it was not asked for.
        defaults: what the LimitRanges of its namespace put into containers, where that was asked for.
        overused: of evicted pods that had used more GPU memory than was booked: whether their agent had wanted that.
        siblings: how many DLJobs of its namespace are not over.
        idle: since when those of its pods that do no work have done none, by the operator's clock.
        runs: of a sweep: the DLJobs that it controls.
        unstopped: of a suspended sweep: how many of its runs have pods that have not ended.
        services: the Services that it controls, but for that of a gang.
    """

    job: views.DLJob
    jobs: tuple[views.Job, ...] = ()
    deployment: views.Deployment | None = None
    pods: tuple[views.Pod, ...] = ()
    departed: tuple[views.Pod, ...] = ()
    policy: packingpolicy.Spec | None = None
    outcome: outcomes.Outcome | None = None
    refusals: Mapping[AnyPart, Refusal] = field(default_factory=dict)
    gpus: Mapping[GPUUID, GPU] = field(default_factory=dict)
    gpu_memory_mib: Mapping[GPUModel, int] = field(default_factory=dict)
    refused: Mapping[PodUID, str] = field(default_factory=dict)
    learned: Learned = NOTHING
    extractions: tuple[ExtractionJob, ...] = ()
    extraction_pods: tuple[ExtractionPod, ...] = ()
    pull_secrets: tuple[Mapping[str, str], ...] = ()
    quotas: tuple[Quota, ...] = ()
    rivals: tuple[Rival, ...] = ()
    failed_creation: FailedCreation | None = None
    defaults: Defaults = NO_DEFAULTS
    overused: Mapping[PodUID, bool] = field(default_factory=dict)
    siblings: int = 1
    idle: Mapping[PodUID, datetime] = field(default_factory=dict)
    runs: tuple[views.DLJob, ...] = ()
    unstopped: int = 0
    services: tuple[Service, ...] = ()

    def standing_refusal(self, now: datetime, part: AnyPart = Part.WORKLOAD) -> Refusal | None:
        """Return the refusal of what would be made now, where it still stands."""
        found = self.refusals.get(part)
        return found if found is not None and found.stands(self.job.meta, now) else None

    def refused_runs(self, now: datetime) -> dict[str, Refusal]:
        """Return the runs of a sweep whose writes are refused, by their names."""
        found = {part: refusal for part, refusal in self.refusals.items() if not isinstance(part, Part)}
        return {name: refusal for name, refusal in found.items() if refusal.stands(self.job.meta, now)}

    def pods_of(self, job: views.Job) -> tuple[views.Pod, ...]:
        """Return the pods of a Job that are there, whenever it was started."""
        return tuple(pod for pod in self.pods if pod.meta.owner_uid == job.meta.uid)

    @property
    def current_job(self) -> views.Job | None:
        """The Job of the latest attempt."""
        return max(self.jobs, key=lambda job: job.attempt, default=None)

    @property
    def known_attempts(self) -> int:
        """How many attempts there have been, by what is there and by what was written."""
        return max([self.job.status.attempts or 0, *(job.attempt for job in self.jobs)])
