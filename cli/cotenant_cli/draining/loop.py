"""Evict, wait, tell, and try again what a budget refuses, until nothing of the node's GPUs is in use or time is up."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from cotenant_api import documents, errors
from cotenant_api.names import PodUID
from cotenant_cli.draining import order
from cotenant_cli.reading import cluster, kube, objects
from cotenant_cli.sending import kube as sending

_LEAST_SECONDS: Final = 1.0
"""To look once more when time is up."""


class Means(Protocol):
    """What a drain is done with."""

    def seen(self) -> cluster.Seen:
        """Return the node as it is now."""

    def cordon(self) -> None:
        """Let it take no new pods."""

    def evict(self, pod: objects.Pod, *, dry_run: bool) -> None:
        """End a pod, as `sending.evicting.evict`."""

    def now(self) -> float:
        """Seconds of a clock that never goes back."""

    def sleep(self) -> None:
        """Between two rounds."""


class Drained(documents.Document):
    """What `cotenant node drain -o json` prints; `tenants` is null where no agent tells of any."""

    name: str
    drained: bool
    evicted: tuple[str, ...]
    remaining: tuple[str, ...]
    tenants: int | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far a drain goes: until when by its clock, and whether pods are ended that nobody makes again."""

    end: float
    force: bool

    def patience(self, now: float) -> float:
        """Return for how many seconds a request may wait for its answer."""
        return min(max(self.end - now, _LEAST_SECONDS), kube.TIMEOUT_SECONDS)


@dataclass(slots=True)
class _Progress:
    """What was done, and what was said last of each thing: nothing is said twice."""

    tell: Callable[[str], None]
    evicted: dict[PodUID, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    def say(self, of: str, words: str) -> None:
        if self.said.get(of) != words:
            self.said[of] = words
            self.tell(f"{of} {words}")


def drain(name: str, means: Means, limits: Limits, *, tell: Callable[[str], None]) -> Drained:
    """Empty a node of pods with GPUs.

    Args:
        name: of the node.
        means: what it is done with.
        limits: how far it goes.
        tell: takes a line of progress.

    Raises:
        InvalidInputError: it has pods that nobody makes again, and may not end them.
        PermanentError: the API server refuses.
    """
    _require_owned(means.seen().pods, limits)
    means.cordon()
    progress = _Progress(tell)
    progress.say(f"node/{name}", "cordoned")
    while True:
        seen = _seen_in_time(means, progress, limits.end)
        remaining = [pod for pod in seen.pods if order.leaves(pod)]
        tenants = _tenants(seen)
        if not remaining and not tenants:
            return _outcome(name, seen, progress)
        if means.now() >= limits.end:
            return _outcome(name, seen, progress)
        for batch in order.batches(pod for pod in remaining if pod.uid not in progress.evicted):
            if means.now() < limits.end:
                _evict(batch, means, progress)
        what = f"{len(remaining)} pods to end" if remaining else f"{tenants} tenants to leave the GPUs"
        progress.say(f"node/{name}", f"waits for {what}")
        means.sleep()


def _seen_in_time(means: Means, progress: _Progress, end: float) -> cluster.Seen:
    """Return the node as it is; a server that does not answer is asked again until time is up."""
    while True:
        try:
            return means.seen()
        except errors.TemporaryError as error:
            if means.now() >= end:
                raise
            progress.say("API server:", str(error))
            means.sleep()


def _require_owned(pods: Sequence[objects.Pod], limits: Limits) -> None:
    bare = [_name(pod) for pod in order.unowned(pods)]
    if bare and not limits.force:
        remedy = f"nobody makes {', '.join(bare)} again: delete them yourself, or end them with --force"
        raise errors.InvalidInputError("--force", False, remedy)


def _evict(batch: order.Batch, means: Means, progress: _Progress) -> None:
    """All of a batch, or none of it: of a gang it is tried first whether each member may go."""
    rounds = (True, False) if batch.gang is not None else (False,)
    for dry_run in rounds:
        for pod in batch.pods:
            try:
                means.evict(pod, dry_run=dry_run)
            except (sending.GoneError, sending.ConflictError):
                words = "is gone"
            except errors.TemporaryError as error:
                gang = "" if batch.gang is None else f" (its gang {batch.gang} stays with it)"
                progress.say(f"pod/{_name(pod)}", f"is not evicted yet: {_why(error)}{gang}")
                return
            else:
                words = "evicted"
            if not dry_run:
                progress.evicted[pod.uid] = _name(pod)
                progress.say(f"pod/{_name(pod)}", words)


def _why(error: errors.TemporaryError) -> str:
    return error.said if isinstance(error, sending.TooManyError) else str(error)


def _tenants(seen: cluster.Seen) -> int | None:
    """Pods that the node's agent sees on its GPUs, those included whose processes outlive them; None: no agent."""
    if not seen.nodes or seen.nodes[0].unread is not None:
        return None
    # A DaemonSet's pods stay where they are.
    staying = {pod.uid for pod in seen.pods if not order.leaves(pod)}
    gpus = seen.nodes[0].status.gpus
    return len({tenant.pod_uid for gpu in gpus for tenant in gpu.tenants} - staying)


def _outcome(name: str, seen: cluster.Seen, progress: _Progress) -> Drained:
    remaining = tuple(_name(pod) for pod in seen.pods if order.leaves(pod))
    tenants = _tenants(seen)
    return Drained(
        name=name,
        drained=not remaining and not tenants,
        evicted=tuple(progress.evicted.values()),
        remaining=remaining,
        tenants=tenants,
        notes=tuple(_notes(seen, tenants)),
    )


def _notes(seen: cluster.Seen, tenants: int | None) -> Iterator[str]:
    yield "pods without a GPU share stay: kubectl drain evicts those, too"
    if tenants is None:
        yield "no node agent tells whether processes are left on the GPUs: look with nvidia-smi on the node"
    for gpu in seen.nodes[0].status.gpus if seen.nodes else ():
        if gpu.foreign_processes:
            yield f"GPU {gpu.index} has {gpu.foreign_processes} processes of no pod: look with nvidia-smi on the node"


def _name(pod: objects.Pod) -> str:
    return f"{pod.namespace}/{pod.name}"
