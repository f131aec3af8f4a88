"""`(observed objects, clock) -> plan`: level-triggered, pure, and the same plan for the same state.

Whatever came before, lost events, a crash after any action, does not matter: only what is there now does.
"""

from datetime import datetime, timedelta

from cotenant_api import conditions, dljob, pod
from cotenant_operator import reasons
from cotenant_operator.life import attempts, creation, extracting, fronting, serving, sweeping, switching, training
from cotenant_operator.plans import actions
from cotenant_operator.plans.stages import Blocked, Plan, Stage
from cotenant_operator.state import views
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import Observed
from cotenant_operator.telling import happenings, hindrances, status, sweep_status


def wants_prediction(observed: Observed, now: datetime) -> bool:
    """Return whether the decision rests on a prediction that no workload carries yet."""
    job = observed.job
    if job.meta.deleting or job.finished is not None or job.spec is None or job.status_problem is not None:
        return False
    if job.spec.completions is not None:
        return False
    if conditions.find(job.status.conditions, dljob.PREDICTED) is None:
        return True
    if job.spec.workload_type is pod.WorkloadType.INFERENCE:
        there = observed.deployment
        return there is None or serving.is_to_be_rolled(observed, job.spec, there, now)
    current = observed.current_job
    over = current is not None and (current.failed or attempts.interrupted(observed, job.spec, current)) is not None
    return current is None or over


def reconcile(observed: Observed, now: datetime) -> Plan:
    """Return what to do now."""
    job = observed.job
    if job.meta.deleting:
        # Owner references let the garbage collector clean up.
        return Plan()
    if job.status_problem is not None:
        # It may be over: nothing is begun again, and nothing is written over what cannot be read.
        return Plan(actions=(happenings.unreadable_status(job),))
    ended = job.finished
    if ended is not None:
        return _after_the_end(observed, ended, now)
    extracted = extracting.look(observed, now)
    observed = creation.remembered(extracted.observed)
    stage = _stage(observed, now)
    new = _status(observed, stage, now)
    extractions = extracted.todo if stage.finished is None else extracting.at_the_end(observed)
    todo = [*extractions, *stage.actions]
    if status.written(new) != job.written:
        todo += happenings.events(observed, stage, new)
        todo.append(_write(observed, new))
    late = hindrances.next_look(observed.pods, now)
    looks = (_retry_at(observed, stage, now), extracted.retry_at, late, fronting.next_look(observed, now))
    times = [time for time in looks if time is not None]
    return Plan(actions=tuple(todo), retry_at=min(times, default=None))


def _stage(observed: Observed, now: datetime) -> Stage:
    spec = observed.job.spec
    if spec is None:
        message = f"{observed.job.problem}: correct it"
        blocked = Blocked(reason=reasons.INVALID_SPEC, message=message)
        runs = sweeping.halted(observed, now)
        found = (*switching.stopped(observed), *runs.actions)
        return Stage(actions=found, blocked=blocked, attempt=observed.known_attempts, retry_at=runs.retry_at)
    if spec.completions is not None:
        return sweeping.stage(observed, spec, now)
    if spec.workload_type is pod.WorkloadType.INFERENCE:
        return serving.stage(observed, spec, now)
    return training.stage(observed, spec, now)


def _status(observed: Observed, stage: Stage, now: datetime) -> dljob.Status:
    spec = observed.job.spec
    if spec is not None and spec.completions is not None:
        return sweep_status.derive(observed, spec, stage, now)
    return status.derive(observed, stage, now)


def _after_the_end(observed: Observed, ended: conditions.Condition, now: datetime) -> Plan:
    """Nothing starts again; the DLJob goes when its time is over."""
    left = (
        *extracting.after_the_end(observed),
        *training.stale(observed, former_to=None),
        *sweeping.stale(observed, now),
        *_edited_late(observed.job),
    )
    looks = [refusal.retry_at for refusal in observed.refused_runs(now).values()]
    seconds = observed.job.ttl_seconds
    if seconds is None:
        return Plan(actions=left, retry_at=min(looks, default=None))
    due = datetime.fromisoformat(ended.last_transition_time) + timedelta(seconds=min(seconds, dljob.MAX_SECONDS))
    if now < due:
        return Plan(actions=left, retry_at=min(looks, default=due))
    meta = observed.job.meta
    gone = actions.Delete(kind=Kind.DLJOB, name=meta.key.name, uid=meta.uid, version=meta.version)
    return Plan(actions=(gone,))


def _edited_late(job: views.DLJob) -> tuple[actions.EmitEvent | actions.PatchStatus, ...]:
    """Tell of an edit that comes after the end, and that it was seen: tools wait for that."""
    generation = job.meta.generation
    if job.observed_generation in (None, generation):
        return ()
    message = (
        "it has ended, and the change applies to nothing: delete the DLJob and create it again to run it once more"
    )
    told = actions.EmitEvent(
        uid=job.meta.uid,
        type="Warning",
        reason=reasons.SPEC_CHANGE_IGNORED,
        message=message,
        identity=f"{job.meta.uid}/{reasons.SPEC_CHANGE_IGNORED}/{generation}",
    )
    seen = {"observedGeneration": generation}
    return told, actions.PatchStatus(uid=job.meta.uid, version=job.meta.version, status=seen, urgent=True)


def _write(observed: Observed, new: dljob.Status) -> actions.PatchStatus:
    job = observed.job
    return actions.PatchStatus(
        uid=job.meta.uid,
        version=job.meta.version,
        status=status.patch(new),
        urgent=status.is_urgent(job.status, new),
        keeps=(job.status.succeeded, job.status.failed) != (new.succeeded, new.failed),
    )


def _retry_at(observed: Observed, stage: Stage, now: datetime) -> datetime | None:
    """Return when to look again.

    A deadline may begin with the status that is being written, which is looked at anyway.
    """
    if stage.retry_at is not None or stage.workload:
        return stage.retry_at
    return creation.next_look(observed, now, least=30.0)
