"""The sources that several checks look at, and what of an object they are interested in. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from cotenant_api import names, packingpolicy
from cotenant_api import pod as pods
from cotenant_cli.reading import cluster
from cotenant_cli.reading.installation import Source

Object = Mapping[str, Any]

COMPONENT: Final = "app.kubernetes.io/name"
"""Label of every pod of ours: which component it is."""
COMPONENTS: Final = (
    names.OPERATOR_ACCOUNT,
    names.SCHEDULER_ACCOUNT,
    names.NODE_AGENT_ACCOUNT,
    "cotenant-mps",
)
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"


def _pod(raw: Object) -> Object | None:
    """A pod that has to do with shares, or is one of ours; of its containers, their states alone."""
    labels = raw["metadata"].get("labels") or {}
    notes = raw["metadata"].get("annotations") or {}
    spec = raw.get("spec") or {}
    mine = labels.get(COMPONENT) in COMPONENTS
    if not mine and not pods.asks_for_share(raw) and names.PLACEMENT not in notes:
        return None
    kept = {key: spec[key] for key in ("nodeName", "schedulerName", "schedulingGates") if key in spec}
    return {"metadata": raw["metadata"], "spec": kept, "status": raw.get("status") or {}}


NODES: Final = Source(path=cluster.NODES)
GPUNODES: Final = Source(path=cluster.GPUNODES)
POLICY: Final = Source(path=cluster.POLICIES, name=packingpolicy.NAME)
PODS: Final = Source(path=cluster.pods_path(None), kept=_pod)
LEASES: Final = Source(path="/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
SCHEDULER_CONFIGURATION: Final = Source(path="/api/v1/namespaces/{namespace}/configmaps", name=names.SCHEDULER_ACCOUNT)
SLICES: Final = Source(path="/apis/resource.k8s.io/v1/resourceslices")
RUNTIME_CLASSES: Final = Source(path="/apis/node.k8s.io/v1/runtimeclasses")
QUOTAS: Final = Source(path="/api/v1/resourcequotas")
VALIDATING_POLICIES: Final = Source(path=f"{_ADMISSION}/validatingadmissionpolicies")
VALIDATING_BINDINGS: Final = Source(path=f"{_ADMISSION}/validatingadmissionpolicybindings")
MUTATING_POLICIES: Final = Source(path=f"{_ADMISSION}/mutatingadmissionpolicies")
MUTATING_BINDINGS: Final = Source(path=f"{_ADMISSION}/mutatingadmissionpolicybindings")


def crd(name: str) -> Source:
    """One CustomResourceDefinition."""
    return Source(path="/apis/apiextensions.k8s.io/v1/customresourcedefinitions", name=name)


def is_labelled(node: Object) -> bool:
    """Whether a node's GPUs are ours to share."""
    return (node["metadata"].get("labels") or {}).get(names.GPU_NODE_LABEL) == "true"


def observes(policies: Iterable[Object]) -> bool:
    """Whether the policy only observes: then there is no scheduler of ours."""
    return any((one.get("spec") or {}).get("mode") == packingpolicy.Mode.OBSERVE for one in policies)


def stale(lease: Object, now: datetime) -> str | None:
    """Why a Lease holds no more; None: it does."""
    spec = lease.get("spec") or {}
    if not spec.get("holderIdentity") or not spec.get("renewTime"):
        return "its Lease was given back"
    age = (now - datetime.fromisoformat(spec["renewTime"])).total_seconds()
    lasts = int(spec.get("leaseDurationSeconds") or 0)
    return f"{spec['holderIdentity']} has not renewed its Lease for {age:.0f} s" if age > lasts else None
