"""An inference job's Deployment: made once, rolled when the spec changes, scaled to zero while suspended. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from cotenant_api import conditions, dljob
from cotenant_operator import labels, reasons
from cotenant_operator.life import (
    creation,
    drifting,
    fronting,
    granting,
    growing,
    holding,
    outgrowing,
    profiling,
    rolling,
    suspecting,
    training,
)
from cotenant_operator.plans import actions
from cotenant_operator.plans.stages import Blocked, Note, Stage
from cotenant_operator.state import shortages, views
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import Observed
from cotenant_operator.state.shortages import Lessons, Shortage
from cotenant_operator.workloads import builders, digests, scaling


def stage(observed: Observed, spec: dljob.Spec, now: datetime) -> Stage:
    """Where the job stands: its pods, and the Service in front of them."""
    found, front = _workload(observed, spec, now), fronting.look(observed, spec, now)
    return replace(found, actions=(*found.actions, *front.actions), unserved=front.missing)


def _workload(observed: Observed, spec: dljob.Spec, now: datetime) -> Stage:
    """Return where its Deployment stands."""
    current = observed.deployment
    if current is None:
        return _create(observed, spec, now)
    found = _stage(observed, spec, now, current=current)
    rolled = any(isinstance(action, actions.ApplyDeployment) for action in found.actions)
    return found if rolled or not found.workload else replace(found, drifted=drifting.of_template(observed, current))


def _stage(observed: Observed, spec: dljob.Spec, now: datetime, *, current: views.Deployment) -> Stage:
    if current.meta.owner_uid != observed.job.meta.uid:
        if current.meta.deleting or current.owner == observed.job.meta.key.name:
            message = f"waiting for Deployment {current.meta.key.name} of a former DLJob of this name to be deleted"
            return Stage(blocked=Blocked(reason=reasons.PREVIOUS_PODS_ENDING, message=message))
        message = f"Deployment {current.meta.key.name} belongs to another owner: delete it, or rename the DLJob"
        return Stage(blocked=Blocked(reason=reasons.NAME_TAKEN, message=message))
    if current.meta.deleting:
        return Stage(workload=True)
    # What Kueue manages may change its queue when its pods are gone. What these have shown is answered by a template of
    # its own, or it would be counted again.
    stops = spec.suspend and current.replicas > 0 and not outgrowing.asks(observed, spec, current)
    if stops or not is_to_be_rolled(observed, spec, current, now):
        shortage = _dated(outgrowing.learned(observed, spec, current), current, now)
        return _kept(observed, spec, now, current=current, shortage=shortage)
    rolled = _roll(observed, spec, now, current=current)
    if rolled.actions:
        return rolled
    # What may change without new pods changes meanwhile.
    kept = _kept(observed, spec, now, current=current, shortage=current.shortage)
    times = [time for time in (rolled.retry_at, kept.retry_at) if time is not None]
    return replace(kept, blocked=rolled.blocked, outdated=rolled.outdated, retry_at=min(times, default=None))


def _kept(
    observed: Observed, spec: dljob.Spec, now: datetime, *, current: views.Deployment, shortage: Shortage
) -> Stage:
    """Return the stage of a Deployment whose template stays."""
    renewed = digests.renewed(current.origin, spec, labels.of_kueue(observed.job.meta.labels))
    if renewed or shortage != current.shortage or scaling.is_due(spec, current):
        adapted = _adapt(spec, current, shortage, renewed)
        return Stage(actions=(*_told(observed, current, shortage), adapted), workload=True)
    return _going_on(observed, current, now)


def _going_on(observed: Observed, current: views.Deployment, now: datetime) -> Stage:
    """Return the stage of a Deployment that is as the spec says: its pods come, are rolled, or run."""
    room_at, words = rolling.makes_room_at(observed, current), rolling.words(observed, current)
    paused = drifting.pauses(current)
    if paused is not None:
        room_at, words = None, paused
    if room_at is not None and now >= room_at:
        return Stage(actions=(rolling.make_room(current),), workload=True, rolling=words)
    living = sum(not pod.ended and not pod.meta.deleting for pod in observed.pods)
    hold = holding.of_deployment(observed, current, living, now)
    looks = (hold.retry_at, suspecting.share_again(observed, current), room_at)
    retry_at = min((time for time in looks if time is not None), default=None)
    why = hold.why or drifting.held(paused)
    return Stage(workload=True, held=why, rolling=words, notes=_untold(observed, current), retry_at=retry_at)


def _adapt(
    spec: dljob.Spec, current: views.Deployment, shortage: Shortage, renewed: Mapping[str, str]
) -> actions.Change:
    """Return what may change without new pods.

    The template stays as it is, whatever this release would make of the spec.
    """
    notes: dict[str, str | None] = dict(renewed)
    if shortage != current.shortage:
        notes[labels.SHORTAGE] = None if shortage == shortages.NONE else shortage.to_json()
    patch: dict[str, Any] = {"metadata": {"annotations": notes}}
    if scaling.is_due(spec, current):
        builders.scaled(patch, scaling.wanted(spec, current), written=builders.wanted_replicas(spec))
    return actions.Change.of(Kind.DEPLOYMENT, current.meta, patch)


def _untold(observed: Observed, current: views.Deployment) -> tuple[Note, ...]:
    """Tell that it was made, until there is a status: it is told also across a crash."""
    if observed.job.status.observed_generation is not None or current.grant is None:
        return ()
    return (training.begin("Deployment", current.meta.key.name, current.grant),)


def is_to_be_rolled(observed: Observed, spec: dljob.Spec, current: views.Deployment, now: datetime) -> bool:
    """Return whether its pods are to be made anew: from another spec, or placed by what they have shown."""
    return (
        not is_current(observed, spec, current)
        or is_measured(observed, spec)
        or outgrowing.asks(observed, spec, current)
        or suspecting.fault(observed, current) is not None
        or suspecting.is_cleared(observed, current, now)
    )


def _dated(shortage: Shortage, current: views.Deployment, now: datetime) -> Shortage:
    """With its time, where it is new."""
    if shortage == current.shortage or not shortage.message:
        return shortage
    return shortage.model_copy(update={"at": conditions.timestamp(now)})


def is_current(observed: Observed, spec: dljob.Spec, current: views.Deployment) -> bool:
    """Return whether the Deployment was made from this spec, replicas aside, and for this queue of Kueue.

    Kueue lets no Deployment leave its queue, and one that was made before this was looked at is left where it is.
    """
    kueue, own = labels.of_kueue(observed.job.meta.labels), current.origin.own
    stays = own is None or own.queue is None or kueue.items() <= current.meta.labels.items()
    return digests.is_of_spec(current.origin, spec) and stays


def is_measured(observed: Observed, spec: dljob.Spec) -> bool:
    """Return whether the pods have whole GPUs for want of a prediction, and have been measured there.

    They are rolled once.
    """
    current, policy = observed.deployment, observed.policy
    if current is None or current.grant is None or policy is None or not scaling.wanted(spec, current):
        return False
    whole = current.grant.prediction is None and not current.grant.observed_only
    if current.shortage.exclusive:
        # They have whole GPUs because nothing less was enough.
        return False
    return whole and profiling.wanted(spec, policy) and profiling.complete(observed, spec, observed.pods) is not None


def _create(observed: Observed, spec: dljob.Spec, now: datetime) -> Stage:
    if spec.suspend:
        return Stage()
    decision = creation.granted(observed, spec, now)
    if isinstance(decision, Stage):
        return decision
    manifest = builders.deployment(observed.job, spec, decision)
    note = training.begin("Deployment", manifest["metadata"]["name"], decision)
    return Stage(actions=(actions.Create(kind=Kind.DEPLOYMENT, manifest=manifest),), workload=True, notes=(note,))


def _roll(observed: Observed, spec: dljob.Spec, now: datetime, *, current: views.Deployment) -> Stage:
    shortage = outgrowing.learned(observed, spec, current)
    grown = shortage.out_of_memory > current.shortage.out_of_memory
    shortage = _dated(shortage, current, now) if grown else shortage.settled()
    lessons = Lessons(shortage=shortage, suspicion=suspecting.learned(observed, spec, current, now))
    decision = creation.granted(observed, spec, now, lessons.taken_over)
    if isinstance(decision, Stage):
        # The pods of the former spec go on; the condition Predicted says what is missing.
        why = None if decision.blocked is None or is_current(observed, spec, current) else decision.blocked.message
        outdated = None if why is None else f"the pods of the former spec go on: {why}"
        return Stage(workload=True, retry_at=decision.retry_at, blocked=decision.blocked, outdated=outdated)
    bound = any(pod.node is not None and not pod.ended for pod in observed.pods)
    grant = granting.renewed(current.grant, decision, bound=bound)
    revision = current.revision + 1
    manifest = builders.deployment(observed.job, spec, grant, revision=revision, lessons=lessons)
    builders.scaled(manifest, scaling.wanted(spec, current), written=builders.wanted_replicas(spec))
    manifest["metadata"]["labels"] = {**labels.of_kueue(current.meta.labels), **manifest["metadata"]["labels"]}
    name = f"Deployment {manifest['metadata']['name']}"
    text = training.created(name, grant).replace("created", "updated", 1)
    note = Note(warning=False, reason=reasons.UPDATED, message=text)
    apply = actions.ApplyDeployment(manifest=manifest, uid=current.meta.uid, version=current.meta.version)
    told = (*_told(observed, current, shortage), *_told_of_fault(observed, current, lessons))
    return Stage(actions=(*told, apply), workload=True, notes=(note,))


def _told(observed: Observed, current: views.Deployment, shortage: Shortage) -> tuple[actions.EmitEvent, ...]:
    """Tell that pods of the present template ran out of GPU memory, before that is answered.

    It is told once, also across a crash.
    """
    if not shortage.message or shortage == current.shortage:
        return ()
    known = f"{current.meta.uid}/{current.revision}/{shortage.given_up}/{reasons.OUT_OF_MEMORY}"
    event = actions.EmitEvent(
        uid=observed.job.meta.uid,
        type="Warning",
        reason=reasons.OUT_OF_MEMORY,
        message=shortage.message,
        identity=known,
    )
    return (event,)


def _told_of_fault(observed: Observed, current: views.Deployment, lessons: Lessons) -> tuple[actions.EmitEvent, ...]:
    """Tell that pods of the present template may have caused a fault, before that is answered.

    It is told once, also across a crash.
    """
    hit = suspecting.fault(observed, current)
    if hit is None:
        return ()
    event = actions.EmitEvent(
        uid=observed.job.meta.uid,
        type="Warning",
        reason=reasons.SUSPECTED,
        message=growing.cut(hit.words, f"; {suspecting.words(lessons.suspicion)}"),
        identity=f"{current.meta.uid}/{hit.fault}/{reasons.SUSPECTED}",
    )
    return (event,)
