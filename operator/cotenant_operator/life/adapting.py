"""What changes on a Job that goes on, or waits: suspension, deadline, `backoffLimit` and notes. Pure."""

from datetime import datetime
from typing import Any

from cotenant_api import dljob
from cotenant_operator import labels
from cotenant_operator.life import attempts, deadlines, editing, holding, interruptions, places, switching
from cotenant_operator.life.switching import Turn
from cotenant_operator.plans import actions
from cotenant_operator.state import views
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import Observed
from cotenant_operator.workloads import builders, digests


def change(
    observed: Observed, spec: dljob.Spec, current: views.Job, hold: holding.Hold, *, now: datetime
) -> actions.Change | None:
    """Return the patch of a Job, so that it is as its DLJob says; None: it is.

    Args:
        observed: what there is.
        spec: what the DLJob says.
        current: the Job.
        hold: what the quotas say.
        now: the time.
    """
    turn = switching.turn(observed, spec, current, hold)
    notes: dict[str, str | None] = {**interruptions.note(observed, spec, current)}
    if not editing.is_outdated(observed, spec, current):
        notes |= digests.renewed(current.origin, spec, labels.of_kueue(observed.job.meta.labels))
    if hold.setback is not None:
        notes |= holding.annotations(hold.setback)
    wanted: dict[str, Any] = {}
    if current.problem is None and current.backoff_limit not in (None, builders.restarts(spec, current.carried)):
        wanted["backoffLimit"] = builders.restarts(spec, current.carried)
    wanted |= _deadline(observed, spec, current, now, turn=turn)
    patch: dict[str, Any] = {"spec": wanted, **({"metadata": {"annotations": notes}} if notes else {})}
    if turn is Turn.STAYS and current.suspend_written is None and not current.external:
        # Made by a release that did not note it: what stands is what it wrote.
        builders.noted(patch, suspend=current.suspended)
    if turn is Turn.SUSPEND:
        builders.suspended(patch, suspend=True)
    elif turn is Turn.RESUME:
        wanted |= places.resumption(observed, current, now)
        builders.suspended(patch, suspend=False)
    if patch == {"spec": {}}:
        return None
    return actions.Change.of(Kind.JOB, current.meta, patch)


def _deadline(
    observed: Observed, spec: dljob.Spec, current: views.Job, now: datetime, *, turn: Turn
) -> dict[str, int | None]:
    stays_suspended = current.suspended and turn is not Turn.RESUME
    late = deadlines.is_over(observed, spec, now) and not interruptions.is_over(observed, current)
    if current.deadline_seconds is None:
        enforced = turn is Turn.END or (late and not stays_suspended)
        return {"activeDeadlineSeconds": attempts.ENFORCED_DEADLINE_SECONDS} if enforced else {}
    if not late and current.suspended and current.ended is None:
        # It has not been enforced, and is not to be any more.
        return {"activeDeadlineSeconds": None}
    return {}


def is_ending(current: views.Job, changed: actions.Change | None) -> bool:
    """Return whether a Job's pods are being ended for good, once it has been changed so."""
    wanted = {} if changed is None else changed.patch["spec"]
    if current.suspended and "suspend" not in wanted:
        # Its deadline stands still, and no pod of it is there.
        return False
    return wanted["activeDeadlineSeconds"] is not None if "activeDeadlineSeconds" in wanted else current.ending
