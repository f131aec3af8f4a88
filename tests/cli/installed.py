"""An installation in which nothing is wrong, as a doctor reads it, and what is changed of it."""

import functools
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from cli import kit
from cotenant_api import findings, names
from cotenant_api.crds import definitions
from cotenant_cli import checks
from cotenant_cli.checks import admission, crds, pod_security
from cotenant_cli.reading import kinds
from cotenant_cli.reading.installation import Installation, Object, Source

SYSTEM = names.RELEASE_NAMESPACE
CONFIGURATION = """\
profiles: [{schedulerName: cotenant, percentageOfNodesToScore: 100}]
extenders:
- {filterVerb: filter, bindVerb: bind, managedResources: [{name: cotenant.dev/gpu-share, ignoredByScheduler: true}]}
"""


def moment(seconds: float = 0) -> str:
    return (kit.NOW + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def lease(name: str, *, age: float = 5, holder: str = "holder") -> Object:
    spec = {"holderIdentity": holder, "renewTime": moment(-age), "leaseDurationSeconds": 40}
    return {"metadata": {"name": name, "namespace": SYSTEM}, "spec": spec}


def component(name: str, *, container: Mapping[str, Any] | None = None, **status: Any) -> Object:
    state = {"name": "main", "ready": True, "restartCount": 0} | dict(container or {})
    labels = {kinds.COMPONENT: name}
    metadata = {"name": f"{name}-0", "namespace": SYSTEM, "labels": labels, "creationTimestamp": kit.BEFORE}
    return {"metadata": metadata, "spec": {}, "status": {"phase": "Running", "containerStatuses": [state]} | status}


def node(
    name: str = "n1", *, ours: bool = True, labels: Mapping[str, str] | None = None, offered: str | None = None
) -> Object:
    found = kit.node(name)
    more = {names.GPU_NODE_LABEL: "true"} if ours else {}
    found["metadata"]["labels"] = more | dict(labels or {})
    found["status"]["allocatable"] |= {} if offered is None else {offered: "4"}
    return found


@functools.cache
def crd(name: str) -> Object:
    ours = next(one for one in definitions.definitions().values() if one["metadata"]["name"] == name)
    filled = {"conversion": {"strategy": "None"}} | ours["spec"]
    established = kit.condition("Established", "InitialNamesAccepted")
    return {"metadata": {"name": name}, "spec": filled, "status": {"conditions": [established]}}


def named(*every: str) -> list[Object]:
    return [{"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}} for name in every]


def bindings() -> list[Object]:
    """Return every binding of a validating policy, as it denies."""
    return [
        {"metadata": {"name": name}, "spec": {"policyName": policy_, "validationActions": ["Deny"]}}
        for name, policy_ in admission.BOUND.items()
    ]


def namespace(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}}


def policy(**spec: Any) -> Object:
    accepted = kit.condition("Accepted", "Accepted")
    return kit.policy(**spec) | {"status": {"observedGeneration": 3, "conditions": [accepted]}}


def well() -> dict[Source, Sequence[Object]]:
    """What the sources hold where nothing is wrong."""
    pod = kit.pod("a", on="GPU-0")
    pod["spec"] = {"nodeName": "n1", "schedulerName": names.SCHEDULER_NAME}
    return {
        kinds.NODES: [node()],
        kinds.GPUNODES: [kit.gpunode(kit.gpu())],
        kinds.POLICY: [policy()],
        kinds.PODS: [*(component(one) for one in kinds.COMPONENTS), pod],
        kinds.NAMESPACES: [namespace("team", **{pod_security.LABEL: "baseline"}), namespace("other")],
        kinds.LEASES: [lease(names.SCHEDULER_LEASE), lease(f"{names.AGENT_LEASE_PREFIX}n1")],
        kinds.SLICES: [],
        kinds.RUNTIME_CLASSES: [{"metadata": {"name": "nvidia"}, "handler": "nvidia"}],
        kinds.QUOTAS: [],
        kinds.SCHEDULER_CONFIGURATION: [{"metadata": {"name": "x"}, "data": {"kube-scheduler.yaml": CONFIGURATION}}],
        kinds.VALIDATING_POLICIES: named(*admission.VALIDATING),
        kinds.VALIDATING_BINDINGS: bindings(),
        kinds.MUTATING_POLICIES: named(*admission.MUTATING),
        kinds.MUTATING_BINDINGS: named(*admission.MUTATING),
        **{source: [crd(source.name)] for source in crds.READS},
    }


VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.4"}


def seen(
    changed: Mapping[Source, Sequence[Object]] | None = None,
    *,
    unread: Mapping[Source, str] | None = None,
    version: Mapping[str, str] | None = None,
    denied: Sequence[str] = (),
) -> Installation:
    return Installation(
        namespace=SYSTEM,
        now=kit.NOW,
        version=VERSION if version is None else version,
        objects=well() | dict(changed or {}),
        unread=unread or {},
        rights={right: str(right) not in denied for right in checks.every_right()},
    )


def found(check: str, changed: Mapping[Source, Sequence[Object]] | None = None, **more: Any) -> list[findings.Finding]:
    """What one check finds that is not well."""
    every = checks.examined(seen(changed, **more))
    return [one for one in every if one.check == check and one.level is not findings.Level.OK]


def only(check: str, changed: Mapping[Source, Sequence[Object]] | None = None, **more: Any) -> findings.Finding:
    """The one thing that is not well."""
    (one,) = found(check, changed, **more)
    return one
