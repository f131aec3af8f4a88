"""The objects and patches that an agent writes. Pure."""

from datetime import UTC, datetime

from cotenant_api import gpunode, names
from cotenant_api.names import Namespace, NodeName
from cotenant_deviceplugin.kube.cluster import Object


def gpu_node(node: NodeName, *, node_uid: str) -> Object:
    """An empty GPUNode; it goes with its Node."""
    return {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": _metadata(node, node, node_uid)}


def gpu_node_status(node: NodeName, status: gpunode.Status) -> Object:
    """The GPUNode with nothing but its status, to be applied."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "GPUNode",
        "metadata": {"name": node},
        "status": status.to_object(),
    }


def lease(node: NodeName, namespace: Namespace, *, node_uid: str, now: datetime) -> Object:
    """The agent's Lease, renewed now; it goes with its Node."""
    name = f"{names.AGENT_LEASE_PREFIX}{node}"
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {**_metadata(name, node, node_uid), "namespace": namespace},
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": gpunode.LEASE_SECONDS,
            "renewTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    }


def without_startup_taint(node: Object) -> Object:
    """A merge patch of a Node. Taints are replaced as a whole, hence the resource version: nobody else's is lost."""
    kept = [taint for taint in node["spec"]["taints"] if taint.get("key") != names.STARTUP_TAINT]
    return {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": kept}}


def has_startup_taint(node: Object) -> bool:
    """Whether a Node still waits for its agent."""
    return any(taint.get("key") == names.STARTUP_TAINT for taint in (node.get("spec") or {}).get("taints") or ())


def _metadata(name: str, node: NodeName, node_uid: str) -> dict[str, object]:
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}
    return {"name": name, "ownerReferences": [owner]}
