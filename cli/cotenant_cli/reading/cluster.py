"""Lists what a command needs, and no more, through what it is given. What may not be read is told, not hidden."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from cotenant_api import errors, names, packingpolicy
from cotenant_cli.reading import answers, objects

Object = Mapping[str, Any]
Read = TypeVar("Read")


class Lists(Protocol):
    """Lists objects of an API server; see `kube.Lists`."""

    def __call__(
        self, path: str, read: Callable[[Object], Read | None], /, *, name: str = "", node: str = ""
    ) -> Sequence[Read]:
        """Return what was read of each object of a path, of the one that is named, or of the pods on a node."""
        ...


_OURS: Final = f"/apis/{names.API_VERSION}"
NODES: Final = "/api/v1/nodes"
GPUNODES: Final = f"{_OURS}/gpunodes"
POLICIES: Final = f"{_OURS}/packingpolicies"


def pods_path(namespace: str | None) -> str:
    """Of the pods of a namespace, or of all."""
    return "/api/v1/pods" if namespace is None else f"/api/v1/namespaces/{namespace}/pods"


def dljobs_path(namespace: str) -> str:
    """Of the DLJobs of a namespace."""
    return f"{_OURS}/namespaces/{namespace}/dljobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was read.

    Attributes:
        pods: with a share, or asking for one.
        nodes: as their agents tell of them.
        host: the Node, where one was asked for.
        policy: in force; None: there is none, or it cannot be read.
        notes: what could not be read, for people.
    """

    pods: tuple[objects.Pod, ...]
    nodes: tuple[objects.Node, ...]
    policy: packingpolicy.PackingPolicy | None = None
    dljob: objects.DLJob | None = None
    host: objects.Host | None = None
    notes: tuple[str, ...] = ()


def of_gpus(lists: Lists, *, namespace: str | None) -> Seen:
    """All GPUs, and the pods of a namespace, or of all.

    Raises:
        PermanentError, TemporaryError: the API server refuses, or does not answer.
    """
    nodes = tuple(sorted(lists(GPUNODES, objects.node_of), key=lambda node: node.name))
    return Seen(pods=_pods(lists, namespace), nodes=nodes)


def of_node(lists: Lists, *, name: str) -> Seen:
    """Return a node, and the pods that are on it.

    Raises:
        InvalidInputError: what the Node says cannot be read.
        PermanentError, TemporaryError: the API server refuses, or does not answer.
    """

    def of_it(raw: Object) -> objects.Pod | None:
        found = objects.pod_of(raw)
        return found if found is not None and not found.over else None

    hosts = lists(NODES, objects.host_of, name=name)
    pods = sorted(lists(pods_path(None), of_it, node=name), key=lambda pod: (pod.namespace, pod.name))
    return Seen(
        pods=tuple(pods), nodes=tuple(lists(GPUNODES, objects.node_of, name=name)), host=hosts[0] if hosts else None
    )


def of_fleet(lists: Lists) -> Seen:
    """Return the GPUs and the policy, as far as the account may read them.

    Raises:
        TemporaryError: the API server does not answer.
    """
    notes: list[str] = []
    nodes, policy = _fleet(lists, notes)
    return Seen(pods=(), nodes=nodes, policy=policy, notes=tuple(notes))


def of_job(lists: Lists, *, namespace: str, name: str) -> Seen:
    """Return the DLJob of that name, if there is one, its namespace's pods, and what may be read of the cluster.

    Raises:
        InvalidInputError: the status of the DLJob cannot be read.
        PermanentError, TemporaryError: the API server refuses what is of the namespace, or does not answer.
    """
    found = lists(dljobs_path(namespace), objects.dljob_of, name=name)
    notes: list[str] = []
    nodes, policy = _fleet(lists, notes)
    return Seen(
        pods=_pods(lists, namespace),
        nodes=nodes,
        policy=policy,
        dljob=found[0] if found else None,
        notes=tuple(notes),
    )


def _pods(lists: Lists, namespace: str | None) -> tuple[objects.Pod, ...]:
    found = lists(pods_path(namespace), objects.pod_of)
    return tuple(sorted(found, key=lambda pod: (pod.namespace, pod.name)))


def _fleet(lists: Lists, notes: list[str]) -> tuple[tuple[objects.Node, ...], packingpolicy.PackingPolicy | None]:
    nodes = _if_allowed(lambda: lists(GPUNODES, objects.node_of), notes)
    policies = _if_allowed(lambda: lists(POLICIES, objects.policy_of, name=packingpolicy.NAME), notes)
    if policies == []:
        notes.append(f"there is no PackingPolicy named {packingpolicy.NAME}: nothing is placed until there is one")
    return tuple(nodes or ()), policies[0] if policies else None


def _if_allowed(read: Callable[[], Sequence[Read]], notes: list[str]) -> list[Read] | None:
    """None: it may not be read, or not now, or is not readable; a note says so."""
    try:
        return list(read())
    except (errors.PermanentError, answers.NotNowError, errors.InvalidInputError) as error:
        notes.append(str(error))
        return None
