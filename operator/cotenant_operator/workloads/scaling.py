"""How many replicas a Deployment is to have, where an autoscaler or a person says so, too. Pure.

The number is the DLJob's until another writes one; that one stands until the DLJob's own changes. What the operator
last wrote is noted on the Deployment. While the DLJob is suspended there are none, whoever wants some.
"""

from cotenant_api import dljob
from cotenant_operator.state import views
from cotenant_operator.state.observed import Observed
from cotenant_operator.workloads import builders


def wanted(spec: dljob.Spec, current: views.Deployment | None) -> int:
    """Return how many replicas there are to be."""
    own = builders.wanted_replicas(spec)
    if current is None or spec.suspend or current.replicas_written != own:
        return own
    return current.replicas


def is_due(spec: dljob.Spec, current: views.Deployment) -> bool:
    """Return whether the number is to be written, or that it was."""
    return current.replicas != wanted(spec, current) or current.replicas_written != builders.wanted_replicas(spec)


def replicas(observed: Observed, spec: dljob.Spec) -> int:
    """Return how many replicas the DLJob has when it goes on."""
    current = observed.deployment
    foreign = current is None or current.meta.owner_uid != observed.job.meta.uid
    return spec.replicas if foreign or current is None or spec.suspend else wanted(spec, current)
