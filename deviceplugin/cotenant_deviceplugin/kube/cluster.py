"""What an agent asks of the API server, as an interface, and the errors that it answers with. No I/O."""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from cotenant_api import errors, names, pod
from cotenant_api.names import Namespace, NodeName

Object = Mapping[str, Any]
Event = tuple[str, Object]
"""ADDED, MODIFIED, DELETED, BOOKMARK or OPENED, and the object."""
BOOKMARK = "BOOKMARK"
"""Carries a resource version and nothing else."""
OPENED = "OPENED"
"""Ours, the first of each watch: the API server has accepted it. The object is empty."""

FIELD_MANAGER = "cotenant-node-agent"
GPUNODES = f"/apis/{names.API_VERSION}/gpunodes"
POLICY = "default"
NVIDIA_DRA_DRIVER = "gpu.nvidia.com"


class NotFoundError(errors.PermanentError):
    """404: there is no such object."""


class AlreadyExistsError(errors.PermanentError):
    """409 to a create: there is such an object."""


class ConflictError(errors.TemporaryError):
    """409 to a change: the object is not what it was when this was decided."""

    def __init__(self, message: str) -> None:
        super().__init__(message, delay_seconds=0)


class RefusedError(errors.PermanentError):
    """The API server understands and will not: validation, admission, RBAC."""


class ExpiredError(errors.PermanentError):
    """410: the resource version is too old; list again."""


def everything(_item: Object) -> bool:
    """Return True: all of a selection is of use."""
    return True


@dataclass(frozen=True)
class Selection:
    """Objects of a collection.

    Attributes:
        field_selector: as the API server reads it.
        is_of_use: whether an object is kept while others are listed: others' may be many, and large.
    """

    path: str
    field_selector: str
    is_of_use: Callable[[Object], bool] = everything


class Cluster(Protocol):
    """The API server, seen by one account. Every method raises TemporaryError while it cannot be reached."""

    async def get(self, path: str) -> Object:
        """One object."""

    async def create(self, path: str, manifest: Object) -> Object:
        """Create one; `path` is the collection's."""

    async def apply(self, path: str, manifest: Object) -> Object:
        """Server-side apply by `FIELD_MANAGER`, forced: repeating it changes nothing.

        Raises:
            ConflictError: it carries a resource version or a UID, and the object has another, or there is none.
        """

    async def patch(self, path: str, patch: Object) -> Object:
        """Merge patch; a resource version in it is a precondition (ConflictError)."""

    async def list(self, selection: Selection) -> Object:
        """Return the objects of a selection that are of use, as a List with its resource version."""

    def watch(self, selection: Selection, *, resource_version: str) -> AsyncGenerator[Event, None]:
        """Events since a resource version, until the API server ends the stream."""


def node_path(node: NodeName) -> str:
    """Return the Node."""
    return f"/api/v1/nodes/{node}"


def gpunode_path(node: NodeName) -> str:
    """Return the GPUNode of a node."""
    return f"{GPUNODES}/{node}"


def lease_path(node: NodeName, namespace: Namespace) -> str:
    """Return the Lease by which a node's agent says that it lives."""
    return f"{leases_path(namespace)}/{names.AGENT_LEASE_PREFIX}{node}"


def leases_path(namespace: Namespace) -> str:
    """Return the Leases of a namespace."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def pod_path(namespace: Namespace, name: str) -> str:
    """Return a pod."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def events_path(namespace: Namespace) -> str:
    """Return the events of a namespace."""
    return f"/api/v1/namespaces/{namespace}/events"


def pods_of(node: NodeName) -> Selection:
    """Return the pods bound to a node."""
    return Selection("/api/v1/pods", f"spec.nodeName={node}", is_of_use=pod.asks_for_share)


def gpunode_of(node: NodeName) -> Selection:
    """Return the GPUNode of a node, to be watched."""
    return Selection(GPUNODES, f"metadata.name={node}")


def node_of(node: NodeName) -> Selection:
    """Return a Node, to be watched."""
    return Selection("/api/v1/nodes", f"metadata.name={node}")


def policy() -> Selection:
    """Return the PackingPolicy, to be watched."""
    return Selection(f"/apis/{names.API_VERSION}/packingpolicies", f"metadata.name={POLICY}")


def nvidia_slices_of(node: NodeName) -> Selection:
    """Return what NVIDIA's DRA driver offers of a node; both fields can be selected by since resource.k8s.io/v1."""
    selector = f"spec.nodeName={node},spec.driver={NVIDIA_DRA_DRIVER}"
    return Selection("/apis/resource.k8s.io/v1/resourceslices", selector)
