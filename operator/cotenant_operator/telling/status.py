"""A DLJob's status from what is observed and decided. Pure; conditions by the rules of `metav1.Condition`."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from cotenant_api import conditions, dljob, documents, names, places, pod, prediction
from cotenant_operator import labels, reasons
from cotenant_operator.graphs import sources
from cotenant_operator.plans.stages import Stage
from cotenant_operator.state import grants, views
from cotenant_operator.state.observed import Observed
from cotenant_operator.state.outcomes import Predicted
from cotenant_operator.telling import replicas, shortfall, shown, stretches
from cotenant_operator.telling.conditions import Verdict, current, placed, queued, ready, stalled, suspended
from cotenant_operator.telling.stretches import Stretches
from cotenant_operator.workloads import scaling


def derive(observed: Observed, stage: Stage, now: datetime) -> dljob.Status:
    """Return the status that describes this moment; what cannot be known any more stays as it was written."""
    job, spec = observed.job, observed.job.spec
    if spec is None:
        return _unreadable(observed, stage, now)
    grant = current_grant(observed)
    pods = current_pods(observed, spec, stage)
    wanted = scaling.replicas(observed, spec)
    observed_only = grant is not None and grant.observed_only
    standing = pods if _are_replaced(observed, stage, spec) else [one for one in pods if one.phase != "Failed"]
    counts = replicas.counts(standing, wanted=wanted, observed_only=observed_only, now=now)
    whole = stage.finished is None and 0 < counts.wanted <= counts.placed
    had = _stretches(observed, pods, whole=whole, now=now)
    known = shown.document(observed, grant)
    predicted = _predicted(observed, has_document=known is not None)
    found = updated(job, [predicted, *_verdicts(observed, stage, pods, counts)], stage, now)
    return dljob.Status(
        observed_generation=job.meta.generation,
        phase=_phase(job, stage, phase(found, counts, spec)),
        queue_position=_queue_position(found),
        conditions=found,
        attempts=max(stage.attempt, job.status.attempts or 0) or None,
        failures=job.status.failures if stage.failures is None else stage.failures,
        start_time=job.status.start_time or _start_time(observed, found, pods, now),
        placed_seconds=had.seconds,
        placed_since=None if had.since is None else conditions.timestamp(had.since),
        completion_time=completion_time(job, found),
        prediction=_prediction(observed, stage, known, pods),
        refused_graph=_refused_graph(observed),
        replicas=_replicas(observed, stage, pods),
        observed=shown.measured(pods, observed),
        scale=_scale(observed, spec),
    )


def _scale(observed: Observed, spec: dljob.Spec) -> dljob.Scale | None:
    """Return what autoscalers read: by these labels they find the pods of which they know metrics."""
    if spec.workload_type is not pod.WorkloadType.INFERENCE:
        return None
    meta = observed.job.meta
    marks = {names.DLJOB_LABEL: meta.key.name, names.DLJOB_UID_LABEL: meta.uid}
    # Pods that extract its graph have the same labels.
    selector = ",".join((*(f"{key}={value}" for key, value in marks.items()), f"!{labels.EXTRACTION}"))
    return dljob.Scale(replicas=len(replicas.of_deployment(observed.pods)), selector=selector)


def _verdicts(
    observed: Observed, stage: Stage, pods: Sequence[views.Pod], counts: replicas.Counts
) -> tuple[Verdict | None, ...]:
    """Return what holds of its pods. While they are being ended for good, queue and place stay as they were."""
    job, spec = observed.job, observed.job.spec
    if spec is None:
        return ()
    before = {item.type: item for item in job.status.conditions}
    place = None if stage.ending else placed(stage, spec, counts, before=before.get(dljob.PLACED))
    queue = None if stage.ending else queued(stage, spec, pods, counts)
    living = sum(not one.ended for one in observed.pods)
    return (
        queue,
        place,
        ready(stage, spec, counts, deployment=observed.deployment, short=shortfall.words(observed)),
        stalled(stage, before=before.get(dljob.STALLED)),
        suspended(
            stage,
            spec,
            left=f"{living} of its pods have not ended yet" if living else None,
            before=before.get(dljob.SUSPENDED),
        ),
        current(stage, before=before.get(dljob.CURRENT)),
    )


def current_grant(observed: Observed) -> grants.Grant | None:
    """Return what the present workload's pods ask for."""
    if observed.deployment is not None:
        return observed.deployment.grant
    current = observed.current_job
    return None if current is None else current.grant


def current_pods(observed: Observed, spec: dljob.Spec, stage: Stage) -> tuple[views.Pod, ...]:
    """One pod a replica, as far as there are pods."""
    if spec.workload_type is pod.WorkloadType.INFERENCE:
        return replicas.of_deployment(observed.pods)
    return replicas.of_attempt(observed.pods, stage.attempt)


def _are_replaced(observed: Observed, stage: Stage, spec: dljob.Spec) -> bool:
    """Return whether pods that failed are replaced without more ado, or nothing is to come any more.

    One of before a suspension is not, until the Job controller has started the Job again.
    """
    current = observed.current_job
    if stage.finished is not None or current is None:
        return True
    stands = spec.suspend or current.suspended or current.start_time is None
    return not stands and stage.held is None


def phase(found: Sequence[conditions.Condition], counts: replicas.Counts, spec: dljob.Spec) -> dljob.Phase:
    """One word for the conditions; an inference job runs as soon as one replica is placed, and does start."""
    stopped = stopped_phase(found)
    if stopped is not None:
        return stopped
    serving = spec.workload_type is pod.WorkloadType.INFERENCE and counts.placed > 0
    if conditions.is_true(found, dljob.PLACED) or serving:
        waits = counts.hindrance is not None and counts.hindrance.reason != reasons.PODS_LOST
        starting = waits and not (serving and counts.ready)
        return dljob.Phase.STARTING if starting else dljob.Phase.RUNNING
    return dljob.Phase.QUEUED if conditions.is_true(found, dljob.QUEUED) else dljob.Phase.PENDING


def stopped_phase(found: Sequence[conditions.Condition]) -> dljob.Phase | None:
    """Return the phase of what has ended or is suspended; None: it goes on."""
    phases = {
        dljob.FAILED: dljob.Phase.FAILED,
        dljob.COMPLETE: dljob.Phase.SUCCEEDED,
        dljob.SUSPENDED: dljob.Phase.SUSPENDED,
    }
    return next((phase for kind, phase in phases.items() if conditions.is_true(found, kind)), None)


def _phase(job: views.DLJob, stage: Stage, derived: dljob.Phase) -> dljob.Phase:
    """Return the phase: a job whose pods are being ended runs no more than it did before."""
    starts = job.phase is dljob.Phase.STARTING and derived is dljob.Phase.RUNNING
    return dljob.Phase.STARTING if stage.ending and starts else derived


def written(new: dljob.Status) -> dict[str, Any]:
    """Return the status as the API server stores it."""
    return dict(_filled(new.to_object()))


def _filled(value: Any) -> Any:
    """Without empty lists and objects, at any depth."""
    if isinstance(value, list | tuple):
        return [_filled(item) for item in value]
    if not isinstance(value, dict):
        return value
    inner = ((key, _filled(item)) for key, item in value.items())
    return {key: item for key, item in inner if item not in ([], {})}


def patch(new: dljob.Status) -> dict[str, Any]:
    """Return the status as a merge patch: null removes what is not there any more."""
    stored = written(new)
    whole = {name: stored.get(name) for name in _keys(dljob.Status)}
    models: dict[str, type[documents.Model]] = {
        "prediction": dljob.PredictionStatus,
        "refusedGraph": dljob.RefusedGraph,
        "observed": dljob.Observed,
        "scale": dljob.Scale,
    }
    for name, model in models.items():
        inner = stored.get(name)
        if inner is not None:
            whole[name] = {key: inner.get(key) for key in _keys(model)}
    return whole


def _keys(model: type[documents.Model]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def is_urgent(old: dljob.Status, new: dljob.Status) -> bool:
    """Return whether more changed than figures, neighbours and words."""

    def core(status: dljob.Status) -> tuple[object, ...]:
        states = tuple((found.type, found.status, found.reason) for found in status.conditions)
        where = tuple((replica.pod, replica.node) for replica in status.replicas if replica.node)
        model = None if status.prediction is None else status.prediction.gpu_model
        counted = status.attempts, status.failures, status.active, status.succeeded, status.failed
        return states, where, model, counted, status.phase, status.observed_generation

    return core(old) != core(new)


def faulted(job: views.DLJob, message: str, now: datetime) -> dict[str, Any]:
    """Return a merge patch of the status: on this DLJob the work fails again and again. All else stays as it is."""
    verdict = Verdict(dljob.STALLED, holds=True, reason=reasons.RECONCILE_ERROR, message=message)
    found = conditions.updated(job.status.conditions, verdict.condition(job.meta.generation), now=now)
    return {"conditions": written(job.status.model_copy(update={"conditions": found}))["conditions"]}


def _unreadable(observed: Observed, stage: Stage, now: datetime) -> dljob.Status:
    blocked = stage.blocked
    if blocked is None:
        return observed.job.status
    verdict = Verdict(dljob.QUEUED, holds=False, reason=blocked.reason, message=blocked.message)
    before = conditions.find(observed.job.status.conditions, dljob.STALLED)
    found = updated(observed.job, [verdict, stalled(stage, before=before)], stage, now)
    update = {"conditions": found, "queue_position": None, "observed_generation": observed.job.meta.generation}
    return observed.job.status.model_copy(update=update)


def _predicted(observed: Observed, *, has_document: bool) -> Verdict | None:
    outcome = observed.outcome
    if isinstance(outcome, Predicted) or (outcome is None and has_document):
        text = "the workload carries its prediction" if outcome is None else sources.described(outcome)
        before = conditions.find(observed.job.status.conditions, dljob.PREDICTED)
        if outcome is None and before is not None:
            return None
        return Verdict(dljob.PREDICTED, holds=True, reason=reasons.PREDICTED, message=text)
    if outcome is None:
        return None
    return Verdict(dljob.PREDICTED, holds=False, reason=outcome.reason, message=outcome.message)


def _refused_graph(observed: Observed) -> dljob.RefusedGraph | None:
    """Return what need not be read again; as it was where no graph was asked for."""
    outcome = observed.outcome
    if outcome is None:
        return observed.job.status.refused_graph
    if isinstance(outcome, Predicted) or outcome.refused is None:
        return None
    return dljob.RefusedGraph(digest=outcome.refused, message=outcome.message)


def _queue_position(found: Sequence[conditions.Condition]) -> int | None:
    queue = conditions.find(found, dljob.QUEUED)
    waits = queue is not None and queue.status is conditions.Status.TRUE
    return places.position(queue.message) if queue is not None and waits else None


def updated(
    job: views.DLJob,
    verdicts: Sequence[Verdict | None],
    stage: Stage,
    now: datetime,
    *,
    without: Collection[str] = (),
) -> tuple[conditions.Condition, ...]:
    """Return the conditions with these verdicts, and with the end; `without`: types that a DLJob has not."""
    found = tuple(one for one in job.status.conditions if one.type not in without)
    for verdict in verdicts:
        if verdict is not None:
            found = conditions.updated(found, verdict.condition(job.meta.generation), now=now)
    if stage.finished is not None:
        final = stage.finished.model_copy(update={"observed_generation": job.meta.generation})
        found = conditions.updated(found, final, now=now)
    return found


def _start_time(
    observed: Observed, found: Sequence[conditions.Condition], pods: Sequence[views.Pod], now: datetime
) -> str | None:
    """When the whole job was first placed: when the last of its pods was bound."""
    ended = conditions.is_true(found, dljob.COMPLETE)
    if not conditions.is_true(found, dljob.PLACED) and not ended:
        return None
    bound = [pod.scheduled_at for pod in pods if pod.scheduled_at is not None]
    current = observed.current_job
    fallback = current.start_time if ended and current is not None and current.start_time is not None else now
    return conditions.timestamp(max(bound, default=fallback))


def _stretches(observed: Observed, pods: Sequence[views.Pod], *, whole: bool, now: datetime) -> Stretches:
    """Return for how long it has had all its GPUs."""
    before, current = observed.job.status, observed.current_job
    since = None if before.placed_since is None else datetime.fromisoformat(before.placed_since)
    stopped = now if current is None or current.suspended_at is None else current.suspended_at
    return stretches.updated(Stretches(before.placed_seconds, since), pods, whole=whole, stopped=stopped)


def completion_time(job: views.DLJob, found: Sequence[conditions.Condition]) -> str | None:
    """Return when a DLJob ended; None: it has not."""
    final = next((item for item in found if item.type in (dljob.COMPLETE, dljob.FAILED)), None)
    return job.status.completion_time or (None if final is None else final.last_transition_time)


def _prediction(
    observed: Observed, stage: Stage, known: prediction.Prediction | None, pods: Sequence[views.Pod]
) -> dljob.PredictionStatus | None:
    """For the GPU model that the job is on; of a job that is over, for the one that it was on."""
    before = observed.job.status.prediction
    over = stage.ending or stage.finished is not None
    if over and before is not None and all(pod.placement is None for pod in pods):
        return before
    return shown.predicted(known, pods, observed)


def _replicas(observed: Observed, stage: Stage, pods: Sequence[views.Pod]) -> tuple[dljob.Replica, ...]:
    """Where the job is; where it was stays readable when its pods go at the end."""
    listed, before = replicas.listed(pods, observed.gpus), observed.job.status.replicas
    over = stage.ending or stage.finished is not None
    return before if over and len(listed) < len(before) else listed
