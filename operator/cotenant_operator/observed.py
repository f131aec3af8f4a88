"""What one reconciliation of a DLJob sees, and what it decides. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from cotenant_api import conditions, gpunode, packingpolicy
from cotenant_api.names import GPUUID, PodUID
from cotenant_operator import outcomes, views
from cotenant_operator.actions import Action


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """The API server refused a workload.

    Attributes:
        generation: of the DLJob's spec that it was made from.
        retry_at: when to try the same again; None: only with another spec.
    """

    generation: int
    reason: str
    message: str
    retry_at: datetime | None

    def stands(self, generation: int, now: datetime) -> bool:
        """Whether the same would be refused again."""
        return self.generation == generation and (self.retry_at is None or self.retry_at > now)


@dataclass(frozen=True, kw_only=True, slots=True)
class GPU:
    """A GPU that a pod of the DLJob is placed on.

    Attributes:
        seen: as its agent published it; None: not yet.
        holders: pods placed on it or listed by its agent: UID -> namespace/name.
    """

    seen: gpunode.GPU | None
    holders: Mapping[PodUID, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """Everything that one decision rests on.

    Attributes:
        jobs: Jobs that the DLJob controls, by attempt.
        deployment: of its name, whoever owns it.
        pods: its own.
        outcome: None where it was not asked for.
    """

    job: views.DLJob
    jobs: tuple[views.Job, ...] = ()
    deployment: views.Deployment | None = None
    pods: tuple[views.Pod, ...] = ()
    policy: packingpolicy.Spec | None = None
    outcome: outcomes.Outcome | None = None
    refusal: Refusal | None = None
    gpus: Mapping[GPUUID, GPU] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """An event that follows from a decision rather than from a change of the status."""

    warning: bool
    reason: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Blocked:
    """Nothing is made, and why: reason and message of the condition Queued."""

    reason: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """Where a DLJob stands and what is next.

    Attributes:
        actions: to be done first, in order.
        attempt: the current one, from 1; 0: none yet.
        workload: whether its Job or Deployment is there, or made by `actions`.
        blocked: why it is not.
        ending: its pods are being ended for good: that they go says nothing any more.
        finished: the condition Complete or Failed, and nothing follows.
        retry_at: when to look again although nothing changed.
    """

    actions: tuple[Action, ...] = ()
    attempt: int = 0
    workload: bool = False
    blocked: Blocked | None = None
    ending: bool = False
    finished: conditions.Condition | None = None
    notes: tuple[Note, ...] = ()
    retry_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What to do now, and when to look again although nothing changed."""

    actions: tuple[Action, ...] = ()
    retry_at: datetime | None = None
