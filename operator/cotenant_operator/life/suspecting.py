"""Which Deployments are rolled because they may have caused a fault, and what is held against them. Pure.

Evidence is what befell a pod of the present template, as for GPU memory: each template is answered once.
"""

from datetime import datetime, timedelta

from cotenant_api import dljob
from cotenant_operator.life import causes, outgrowing
from cotenant_operator.state import suspicions, views
from cotenant_operator.state.observed import Observed
from cotenant_operator.workloads import digests


def known(spec: dljob.Spec, current: views.Deployment) -> suspicions.Suspicion | None:
    """Return what is held against what is to be run now; another program has not been there."""
    return current.suspicion if digests.is_of_spec(current.origin, spec) else None


def fault(observed: Observed, current: views.Deployment) -> causes.Suspected | None:
    """Return a fault that pods of the present template may have caused, and that has not been answered."""
    pods = outgrowing.pods_of_template(observed, current)
    found = [suspected for pod in pods if (suspected := causes.suspected_of(observed, pod)) is not None]
    before = None if current.suspicion is None else current.suspicion.fault
    return min((each for each in found if each.fault != before), key=lambda each: each.fault, default=None)


def share_again(observed: Observed, current: views.Deployment) -> datetime | None:
    """When pods that have GPUs to themselves will have run for so long that they share again; None: nothing says so."""
    held, pods = current.suspicion, [pod for pod in outgrowing.pods_of_template(observed, current) if not pod.ended]
    if held is None or not held.alone or held.for_good or current.shortage.exclusive:
        return None
    began = [pod.scheduled_at for pod in pods if pod.ready and pod.scheduled_at is not None]
    if not pods or len(began) < len(pods) or any(causes.is_culprit(observed, pod) for pod in pods):
        return None
    return max(began) + timedelta(seconds=held.alone_seconds)


def is_cleared(observed: Observed, current: views.Deployment, now: datetime) -> bool:
    """Return whether its pods are to be rolled, because they have run alone for long enough."""
    due = share_again(observed, current)
    return due is not None and now >= due


def learned(
    observed: Observed, spec: dljob.Spec, current: views.Deployment, now: datetime
) -> suspicions.Suspicion | None:
    """Return what is held against it with what pods of the present template have shown."""
    before, hit = known(spec, current), fault(observed, current)
    if hit is not None:
        return suspicions.after(before, hit.fault, hit.seconds)
    return before.cleared() if before is not None and is_cleared(observed, current, now) else before


def words(suspicion: suspicions.Suspicion | None) -> str:
    """Return how it is found out who caused a fault."""
    if suspicion is None or not suspicion.alone:
        return "it shares no GPU with the others for a while"
    if suspicion.for_good:
        return f"it was there at {suspicion.ever} such faults: it gets a GPU to itself, for good"
    return "that was not the first such fault: it gets a GPU to itself"
