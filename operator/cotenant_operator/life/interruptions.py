"""Pods that were asked to end, and ended well: no success. Pure.

A program that writes a checkpoint on SIGTERM may exit with 0, and the Job controller counts that as done. So a Job that
is complete is no proof where its pod was being taken away, or where the Job was suspended: another attempt follows,
uncounted, and one that had nothing left to do ends at once. The pod is gone by then; that it was taken away is noted on
its Job before it ends.
"""

from cotenant_api import dljob
from cotenant_operator import labels
from cotenant_operator.state import views
from cotenant_operator.state.carried import Cause
from cotenant_operator.state.observed import Observed


def note(observed: Observed, spec: dljob.Spec, current: views.Job) -> dict[str, str | None]:
    """Annotations to be changed on the Job of a single replica, so that they name its pod that is being taken away.

    A gang's attempt is ended when one of its members is taken away.
    """
    pods = [pod for pod in observed.pods if pod.meta.owner_uid == current.meta.uid]
    if spec.replicas > 1 or not pods:
        return {}
    latest = max(pods, key=lambda pod: (pod.meta.created, pod.meta.version))
    wanted = latest.meta.uid if _is_taken_away(latest) else None
    return {} if wanted == current.disrupted else {labels.DISRUPTED: wanted}


def why(observed: Observed, current: views.Job) -> str | None:
    """Why a Job that is complete is not done; None: it is."""
    if current.complete is None:
        return None
    if current.ended is not None and current.ended.cause is Cause.DISRUPTED:
        return current.ended.message
    if current.suspended:
        return "its Job was suspended, and its pods ended well after that"
    own = [pod for pod in observed.pods if pod.meta.owner_uid == current.meta.uid and pod.phase == "Succeeded"]
    taken = next((pod for pod in own if _is_taken_away(pod)), None)
    if taken is not None:
        how = "was deleted" if taken.end is None else f"was taken away ({taken.end.disrupted})"
        return f"pod {taken.meta.key.name} {how} and ended well after that"
    if current.disrupted is None or any(pod.meta.uid != current.disrupted for pod in own):
        return None
    return "its pod was taken away and ended well after that"


def _is_taken_away(pod: views.Pod) -> bool:
    """Return whether it was disrupted or deleted, and has not failed: the Job controller replaces one that has."""
    disrupted = pod.end is not None and pod.end.disrupted is not None
    return (disrupted or pod.told_to_end) and pod.phase != "Failed"
