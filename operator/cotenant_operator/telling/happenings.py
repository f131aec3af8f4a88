"""The events that a change of a DLJob's status is worth. Pure; the reasons are stable and listed in `docs/dljob.md`."""

from typing import Final, Literal

from cotenant_api import conditions, dljob
from cotenant_operator import reasons
from cotenant_operator.plans import actions
from cotenant_operator.plans.stages import Stage
from cotenant_operator.state import views
from cotenant_operator.state.observed import Observed

_BLOCKED: Final = {
    reasons.RESTART_BACKOFF: reasons.ATTEMPT_FAILED,
    reasons.INVALID_SPEC: reasons.INVALID_SPEC,
    reasons.INVALID_TEMPLATE: reasons.INVALID_TEMPLATE,
    reasons.QUOTA_EXCEEDED: reasons.QUOTA_EXCEEDED,
    reasons.CREATION_FORBIDDEN: reasons.CREATION_FORBIDDEN,
    reasons.POD_CREATION_FAILED: reasons.POD_CREATION_FAILED,
    reasons.NAME_TAKEN: reasons.NAME_TAKEN,
    reasons.PACKING_POLICY_MISSING: reasons.PACKING_POLICY_MISSING,
    reasons.PREDICTION_MISSING: reasons.PREDICTION_MISSING,
}
"""Reason of Queued=False -> reason of the event that tells of it."""

_Told = tuple[Literal["Normal", "Warning"], str, str]


def events(observed: Observed, stage: Stage, new: dljob.Status) -> tuple[actions.EmitEvent, ...]:
    """What is told of this change, in order; told again after a restart, it has the same identity."""
    old = observed.job.status
    told: list[_Told] = [("Warning" if note.warning else "Normal", note.reason, note.message) for note in stage.notes]
    told += _blocked_update(observed, stage)
    predicted = _flipped(old, new, dljob.PREDICTED)
    if predicted is not None and predicted.status is conditions.Status.FALSE:
        running = predicted.reason == reasons.EXTRACTION_RUNNING
        told.append(("Normal" if running else "Warning", predicted.reason, predicted.message))
    queued = _flipped(old, new, dljob.QUEUED)
    if queued is not None and queued.reason in _BLOCKED and queued.status is conditions.Status.FALSE:
        told.append(("Warning", _BLOCKED[queued.reason], queued.message))
    suspended = _flipped(old, new, dljob.SUSPENDED)
    if suspended is not None:
        told.append(("Normal", suspended.reason, suspended.message))
    if stage.finished is not None:
        kind: Literal["Normal", "Warning"] = "Normal" if stage.finished.type == dljob.COMPLETE else "Warning"
        told.append((kind, stage.finished.reason, stage.finished.message))
    return tuple(_event(observed, stage, item) for item in told)


def unreadable_status(job: views.DLJob) -> actions.EmitEvent:
    """Told of a DLJob whose status another release wrote."""
    message = f"{job.status_problem}: run the release of the operator that wrote it, or make the DLJob again"
    return actions.EmitEvent(
        uid=job.meta.uid,
        type="Warning",
        reason=reasons.STATUS_UNREADABLE,
        message=message,
        identity=f"{job.meta.uid}/{reasons.STATUS_UNREADABLE}",
    )


def _blocked_update(observed: Observed, stage: Stage) -> list[_Told]:
    """A workload that cannot follow its spec: told once per generation."""
    known, generation = observed.job.status.observed_generation or 0, observed.job.meta.generation
    if stage.blocked is None or not stage.workload or known >= generation:
        return []
    return [("Warning", stage.blocked.reason, stage.blocked.message)]


def _flipped(old: dljob.Status, new: dljob.Status, condition_type: str) -> conditions.Condition | None:
    before = conditions.find(old.conditions, condition_type)
    after = conditions.find(new.conditions, condition_type)
    if after is None or (before is not None and (before.status, before.reason) == (after.status, after.reason)):
        return None
    return after


def _event(observed: Observed, stage: Stage, told: _Told) -> actions.EmitEvent:
    meta, (kind, reason, message) = observed.job.meta, told
    identity = f"{meta.uid}/{meta.generation}/{stage.attempt}/{reason}/{message}"
    return actions.EmitEvent(uid=meta.uid, type=kind, reason=reason, message=message, identity=identity)
