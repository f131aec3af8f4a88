"""Where a DLJob stands and what is next. Values only."""

from dataclasses import dataclass
from datetime import datetime

from cotenant_api import conditions
from cotenant_operator.plans.actions import Action


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """An event that follows from a decision rather than from a change of the status.

    Attributes:
        attempt: the attempt to which it happened: it is told once, however much is known of it when it is told; None:
            it is told again in other words, and of another generation.
    """

    warning: bool
    reason: str
    message: str
    attempt: int | None = None


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
        held: it is there, and why pods of it are not.
        ending: its pods are being ended for good: that they go says nothing any more.
        finished: the condition Complete or Failed, and nothing follows.
        outdated: what runs was made from a former spec: why that is left as it is, and what to do.
        drifted: what runs was changed by another: who, and what to do.
        unserved: why there is no Service in front of its replicas, of one that asks for a Service.
        rolling: how far a rollout is, and what it waits for.
        failures: so far, that count against `backoffLimit`; None: as was written.
        retry_at: when to look again although nothing changed.
    """

    actions: tuple[Action, ...] = ()
    attempt: int = 0
    workload: bool = False
    blocked: Blocked | None = None
    held: Blocked | None = None
    ending: bool = False
    finished: conditions.Condition | None = None
    outdated: str | None = None
    drifted: str | None = None
    unserved: Blocked | None = None
    rolling: str | None = None
    failures: int | None = None
    notes: tuple[Note, ...] = ()
    retry_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What to do now, and when to look again although nothing changed."""

    actions: tuple[Action, ...] = ()
    retry_at: datetime | None = None


def ended(condition_type: str, reason: str, message: str) -> conditions.Condition:
    """Return the condition with which a DLJob ends."""
    return conditions.Condition(type=condition_type, status=conditions.Status.TRUE, reason=reason, message=message)
