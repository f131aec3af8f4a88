"""What an attempt's end means: whether it counts, and what the next attempt gets. Pure.

    counted       the pod's own failures: against `backoffLimit`
    uncounted     faults of others, pods that never started: the next attempt has what is left of `backoffLimit`
    out of memory against `oomPolicy` alone: more memory, then a GPU to itself, then the end

The Job controller restarts the pods of a single replica; only what must not count, or needs another pod, ends its
attempt early. A gang's attempt ends with its first member.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cotenant_api import backoff, dljob
from cotenant_operator import labels, reasons
from cotenant_operator.life import causes, growing, interruptions, profiling, suspecting
from cotenant_operator.plans import actions
from cotenant_operator.state import carried, suspicions, views
from cotenant_operator.state.carried import Carried, Cause, Ended
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import Observed
from cotenant_operator.workloads import builders

BACKOFF_SECONDS: Final = (10, 360)
"""First and longest time between two attempts; doubled each time, as batch/v1 does."""
EVIDENCE_SECONDS: Final = 10
"""So long an agent may take to tell of a fault: a pod that may have been its victim is not given up before."""
ENFORCED_DEADLINE_SECONDS: Final = 1
"""A Job with so short a deadline is ended by the Job controller at once, in good order."""
_EARLY: Final = frozenset({Cause.OUT_OF_MEMORY, Cause.VICTIM_OF_FAULT, Cause.NEVER_STARTED})


@dataclass(frozen=True, kw_only=True, slots=True)
class Over:
    """No attempt follows: reason and message of the condition Failed."""

    reason: str
    message: str


def end_early(current: views.Job, ended: Ended) -> actions.Change:
    """Have the Job controller end an attempt in good order; the cause stays on the Job, whatever becomes of its pods.

    For a Job that runs: while it is suspended, its deadline stands still.
    """
    patch = {**_noted(ended), "spec": {"activeDeadlineSeconds": ENFORCED_DEADLINE_SECONDS}}
    return actions.Change.of(Kind.JOB, current.meta, patch)


def ending(observed: Observed, spec: dljob.Spec, current: views.Job, *, cause: Cause, message: str) -> Ended:
    """Return the end of an attempt by decision of the operator, with the failures that count until now."""
    failures = _failures(observed, spec, current, cause)
    return Ended(cause=cause, failures=failures, message=growing.cut(message))


def counted(observed: Observed, spec: dljob.Spec, current: views.Job) -> int:
    """Failures of all attempts until now that count against `backoffLimit`."""
    if current.ended is not None:
        return current.carried.failures + current.ended.failures
    if current.failed is not None:
        return current.carried.failures + concluded(observed, spec, current).failures
    # A gang's attempt counts once, when it has ended.
    running = _failures(observed, spec, current, Cause.FAILED) if spec.replicas == 1 else 0
    return current.carried.failures + running


def record(current: views.Job, ended: Ended) -> tuple[actions.Change, ...]:
    """Keep the cause of an attempt that has ended by itself; nothing where its pods are no evidence, or it is kept."""
    if current.ended is not None or ended.cause not in carried.UNCOUNTED:
        return ()
    return (actions.Change.of(Kind.JOB, current.meta, _noted(ended)),)


def early(
    observed: Observed, spec: dljob.Spec, current: views.Job, now: datetime
) -> tuple[Ended | None, datetime | None]:
    """Why a running attempt is to be ended now, and else when to look again."""
    if interruptions.is_over(observed, current):
        # The Job controller counts what is done, and ends the members that still run.
        return None, None
    if current.start_time is None:
        # Just resumed: the pods that are there are of before.
        told = _deleted(observed, spec, current)
        return (_ended(observed, spec, current, told[0], at=now) if told else None), None
    broken = interruptions.of_gang(current)
    if broken is not None:
        return ending(observed, spec, current, cause=Cause.DISRUPTED, message=broken), None
    found = [finding for finding in causes.findings(observed, current) if _ends_early(finding, spec)]
    late, due = causes.not_started(observed, current, now)
    if not found and not any(pod.phase == "Failed" for pod in causes.pods_of(observed, current)):
        found = [late] if late is not None else _deleted(observed, spec, current)
    if not found:
        profiled = _profiled(observed, spec, current)
        return profiled, None if profiled is not None else due
    running = [pod for pod in causes.pods_of(observed, current) if pod.phase == "Running" and not pod.meta.deleting]
    if spec.replicas == 1 and any(found[0].suspected is None or _has_run(pod, now) for pod in running):
        # A restarted pod that runs is worth more than a count that is right at once.
        return None, due
    return _ended(observed, spec, current, found[0], at=now), None


def _deleted(observed: Observed, spec: dljob.Spec, current: views.Job) -> list[causes.Finding]:
    """Return the members of a gang that somebody has deleted, where none has failed.

    The Job controller deletes the others of one that has. Of a single replica the Job controller makes another.
    """
    if spec.replicas == 1:
        return []
    # Also those of before it was resumed: whoever did so did not wait for their end.
    told = (pod for pod in observed.pods_of(current) if pod.told_to_end)
    words = "pod {} was deleted while it ran"
    return [causes.Finding(cause=Cause.DISRUPTED, pod=pod, message=words.format(pod.meta.key.name)) for pod in told]


def _profiled(observed: Observed, spec: dljob.Spec, current: views.Job) -> Ended | None:
    """Return the end of an attempt that ran alone to be measured, and has been."""
    if not current.carried.profile:
        return None
    measured = profiling.complete(observed, spec, causes.pods_of(observed, current))
    if measured is None:
        return None
    ended = ending(observed, spec, current, cause=Cause.PROFILED, message=profiling.words(measured))
    return ended.model_copy(update={"measured": measured})


def concluded(observed: Observed, spec: dljob.Spec, current: views.Job) -> Ended:
    """Return what an attempt came to that failed by itself."""
    if _is_by_policy(current) and _was_suspended(observed, current) and not current.remote:
        # Its pods ended by a signal, with whatever exit code: that it matches the user's policy says nothing.
        return ending(observed, spec, current, cause=Cause.SUSPENDED, message="its pods ended when it was suspended")
    found = [finding for finding in causes.findings(observed, current) if _is_evidence(finding, spec)]
    at = datetime.fromisoformat(current.failed.last_transition_time) if current.failed is not None else None
    if found and found[0].cause in carried.UNCOUNTED and at is not None:
        return _ended(observed, spec, current, found[0], at=at)
    said = current.failed.message if current.failed is not None else ""
    ran = None if at is None else _ran_seconds(observed, current, at)
    if not found:
        failures = _failures(observed, spec, current, Cause.FAILED)
        return Ended(cause=Cause.FAILED, failures=failures, ran_seconds=ran, message=growing.cut(said))
    # Of a single replica the last of its pods decided; of a gang the strongest cause.
    alike = found if spec.replicas == 1 else [finding for finding in found if finding.cause is found[0].cause]
    last = max(alike, key=_lateness)
    words = f"{said}; {last.message}" if said else last.message
    failures = _failures(observed, spec, current, last.cause)
    return Ended(cause=last.cause, failures=failures, ran_seconds=ran, message=growing.cut(words))


def interrupted(observed: Observed, spec: dljob.Spec, current: views.Job) -> Ended | None:
    """Return the end of an attempt that is complete, and no success; None: it is one, or goes on."""
    why = interruptions.why(observed, current)
    return None if why is None else ending(observed, spec, current, cause=Cause.DISRUPTED, message=why)


def following(observed: Observed, spec: dljob.Spec, current: views.Job, ended: Ended) -> Carried | Over:
    """Return what the attempt after an ended one takes over, or why there is none."""
    before, limit = current.carried, builders.backoff_limit(spec)
    failures = before.failures + ended.failures
    if failures > limit:
        return _used_up(spec, current, ended, limit=limit)
    measured = ended.measured or profiling.seen(observed, causes.pods_of(observed, current))
    kept = before.measured if measured is None else measured.over(before.measured)
    after = before.model_copy(
        update={
            "failures": failures,
            "measured": kept,
            "profile": False,
            "suspicion": suspicions.after(before.suspicion, ended.fault, ended.ran_seconds or 0),
        }
    )
    if ended.cause is Cause.OUT_OF_MEMORY:
        return _more_memory(observed, spec, current, after=after, ended=ended)
    if ended.cause in carried.AT_ONCE:
        return after
    if ended.cause in carried.UNCOUNTED:
        return after.model_copy(update={"uncounted": before.uncounted + 1})
    if spec.replicas == 1 or _is_by_policy(current):
        # The Job controller has given it up for another reason than its number of failures.
        return _used_up(spec, current, ended, limit=limit)
    return after


def wait_seconds(ended: Ended, after: Carried) -> int:
    """Time between the end of an attempt and the next one."""
    if ended.cause in carried.AT_ONCE:
        return 0
    count = after.uncounted if ended.cause in carried.UNCOUNTED else after.failures
    first, longest = BACKOFF_SECONDS
    return int(backoff.doubled(first, max(count - 1, 0), most=longest))


def story(attempt: int, ended: Ended, after: Carried) -> str:
    """Return what happened to an attempt, and what the next one gets."""
    what = f"attempt {attempt} {_WORDS.get(ended.cause, 'failed')}: {ended.message}".removesuffix(": ")
    seconds = wait_seconds(ended, after)
    if ended.cause is Cause.OUT_OF_MEMORY:
        return f"{what}; attempt {attempt + 1} gets {growing.words(ended, after)}"
    if ended.cause is Cause.PROFILED:
        return f"{what}; attempt {attempt + 1} is packed by that"
    if ended.cause in carried.AT_ONCE:
        return f"{what}; attempt {attempt + 1} follows"
    limit = " and counts against no limit" if ended.cause in carried.UNCOUNTED else ""
    apart = f"; {suspecting.words(after.suspicion)}" if ended.fault is not None else ""
    return f"{what}; the next attempt follows after {seconds} s{limit}{apart}"


def may_be_a_victim(observed: Observed, current: views.Job, ended: Ended) -> bool:
    """Return whether an agent may yet say that the attempt's failure was not its own."""
    if ended.cause is not Cause.FAILED:
        return False
    failed = [pod for pod in causes.pods_of(observed, current) if pod.phase == "Failed"]
    return causes.had_company(observed, failed)


_WORDS: Final = {
    Cause.OUT_OF_MEMORY: "ran out of GPU memory",
    Cause.HOST_OUT_OF_MEMORY: "ran out of the host's memory",
    Cause.VICTIM_OF_FAULT: "was the victim of a fault",
    Cause.NEVER_STARTED: "could not start",
    Cause.DISRUPTED: "was disrupted",
    Cause.PROFILED: "was profiled",
    Cause.CORRECTED: "was ended to be placed anew",
    Cause.SUSPENDED: "was suspended",
}


def _ran_seconds(observed: Observed, current: views.Job, end: datetime) -> int | None:
    """Return how long all pods of an attempt had been on their nodes, of one against which something is held."""
    placed = [pod.scheduled_at for pod in causes.pods_of(observed, current) if pod.scheduled_at is not None]
    if current.carried.suspicion is None or not placed:
        return None
    return max(int((end - max(placed)).total_seconds()), 0)


def _has_run(pod: views.Pod, now: datetime) -> bool:
    """Return whether a pod that followed one that may have caused a fault would lose more than a start."""
    began = pod.scheduled_at or pod.meta.created
    return (now - began).total_seconds() > suspicions.APART_SECONDS[0]


def _lateness(finding: causes.Finding) -> tuple[bool, datetime, str]:
    meta = finding.pod.meta
    return not meta.deleting, meta.created, meta.key.name


def _noted(ended: Ended) -> dict[str, object]:
    return {"metadata": {"annotations": {labels.ENDED: ended.to_json()}}}


def _ends_early(finding: causes.Finding, spec: dljob.Spec) -> bool:
    if finding.cause is Cause.DISRUPTED:
        return _is_evidence(finding, spec)
    if finding.cause is Cause.NEVER_STARTED and finding.pod.meta.deleting and spec.replicas > 1:
        # The Job controller takes a gang's members away when one has failed.
        return False
    return finding.cause in _EARLY


def _is_evidence(finding: causes.Finding, spec: dljob.Spec) -> bool:
    """Return whether it ended the attempt.

    The Job controller replaces a pod that was taken away, and a gang falls apart.
    """
    end = finding.pod.end
    return finding.cause is not Cause.DISRUPTED or (spec.replicas > 1 and end is not None and end.started)


def _ended(observed: Observed, spec: dljob.Spec, current: views.Job, finding: causes.Finding, *, at: datetime) -> Ended:
    if finding.cause is not Cause.OUT_OF_MEMORY:
        ended = ending(observed, spec, current, cause=finding.cause, message=finding.message)
        if finding.cause is Cause.NEVER_STARTED:
            # The time without work clears nobody.
            return ended
        if finding.suspected is None:
            return ended.model_copy(update={"ran_seconds": _ran_seconds(observed, current, at)})
        return ended.model_copy(update={"fault": finding.suspected.fault, "ran_seconds": finding.suspected.seconds})
    failures = _failures(observed, spec, current, finding.cause)
    pods = causes.pods_of(observed, current)
    return growing.ran_out(observed, finding, pods, current.grant).model_copy(update={"failures": failures})


def _failures(observed: Observed, spec: dljob.Spec, current: views.Job, cause: Cause) -> int:
    """Failures of this attempt that count: of a single replica, what the Job controller counted less what must not.

    The Job controller may not have counted a pod yet that is seen here to have failed.
    """
    if spec.replicas > 1:
        return 0 if cause in carried.UNCOUNTED else 1
    own = [pod for pod in observed.pods_of(current) if pod.phase == "Failed"]
    found = [causes.of_pod(observed, pod) for pod in own if pod.end is not None and pod.end.disrupted is None]
    free = sum(finding is not None and finding.cause in carried.UNCOUNTED for finding in found)
    seen = sum(not pod.meta.deleting for pod in own if pod.end is not None and pod.end.disrupted is None)
    return max(max(current.failures, seen) - free, 0)


def _is_by_policy(current: views.Job) -> bool:
    """Return whether the Job has failed by an exit code for which the user's policy says so."""
    return current.failed is not None and current.failed.reason == reasons.POD_FAILURE_POLICY


def _was_suspended(observed: Observed, current: views.Job) -> bool:
    """Return whether a Job has failed while it was suspended, or by pods of before it was resumed.

    It may be resumed before its controller has looked at the pods that ended meanwhile.
    """
    if current.suspended or current.settled:
        return True
    failed = {pod.meta.uid for pod in observed.pods_of(current) if pod.phase == "Failed"}
    recent = {pod.meta.uid for pod in causes.pods_of(observed, current)}
    return bool(failed) and failed.isdisjoint(recent)


def _used_up(spec: dljob.Spec, current: views.Job, ended: Ended, *, limit: int) -> Over:
    failed = current.failed
    decided = spec.replicas == 1 or _is_by_policy(current)
    if decided and failed is not None and ended.cause not in carried.UNCOUNTED:
        return Over(reason=failed.reason, message=ended.message)
    message = f"attempt {current.attempt} failed: {ended.message}; backoffLimit {limit} is used up"
    return Over(reason=reasons.BACKOFF_LIMIT_EXCEEDED, message=message)


def _more_memory(
    observed: Observed, spec: dljob.Spec, current: views.Job, *, after: Carried, ended: Ended
) -> Carried | Over:
    more = growing.more(observed, spec, after=after, ended=ended, grant=current.grant)
    if more is not None:
        return more
    message = f"attempt {observed.known_attempts} ran out of GPU memory: {ended.message}; {growing.SMALLER}"
    return Over(reason=reasons.OUT_OF_MEMORY, message=message)
