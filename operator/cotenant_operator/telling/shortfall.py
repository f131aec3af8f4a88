"""What is said of an inference job whose pods ran out of GPU memory. Pure."""

from datetime import datetime

from cotenant_api import conditions, dljob
from cotenant_operator import reasons
from cotenant_operator.state.observed import Observed


def words(observed: Observed) -> str | None:
    """Why its Deployment is not ready, where that is why: since it ran out it has not been; None otherwise.

    A job of which no GPU has more is not ready for that reason whenever a pod of it has run out.
    """
    current = observed.deployment
    since = None if current is None else current.shortage.since
    if current is None or since is None:
        return None
    before = conditions.find(observed.job.status.conditions, dljob.READY)
    if before is None or before.reason == reasons.OUT_OF_MEMORY:
        return current.shortage.message
    again = current.shortage.given_up and any(pod.ran_out is not None for pod in observed.pods)
    return current.shortage.message if again or datetime.fromisoformat(before.last_transition_time) <= since else None
