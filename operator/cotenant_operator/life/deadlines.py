"""How long a training job may still have its GPUs: its deadline stands still while it has not all of them. Pure."""

from datetime import datetime, timedelta

from cotenant_api import dljob
from cotenant_operator.state.observed import Observed


def due(observed: Observed, spec: dljob.Spec) -> datetime | None:
    """When the job has to be over, if it keeps its GPUs; None: it has not all of them, or no deadline."""
    limit, since = spec.active_deadline_seconds, _placed_since(observed)
    if limit is None or since is None:
        return None
    return since + timedelta(seconds=limit - _before(observed))


def is_over(observed: Observed, spec: dljob.Spec, now: datetime) -> bool:
    """Return whether the job has had its GPUs for as long as it may."""
    if spec.active_deadline_seconds is None:
        return False
    until = due(observed, spec)
    return _before(observed) >= spec.active_deadline_seconds if until is None else now >= until


def words(spec: dljob.Spec) -> str:
    """Return why a job that is not over in time has failed."""
    return f"the job was not over in {spec.active_deadline_seconds} s with all its GPUs"


def _placed_since(observed: Observed) -> datetime | None:
    found = observed.job.status.placed_since
    return None if found is None else datetime.fromisoformat(found)


def _before(observed: Observed) -> int:
    return observed.job.status.placed_seconds or 0
