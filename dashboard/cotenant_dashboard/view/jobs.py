"""A job that waits, in the words of `cotenant why`. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cotenant_api import dljob
from cotenant_cli.reading import cluster, objects
from cotenant_cli.views import explanation
from cotenant_dashboard.view import accuracy

_WAITING: Final = (None, dljob.Phase.PENDING, dljob.Phase.QUEUED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A DLJob with its pods, or pods of no DLJob that belong together.

    Attributes:
        name: as `cotenant why` would take it.
    """

    namespace: str
    name: str
    dljob: objects.DLJob | None
    pods: tuple[objects.Pod, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Of one job: its row in the queue while it waits, and how it compares with its prediction."""

    waiting: dict[str, Any] | None
    measured: accuracy.Measured | None


def key_of(pod: objects.Pod) -> tuple[str, str]:
    """Namespace and name of the job that a pod is of."""
    return pod.namespace, pod.dljob or pod.job or pod.name


def view(job: Job, *, now: datetime) -> View:
    """Return what the page shows of it, beside its GPUs."""
    measured = None if job.dljob is None else accuracy.of_dljob(job.dljob)
    unbound = [pod for pod in job.pods if pod.node is None and not pod.over]
    if not unbound and not _waits(job.dljob):
        return View(waiting=None, measured=measured)
    seen = cluster.Seen(pods=job.pods, nodes=(), dljob=job.dljob)
    found = explanation.explained(seen, namespace=job.namespace, name=_subject(job), now=now)
    row = {
        "namespace": job.namespace,
        "name": found.name,
        "kind": found.kind,
        "reason": found.reason,
        "message": found.message,
        "position": found.queue_position,
        "since": found.since,
        "share": None if found.asked is None else found.asked.share,
        "gpuModels": [] if found.asked is None else list(found.asked.gpu_models),
        "pods": len(unbound),
    }
    return View(waiting=row, measured=measured)


def _waits(job: objects.DLJob | None) -> bool:
    return job is not None and job.status.phase in _WAITING


def _subject(job: Job) -> str:
    """Return a name that there is something of: pods may outlive their DLJob."""
    known = job.dljob is not None or any(job.name in (pod.name, pod.job) for pod in job.pods)
    return job.name if known else _first(job.pods).name


def _first(pods: Sequence[objects.Pod]) -> objects.Pod:
    return min(pods, key=lambda pod: (pod.over, pod.name))
