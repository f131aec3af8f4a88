"""Objects of each kind that our programs read, as hostile as the API server takes them of a tenant."""

import json
from dataclasses import dataclass
from typing import Any, Final

from cluster.tenants import Tenant
from cluster.test_hostile_objects import raw
from cluster.workloads import CONTAINER
from cotenant_api import names
from cotenant_e2e import client as clients

WIDE: Final = "<" * 1_200_000
"""Kept as one byte each by etcd, and told as six."""
DEEP: Final = '{"f:a":' * 4000 + "{}" + "}" * 4000
"""The API server takes twice as many levels of managed fields; decoders of Python take 1,000."""
PLACEHOLDER: Final = '"deep"'
ESCAPES: Final = "\x1b[2J\x1b]0;x\x07\u202e<script>alert(1)</script>"
NODE: Final = "h200-0"
GATES: Final = [{"name": "example.org/waits"}]
MANAGED: Final = [
    {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": "deep"}
]


@dataclass(frozen=True)
class Hostile:
    """An object of the API group `group`, and what is hostile about it."""

    what: str
    kind: str
    plural: str
    body: dict[str, Any]
    group: str = ""

    def submit(self, tenant: Tenant) -> str:
        """Create it as the tenant; return its path."""
        version = names.VERSION if self.group == names.GROUP else "v1"
        path = clients.path_of(self.plural, group=self.group, version=version, namespace=tenant.workspace.namespace)
        body = {"apiVersion": f"{self.group}/{version}".lstrip("/"), "kind": self.kind} | self.body
        if self.kind == "Event":
            body["involvedObject"] = {"kind": "Pod", "namespace": tenant.workspace.namespace, "name": "words"}
        raw(tenant, "POST", path, json.dumps(body).replace(PLACEHOLDER, DEEP, 1))
        return f"{path}/{self.body['metadata']['name']}"


def _metadata(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "labels": {names.DLJOB_LABEL: "x"}} | more


def _deep(name: str = "deep-fields") -> dict[str, Any]:
    return _metadata(name, managedFields=MANAGED)


def _words() -> dict[str, Any]:
    return _metadata("words", annotations={"example.org/words": ESCAPES})


def _owners(count: int) -> list[dict[str, str]]:
    return [{"apiVersion": "v1", "kind": "ConfigMap", "name": "words", "uid": str(number)} for number in range(count)]


def _template(*arguments: str) -> dict[str, Any]:
    container = {**CONTAINER, "args": list(arguments)} if arguments else CONTAINER
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": [container]}}


def _pod(what: str, metadata: dict[str, Any], *arguments: str, **spec: Any) -> Hostile:
    body = {"metadata": metadata, "spec": _template(*arguments)["spec"] | spec}
    return Hostile(f"pod {what}", "Pod", "pods", body)


def _job(what: str, metadata: dict[str, Any], *arguments: str) -> Hostile:
    body = {"metadata": metadata, "spec": {"suspend": True, "template": _template(*arguments)}}
    return Hostile(f"Job {what}", "Job", "jobs", body, "batch")


def _config_map(what: str, metadata: dict[str, Any], text: str) -> Hostile:
    return Hostile(f"ConfigMap {what}", "ConfigMap", "configmaps", {"metadata": metadata, "data": {"graph.json": text}})


def _dljob(what: str, metadata: dict[str, Any], features: Any = None) -> Hostile:
    model = {} if features is None else {"model": {"features": features}}
    body = {"metadata": metadata, "spec": {"suspend": True, "template": _template()} | model}
    return Hostile(f"DLJob {what}", "DLJob", "dljobs", body, names.GROUP)


_DEPLOYMENT: Final = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": {
    "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}}  # fmt: skip
_CLAIM: Final = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

OBJECTS: Final = (
    _pod("of deep managed fields on a node", _deep(), nodeName=NODE),
    _pod("that is wide on a node", _metadata("wide"), WIDE, nodeName=NODE),
    _pod("that is wide and waits", _metadata("waits"), WIDE, schedulingGates=GATES),
    _pod("of many labels", _metadata("labels", labels={f"a{number}": "b" for number in range(60_000)})),
    _pod("of many owners", _metadata("owners", ownerReferences=_owners(10_000))),
    _pod(
        "of many containers",
        _metadata("containers", labels={}),
        containers=[{**CONTAINER, "name": f"c{number}"} for number in range(256)],
        schedulingGates=GATES,
    ),
    _pod("of terminal escapes", _words(), ESCAPES, schedulingGates=GATES),
    _job("of deep managed fields", _deep()),
    _job("that is wide", _metadata("wide"), WIDE),
    Hostile("Deployment of deep managed fields", "Deployment", "deployments", {
        "metadata": _deep(), "spec": _DEPLOYMENT}, "apps"),
    Hostile("claim of deep managed fields", "PersistentVolumeClaim", "persistentvolumeclaims", {
        "metadata": _deep(), "spec": _CLAIM}),
    Hostile("Service of deep managed fields", "Service", "services", {
        "metadata": _deep(), "spec": {"clusterIP": "None"}}),
    Hostile("PodDisruptionBudget of deep managed fields", "PodDisruptionBudget", "poddisruptionbudgets", {
        "metadata": _deep(), "spec": {"maxUnavailable": 0}}, "policy"),
    Hostile("event that is wide", "Event", "events", {"metadata": {"name": "wide"}, "message": WIDE, "reason": "x"}),
    _config_map("of deep managed fields", _deep(), "{}"),
    _config_map("that is wide", _metadata("wide"), WIDE[:1_000_000]),
    _config_map("of nested brackets", _words(), "[" * 1_000_000),
    _dljob("of deep managed fields", _deep()),
    _dljob("of deep features", _metadata("deep-features"), "deep"),
    _dljob("that is wide", _metadata("wide"), {"a": WIDE[:200_000]}),
    _dljob("of terminal escapes", _words(), {ESCAPES: ESCAPES}),
)  # fmt: skip
