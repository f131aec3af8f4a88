"""A training job's attempts: one Job at a time, and the next only when the last one's pods have ended. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from cotenant_api import conditions, dljob
from cotenant_operator import labels, reasons
from cotenant_operator.life import (
    adapting,
    attempts,
    creation,
    deadlines,
    drifting,
    editing,
    holding,
    interruptions,
    pauses,
    places,
    profiling,
    switching,
)
from cotenant_operator.life.switching import Turn
from cotenant_operator.plans import actions, stages
from cotenant_operator.plans.stages import Blocked, Note, Stage
from cotenant_operator.state import carried, grants, views
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import Observed
from cotenant_operator.workloads import builders

KEPT_JOBS: Final = 3
"""So many Jobs of former attempts are kept, with their pods and logs."""


def stage(observed: Observed, spec: dljob.Spec, now: datetime) -> Stage:
    """Where the job stands."""
    current = observed.current_job
    found = _stage(observed, spec, now, current=current)
    # Of a Job that is gone the status knows alone.
    known = current is not None and current.attempt == found.attempt and current.problem is None
    failures = attempts.counted(observed, spec, current) if current is not None and known else found.failures
    return replace(found, actions=(*stale(observed, former_to=current), *found.actions), failures=failures)


def stale(observed: Observed, *, former_to: views.Job | None) -> tuple[actions.Delete, ...]:
    """Jobs of former attempts that run: one that was deleted is made again where its creation arrives late.

    A creation has no precondition that could refuse it. Its pods wait behind their gate meanwhile.

    Args:
        observed: what there is.
        former_to: the attempt that may run; None: none may.
    """
    return tuple(
        actions.Delete(kind=Kind.JOB, name=job.meta.key.name, uid=job.meta.uid)
        for job in observed.jobs
        if job is not former_to and job.complete is None and job.failed is None and not job.meta.deleting
    )


def _stage(observed: Observed, spec: dljob.Spec, now: datetime, *, current: views.Job | None) -> Stage:
    if current is None:
        return _create(observed, spec, now)
    interrupted = attempts.interrupted(observed, spec, current)
    if interrupted is not None:
        return _after_interruption(observed, spec, now, current=current, ended=interrupted)
    if current.complete is not None:
        return _succeeded(observed, spec, current=current, complete=current.complete)
    if current.failed is not None:
        return _after_failure(observed, spec, now, current=current)
    if current.criteria_met and not current.meta.deleting:
        return _winding_down(observed, spec, current)
    return _running(observed, spec, now, current=current)


def _succeeded(observed: Observed, spec: dljob.Spec, *, current: views.Job, complete: conditions.Condition) -> Stage:
    """Return the end of a job that has done its work."""
    if complete.reason == reasons.SUCCESS_POLICY:
        message = f"successPolicy is met: {complete.message}" if complete.message else "successPolicy is met"
        done = stages.ended(dljob.COMPLETE, reasons.SUCCESS_POLICY, message)
    else:
        done = stages.ended(dljob.COMPLETE, reasons.COMPLETED, complete.message or "all replicas succeeded")
    return Stage(attempt=current.attempt, workload=True, finished=done, notes=_untold(observed, spec, current))


def _create(observed: Observed, spec: dljob.Spec, now: datetime, *, taken_over: carried.Carried | None = None) -> Stage:
    """Start an attempt, unless something speaks against it: the one after `current_job`, else the latest again."""
    known, current = observed.known_attempts, observed.current_job
    attempt = max(known, 1) if current is None else current.attempt + 1
    taken_over = _remembered(observed, attempt, taken_over)
    if spec.suspend:
        return Stage(attempt=known)
    if taken_over.failures > builders.backoff_limit(spec):
        message = f"{taken_over.failures} failures: backoffLimit {builders.backoff_limit(spec)} is used up"
        return Stage(attempt=known, finished=stages.ended(dljob.FAILED, reasons.BACKOFF_LIMIT_EXCEEDED, message))
    blocked = _until_ended("of a former Job", observed.pods)
    if blocked is not None:
        return Stage(attempt=known, blocked=blocked)
    decision = creation.granted(observed, spec, now, taken_over)
    if isinstance(decision, Stage):
        return replace(decision, attempt=known)
    taken_over = _marked(observed, spec, decision, taken_over)
    manifest = builders.job(observed.job, spec, decision, attempt=attempt, taken_over=taken_over)
    builders.queued(manifest, since=places.of_attempt(observed, spec, now))
    if holding.is_gated(observed, spec, manifest):
        builders.suspended(manifest, suspend=True)
    return Stage(
        actions=(*_service(observed, spec), actions.Create(kind=Kind.JOB, manifest=manifest), *_outdated(observed)),
        attempt=attempt,
        workload=True,
        held=switching.ADMISSION if labels.KUEUE_QUEUE in observed.job.meta.labels else None,
        failures=taken_over.failures,
        notes=(begin("Job", manifest["metadata"]["name"], decision, attempt=attempt),),
    )


def _remembered(observed: Observed, attempt: int, taken_over: carried.Carried | None) -> carried.Carried:
    """Return what an attempt takes over: of one whose Job was deleted, what counted is in the status."""
    failures = observed.job.status.failures
    if taken_over is None and failures is None:
        return carried.of_attempt(None, attempt=attempt)
    found = taken_over or carried.FIRST
    if failures is None or observed.known_attempts < attempt:
        return found
    return found.model_copy(update={"failures": max(found.failures, failures)})


def _marked(observed: Observed, spec: dljob.Spec, grant: grants.Grant, taken_over: carried.Carried) -> carried.Carried:
    """Return what the attempt takes over, and whether it runs alone in order to be measured."""
    alone = grant.prediction is None and not taken_over.exclusive
    if alone and observed.policy is not None and profiling.begins(spec, observed.policy, observed.outcome):
        return taken_over.model_copy(update={"profile": True})
    return taken_over


def _service(observed: Observed, spec: dljob.Spec) -> tuple[actions.Create, ...]:
    """Return what the members of a gang find one another by; made before they are, and again where it is gone."""
    if not builders.needs_service(spec):
        return ()
    return (actions.Create(kind=Kind.SERVICE, manifest=builders.headless_service(observed.job)),)


def _outdated(observed: Observed) -> tuple[actions.Delete, ...]:
    """Jobs of attempts so long ago that nobody looks at them any more."""
    old = sorted(observed.jobs, key=lambda job: job.attempt)[:-KEPT_JOBS]
    return tuple(actions.Delete(kind=Kind.JOB, name=job.meta.key.name, uid=job.meta.uid) for job in old)


def begin(kind: str, name: str, grant: grants.Grant, *, attempt: int | None = None) -> Note:
    """Tells that a workload was made."""
    return Note(warning=False, reason=reasons.CREATED, message=created(f"{kind} {name}", grant), attempt=attempt)


def created(name: str, grant: grants.Grant) -> str:
    """Return what was created, in words."""
    gpus = f"{grant.gpus} GPU" if grant.gpus == 1 else f"{grant.gpus} GPUs"
    if grant.observed_only:
        return f"created {name}: {gpus} of the default scheduler a replica (PackingPolicy mode: Observe)"
    if grant.prediction is None:
        return f"created {name}: {gpus} to itself a replica"
    return f"created {name}: {grant.share} hundredths of a GPU a replica"


def _after_failure(observed: Observed, spec: dljob.Spec, now: datetime, *, current: views.Job) -> Stage:
    """Return the next attempt, at once or after a while, or the end."""
    failed = current.failed
    if failed is None or not current.finished:
        return Stage(attempt=current.attempt, workload=True, ending=True)
    if current.problem is not None:
        message = f"Job {current.meta.key.name}: {current.problem}: what its attempt came to is not known"
        return _failed(current, reasons.ATTEMPT_UNREADABLE, message)
    late = deadlines.is_over(observed, spec, now)
    if late or (current.ended is None and failed.reason == reasons.DEADLINE_EXCEEDED):
        return _failed(current, reasons.DEADLINE_EXCEEDED, deadlines.words(spec))
    return _next(observed, spec, now, current=current)


def _after_interruption(
    observed: Observed, spec: dljob.Spec, now: datetime, *, current: views.Job, ended: carried.Ended
) -> Stage:
    """Return the next attempt after one whose pods ended well because they were asked to end."""
    if deadlines.is_over(observed, spec, now):
        return _failed(current, reasons.DEADLINE_EXCEEDED, deadlines.words(spec))
    return _next(observed, spec, now, current=current, ended=ended)


def _next(
    observed: Observed, spec: dljob.Spec, now: datetime, *, current: views.Job, ended: carried.Ended | None = None
) -> Stage:
    """Return what follows an attempt whose end is known."""
    ended = current.ended or ended or attempts.concluded(observed, spec, current)
    following = attempts.following(observed, spec, current, ended)
    final = current.failed or current.complete
    ended_at = "" if final is None else final.last_transition_time
    failed_at = datetime.fromisoformat(ended_at or conditions.timestamp(now))
    if isinstance(following, attempts.Over):
        told_by = pauses.due(failed_at, attempts.EVIDENCE_SECONDS, now)
        if told_by is not None and attempts.may_be_a_victim(observed, current, ended):
            return Stage(attempt=current.attempt, workload=True, ending=True, retry_at=told_by)
        return _failed(current, following.reason, following.message)
    recorded = attempts.record(current, ended)
    words = attempts.story(current.attempt, ended, following)
    begins = pauses.due(failed_at, attempts.wait_seconds(ended, following), now)
    if begins is not None and not spec.suspend:
        blocked = Blocked(reason=reasons.RESTART_BACKOFF, message=words)
        return Stage(actions=recorded, attempt=current.attempt, blocked=blocked, retry_at=begins)
    stage = _create(observed, spec, now, taken_over=following)
    told = _told(observed, current, ended, words) if stage.workload else ()
    made = (_following(action, ended) for action in stage.actions)
    return replace(stage, actions=(*recorded, *made), notes=(*told, *stage.notes))


def _following(action: actions.Action, ended: carried.Ended) -> actions.Action:
    """Return the creation of a Job, with why the attempt before it ended; all else as it is."""
    if isinstance(action, actions.Create) and action.kind is Kind.JOB:
        return replace(action, after=ended.cause)
    return action


def _told(observed: Observed, former: views.Job, ended: carried.Ended, words: str) -> tuple[Note, ...]:
    """Return the end of an attempt that the next one follows.

    One that was waited after is told by the condition Queued.
    """
    queued = conditions.find(observed.job.status.conditions, dljob.QUEUED)
    if ended.cause not in carried.AT_ONCE and queued is not None and queued.reason == reasons.RESTART_BACKOFF:
        return ()
    if ended.cause is carried.Cause.SUSPENDED:
        # The condition Suspended says so.
        return ()
    if ended.cause is carried.Cause.PROFILED:
        return (Note(warning=False, reason=reasons.PROFILED, message=words, attempt=former.attempt),)
    return (Note(warning=True, reason=reasons.ATTEMPT_FAILED, message=words, attempt=former.attempt),)


def _untold(observed: Observed, spec: dljob.Spec, current: views.Job) -> tuple[Note, ...]:
    """Return the former attempt's end and this one's begin, until the status names it.

    They are told also across a crash.
    """
    if (observed.job.status.attempts or 0) >= current.attempt:
        return ()
    begun: tuple[Note, ...] = ()
    if current.grant is not None:
        begun = (begin("Job", current.meta.key.name, current.grant, attempt=current.attempt),)
    former = next((job for job in observed.jobs if job.attempt == current.attempt - 1), None)
    interrupted = None if former is None else attempts.interrupted(observed, spec, former)
    if former is None or (former.failed is None and interrupted is None):
        return begun
    ended = former.ended or interrupted or attempts.concluded(observed, spec, former)
    return (*_told(observed, former, ended, attempts.story(former.attempt, ended, current.carried)), *begun)


def _running(observed: Observed, spec: dljob.Spec, now: datetime, *, current: views.Job) -> Stage:
    """Keep the Job as the spec wants it: suspended or not, and over in time, or when its attempt is."""
    if current.meta.deleting:
        return Stage(attempt=current.attempt, workload=True)
    failures = attempts.counted(observed, spec, current)
    if editing.is_to_be_made_again(observed, spec, current, failures=failures):
        return editing.made_again(current)
    if editing.leaves_the_queue(observed, spec, current, failures=failures):
        return editing.withdrawn(current)
    goes_on = current.deadline_seconds is None and not current.suspended and not spec.suspend
    ended, look_again = attempts.early(observed, spec, current, now) if goes_on else (None, None)
    if ended is not None and current.problem is None:
        change = attempts.end_early(current, ended)
        return Stage(actions=(change,), attempt=current.attempt, workload=True, ending=True)
    hold = holding.look(observed, spec, current, now)
    if hold.why is None and current.suspended:
        hold = replace(hold, why=_until_stopped(observed, current))
    if switching.turn(observed, spec, current, hold) is Turn.END and current.problem is None:
        over = attempts.ending(observed, spec, current, cause=carried.Cause.SUSPENDED, message="spec.suspend is true")
        change = attempts.end_early(current, over)
        return Stage(actions=(change,), attempt=current.attempt, workload=True, ending=True)
    adapted = adapting.change(observed, spec, current, hold, now=now)
    outdated, drifted = editing.ignored(observed, spec, current), drifting.of_job(current)
    times = [time for time in (deadlines.due(observed, spec), look_again, hold.retry_at) if time and now < time]
    return Stage(
        actions=() if adapted is None else (adapted,),
        attempt=current.attempt,
        workload=True,
        held=switching.waits(current) or hold.why or drifting.held(drifted),
        ending=adapting.is_ending(current, adapted),
        outdated=outdated,
        drifted=drifted,
        notes=(*_untold(observed, spec, current), *editing.told(observed, outdated)),
        retry_at=min(times, default=None),
    )


def _winding_down(observed: Observed, spec: dljob.Spec, current: views.Job) -> Stage:
    """Return the stage of a gang whose success policy is met: the Job controller ends the members that still run.

    Nothing of the Job can stop that. Only who met the policy is noted, before the pods are gone.
    """
    noted = interruptions.note(observed, spec, current)
    change = actions.Change.of(Kind.JOB, current.meta, {"metadata": {"annotations": noted}})
    return Stage(
        actions=(change,) if noted else (),
        attempt=current.attempt,
        workload=True,
        ending=True,
        notes=_untold(observed, spec, current),
    )


def _until_ended(which: str, pods: Iterable[views.Pod]) -> Blocked | None:
    """Wait for pods to end; None: all have.

    One of a suspended Job that ended well after that, as with a checkpoint, would be the success of a Job that goes on.
    """
    living = sorted(pod.meta.key.name for pod in pods if not pod.ended)
    if not living:
        return None
    message = f"waiting for pods {which} to end: {', '.join(living[:8])}"
    return Blocked(reason=reasons.PREVIOUS_PODS_ENDING, message=message)


def _until_stopped(observed: Observed, current: views.Job) -> Blocked | None:
    """Wait for the pods of a suspended Job to end, and to be counted so; None: they have, and are.

    The Job controller counts them after it has deleted them. Until then nobody knows whether they have their GPUs, and
    a Job that is resumed is not made again from a spec that was changed.
    """
    living = _until_ended("that were stopped", observed.pods_of(current))
    counted = current.active + current.terminating
    if living is not None or not counted:
        return living
    message = f"waiting for the Job controller to count the end of its pods that were stopped: {counted}"
    return Blocked(reason=reasons.PREVIOUS_PODS_ENDING, message=message)


def _failed(current: views.Job, reason: str, message: str) -> Stage:
    return Stage(attempt=current.attempt, workload=True, finished=stages.ended(dljob.FAILED, reason, message))
