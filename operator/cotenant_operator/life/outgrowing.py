"""What a Deployment whose pods run out of GPU memory is rolled with. Pure.

Evidence is what a pod of the present template says of itself: one of a former template has been answered. So each
template is answered once, however often its pods are restarted, and however slowly they go.
"""

from cotenant_api import dljob
from cotenant_operator.life import causes, growing
from cotenant_operator.state import views
from cotenant_operator.state.observed import Observed
from cotenant_operator.state.shortages import Shortage
from cotenant_operator.workloads import digests


def known(spec: dljob.Spec, current: views.Deployment) -> Shortage:
    """Return what former templates have taught of what is to be run now."""
    there = current.shortage
    return there if not there.of or digests.is_of_work(there.of, spec) else Shortage(of=digests.of_work(spec))


def learned(observed: Observed, spec: dljob.Spec, current: views.Deployment) -> Shortage:
    """Return the same, with what pods of the present template have shown; its time is not set yet."""
    before = known(spec, current)
    pods = pods_of_template(observed, current)
    found = [finding for pod in pods if (finding := causes.ran_out(observed, pod)) is not None]
    if not found or not digests.is_of_model(current.origin, spec):
        # What runs is not what is to be run.
        return before
    first = min(found, key=lambda finding: (finding.pod.meta.created, finding.pod.meta.key.name))
    ended, digest = growing.ran_out(observed, first, pods, current.grant), digests.of_work(spec)
    after = growing.more(observed, spec, after=before.taken_over, ended=ended, grant=current.grant)
    if after is None:
        if before.given_up:
            return before
        message = growing.cut(ended.message, f"; {growing.SMALLER}")
        return before.model_copy(update={"of": digest, "given_up": True, "at": "", "message": message})
    return Shortage(
        of=digest,
        out_of_memory=after.out_of_memory,
        memory_mib=after.memory_mib,
        exclusive=after.exclusive,
        message=growing.cut(ended.message, f"; its pods get {growing.words(ended, after)}"),
    )


def asks(observed: Observed, spec: dljob.Spec, current: views.Deployment) -> bool:
    """Return whether its pods are to be placed with more."""
    return learned(observed, spec, current).out_of_memory > current.shortage.out_of_memory


def pods_of_template(observed: Observed, current: views.Deployment) -> tuple[views.Pod, ...]:
    """Those of the present template, of this Deployment: one that was deleted had templates of the same numbers."""
    created = current.meta.created
    return tuple(pod for pod in observed.pods if pod.revision == current.revision and pod.meta.created >= created)
