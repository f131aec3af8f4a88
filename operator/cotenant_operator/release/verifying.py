"""What `helm test` asks of an installation: faults in words. It changes nothing."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cotenant_api import packingpolicy
from cotenant_operator.release.objects import Objects

Json = Mapping[str, Any]

DEPLOYMENTS: Final[Mapping[packingpolicy.Mode, Sequence[str]]] = {
    packingpolicy.Mode.PACK: ("cotenant-operator", "cotenant-scheduler"),
    packingpolicy.Mode.OBSERVE: ("cotenant-operator",),
}
DAEMON_SETS: Final[Mapping[packingpolicy.Mode, Sequence[str]]] = {
    packingpolicy.Mode.PACK: ("cotenant-node-agent", "cotenant-mps"),
    packingpolicy.Mode.OBSERVE: ("cotenant-node-agent",),
}
"""Workloads of a release, by its mode."""


async def faults(cluster: Objects, mode: packingpolicy.Mode) -> list[str]:
    """Return what is missing of a release that was installed in this mode.

    Raises:
        APIError: a kind is not served, or may not be read.
        TemporaryError: the API server does not answer.
    """
    found: list[str] = []
    for name in DEPLOYMENTS[mode]:
        found += of_deployment(name, await cluster.workload("deployments", name))
    for name in DAEMON_SETS[mode]:
        found += of_daemon_set(name, await cluster.workload("daemonsets", name))
    found += of_policy(await cluster.policy(), mode)
    found += of_gating(there=await cluster.gates())
    async for node in cluster.gpu_nodes():
        found += of_node(node)
    return found


def of_deployment(name: str, found: Json | None) -> list[str]:
    """Return what is missing of a Deployment."""
    if found is None:
        return [f"Deployment {name} is not there: helm upgrade makes it again"]
    wanted = found["spec"].get("replicas", 1)
    available = (found.get("status") or {}).get("availableReplicas") or 0
    return _short(f"Deployment {name}", available, wanted)


def of_daemon_set(name: str, found: Json | None) -> list[str]:
    """Return what is missing of a DaemonSet."""
    if found is None:
        return [f"DaemonSet {name} is not there: helm upgrade makes it again"]
    status = found.get("status") or {}
    if status.get("observedGeneration", 0) < found["metadata"].get("generation", 0):
        return [f"DaemonSet {name} has not been looked at yet: is kube-controller-manager running?"]
    return _short(f"DaemonSet {name}", status.get("numberReady") or 0, status.get("desiredNumberScheduled") or 0)


def of_policy(found: Json | None, mode: packingpolicy.Mode) -> list[str]:
    """Return what is wrong with the PackingPolicy."""
    if found is None:
        return ["PackingPolicy default is not there: helm upgrade makes it again"]
    there = found["spec"].get("mode", packingpolicy.Mode.PACK)
    if there == mode:
        return []
    return [
        f"PackingPolicy default: spec.mode is {there}, and the release was installed with {mode.value}: helm upgrade"
    ]


def of_gating(*, there: bool) -> list[str]:
    """Return what is wrong with admission: without this binding a pod that asks for a share gets no gate."""
    return [] if there else ["MutatingAdmissionPolicyBinding cotenant-pods is not there: helm upgrade makes it again"]


def of_node(found: Json) -> list[str]:
    """Return why a node offers no share, where its agent says so."""
    conditions = (found.get("status") or {}).get("conditions") or ()
    ready = next((each for each in conditions if each["type"] == "Ready"), None)
    if ready is None or ready["status"] == "True":
        return []
    return [f"GPUNode {found['metadata']['name']}: {ready.get('reason', '')}: {ready.get('message', '')}"]


def _short(what: str, there: int, wanted: int) -> list[str]:
    if there >= wanted:
        return []
    return [f"{what}: {there} of {wanted} pods are ready: kubectl describe its pods"]
