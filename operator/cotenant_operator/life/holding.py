"""What quotas mean for a workload: whether a gang's Job may run, and what is said of pods that cannot be made. Pure.

A gang starts whole or not at all: its Job is suspended until the quotas of its namespace leave room for all its pods.
Room is given by age. A younger gang goes first where the older one does not fit, until that one has waited for the
PackingPolicy's `queue.maxWaitSeconds`. What arithmetic cannot see, the API server says: a gang of which pods are still
missing a while after the start is suspended again, and tried again after a time that doubles, or when there is more
room than there was. `suspend` is the user's where he set it, and Kueue's where it manages the Job.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from cotenant_api import backoff, dljob, packingpolicy, pod
from cotenant_operator import labels, reasons
from cotenant_operator.life import pauses, quota
from cotenant_operator.plans.stages import Blocked
from cotenant_operator.state import defaults, demand, gangs, setbacks, views
from cotenant_operator.state.observed import Observed
from cotenant_operator.state.quotas import Rival
from cotenant_operator.state.setbacks import FailedCreation, Setback

MISSING_SECONDS: Final = 10
"""How long pods may be missing before it is asked why, and before a gang is suspended again."""
BACKOFF_SECONDS: Final = (10, 160)
"""Bounds of the time before a gang that was suspended again is tried again; doubled each time."""
UNTOLD_SECONDS: Final = 60
"""How long pods may be missing for which a quota says that it has no room, before that is believed without an event."""
LOOK_SECONDS: Final = 30
FORGOTTEN_SECONDS: Final = 3600
"""A setback so long ago is no reason to wait longer after the next."""
YIELDING: Final = 3
"""After so many setbacks in a row a gang lets younger ones go first while it waits for its time."""
_POD_NAME: Final = re.compile(r'pods "[^"]*"')


@dataclass(frozen=True, kw_only=True, slots=True)
class Hold:
    """What holds of a Job.

    Attributes:
        why: why pods are missing; of a suspended Job: why it stays so.
        setback: the Job is to be suspended again, with this written on it.
        retry_at: when to look again.
    """

    why: Blocked | None = None
    setback: Setback | None = None
    retry_at: datetime | None = None


FREE: Final = Hold()


def is_gated(observed: Observed, spec: dljob.Spec, manifest: Mapping[str, Any]) -> bool:
    """Return whether a Job that is to be made begins suspended: some quota limits the gang's pods."""
    if spec.replicas == 1 or spec.managed_by is not None or not observed.quotas or manifest["spec"]["suspend"]:
        return False
    asked = demand.read(manifest["spec"]["template"], pods=spec.replicas).with_defaults(observed.defaults)
    return quota.concern(observed.quotas, asked)


def wants_defaults(observed: Observed) -> bool:
    """Return whether it depends on quotas when a gang starts, and so on what admission will put into its pods."""
    job, spec, current = observed.job, observed.job.spec, observed.current_job
    if spec is None or job.meta.deleting or job.finished is not None or job.status_problem is not None:
        return False
    if spec.workload_type is pod.WorkloadType.INFERENCE or spec.managed_by is not None or spec.suspend:
        return False
    if spec.replicas == 1 or not observed.quotas:
        return False
    if current is None or current.failed is not None:
        return True
    unstarted = current.suspended or gangs.missing(current, observed.pods) > 0
    return unstarted and not current.external and not _is_at_rest(current)


def with_defaults(observed: Observed, found: defaults.Defaults) -> Observed:
    """With what this gang and its rivals ask for when admission has put defaults into their pods."""
    if found == defaults.NONE:
        return observed
    jobs = (replace(job, demand=job.demand and job.demand.with_defaults(found)) for job in observed.jobs)
    rivals = (replace(rival, demand=rival.demand.with_defaults(found)) for rival in observed.rivals)
    return replace(observed, defaults=found, jobs=tuple(jobs), rivals=tuple(rivals))


def wants_events(observed: Observed, now: datetime) -> str | None:
    """UID of the Job of which pods have been missing for a while; None: nothing is to be asked."""
    job, spec, current = observed.job, observed.job.spec, observed.current_job
    if spec is None or job.meta.deleting or job.finished is not None or job.status_problem is not None:
        return None
    if spec.workload_type is pod.WorkloadType.INFERENCE or spec.managed_by is not None or current is None:
        return None
    if _is_at_rest(current) or current.suspended or current.start_time is None:
        return None
    late = pauses.due(current.start_time, MISSING_SECONDS, now) is None
    return current.meta.uid if late and _lacks_pods(observed, current) else None


def look(observed: Observed, spec: dljob.Spec, current: views.Job, now: datetime) -> Hold:
    """Return what the quotas of its namespace mean for a training job's Job."""
    if spec.suspend or spec.managed_by is not None or _is_at_rest(current):
        return FREE
    if current.suspended:
        return FREE if current.external else _waiting(observed, current, now)
    return _started(observed, current, now)


def wants_replica_sets(observed: Observed) -> views.Deployment | None:
    """Return the Deployment of which it is to be asked whether pods of its present template cannot be made."""
    current = observed.deployment
    if current is None or not current.refused or current.meta.deleting or observed.job.spec is None:
        return None
    return current if current.meta.owner_uid == observed.job.meta.uid else None


def of_deployment(observed: Observed, current: views.Deployment, living: int, now: datetime) -> Hold:
    """Return what is said of a Deployment with so many pods.

    Its own condition stays the same when it is about another template, or the words are others: nobody tells of that.
    """
    if not current.refused:
        return FREE
    failure, again = observed.failed_creation, now + timedelta(seconds=LOOK_SECONDS)
    if failure is None:
        return Hold(retry_at=again)
    why = _words(failure)
    if why.reason == reasons.QUOTA_EXCEEDED and living >= current.replicas:
        # Of a rollout, which says that it waits for room.
        return Hold(retry_at=again)
    told_at = pauses.due(failure.since, MISSING_SECONDS, now)
    return Hold(why=why, retry_at=again) if told_at is None else Hold(retry_at=told_at)


def _is_at_rest(current: views.Job) -> bool:
    """Return whether nothing of a Job is to start any more."""
    over = current.complete is not None or current.failed is not None
    return over or current.ending or current.ended is not None or current.meta.deleting


def _waiting(observed: Observed, current: views.Job, now: datetime) -> Hold:
    asked = current.demand
    if asked is None or not observed.quotas:
        return FREE
    lack = _lack(observed, asked, gangs.missing(current, observed.pods), now)
    if lack is not None:
        blocked = Blocked(reason=reasons.QUOTA_EXCEEDED, message=str(lack))
        return Hold(why=blocked, retry_at=now + timedelta(seconds=LOOK_SECONDS))
    due = None if current.setback is None else _due(current.setback, observed, asked, now)
    if current.setback is None or due is None:
        return FREE
    seconds = round((due - current.setback.at).total_seconds())
    message = f"{current.setback.message}; the gang is tried again {seconds} s after it was refused"
    return Hold(why=Blocked(reason=reasons.QUOTA_EXCEEDED, message=message), retry_at=due)


def _lack(observed: Observed, asked: demand.Demand, pods: int, now: datetime) -> quota.Lack | None:
    """Return what lacks for the gang, when those that go first have got theirs."""
    alone = quota.Room(observed.quotas).lack(asked, pods)
    if alone is not None and alone.for_ever:
        return alone
    room = quota.Room(observed.quotas)
    for rival in observed.rivals:
        if not rival.waits:
            # Its pods are being made, and not all of them are charged yet.
            room.promise(rival.demand, rival.missing)
    mine = (observed.job.meta.created, observed.job.meta.key)
    for rival in observed.rivals:
        if rival.waits and (rival.created, rival.key) < mine and _goes_first(rival, room, observed, now):
            room.promise(rival.demand, rival.missing)
    return room.lack(asked, pods)


def _goes_first(rival: Rival, room: quota.Room, observed: Observed, now: datetime) -> bool:
    """Return whether room is kept for an older gang that waits."""
    setback = rival.setback
    if setback is not None and setback.count > YIELDING and _latest(setback, now) is not None:
        return False
    lack = room.lack(rival.demand, rival.missing)
    if lack is None:
        return True
    policy = observed.policy or packingpolicy.Spec()
    patient_until = rival.created + timedelta(seconds=policy.queue.max_wait_seconds)
    return not lack.for_ever and now >= patient_until


def _latest(setback: Setback, now: datetime) -> datetime | None:
    """When a gang is tried again, whatever room there is; None: now."""
    first, longest = BACKOFF_SECONDS
    return pauses.due(setback.at, backoff.doubled(first, setback.count - 1, most=longest), now)


def _due(setback: Setback, observed: Observed, asked: demand.Demand, now: datetime) -> datetime | None:
    """When a gang is tried again; None: now. It is sooner where there is more room than what was not enough."""
    due = _latest(setback, now)
    more = any(setback.left.get(name, amount) < amount for name, amount in _left(observed, asked).items())
    return pauses.due(setback.at, BACKOFF_SECONDS[0], now) if due is not None and more else due


def _left(observed: Observed, asked: demand.Demand, *, held: int = 0) -> dict[str, Decimal]:
    """Return what the quotas leave, with what so many pods of the gang hold.

    The overhead of a RuntimeClass may make the pods ask for what their template does not name: how much of such a
    limit they hold is not known, so only one that is raised is more.
    """
    found: dict[str, Decimal] = {}
    for one in observed.quotas:
        for resource, hard in one.hard.items():
            left, amount = one.left(resource), asked.amounts.get(resource)
            if left is not None:
                found[str(quota.Limit(one.key.name, resource))] = hard if amount is None else left + held * amount
    return found


def _started(observed: Observed, current: views.Job, now: datetime) -> Hold:
    """Of a Job that runs: nothing while its pods are there, or may still come."""
    started = current.start_time
    if started is None or not _lacks_pods(observed, current):
        return FREE
    patient_until = pauses.due(started, MISSING_SECONDS, now)
    if patient_until is not None:
        return Hold(retry_at=patient_until)
    again, failure = now + timedelta(seconds=LOOK_SECONDS), observed.failed_creation
    newest = max((seen.meta.created for seen in observed.pods if seen.attempt == current.attempt), default=started)
    begun = max(started, newest)
    if failure is None or failure.owner != current.meta.uid or failure.last < begun:
        failure = _untold(observed, current, begun, now)
    if failure is None or _is_answered(current, failure, now):
        return Hold(retry_at=again)
    why = _words(failure)
    if current.demand is None or current.external or why.reason != reasons.QUOTA_EXCEEDED:
        return Hold(why=why, retry_at=again)
    patient_until = pauses.due(max(begun, failure.since), MISSING_SECONDS, now)
    if patient_until is not None:
        return Hold(retry_at=patient_until)
    return Hold(why=why, setback=_set_back(observed, current, failure, why.message, now=now))


def _untold(observed: Observed, current: views.Job, begun: datetime, now: datetime) -> FailedCreation | None:
    """Return that a quota has no room for the pods that are missing, which no event has told for a while.

    The Job controller drops events when it has told of many: one for each pod that it makes, too.
    """
    asked = current.demand
    if asked is None or pauses.due(begun, UNTOLD_SECONDS, now) is not None:
        return None
    lack = quota.Room(observed.quotas).lack(asked, gangs.missing(current, observed.pods))
    if lack is None:
        return None
    return FailedCreation(owner=current.meta.uid, since=begun, last=now, message=f"{setbacks.NO_QUOTA}: {lack}")


def _lacks_pods(observed: Observed, current: views.Job) -> bool:
    """Return whether pods of a Job are missing: neither seen, nor counted by the Job controller.

    One that has lost its label is out of sight.
    """
    return gangs.missing(current, observed.pods) > 0 and current.active + current.succeeded < current.size


def _is_answered(current: views.Job, failure: FailedCreation, now: datetime) -> bool:
    """Return whether the gang was suspended for this refusal before.

    The Job controller resets the time at which a resumed Job started, but only when it comes to that. Our clock and its
    are two: what is compared are times of its own, if they were noted.
    """
    before = current.setback
    if before is None:
        return False
    answered = before.answers or before.at
    # By a clock that was ahead, and is not any more: what is refused since may look older.
    return failure.last <= answered <= max(now, current.start_time or now)


def _set_back(
    observed: Observed, current: views.Job, failure: FailedCreation, message: str, *, now: datetime
) -> Setback | None:
    asked, before = current.demand, current.setback
    if asked is None:
        return None
    held = asked.pods - gangs.missing(current, observed.pods)
    lately = before is not None and now < before.at + timedelta(seconds=FORGOTTEN_SECONDS)
    count = before.count + 1 if before is not None and lately else 1
    left = _left(observed, asked, held=held)
    return Setback(count=count, at=now, message=message, left=left, answers=failure.last)


def _words(failure: FailedCreation) -> Blocked:
    """Reason and message, without the name that changes with every try."""
    message = _POD_NAME.sub("pods", failure.message.removeprefix("Error creating: "))
    reason = reasons.QUOTA_EXCEEDED if setbacks.is_of_quota(message) else reasons.POD_CREATION_FAILED
    return Blocked(reason=reason, message=message)


def annotations(setback: Setback) -> dict[str, str | None]:
    """Return what is merged into the Job's annotations when it is suspended again."""
    return {labels.QUOTA_SETBACK: setback.to_json()}
