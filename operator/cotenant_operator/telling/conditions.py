"""The conditions Queued, Placed, Ready, Stalled, Suspended and Current. Pure.

Each says what holds, and where it does not hold, what is being waited for. Ready and Stalled go by the conventions of
kstatus, by which `helm --wait`, Flux and others tell whether an object is current, in progress or failed: Ready is True
when nothing is to be done any more, and Stalled where nothing goes on by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cotenant_api import conditions, dljob, pod
from cotenant_operator import reasons
from cotenant_operator.plans.stages import Stage
from cotenant_operator.state import views
from cotenant_operator.telling.replicas import Counts

_SEE_QUEUED: Final = "see the condition Queued"
_STALLING: Final = (
    reasons.INVALID_SPEC,
    reasons.INVALID_TEMPLATE,
    reasons.PREDICTION_MISSING,
    reasons.MAY_BE_ROOT,
    reasons.CREATION_FORBIDDEN,
    reasons.POD_CREATION_FAILED,
    reasons.NAME_TAKEN,
    reasons.RECONCILE_ERROR,
)
"""Nothing goes on before somebody changes something."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a condition holds, and why."""

    type: str
    holds: bool
    reason: str
    message: str

    def condition(self, generation: int) -> conditions.Condition:
        """As a condition without its time."""
        return conditions.Condition(
            type=self.type,
            status=conditions.Status.TRUE if self.holds else conditions.Status.FALSE,
            reason=self.reason,
            message=self.message,
            observed_generation=generation,
        )


def queued(stage: Stage, spec: dljob.Spec, pods: Sequence[views.Pod], counts: Counts) -> Verdict:
    """Return whether some replica waits for its GPU; the extender's own words where it has spoken."""
    idle = _idle(stage, spec, counts)
    if idle is not None:
        return Verdict(dljob.QUEUED, False, *idle)
    if counts.placed >= counts.wanted:
        if counts.hindrance is not None:
            return Verdict(dljob.QUEUED, False, counts.hindrance.reason, counts.hindrance.message)
        return Verdict(dljob.QUEUED, False, reasons.PLACED, _progress(counts, counts.placed, "placed"))
    if stage.held is not None:
        waits = stage.held.reason == reasons.WAITING_FOR_ADMISSION
        return Verdict(dljob.QUEUED, waits, stage.held.reason, stage.held.message)
    return Verdict(dljob.QUEUED, True, *_waiting_for(pods, counts))


def placed(stage: Stage, spec: dljob.Spec, counts: Counts, *, before: conditions.Condition | None) -> Verdict | None:
    """Return whether every replica has its GPU. As it was, once the job is over."""
    whole = counts.wanted > 0 and counts.placed >= counts.wanted
    if whole and (stage.workload or stage.finished):
        return Verdict(dljob.PLACED, True, reasons.PLACED, _progress(counts, counts.placed, "placed"))
    if stage.finished is not None:
        if stage.finished.type == dljob.COMPLETE:
            return Verdict(dljob.PLACED, True, reasons.PLACED, _progress(counts, counts.wanted, "placed"))
        return None if before is not None else Verdict(dljob.PLACED, False, stage.finished.reason, "never placed")
    idle = _idle(stage, spec, counts)
    if idle is not None:
        return Verdict(dljob.PLACED, False, idle[0], _SEE_QUEUED)
    return Verdict(dljob.PLACED, False, reasons.WAITING_FOR_PLACEMENT, _progress(counts, counts.placed, "placed"))


def ready(
    stage: Stage, spec: dljob.Spec, counts: Counts, *, deployment: views.Deployment | None, short: str | None
) -> Verdict:
    """Return whether every replica does its work, or has done.

    `short`: that a Deployment's pods ran out of GPU memory.
    """
    idle = _idle(stage, spec, counts)
    if idle is not None:
        complete = stage.finished is not None and stage.finished.type == dljob.COMPLETE
        holds = complete or idle[0] == reasons.SCALED_TO_ZERO
        verdict = Verdict(dljob.READY, holds, idle[0], idle[1] if holds else _SEE_QUEUED)
        return (_unserved(stage) or verdict) if holds else verdict
    serving = spec.workload_type is pod.WorkloadType.INFERENCE
    done = (deployment.available if deployment is not None else 0) if serving else counts.ready
    rolled_out = not serving or (deployment is not None and deployment.rolled_out)
    message = _progress(counts, min(done, counts.wanted), "ready")
    lost = counts.hindrance is not None and counts.hindrance.reason == reasons.PODS_LOST
    if done >= counts.wanted and rolled_out and not lost:
        return _unserved(stage) or Verdict(dljob.READY, True, reasons.PODS_READY, message)
    if short is not None:
        return Verdict(dljob.READY, False, reasons.OUT_OF_MEMORY, short)
    if counts.hindrance is not None:
        return Verdict(dljob.READY, False, counts.hindrance.reason, counts.hindrance.message)
    if stage.rolling is not None:
        return Verdict(dljob.READY, False, reasons.ROLLING_OUT, stage.rolling)
    return Verdict(dljob.READY, False, reasons.PODS_NOT_READY, message)


def _unserved(stage: Stage) -> Verdict | None:
    """Return that a job is not ready for want of its Service."""
    why = stage.unserved
    return None if why is None else Verdict(dljob.READY, False, why.reason, why.message)


def stalled(stage: Stage, *, before: conditions.Condition | None) -> Verdict | None:
    """Return whether nothing goes on before somebody changes something; absent where that was never so."""
    ended = stage.finished
    if ended is not None and ended.type == dljob.FAILED:
        return Verdict(dljob.STALLED, True, ended.reason, ended.message)
    stuck = next((one for one in (stage.blocked, stage.held, stage.unserved) if one and one.reason in _STALLING), None)
    if stuck is not None and ended is None:
        return Verdict(dljob.STALLED, True, stuck.reason, stuck.message)
    if before is None:
        return None
    return Verdict(dljob.STALLED, False, reasons.PROGRESSING, "what kept it from going on is mended")


def suspended(
    stage: Stage, spec: dljob.Spec, *, left: str | None, before: conditions.Condition | None
) -> Verdict | None:
    """Return whether the user has stopped it; absent where nobody ever did. `left`: what of it runs all the same."""
    if stage.finished is not None:
        return None
    if spec.suspend:
        left = left or "no pod of it runs"
        return Verdict(dljob.SUSPENDED, True, reasons.SUSPENDED, f"spec.suspend is true: {left}")
    if before is None:
        return None
    return Verdict(dljob.SUSPENDED, False, reasons.RESUMED, "spec.suspend is false")


def current(stage: Stage, *, before: conditions.Condition | None) -> Verdict | None:
    """Return whether what runs was made from the spec as it stands; absent where that was never otherwise."""
    if stage.outdated is not None:
        return Verdict(dljob.CURRENT, False, reasons.SPEC_CHANGE_IGNORED, stage.outdated)
    if stage.drifted is not None:
        return Verdict(dljob.CURRENT, False, reasons.DRIFTED, stage.drifted)
    if before is None or stage.finished is not None:
        return None
    return Verdict(dljob.CURRENT, True, reasons.SPEC_APPLIED, "what runs, or is made next, is as the spec says")


def _idle(stage: Stage, spec: dljob.Spec, counts: Counts) -> tuple[str, str] | None:
    """Reason and message of a job that has no pods to wait for."""
    if stage.finished is not None:
        return stage.finished.reason, stage.finished.message
    if spec.suspend:
        return reasons.SUSPENDED, "spec.suspend is true"
    if stage.blocked is not None and not stage.workload:
        return stage.blocked.reason, stage.blocked.message
    if counts.wanted == 0:
        return reasons.SCALED_TO_ZERO, "scaled to 0 replicas"
    return None


def _waiting_for(pods: Sequence[views.Pod], counts: Counts) -> tuple[str, str]:
    waiting = [seen for seen in pods if seen.node is None and not seen.ended and not seen.meta.deleting]
    spoken = [seen.packed for seen in waiting if seen.packed is not None]
    if spoken:
        reason, message = spoken[0]
        return reason or reasons.SUBMITTED, message
    stuck = [seen.unschedulable for seen in waiting if seen.unschedulable]
    if stuck:
        return reasons.WAITING_FOR_SCHEDULER, stuck[0]
    if counts.seen < counts.wanted:
        return reasons.SUBMITTED, _progress(counts, counts.seen, "created")
    return reasons.SUBMITTED, f"{_progress(counts, counts.placed, 'placed')}; the packing queue has not answered yet"


def _progress(counts: Counts, done: int, word: str) -> str:
    return f"{done} of {counts.wanted} replicas {word}"
