"""Pods that were asked to end, and ended well: no success. Pure.

A program that writes a checkpoint on SIGTERM may exit with 0, and the Job controller counts that as done. So a Job that
is complete is no proof where its pod was being taken away, or where the Job was suspended: another attempt follows,
uncounted, and one that had nothing left to do ends at once. The pod is gone by then; that it was taken away is noted on
its Job before it ends. Where nobody led at that moment, whoever watched remembers the pod.

A gang with a success policy has succeeded when members that nobody had stopped meet the policy. The Job controller then
deletes the others before it writes the condition SuccessCriteriaMet: how these end says nothing. What is written on the
Job first decides: SuccessCriteriaMet, or that the attempt was ended.
"""

from collections.abc import Iterable
from typing import Final

from cotenant_api import dljob, success
from cotenant_operator import labels
from cotenant_operator.state import views
from cotenant_operator.state.carried import Cause
from cotenant_operator.state.observed import Observed


def note(observed: Observed, spec: dljob.Spec, current: views.Job) -> dict[str, str | None]:
    """Annotations to be changed on a Job, so that they name its pod that is being taken away.

    Of a gang: a member that ended well when it was stopped. The Job controller counts it as done, and would make the
    others alone again. While its attempt is being ended, already a member that is being stopped.
    """
    pods = [pod for pod in (*observed.pods, *observed.departed) if pod.meta.owner_uid == current.meta.uid]
    if spec.replicas > 1:
        whole = current.disrupted is not None or is_over(observed, current) or not _has_lost_a_member(current, pods)
        return {} if whole else {labels.DISRUPTED: _STOPPED}
    # Only a pod that follows the noted one takes the note away. One that had failed before it is there, too.
    pods = [pod for pod in pods if pod.phase != "Failed" or pod.meta.uid == current.disrupted]
    if not pods:
        return {}
    latest = max(pods, key=lambda pod: (pod.meta.created, pod.meta.version))
    wanted = latest.meta.uid if latest.taken_away else None
    return {} if wanted == current.disrupted else {labels.DISRUPTED: wanted}


def why(observed: Observed, current: views.Job) -> str | None:
    """Why a Job that is complete is not done; None: it is."""
    if current.complete is None:
        return None
    if current.ended is not None and _was_ended(current):
        return current.ended.message
    if is_done(observed, current):
        return None
    # What runs elsewhere is suspended here.
    if current.suspended and not current.remote and not has_done_all(observed, current):
        return "its Job was suspended, and its pods ended well after that"
    return of_gang(current) or _why_of_pods(observed, current)


def is_done(observed: Observed, current: views.Job) -> bool:
    """Return whether members that nobody had stopped meet the success policy of a gang.

    Of a member whose pod is gone, the Job controller's count is believed unless a note says otherwise. While a Job is
    suspended, its members were stopped, unless the Job controller had found the policy met before.
    """
    paused = _is_halted(current) and not current.remote and not current.met_first
    if current.success_policy is None or current.disrupted is not None or paused or _was_ended(current):
        return False
    own = [pod for pod in (*observed.pods, *observed.departed) if pod.meta.owner_uid == current.meta.uid]
    # That one has ended may be seen after the Job controller has counted it.
    stopped = {pod.index for pod in own if pod.taken_away}
    done = current.completed | {pod.index for pod in own if pod.phase == "Succeeded" and pod.index is not None}
    return success.is_met(current.success_policy, frozenset(done - stopped))


def is_over(observed: Observed, current: views.Job) -> bool:
    """Return whether the work of a Job is done, whether or not the Job controller has counted it."""
    return is_done(observed, current) or has_done_all(observed, current)


def has_done_all(observed: Observed, current: views.Job) -> bool:
    """Return whether every member has ended well, and nobody had stopped it.

    That holds of work that was done before its Job was suspended, and that the Job controller has not counted yet. Of a
    member whose pod is gone its count is believed while the Job was not suspended. Anybody may make a pod that names a
    Job: one that ended well says nothing beside one that lives in its place.
    """
    own = observed.pods_of(current)
    well = (pod for pod in own if pod.phase == "Succeeded")
    done = {pod.index for pod in well if not pod.taken_away and pod.meta.uid != current.disrupted}
    if not _is_halted(current):
        done |= current.completed - {pod.index for pod in own if pod.taken_away}
    done -= {pod.index for pod in own if not pod.ended}
    return of_gang(current) is None and done.issuperset(range(current.size))


def _is_halted(current: views.Job) -> bool:
    return current.suspended or current.settled or current.suspended_at is not None


def _was_ended(current: views.Job) -> bool:
    """Return whether it is written on a Job that its pods were stopped."""
    return current.ended is not None and current.ended.cause in (Cause.DISRUPTED, Cause.SUSPENDED)


def _why_of_pods(observed: Observed, current: views.Job) -> str | None:
    own = [pod for pod in observed.pods_of(current) if pod.phase == "Succeeded"]
    taken = next((pod for pod in own if pod.taken_away), None)
    if taken is not None:
        return _words(taken)
    if current.disrupted is not None and all(pod.meta.uid == current.disrupted for pod in own):
        return "its pod was taken away and ended well after that"
    return next((_words(pod) for pod in observed.departed if pod.meta.owner_uid == current.meta.uid), None)


def _words(pod: views.Pod) -> str:
    how = "was deleted" if pod.end is None else f"was taken away ({pod.end.disrupted})"
    return f"pod {pod.meta.key.name} {how} and ended well after that"


def of_gang(current: views.Job) -> str | None:
    """Why a gang that runs cannot go on whole; None: it can."""
    return _MEMBER if current.disrupted and current.size > 1 else None


def _has_lost_a_member(current: views.Job, pods: Iterable[views.Pod]) -> bool:
    """Return whether a member was stopped, and ended well, or may yet where nothing else says that it was stopped."""
    being_ended = current.deadline_seconds is not None
    stopped = any(pod.phase == "Succeeded" or (being_ended and pod.taken_away) for pod in pods if pod.told_to_end)
    return stopped or (current.suspended and not current.remote and current.succeeded > 0)


_STOPPED: Final = "a-member"
_MEMBER: Final = "a member was stopped, and ended well after that: the others cannot go on without it"
