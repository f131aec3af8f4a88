"""Controllers that write what the operator writes, once a second, and how often the operator writes back."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from cotenant_operator import labels
from cotenant_operator.kube import api
from operator_kit import server
from operator_kit.cluster import Cluster

Json = dict[str, Any]
Field = tuple[str, str, str]

MOST: Final = 5
"""So often may the operator write a field within a minute."""
MINUTE: Final = 60.0
_OF_SETBACKS: Final = ("suspend", labels.SUSPEND, labels.QUOTA_SETBACK)
_ALWAYS: Final = ("uid", "resourceVersion", "labels", "managedFields")
"""Of the metadata of a patch: its preconditions, and what comes with every patch."""


def scale(cluster: Cluster) -> None:
    """An autoscaler that wants a replica of what is suspended."""
    _each(cluster, "deployments", lambda value: value["spec"].update(replicas=max(value["spec"]["replicas"], 1)))


def spoil_replicas(cluster: Cluster) -> None:
    """Somebody writes another number into the note of the replicas."""
    _each(cluster, "deployments", lambda value: value["metadata"]["annotations"].update({labels.REPLICAS: "7"}))


def spoil_digests(cluster: Cluster) -> None:
    """A tool takes away an annotation that it does not know."""
    for plural in ("deployments", "jobs"):
        _each(cluster, plural, lambda value: value["metadata"]["annotations"].pop(labels.MADE_FROM, None))


def surge(cluster: Cluster) -> None:
    """Somebody wants rollouts to make a new pod first."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    _each(cluster, "deployments", lambda value: value["spec"].update(strategy=strategy))


def limit_failures(cluster: Cluster) -> None:
    """Somebody wants no failed pod to be replaced."""
    _each(cluster, "jobs", lambda value: value["spec"].update(backoffLimit=0))


def set_deadlines(cluster: Cluster) -> None:
    """Somebody gives suspended Jobs a deadline."""
    for job in cluster.attempts():
        if job["spec"].get("suspend"):
            name = job["metadata"]["name"]
            cluster.server.change("jobs", name, lambda value: value["spec"].update(activeDeadlineSeconds=100))


def delete_jobs(cluster: Cluster) -> None:
    """A janitor that deletes Jobs."""
    for job in cluster.attempts():
        cluster.server.delete("jobs", job["metadata"]["name"])
    cluster.server.reap()


WRITERS: Final[Mapping[str, Callable[[Cluster], None]]] = {
    "scale": scale,
    "spoil_replicas": spoil_replicas,
    "spoil_digests": spoil_digests,
    "surge": surge,
    "limit_failures": limit_failures,
    "set_deadlines": set_deadlines,
    "delete_jobs": delete_jobs,
}


async def contend(cluster: Cluster, writer: str, seconds: int) -> None:
    """Let another write once a second, and the operator answer."""
    for _ in range(seconds):
        WRITERS[writer](cluster)
        await cluster.settle()
        cluster.time.seconds += 1


def fights(found: server.Server) -> dict[Field, int]:
    """Return the fields that were written too often in the last minute; what was written before is forgotten."""
    now = found.time.seconds
    found.writes[:] = [(at, request) for at, request in found.writes if now - at < MINUTE]
    counts: dict[Field, int] = {}
    for _, request in found.writes:
        for field in _fields(request):
            counts[field] = counts.get(field, 0) + 1
    return {field: count for field, count in counts.items() if count > MOST}


def _fields(request: api.Request) -> Iterator[Field]:
    """Return plural, name and field of what a request writes. A deletion of what must not be there is no contest."""
    plural, _, name, _ = server.parts(request.path)
    body = dict(request.body or {})
    if request.method == "POST":
        yield plural, body["metadata"]["name"], "creation"
    elif request.content_type == api.APPLY:
        yield plural, name, "spec.template"
    elif request.method == "PATCH":
        metadata = {key: part for key, part in body.get("metadata", {}).items() if key not in _ALWAYS}
        paths = list(_leaves({**body, "metadata": metadata}))
        # A gang that a quota refuses is suspended, and tried again after a backoff of its own.
        set_back = any(path[-1] == labels.QUOTA_SETBACK for path in paths)
        for path in paths:
            if path[-1] != labels.FENCE and not (set_back and path[-1] in _OF_SETBACKS):
                yield plural, name, ".".join(path)
    elif "resourceVersion" in (body.get("preconditions") or {}):
        yield plural, name, "deletion"


def _leaves(value: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, part in value.items():
        if isinstance(part, Mapping):
            yield from _leaves(part, (*path, name))
        else:
            yield (*path, name)


def _each(cluster: Cluster, plural: str, edit: Callable[[Json], object]) -> None:
    for value in cluster.attempts() if plural == "jobs" else cluster.server.all(plural):
        cluster.server.change(plural, value["metadata"]["name"], lambda found: _edited(found, edit))


def _edited(value: Json, edit: Callable[[Json], object]) -> None:
    edit(value)
