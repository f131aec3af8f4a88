"""Which Deployments are rolled because they may have caused a fault, and what is held against them. Pure.

Evidence is what befell a pod of the present template, as for GPU memory: each template is answered once.
"""

from cotenant_api import dljob
from cotenant_operator.life import causes, outgrowing
from cotenant_operator.state import suspicions, views
from cotenant_operator.state.observed import Observed
from cotenant_operator.workloads import builders


def known(spec: dljob.Spec, current: views.Deployment) -> suspicions.Suspicion | None:
    """What is held against what is to be run now; another program has not been there."""
    return current.suspicion if current.spec_digest == builders.spec_digest(spec) else None


def fault(observed: Observed, current: views.Deployment) -> causes.Suspected | None:
    """A fault that pods of the present template may have caused, and that has not been answered."""
    pods = outgrowing.pods_of_template(observed, current)
    found = [suspected for pod in pods if (suspected := causes.suspected_of(observed, pod)) is not None]
    before = None if current.suspicion is None else current.suspicion.fault
    return min((each for each in found if each.fault != before), key=lambda each: each.fault, default=None)


def learned(observed: Observed, spec: dljob.Spec, current: views.Deployment) -> suspicions.Suspicion | None:
    """What is held against it with what pods of the present template have shown."""
    before, hit = known(spec, current), fault(observed, current)
    return before if hit is None else suspicions.after(before, hit.fault, hit.seconds)


def words(suspicion: suspicions.Suspicion | None) -> str:
    """How it is found out who caused a fault."""
    if suspicion is not None and suspicion.alone:
        return "that was not the first such fault: it gets a GPU to itself"
    return "it shares no GPU with the others for a while"
