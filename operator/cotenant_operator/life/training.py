"""A training job's attempts: one Job at a time, and the next only when the last one's pods have ended. Pure."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from cotenant_api import conditions, dljob
from cotenant_operator import reasons
from cotenant_operator.life import creation
from cotenant_operator.plans import actions
from cotenant_operator.plans.stages import Blocked, Note, Stage
from cotenant_operator.state import grants, views
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import Observed
from cotenant_operator.workloads import builders

BACKOFF_SECONDS: Final = (10, 360)
"""First and longest time between two attempts of a gang; doubled each time, as batch/v1 does."""
ENFORCED_DEADLINE_SECONDS: Final = 1
"""A Job with so short a deadline is ended by the Job controller at once, in good order."""


def stage(observed: Observed, spec: dljob.Spec, now: datetime) -> Stage:
    """Where the job stands."""
    current = observed.current_job
    if current is None:
        attempt = max(observed.job.status.attempts or 0, 1)
        return _create(observed, spec, now, attempt=attempt)
    if current.complete is not None:
        done = _ended(dljob.COMPLETE, reasons.COMPLETED, current.complete.message or "all replicas succeeded")
        return Stage(attempt=current.attempt, workload=True, finished=done)
    if current.failed is not None:
        return _after_failure(observed, spec, now, current=current)
    return _running(observed, spec, now, current=current)


def deadline(observed: Observed, spec: dljob.Spec) -> datetime | None:
    """When the job has to be over; None before it was first placed, or without a deadline."""
    started = observed.job.status.start_time
    if spec.active_deadline_seconds is None or started is None:
        return None
    return datetime.fromisoformat(started) + timedelta(seconds=spec.active_deadline_seconds)


def _create(observed: Observed, spec: dljob.Spec, now: datetime, *, attempt: int) -> Stage:
    """Start an attempt, unless something speaks against it."""
    known = observed.known_attempts
    if spec.suspend:
        return Stage(attempt=known)
    alive = [pod.meta.key.name for pod in observed.pods if not pod.ended]
    if alive:
        message = f"waiting for pods of a former Job to end: {', '.join(sorted(alive)[:8])}"
        return Stage(attempt=known, blocked=Blocked(reason=reasons.PREVIOUS_PODS_ENDING, message=message))
    decision = creation.granted(observed, spec, now)
    if isinstance(decision, Stage):
        return replace(decision, attempt=known)
    manifest = builders.job(observed.job, spec, decision, attempt=attempt)
    return Stage(
        actions=(actions.Create(kind=Kind.JOB, manifest=manifest),),
        attempt=attempt,
        workload=True,
        notes=(Note(warning=False, reason=reasons.CREATED, message=created(manifest, decision)),),
    )


def created(manifest: actions.Manifest, grant: grants.Grant) -> str:
    """What was created, in words."""
    name = f"{manifest['kind']} {manifest['metadata']['name']}"
    gpus = f"{grant.gpus} GPU" if grant.gpus == 1 else f"{grant.gpus} GPUs"
    if grant.observed_only:
        return f"created {name}: {gpus} of the default scheduler a replica (PackingPolicy mode: Observe)"
    if grant.prediction is None:
        return f"created {name}: {gpus} to itself a replica"
    return f"created {name}: {grant.share} hundredths of a GPU a replica"


def _after_failure(observed: Observed, spec: dljob.Spec, now: datetime, *, current: views.Job) -> Stage:
    """The next attempt of a gang, after a while; the end of a single replica, which the Job controller restarted."""
    failed = current.failed
    if failed is None or not current.finished:
        return Stage(attempt=current.attempt, workload=True, ending=True)
    limit = builders.backoff_limit(spec)
    if failed.reason == reasons.DEADLINE_EXCEEDED:
        message = f"the job was not over {spec.active_deadline_seconds} s after it was first placed"
        return _failed(current, reasons.DEADLINE_EXCEEDED, message)
    if spec.replicas == 1:
        return _failed(current, failed.reason, _with_cause(observed, current, failed.message))
    cause = _with_cause(observed, current, f"attempt {current.attempt} failed: {failed.message}")
    if current.attempt > limit:
        return _failed(current, reasons.BACKOFF_LIMIT_EXCEEDED, f"{cause}; backoffLimit {limit} is used up")
    first, longest = BACKOFF_SECONDS
    seconds = min(first * 2 ** min(current.attempt - 1, 16), longest)
    due = datetime.fromisoformat(failed.last_transition_time or conditions.timestamp(now)) + timedelta(seconds=seconds)
    if now < due and not spec.suspend:
        message = f"{cause}; the next attempt follows after {seconds} s"
        blocked = Blocked(reason=reasons.RESTART_BACKOFF, message=message)
        return Stage(attempt=current.attempt, blocked=blocked, retry_at=due)
    return _create(observed, spec, now, attempt=current.attempt + 1)


def _running(observed: Observed, spec: dljob.Spec, now: datetime, *, current: views.Job) -> Stage:
    """Keep the Job as the spec wants it: suspended or not, and over in time."""
    if current.meta.deleting:
        return Stage(attempt=current.attempt, workload=True)
    changes: dict[str, object] = {}
    if spec.suspend != current.suspended and (spec.suspend or not current.external):
        changes["suspend"] = spec.suspend
    due = deadline(observed, spec)
    if due is not None and now >= due and current.deadline_seconds is None:
        changes["activeDeadlineSeconds"] = ENFORCED_DEADLINE_SECONDS
    change = actions.Change(kind=Kind.JOB, name=current.meta.key.name, uid=current.meta.uid, patch={"spec": changes})
    todo = (change,) if changes else ()
    retry_at = due if due is not None and now < due else None
    notes = _ignored_change(observed, spec, current)
    return Stage(
        actions=todo,
        attempt=current.attempt,
        workload=True,
        ending=current.ending or "activeDeadlineSeconds" in changes,
        notes=notes,
        retry_at=retry_at,
    )


def _ignored_change(observed: Observed, spec: dljob.Spec, current: views.Job) -> tuple[Note, ...]:
    """Told once per generation: until the status names the generation as observed."""
    known = observed.job.status.observed_generation
    changed = known is not None and known < observed.job.meta.generation
    if not changed or builders.spec_digest(spec) == current.spec_digest:
        return ()
    message = f"Job {current.meta.key.name} exists and is left as it is: the change applies to a next attempt, if any"
    return (Note(warning=True, reason=reasons.SPEC_CHANGE_IGNORED, message=message),)


def _with_cause(observed: Observed, current: views.Job, message: str) -> str:
    """The message with what the last pod said when it failed."""
    failed = [pod for pod in observed.pods if pod.attempt == current.attempt and pod.why]
    if not failed:
        return message
    last = max(failed, key=lambda pod: (pod.meta.created, pod.meta.key.name))
    return f"{message}; pod {last.meta.key.name}: {last.why}"


def _failed(current: views.Job, reason: str, message: str) -> Stage:
    return Stage(attempt=current.attempt, workload=True, finished=_ended(dljob.FAILED, reason, message))


def _ended(condition_type: str, reason: str, message: str) -> conditions.Condition:
    return conditions.Condition(type=condition_type, status=conditions.Status.TRUE, reason=reason, message=message)
