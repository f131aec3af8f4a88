"""Whether a Job is to be suspended, resumed, or ended, where others write `spec.suspend`, too. Pure.

Kueue writes it for what it manages, and people do. What the operator last wrote is noted on the Job, and it writes
again when what it wants changes. Where the field stands otherwise all the same, another has written it since. A Job
that another has suspended waits for him. The Job of a suspended DLJob that another has resumed is ended: a suspension
he would undo again. So each writes once. A Job whose work is done is left alone: the Job controller has to count it.
"""

import enum
from typing import Final

from cotenant_api import dljob
from cotenant_operator import labels, reasons
from cotenant_operator.life import interruptions
from cotenant_operator.life.holding import Hold
from cotenant_operator.plans import actions
from cotenant_operator.plans.stages import Blocked
from cotenant_operator.state import views
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import Observed
from cotenant_operator.workloads import builders

ADMISSION: Final = Blocked(
    reason=reasons.WAITING_FOR_ADMISSION,
    message="the Job is suspended until the controller that manages it admits it",
)


class Turn(enum.Enum):
    """What becomes of a Job."""

    STAYS = enum.auto()
    SUSPEND = enum.auto()
    RESUME = enum.auto()
    END = enum.auto()
    """Its attempt ends, and the next one follows when the DLJob is resumed."""


def turn(observed: Observed, spec: dljob.Spec, current: views.Job, hold: Hold) -> Turn:
    """Return what becomes of a Job, by its DLJob and by the quotas."""
    if spec.suspend:
        # One whose attempt is being ended is let go: its deadline would stand still, and no pod of it stays anyway.
        over = current.ended is not None or interruptions.is_over(observed, current)
        return Turn.STAYS if over else _suspended(current)
    if current.suspended:
        return Turn.STAYS if current.external or hold.why is not None else Turn.RESUME
    return Turn.SUSPEND if hold.setback is not None else Turn.STAYS


def waits(current: views.Job) -> Blocked | None:
    """Why a Job stays suspended, where another decides when it runs."""
    if not (current.suspended and current.external):
        return None
    if is_queued(current):
        return ADMISSION
    message = (
        f"Job {current.meta.key.name} was suspended by another than its DLJob, and waits until that one resumes it: "
        f"where Kueue manages the namespace, name a queue in the DLJob's label {labels.KUEUE_QUEUE}"
    )
    return Blocked(reason=reasons.WAITING_FOR_ADMISSION, message=message)


def stopped(observed: Observed) -> tuple[actions.Change, ...]:
    """Return what ends the pods of a DLJob of which nothing can be read but that it is suspended.

    Kueue would start a Job in a queue of its own again, and again.
    """
    current, deployment = observed.current_job, observed.deployment
    if not observed.job.suspended:
        return ()
    found = []
    if current is not None and _is_to_be_stopped(observed, current):
        found.append((Kind.JOB, current.meta, builders.suspended({}, suspend=True)))
    if deployment is not None and deployment.meta.owner_uid == observed.job.meta.uid and deployment.replicas:
        found.append((Kind.DEPLOYMENT, deployment.meta, builders.scaled({}, 0, written=0)))
    return tuple(actions.Change.of(kind, meta, patch) for kind, meta, patch in found if not meta.deleting)


def _is_to_be_stopped(observed: Observed, current: views.Job) -> bool:
    over = current.complete is not None or current.failed is not None or interruptions.is_over(observed, current)
    return not (over or current.suspended or is_queued(current))


def is_queued(current: views.Job) -> bool:
    """Return whether the Job is in a queue of Kueue."""
    return labels.KUEUE_QUEUE in current.meta.labels


def _suspended(current: views.Job) -> Turn:
    if current.suspended:
        # It may be that another suspended it: from now on the DLJob does.
        return Turn.SUSPEND if current.suspend_written is False else Turn.STAYS
    return Turn.END if is_queued(current) or current.suspend_written else Turn.SUSPEND
