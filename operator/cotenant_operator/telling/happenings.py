"""The events that a change of a DLJob's status is worth. Pure; the reasons are stable and listed in `docs/dljob.md`."""

from typing import Final

from cotenant_api import conditions, dljob
from cotenant_operator import reasons
from cotenant_operator.plans import actions
from cotenant_operator.plans.stages import Note, Stage
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
    reasons.MAY_BE_ROOT: reasons.MAY_BE_ROOT,
}
"""Reason of Queued=False -> reason of the event that tells of it."""


def events(observed: Observed, stage: Stage, new: dljob.Status) -> tuple[actions.EmitEvent, ...]:
    """Return what is told of this change, in order; told again after a restart, it has the same identity."""
    old = observed.job.status
    told = [*stage.notes, *_blocked_update(observed, stage)]
    predicted = _flipped(old, new, dljob.PREDICTED)
    if predicted is not None and predicted.status is conditions.Status.FALSE:
        running = predicted.reason == reasons.EXTRACTION_RUNNING
        told.append(Note(warning=not running, reason=predicted.reason, message=predicted.message))
    queued = _flipped(old, new, dljob.QUEUED)
    if queued is not None and queued.reason in _BLOCKED and queued.status is conditions.Status.FALSE:
        attempt = stage.attempt if queued.reason == reasons.RESTART_BACKOFF else None
        told.append(Note(warning=True, reason=_BLOCKED[queued.reason], message=queued.message, attempt=attempt))
    ready = _flipped(old, new, dljob.READY)
    if ready is not None and ready.reason in (reasons.PODS_NOT_STARTING, reasons.PODS_LOST):
        told.append(Note(warning=True, reason=ready.reason, message=ready.message))
    told += _unserved(stage, ready, _flipped(old, new, dljob.STALLED))
    current = _flipped(old, new, dljob.CURRENT)
    if current is not None and current.reason == reasons.DRIFTED:
        told.append(Note(warning=True, reason=current.reason, message=current.message))
    suspended = _flipped(old, new, dljob.SUSPENDED)
    if suspended is not None:
        told.append(Note(warning=False, reason=suspended.reason, message=suspended.message))
    if stage.finished is not None:
        failed = stage.finished.type != dljob.COMPLETE
        told.append(Note(warning=failed, reason=stage.finished.reason, message=stage.finished.message))
    return tuple(_event(observed, stage, note) for note in told)


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


def _blocked_update(observed: Observed, stage: Stage) -> list[Note]:
    """Return a workload that cannot follow its spec: told once per generation."""
    known, generation = observed.job.status.observed_generation or 0, observed.job.meta.generation
    if stage.blocked is None or not stage.workload or known >= generation:
        return []
    return [Note(warning=True, reason=stage.blocked.reason, message=stage.blocked.message)]


def _unserved(stage: Stage, *changed: conditions.Condition | None) -> list[Note]:
    """Return what is told, once, of a Service that is not there. Of contests the loop tells."""
    why = stage.unserved
    if (
        why is None
        or why.reason == reasons.CONTESTED
        or not any(one is not None and one.reason == why.reason for one in changed)
    ):
        return []
    return [Note(warning=True, reason=why.reason, message=why.message)]


def _flipped(old: dljob.Status, new: dljob.Status, condition_type: str) -> conditions.Condition | None:
    before = conditions.find(old.conditions, condition_type)
    after = conditions.find(new.conditions, condition_type)
    if after is None or (before is not None and (before.status, before.reason) == (after.status, after.reason)):
        return None
    return after


def _event(observed: Observed, stage: Stage, note: Note) -> actions.EmitEvent:
    meta = observed.job.meta
    if note.attempt is None:
        identity = f"{meta.uid}/{meta.generation}/{stage.attempt}/{note.reason}/{note.message}"
    else:
        # After a crash it may be told from another stage, and in other words: pods that said why may have gone.
        identity = f"{meta.uid}/{note.attempt}/{note.reason}"
    return actions.EmitEvent(
        uid=meta.uid,
        type="Warning" if note.warning else "Normal",
        reason=note.reason,
        message=note.message,
        identity=identity,
    )
