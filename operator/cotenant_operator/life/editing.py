"""What an edit of the spec means for a Job that is there already. Pure.

A Job's template cannot change. While none of its pods is bound, nothing is lost by making it again: the same attempt,
its place in the queue and what counts against `backoffLimit` stay. What runs is left as it is, and the DLJob says so.
"""

from cotenant_api import dljob
from cotenant_operator import labels, reasons
from cotenant_operator.life import switching
from cotenant_operator.plans import actions
from cotenant_operator.plans.stages import Blocked, Note, Stage
from cotenant_operator.state import carried, views
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import Observed
from cotenant_operator.workloads import digests


def is_outdated(observed: Observed, spec: dljob.Spec, current: views.Job) -> bool:
    """Return whether the Job was made from another spec, or for another queue of Kueue."""
    kueue = labels.of_kueue(observed.job.meta.labels)
    return not (
        digests.is_of_spec(current.origin, spec) and digests.is_of_queue(current.origin, kueue, current.meta.labels)
    )


def is_to_be_made_again(observed: Observed, spec: dljob.Spec, current: views.Job, *, failures: int) -> bool:
    """Return whether the Job goes, so that the next one is made from the spec as it stands.

    Args:
        observed: what there is.
        spec: what the DLJob says.
        current: the Job.
        failures: of all attempts until now: with the Job, only what the status says of them is left.
    """
    if spec.suspend or not is_outdated(observed, spec, current) or not _is_at_rest(observed, current):
        return False
    return _may_be_forgotten(observed, current, failures)


def leaves_the_queue(observed: Observed, spec: dljob.Spec, current: views.Job, *, failures: int) -> bool:
    """Return whether the Job of a suspended DLJob goes, so that Kueue does not admit it.

    Args:
        observed: what there is.
        spec: what the DLJob says.
        current: the Job.
        failures: of all attempts until now.
    """
    if not spec.suspend or current.meta.deleting:
        return False
    if current.remote:
        # There is nothing here that could be suspended. What it has done is counted there before it is told complete.
        return current.succeeded < current.size
    if not (current.suspended and switching.is_queued(current)):
        return False
    return _is_at_rest(observed, current) and _may_be_forgotten(observed, current, failures)


def withdrawn(current: views.Job) -> Stage:
    """Return the stage of a Job that goes, because its DLJob is suspended: it is made again when that goes on."""
    return Stage(actions=(_gone(current),), attempt=current.attempt)


def made_again(current: views.Job) -> Stage:
    """Return the stage of a Job that goes, because it is to be made from another spec."""
    message = f"the spec was changed before a pod had its GPUs: Job {current.meta.key.name} is made again"
    blocked = Blocked(reason=reasons.SPEC_CHANGED, message=message)
    return Stage(actions=(_gone(current),), attempt=current.attempt, blocked=blocked)


def ignored(observed: Observed, spec: dljob.Spec, current: views.Job) -> str | None:
    """Why what runs is not what the spec says, and what to do; None: it is."""
    if not is_outdated(observed, spec, current):
        return None
    name = current.meta.key.name
    if spec.suspend:
        return f"Job {name} was made from a former spec: the change applies when spec.suspend is false"
    if _is_at_rest(observed, current):
        return (
            f"Job {name} waits, and is left as it is: what its attempt takes over stands on it alone, as the Job "
            "before it was deleted; the change applies to a next attempt, or delete the DLJob and create it again"
        )
    return f"Job {name} {_why_left(observed, current)}"


def _why_left(observed: Observed, current: views.Job) -> str:
    """Why a Job is left as it is that is not at rest, and when the change applies."""
    if current.problem is not None:
        remedy = "delete the DLJob and create it again"
        return f"was made from a former spec, and is left as it is: {current.problem}; {remedy}"
    if current.ending or current.ended is not None:
        return "was made from a former spec, and its attempt ends: the change applies to a next one, if any"
    if current.remote:
        return (
            "was given to another cluster and is left as it is: the change applies to a next attempt, if any; to have "
            "it now, set spec.suspend to true, and to false"
        )
    if not current.suspended:
        return (
            "has its GPUs and is left as it is: the change applies to a next attempt, if any; to have it now, set "
            "spec.suspend to true, and to false when its pods have ended"
        )
    if _living(observed, current) or current.active or current.terminating:
        return "was made from a former spec: pods of it that were stopped have not ended yet"
    return "was made from a former spec, and is " + (
        "made again when whoever suspended it resumes it"
        if _is_held(observed, current) and _is_without_gpus(observed, current)
        else "left as it is: pods of it have ended well; the change applies to a next attempt, if any"
    )


def told(observed: Observed, message: str | None) -> tuple[Note, ...]:
    """Told once per generation: until the status names the generation as observed."""
    known = observed.job.status.observed_generation
    if message is None or known is None or known >= observed.job.meta.generation:
        return ()
    return (Note(warning=True, reason=reasons.SPEC_CHANGE_IGNORED, message=message),)


def _gone(current: views.Job) -> actions.Delete:
    """Return the deletion of the Job as it is.

    With its version: one that arrives late takes no Job away that is as the spec says meanwhile.
    """
    meta = current.meta
    return actions.Delete(kind=Kind.JOB, name=meta.key.name, uid=meta.uid, version=meta.version)


def _is_at_rest(observed: Observed, current: views.Job) -> bool:
    """Return whether no pod of the Job has its GPUs, and its end is not decided."""
    if current.meta.deleting or current.ending or current.ended is not None or current.problem is not None:
        return False
    if current.remote and (not current.suspended or current.active or current.start_time is not None):
        return False
    if _is_held(observed, current):
        # The Job that is made in its place would start.
        return False
    # The Job controller may know of pods that are out of sight, because they have lost their label or a watch is late.
    unknown = current.active + current.terminating > _living(observed, current)
    # More that are ready than are active are of an earlier count.
    if unknown or min(current.ready, current.active):
        return False
    return _is_without_gpus(observed, current)


def _is_held(observed: Observed, current: views.Job) -> bool:
    """Return whether somebody else suspended the Job, and no queue would have the one that is made in its place."""
    queued = switching.is_queued(current) or labels.KUEUE_QUEUE in observed.job.meta.labels
    return switching.waits(current) is not None and not queued


def _is_without_gpus(observed: Observed, current: views.Job) -> bool:
    """Return whether no pod of it that is there had its GPUs and did not fail."""
    return all(pod.node is None or pod.phase == "Failed" for pod in observed.pods_of(current))


def _living(observed: Observed, current: views.Job) -> int:
    return sum(not pod.ended for pod in observed.pods_of(current))


def _may_be_forgotten(observed: Observed, current: views.Job, failures: int) -> bool:
    """Return whether the attempt's memory is elsewhere, too.

    It follows from the Job before it, or there is nothing in it.

    Args:
        observed: what there is.
        current: the Job.
        failures: of all attempts until now: with the Job, only what the status says of them is left. A count of waits
            may be forgotten.
    """
    if (observed.job.status.failures or 0) < failures:
        return False
    before = (job for job in observed.jobs if job.attempt == current.attempt - 1)
    if any(job.failed is not None or job.complete is not None for job in before):
        # One that is complete and was followed was not done.
        return True
    kept = current.carried.model_copy(update={"failures": 0, "uncounted": 0, "profile": False})
    return kept == carried.FIRST
