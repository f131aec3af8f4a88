"""The extraction of a DLJob's graph: one Job at a time, until its result is there or it has failed. Pure.

What there is decides, in this order: the result, the Job of the latest try, nothing yet. A Job that has failed stays
as the memory that it has, with its pod and log, until the spec changes or the DLJob ends; deleting it tries again.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from cotenant_api import conditions, dljob
from cotenant_operator import reasons
from cotenant_operator.graphs import extraction, extraction_pod
from cotenant_operator.plans import actions
from cotenant_operator.state import outcomes
from cotenant_operator.state.extractions import ExtractionJob, ExtractionPod
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import Observed

MAX_TRIES: Final = 3
"""Of an extraction whose container never ran: its node went, or kubelet refused the pod."""
RETRY_SECONDS: Final = 10
"""Before the second try; doubled before each further one."""
DEADLINE: Final = "DeadlineExceeded"
_NOT_STARTED: Final = (126, 127, 128)
"""Exit codes of a container whose program cannot be run."""
_ENDS: Final = (reasons.EXTRACTION_FAILED, reasons.EXTRACTION_TIMED_OUT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Looked:
    """What follows.

    Attributes:
        observed: with the outcome that the extraction has come to.
        todo: what is to be done for it, in order.
        retry_at: when to look again although nothing changed.
    """

    observed: Observed
    todo: tuple[actions.Action, ...] = ()
    retry_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Step:
    """The outcome's reason and message, and what follows; see `Looked`."""

    message: str
    reason: str = reasons.EXTRACTION_RUNNING
    todo: tuple[actions.Action, ...] = ()
    retry_at: datetime | None = None


def look(observed: Observed, now: datetime) -> Looked:
    """Return what is to be done for the graph of a DLJob that is not over."""
    asked = extraction.wanted(observed.job)
    own = [job for job in observed.extractions if asked is not None and job.digest == asked.digest]
    rest = [job for job in observed.extractions if job not in own[-1:]]
    current = own[-1] if own else None
    if not is_awaited(observed.outcome):
        # A failed try stays to be looked at, unless the graph came all the same.
        known = isinstance(observed.outcome, outcomes.Predicted)
        if current is not None and (current.complete is not None or (known and current.failed is not None)):
            rest.append(current)
    done = deletions(rest)
    if asked is None or not is_awaited(observed.outcome):
        return Looked(observed=observed, todo=done)
    step = _next(observed, asked, current, now)
    awaited = step.reason == reasons.EXTRACTION_RUNNING
    outcome = outcomes.Missing(reason=step.reason, message=step.message, may_come=awaited)
    return Looked(observed=replace(observed, outcome=outcome), todo=(*done, *step.todo), retry_at=step.retry_at)


def borrowed_account(observed: Observed) -> str | None:
    """Return the ServiceAccount whose pull secrets the pod needs that starts now; None: none starts."""
    asked = extraction.wanted(observed.job)
    if asked is None or observed.job.spec is None or _is_suspended(observed) or not is_awaited(observed.outcome):
        return None
    own = [job for job in observed.extractions if job.digest == asked.digest]
    starts = bool(own) and own[-1].suspended and not own[-1].meta.deleting and not own[-1].finished
    return extraction_pod.account(observed.job.spec) if starts else None


def is_awaited(outcome: outcomes.Outcome | None) -> bool:
    """Return whether the graph has to be extracted, or is being."""
    return isinstance(outcome, outcomes.Missing) and outcome.reason == reasons.EXTRACTION_RUNNING


def after_the_end(observed: Observed) -> tuple[actions.Action, ...]:
    """Return the deletions: a DLJob that is over extracts nothing more."""
    return deletions(observed.extractions)


def at_the_end(observed: Observed) -> tuple[actions.Action, ...]:
    """Its result is needed no more; what is left of the Jobs goes when it is over."""
    job = observed.job
    if job.spec is None or not extraction.is_needed(job.spec):
        return ()
    return (_discard(observed, renew=None),)


def deletions(jobs: list[ExtractionJob] | tuple[ExtractionJob, ...]) -> tuple[actions.Delete, ...]:
    """Their accounts, roles and code go with them."""
    return tuple(
        actions.Delete(kind=Kind.JOB, name=job.meta.key.name, uid=job.meta.uid) for job in jobs if not job.meta.deleting
    )


def _next(observed: Observed, asked: extraction.Wanted, current: ExtractionJob | None, now: datetime) -> _Step:
    refusal = observed.standing_refusal(now)
    if refusal is not None:
        return _Step(message=f"the graph cannot be extracted: {refusal.message}")
    if current is not None and current.meta.deleting:
        return _Step(message=f"Job {current.meta.key.name}, which extracted the graph before, is being deleted")
    if current is not None and (current.complete is not None or current.failed is not None):
        return _ended(observed, asked, current, now)
    if _is_suspended(observed):
        todo = () if current is None else _suspend(current, wanted=True)
        return _Step(message="the graph is extracted when spec.suspend is false", todo=todo)
    return _begun(observed, asked, now) if current is None else _running(observed, asked, current)


def _is_suspended(observed: Observed) -> bool:
    return observed.job.spec is not None and observed.job.spec.suspend


def _begun(observed: Observed, asked: extraction.Wanted, now: datetime) -> _Step:
    """Return the first try: the result's place first, so that there is always something to write into."""
    made = actions.Create(kind=Kind.CONFIG_MAP, manifest=extraction.result(observed.job, asked))
    first = _try(observed, asked, number=1, now=now)
    return replace(first, todo=(_discard(observed, renew=asked.result.name), made, *first.todo))


def _running(observed: Observed, asked: extraction.Wanted, current: ExtractionJob) -> _Step:
    name = current.meta.key.name
    if not current.suspended:
        return _Step(message=f"Job {name} extracts the graph: {_progress(observed, current)}")
    creations = (
        actions.Create(kind=kind, manifest=manifest)
        for kind, manifest in extraction.companions(observed, asked, current)
    )
    todo = (*creations, *_suspend(current, wanted=False))
    return _Step(message=f"Job {name} extracts the graph: its pod is not there yet", todo=todo)


def _try(observed: Observed, asked: extraction.Wanted, *, number: int, now: datetime) -> _Step:
    """Make the Job; the next look at it goes on."""
    manifest = extraction.job(observed.job, asked, number=number)
    return _Step(
        message=f"Job {manifest['metadata']['name']} extracts the graph: its pod is not there yet",
        todo=(actions.Create(kind=Kind.JOB, manifest=manifest),),
        retry_at=now,
    )


def _suspend(current: ExtractionJob, *, wanted: bool) -> tuple[actions.Action, ...]:
    if current.suspended == wanted:
        return ()
    patch = {"spec": {"suspend": wanted}}
    return (actions.Change.of(Kind.JOB, current.meta, patch),)


def _discard(observed: Observed, *, renew: str | None) -> actions.Discard:
    selector, uid = extraction.selector(observed.job), observed.job.meta.uid
    return actions.Discard(kind=Kind.CONFIG_MAP, selector=selector, owner_uid=uid, renew=renew)


def _progress(observed: Observed, current: ExtractionJob) -> str:
    pod = _pod(observed, current)
    if pod is None:
        return f"its pod is not there yet; `kubectl describe job {current.meta.key.name}` says why it may not come"
    if pod.phase == "Running":
        return "its container runs"
    said = extraction.last_line(pod.words)
    return f"its pod waits: {said}" if said else "its pod waits"


def _pod(observed: Observed, current: ExtractionJob) -> ExtractionPod | None:
    """Return the pod that says most: the last one that ran, else the last one."""
    pods = [pod for pod in observed.extraction_pods if pod.meta.owner_uid == current.meta.uid]
    return max(pods, key=lambda pod: (pod.started, pod.meta.created, pod.meta.key.name), default=None)


def _ended(observed: Observed, asked: extraction.Wanted, current: ExtractionJob, now: datetime) -> _Step:
    """Decide about a Job that is over, and whose result is not there."""
    name, pod = current.meta.key.name, _pod(observed, current)
    told = _told(observed, current)
    if told is not None and (pod is None or not pod.words):
        return told
    late = current.failed is not None and current.failed.reason == DEADLINE
    settled = _settled_at(current, now)
    if not current.finished or (pod is not None and pod.phase == "Running" and now < settled):
        return _Step(message=f"Job {name} extracts the graph: its pod is being ended", retry_at=settled)
    if current.failed is not None and not late and (pod is None or not pod.started):
        again = _again(observed, asked, current, now)
        if again is not None:
            return again
    remedy = f"see `kubectl logs job/{name}`; correct the spec, or delete Job {name} to try again"
    if late or (pod is not None and pod.exit_code == extraction_pod.TIMED_OUT):
        said = _said(pod) or _said_before(observed) or f"no container ran for {asked.seconds} s"
        return _Step(
            reason=reasons.EXTRACTION_TIMED_OUT, message=f"the graph was not extracted in time: {said}; {remedy}"
        )
    if current.complete is not None:
        said = f"Job {name} has ended well and ConfigMap {asked.result.name} holds no graph: the code ended the program"
    else:
        said = _said(pod) or _said_before(observed) or f"Job {name} has failed, and its pod is gone"
    return _Step(reason=reasons.EXTRACTION_FAILED, message=f"the graph could not be extracted: {said}; {remedy}")


def _again(observed: Observed, asked: extraction.Wanted, current: ExtractionJob, now: datetime) -> _Step | None:
    """Another try of what never ran; None: there have been enough."""
    if current.number >= MAX_TRIES or current.failed is None:
        return None
    due = _settled_at(current, now) + timedelta(seconds=RETRY_SECONDS * (2 ** (current.number - 1) - 1))
    if now < due or _is_suspended(observed):
        said = _said(_pod(observed, current)) or "its pod is gone"
        message = f"the pod that extracts the graph could not run: {said}; it is tried again"
        return _Step(message=message, retry_at=max(due, now))
    return _try(observed, asked, number=current.number + 1, now=now)


def _said(pod: ExtractionPod | None) -> str:
    """Return the last words of a pod, with what its end by the kernel means."""
    if pod is None:
        return ""
    said = extraction.last_line(pod.words)
    if pod.words.startswith("OOMKilled"):
        return f"{said}: its memory was too small: raise resources.limits.memory of the template's container"
    if pod.exit_code in _NOT_STARTED:
        remedy = "is there a python3 on the image's PATH? else let the container's command begin with its interpreter"
        return f"{said}: {remedy}"
    if said and pod.exit_code not in (None, 0, 1, extraction_pod.TIMED_OUT):
        return f"{said} (exit code {pod.exit_code})"
    return said or ("" if pod.exit_code is None else f"its container ended with exit code {pod.exit_code}")


def _settled_at(current: ExtractionJob, now: datetime) -> datetime:
    """When what its pod says should have come, too: Jobs and pods are watched apart."""
    end = current.complete or current.failed
    text = "" if end is None else end.last_transition_time
    return (datetime.fromisoformat(text) if text else now) + timedelta(seconds=RETRY_SECONDS)


def _told(observed: Observed, current: ExtractionJob) -> _Step | None:
    """Return what the status has said of the end of this Job: its pod may be gone since."""
    before = conditions.find(observed.job.status.conditions, dljob.PREDICTED)
    if before is None or before.reason not in _ENDS or f"Job {current.meta.key.name} " not in before.message:
        return None
    return _Step(reason=before.reason, message=before.message)


def _said_before(observed: Observed) -> str:
    """Return what the status said last of a pod that has never run and is gone."""
    before = conditions.find(observed.job.status.conditions, dljob.PREDICTED)
    return before.message if before is not None and before.reason == reasons.EXTRACTION_RUNNING else ""
