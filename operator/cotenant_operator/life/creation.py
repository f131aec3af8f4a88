"""Whether a DLJob's workload may be made now, and what its pods ask for. Pure."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from cotenant_api import dljob, packingpolicy, prediction, rootless
from cotenant_operator import reasons
from cotenant_operator.life import granting, pauses, profiling
from cotenant_operator.plans.stages import Blocked, Stage
from cotenant_operator.state import carried, grants, outcomes
from cotenant_operator.state.measured import Measured
from cotenant_operator.state.observed import Observed
from cotenant_operator.workloads import digests

GRACE_SECONDS: Final = 30
"""How long a graph that may still come is waited for before its absence counts: `kubectl apply` of a folder
may create the DLJob before its ConfigMap."""
POLL_SECONDS: Final = (1.0, 30.0)
"""Bounds of the time between two looks for a graph that is not there."""
LOOK_SECONDS: Final = 0.2
"""The same for each DLJob of a namespace: of thousands five are looked at in a second."""
MOST_SECONDS: Final = 900.0
"""However many there are."""


def granted(
    observed: Observed, spec: dljob.Spec, now: datetime, taken_over: carried.Carried = carried.FIRST
) -> grants.Grant | Stage:
    """Return what the pods ask for, or the stage that says why nothing is made; `taken_over`: from former attempts."""
    refusal = observed.standing_refusal(now)
    if refusal is not None:
        return _blocked(refusal.reason, refusal.message, retry_at=refusal.retry_at)
    if observed.policy is None:
        message = "there is no readable PackingPolicy named default: apply manifests/policy.yaml"
        return _blocked(reasons.PACKING_POLICY_MISSING, message)
    if observed.outcome is None:
        return _blocked(reasons.PREDICTION_PENDING, "the prediction is being made", retry_at=now)
    waited = waiting_for_graph(observed, now)
    if waited is not None:
        return waited
    measured = _measured(observed, spec, taken_over)
    outcome = profiling.outcome(observed, spec, measured) or observed.outcome
    decision = granting.decide(spec, observed.policy, outcome, needs(observed, spec, taken_over))
    if not isinstance(decision, granting.Hold) and not taken_over.exclusive:
        decision = _held_if_root(spec, observed.policy, outcome, decision)
    if isinstance(decision, granting.Hold):
        return _blocked(decision.reason, decision.message, retry_at=next_look(observed, now))
    graph, suspicion = outcomes.graph_of(observed.outcome), taken_over.suspicion
    # Who has whole GPUs shares them with nobody.
    suspect = suspicion if suspicion is not None and suspicion.suspected and decision.prediction is not None else None
    return replace(decision, graph=graph, suspect_seconds=None if suspect is None else str(suspect.apart_seconds))


def _held_if_root(
    spec: dljob.Spec, policy: packingpolicy.Spec, outcome: outcomes.Outcome, grant: grants.Grant
) -> grants.Grant | granting.Hold:
    """Return the grant, or why pods of the template must not share a GPU, and what to add.

    Of a job that has a whole GPU until it has been measured, that is said before it begins.
    """
    corrected = policy.correction is packingpolicy.Correction.HYBRID and grant.prediction is not None
    shares_later = corrected or profiling.begins(spec, policy, outcome)
    if grant.observed_only or not policy.refuses_root(1 if shares_later else grant.share):
        return grant
    fault = rootless.fault(spec.template["spec"], path="spec.template.spec")
    if fault is None:
        return grant
    return granting.Hold(reason=reasons.MAY_BE_ROOT, message=f"{fault}, or spec.sharing: Exclusive for whole GPUs")


def _measured(observed: Observed, spec: dljob.Spec, taken_over: carried.Carried) -> Measured | None:
    """Return what was measured of the job itself, and on other GPU models of former jobs of its graph."""
    own = taken_over.measured or profiling.of_deployment(observed, spec)
    if observed.policy is not None and profiling.is_reactive(observed.policy):
        return own
    return observed.learned.measured if own is None else own.over(observed.learned.measured)


def needs(observed: Observed, spec: dljob.Spec, taken_over: carried.Carried) -> granting.Needs:
    """Return what has been learned about the job's needs."""
    suspicion = taken_over.suspicion
    return granting.Needs(
        memory_mib=taken_over.memory_mib,
        learned_mib=_learned_mib(observed, spec),
        exclusive=taken_over.exclusive or (suspicion is not None and suspicion.alone),
        gpu_memory_mib=observed.gpu_memory_mib,
    )


def _learned_mib(observed: Observed, spec: dljob.Spec) -> int | None:
    """Return what former jobs of the graph teach, as far as a shared GPU that the job may use can hold it.

    Else it would wait for ever.
    """
    learned = observed.learned.memory_mib
    if learned is None or observed.policy is None:
        return None
    largest = granting.largest_bookable_mib(granting.allowed(spec, observed.gpu_memory_mib), observed.policy)
    return learned if largest is None else min(learned, largest)


def remembered(observed: Observed) -> Observed:
    """With the prediction of the workload before, where a graph that it was made from cannot be had any more.

    Without a prediction that counts for nothing.
    """
    observed = profiling.counted(observed)
    spec, outcome = observed.job.spec, observed.outcome
    before = observed.deployment or observed.current_job
    if spec is None or not isinstance(outcome, outcomes.Missing) or before is None:
        return observed
    if not outcome.may_come and not _was_measured(observed, spec):
        return observed
    if outcome.reason == reasons.EXTRACTION_RUNNING:
        # It can be had, and may be another one: the image has changed.
        return observed
    if before.grant is None or not digests.is_of_model(before.origin, spec):
        return observed
    document = before.grant.document()
    if document is None:
        return observed
    return profiling.counted(replace(observed, outcome=outcomes.Predicted(prediction=document)))


def _was_measured(observed: Observed, spec: dljob.Spec) -> bool:
    """Return whether an inference job was rolled with what was measured of it.

    Another change does not measure it again.
    """
    current, policy = observed.deployment, observed.policy
    document = None if current is None or current.grant is None else current.grant.document()
    measured = document is not None and document.source is prediction.Source.PROFILE
    return measured and policy is not None and profiling.wanted(spec, policy)


def waiting_for_graph(observed: Observed, now: datetime) -> Stage | None:
    """Return the stage of a job whose graph is being extracted, or that is so new that it may be on the way."""
    outcome = observed.outcome
    if isinstance(outcome, outcomes.Missing) and outcome.reason == reasons.EXTRACTION_RUNNING:
        # Its Job has a time limit.
        return _blocked(reasons.PREDICTION_PENDING, outcome.message)
    is_new = pauses.due(observed.job.meta.created, GRACE_SECONDS, now) is not None
    if not isinstance(outcome, outcomes.Missing) or not outcome.may_come or not is_new:
        return None
    if outcome.reason == reasons.GRAPH_UNREADABLE:
        # It has come, and waiting does not mend it.
        return None
    return _blocked(reasons.PREDICTION_PENDING, outcome.message, retry_at=next_look(observed, now))


def next_look(observed: Observed, now: datetime, *, least: float = POLL_SECONDS[0]) -> datetime | None:
    """Return when to look for the graph again; None: it cannot come by itself.

    The older the job, the rarer, and the more DLJobs its namespace has: thousands whose graph nobody can read would be
    read for ever, at others' cost.
    """
    outcome = observed.outcome
    if not isinstance(outcome, outcomes.Missing) or not outcome.may_come:
        return None
    age = (now - observed.job.meta.created).total_seconds()
    alone = min(max(age / 4, least), max(POLL_SECONDS[1], least))
    among = min(LOOK_SECONDS * observed.siblings, MOST_SECONDS)
    # A young one's ConfigMap may just be on its way.
    return now + timedelta(seconds=alone if among <= POLL_SECONDS[1] else max(alone, min(age, among)))


def _blocked(reason: str, message: str, *, retry_at: datetime | None = None) -> Stage:
    return Stage(blocked=Blocked(reason=reason, message=message), retry_at=retry_at)
