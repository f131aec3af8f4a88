"""The sources that several checks look at, and what of an object they are interested in. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from cotenant_api import names, packingpolicy, rootless
from cotenant_api import pod as pods
from cotenant_cli.reading import cluster
from cotenant_cli.reading.installation import Installation, Source

Object = Mapping[str, Any]

COMPONENT: Final = "app.kubernetes.io/name"
"""Label of every pod of ours: which component it is."""
COMPONENTS: Final = (
    names.OPERATOR_ACCOUNT,
    names.SCHEDULER_ACCOUNT,
    names.NODE_AGENT_ACCOUNT,
    "cotenant-mps",
)
MAY_BE_ROOT: Final = "mayBeRoot"
"""Key of a pod that is read: why one of its containers may run as root; None: none may."""
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"


def is_component(metadata: Object) -> bool:
    """Return whether a pod is one of ours."""
    return (metadata.get("labels") or {}).get(COMPONENT) in COMPONENTS


def _pod(raw: Object) -> Object | None:
    """Return a pod that has to do with shares, or is one of ours.

    Of its containers, their states and who may be root.
    """
    notes = raw["metadata"].get("annotations") or {}
    spec = raw.get("spec") or {}
    if not is_component(raw["metadata"]) and not pods.asks_for_share(raw) and names.PLACEMENT not in notes:
        return None
    kept = {key: spec[key] for key in ("nodeName", "schedulerName", "schedulingGates") if key in spec}
    status = raw.get("status") or {}
    return {"metadata": raw["metadata"], "spec": kept, "status": status, MAY_BE_ROOT: rootless.fault(spec)}


NODES: Final = Source(path=cluster.NODES)
GPUNODES: Final = Source(path=cluster.GPUNODES)
POLICY: Final = Source(path=cluster.POLICIES, name=packingpolicy.NAME)
PODS: Final = Source(path=cluster.pods_path(None), kept=_pod)
LEASES: Final = Source(path="/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
SCHEDULER_CONFIGURATION: Final = Source(path="/api/v1/namespaces/{namespace}/configmaps", name=names.SCHEDULER_ACCOUNT)
SLICES: Final = Source(path="/apis/resource.k8s.io/v1/resourceslices")
RUNTIME_CLASSES: Final = Source(path="/apis/node.k8s.io/v1/runtimeclasses")
NAMESPACES: Final = Source(path="/api/v1/namespaces")
QUOTAS: Final = Source(path="/api/v1/resourcequotas")
VALIDATING_POLICIES: Final = Source(path=f"{_ADMISSION}/validatingadmissionpolicies")
VALIDATING_BINDINGS: Final = Source(path=f"{_ADMISSION}/validatingadmissionpolicybindings")
MUTATING_POLICIES: Final = Source(path=f"{_ADMISSION}/mutatingadmissionpolicies")
MUTATING_BINDINGS: Final = Source(path=f"{_ADMISSION}/mutatingadmissionpolicybindings")


def crd(name: str) -> Source:
    """One CustomResourceDefinition."""
    return Source(path="/apis/apiextensions.k8s.io/v1/customresourcedefinitions", name=name)


def is_labelled(node: Object) -> bool:
    """Return whether a node's GPUs are ours to share."""
    return (node["metadata"].get("labels") or {}).get(names.GPU_NODE_LABEL) == "true"


def observes(policies: Iterable[Object]) -> bool:
    """Return whether the policy only observes: then there is no scheduler of ours."""
    return any((one.get("spec") or {}).get("mode") == packingpolicy.Mode.OBSERVE for one in policies)


def held(lease: Object) -> bool:
    """Return whether somebody holds a Lease, and has renewed it."""
    return all(renewal(lease))


def renewal(lease: Object) -> tuple[str, str]:
    """Whose a Lease is, and when that says to have renewed it, by a clock of its own; empty: nobody, never."""
    spec = lease.get("spec") or {}
    return str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or "")


def stale(lease: Object, now: datetime) -> str | None:
    """Why a Lease seems to hold no more by the times that are told; None: it holds."""
    if not held(lease):
        return "its Lease was given back"
    holder, renewed = renewal(lease)
    age = (now - datetime.fromisoformat(renewed)).total_seconds()
    lasts = int((lease.get("spec") or {}).get("leaseDurationSeconds") or 0)
    if abs(age) <= lasts:
        return None
    return f"{holder} has not renewed its Lease {f'for {age:.0f} s' if age > 0 else f'since {renewed}, by its clock'}"


def expired(lease: Object, seen: Installation) -> str | None:
    """Why a Lease holds no more; None: it holds, or was seen to be renewed."""
    return None if lease["metadata"]["name"] in seen.renewed else stale(lease, seen.now)
