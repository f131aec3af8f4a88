"""When a training job has to be over. Pure."""

from datetime import datetime, timedelta

from cotenant_api import dljob
from cotenant_operator.state.observed import Observed


def due(observed: Observed, spec: dljob.Spec) -> datetime | None:
    """When the job has to be over; None before it was first placed, or without a deadline."""
    started = observed.job.status.start_time
    if spec.active_deadline_seconds is None or started is None:
        return None
    return datetime.fromisoformat(started) + timedelta(seconds=spec.active_deadline_seconds)
