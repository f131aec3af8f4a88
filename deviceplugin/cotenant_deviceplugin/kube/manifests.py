"""The objects and patches that an agent writes. Pure."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from cotenant_api import conditions, gpunode, names
from cotenant_api.names import Namespace, NodeName, PodUID
from cotenant_deviceplugin.kube.cluster import FIELD_MANAGER, Object

MAX_EVENT_STEM = 200
"""A name has at most 253 characters."""
MAX_EVENT_MESSAGE = 1024
"""The API server takes no longer message."""


@dataclass(frozen=True)
class Subject:
    """The pod that something is told about or done to."""

    uid: PodUID
    namespace: Namespace
    name: str


@dataclass(frozen=True)
class Preconditions:
    """Name the object and the version of it on which a write was decided; the API server refuses it on any other."""

    uid: str
    version: str

    @classmethod
    def of(cls, manifest: Object) -> Self:
        """Return those of an object as it was read."""
        return cls(manifest["metadata"]["uid"], manifest["metadata"]["resourceVersion"])

    def to_metadata(self) -> Object:
        """Return them as fields of `metadata`."""
        return {"uid": self.uid, "resourceVersion": self.version}


def gpu_node(node: NodeName, *, node_uid: str) -> Object:
    """Return an empty GPUNode; it goes with its Node."""
    return {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": _metadata(node, node, node_uid)}


def gpu_node_status(node: NodeName, status: gpunode.Status, *, on: Preconditions) -> Object:
    """Return the GPUNode with nothing but its status, to be applied.

    Args:
        node: whose GPUNode it is.
        status: what the status is to be.
        on: the GPUNode on which the status was decided.
    """
    return {
        "apiVersion": names.API_VERSION,
        "kind": "GPUNode",
        "metadata": {"name": node, **on.to_metadata()},
        "status": status.to_object(),
    }


def lease(
    node: NodeName, namespace: Namespace, *, node_uid: str, now: datetime, on: Preconditions | None = None
) -> Object:
    """Return the agent's Lease, renewed now; the Node owns it.

    Args:
        node: whose agent it is.
        namespace: where the Lease is.
        node_uid: of the Node.
        now: the renewal time.
        on: the Lease that is renewed; None: there is none yet.
    """
    name = f"{names.AGENT_LEASE_PREFIX}{node}"
    metadata = {**_metadata(name, node, node_uid), "namespace": namespace}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata if on is None else {**metadata, **on.to_metadata()},
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": gpunode.LEASE_SECONDS,
            "renewTime": conditions.micro_timestamp(now),
        },
    }


def event(about: Subject, *, node: NodeName, reason: str, message: str, now: datetime) -> Object:
    """Return a warning about a pod, by the agent of a node.

    Its name follows from UID and reason: it is created once.
    """
    digest = hashlib.sha256(f"{about.uid}/{reason}".encode()).hexdigest()[:16]
    # What stands before a dot must end as a name may.
    stem = about.name[:MAX_EVENT_STEM].rstrip("-.")
    moment = conditions.timestamp(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{stem}.{digest}", "namespace": about.namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": about.name,
            "namespace": about.namespace,
            "uid": about.uid,
        },
        "reason": reason,
        "message": message[:MAX_EVENT_MESSAGE],
        "type": "Warning",
        "source": {"component": FIELD_MANAGER, "host": node},
        "reportingComponent": FIELD_MANAGER,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }


def without_startup_taint(node: Object) -> Object:
    """Return a merge patch of a Node.

    Taints are replaced as a whole, hence the resource version: nobody else's is lost.
    """
    kept = [taint for taint in node["spec"]["taints"] if taint.get("key") not in names.STARTUP_TAINTS]
    return {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": kept}}


def has_startup_taint(node: Object) -> bool:
    """Return whether a Node still waits for its agent."""
    return any(taint.get("key") in names.STARTUP_TAINTS for taint in (node.get("spec") or {}).get("taints") or ())


def _metadata(name: str, node: NodeName, node_uid: str) -> dict[str, object]:
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}
    return {"name": name, "ownerReferences": [owner]}
