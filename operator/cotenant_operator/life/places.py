"""Since when the pods of a training job count as waiting in the packing queue. Pure.

A place in the queue stands for pods of one spec that could be placed. So it begins anew when the job is resumed, and
when another spec is to run. What comes before an attempt by itself (its prediction, its backoff) counts, up to
`CREDIT_SECONDS`. Of what nobody but its controller decides when its pods are made there is no place to keep: pods of a
Deployment, and of a Job that Kueue starts, count from their own creation.
"""

from datetime import datetime, timedelta
from typing import Final

from cotenant_api import conditions, dljob, names
from cotenant_operator.life import editing
from cotenant_operator.state import views
from cotenant_operator.state.observed import Observed

CREDIT_SECONDS: Final = 900
"""How long before it is made an attempt may count as waiting, where it does not take over the place of another."""


def of_attempt(observed: Observed, spec: dljob.Spec, now: datetime) -> datetime:
    """Return since when the pods of an attempt that is made now count as waiting."""
    former, begun = observed.current_job, observed.job.meta.created
    kept = None if former is None or editing.is_outdated(observed, spec, former) else former.queued_since
    if former is None or kept is None or not _ended_lately(former, now):
        kept = max(begun, now - timedelta(seconds=CREDIT_SECONDS))
    return max(kept, _resumed(observed, now) or kept)


def resumption(observed: Observed, current: views.Job, now: datetime) -> dict[str, object]:
    """Return what changes in the spec of a Job that is resumed.

    The API server lets a template's annotations change once the Job's pods are gone. Before that its place is as
    young as its pods were.
    """
    since = _resumed(observed, now)
    if since is None or not current.settled or current.queued_since is None or current.queued_since >= since:
        return {"suspend": False}
    notes = {names.QUEUED_SINCE: conditions.timestamp(since)}
    return {"suspend": False, "template": {"metadata": {"annotations": notes}}}


def _resumed(observed: Observed, now: datetime) -> datetime | None:
    """When `spec.suspend` was last found to be no longer true; None: it never was true."""
    known = conditions.find(observed.job.status.conditions, dljob.SUSPENDED)
    if known is None:
        return None
    if known.status is conditions.Status.TRUE:
        return now
    return datetime.fromisoformat(known.last_transition_time)


def _ended_lately(former: views.Job, now: datetime) -> bool:
    final = former.failed or former.complete
    if final is None or not final.last_transition_time:
        return True
    return now - datetime.fromisoformat(final.last_transition_time) <= timedelta(seconds=CREDIT_SECONDS)
