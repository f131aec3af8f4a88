"""What another has changed in a Job or Deployment, and the operator does not write back: who, and the remedy. Pure.

Such a change is told and left. It goes with the next attempt, or with the next change of the DLJob's template.
"""

from cotenant_operator import reasons
from cotenant_operator.life import outgrowing
from cotenant_operator.plans.stages import Blocked
from cotenant_operator.state import views
from cotenant_operator.state.observed import Observed


def of_job(current: views.Job) -> str | None:
    """Return that a Job may have fewer pods at once than its DLJob has replicas; None: it may have all."""
    over = current.complete is not None or current.failed is not None or current.ending or current.meta.deleting
    if over or current.parallelism is None or current.parallelism >= current.size:
        return None
    name, patch = current.meta.key.name, f'{{"spec":{{"parallelism":{current.size}}}}}'
    return (
        f"spec.parallelism of Job {name} is {current.parallelism} and not {current.size}, "
        f"{_written(current.parallelism_by)}: the other pods come when it is set back: "
        f"`kubectl patch job {name} --type=merge -p '{patch}'`"
    )


def of_template(observed: Observed, current: views.Deployment) -> str | None:
    """Return that the pods of a Deployment are not made as its DLJob says; None: they are."""
    paused = pauses(current)
    if paused is not None and _waits_for_pods(observed, current):
        return paused
    if current.changed_by is None:
        return None
    return (
        f"the pod template of Deployment {current.meta.key.name} was changed by {current.changed_by}: that goes with "
        "the next change of the DLJob; to keep it, write it into spec.template"
    )


def pauses(current: views.Deployment) -> str | None:
    """Return that a Deployment is paused, and so rolls nothing out; None: it is not, or has nothing to roll out."""
    if not current.paused or current.rolled_out:
        return None
    name = current.meta.key.name
    return (
        f"Deployment {name} is paused (spec.paused: true), {_written(current.paused_by)}: it makes no pod of the "
        f"present template until `kubectl rollout resume deployment/{name}`"
    )


def held(words: str | None) -> Blocked | None:
    """Return why pods are missing, as the condition Queued says it."""
    return None if words is None else Blocked(reason=reasons.DRIFTED, message=words)


def _waits_for_pods(observed: Observed, current: views.Deployment) -> bool:
    """Return whether there are pods of a former template, or none of the present one."""
    present = {pod.meta.uid for pod in outgrowing.pods_of_template(observed, current)}
    living = [pod for pod in observed.pods if not pod.ended and not pod.meta.deleting]
    return current.replicas > 0 and (not present or any(pod.meta.uid not in present for pod in living))


def _written(writer: str | None) -> str:
    return "written by somebody else" if writer is None else f"written by {writer}"
