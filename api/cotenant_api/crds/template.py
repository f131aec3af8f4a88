"""The schema of a DLJob's pod template: Kubernetes' own, with what the protocol depends on spelled out over it.

Spelled out is what the operator or an admission policy reads: its type and its bounds. A value of another type would
make both fail, not say what is wrong. The API server checks the rest when the operator creates the Job or Deployment.
"""

import functools
from typing import Final

from cotenant_api.crds import pod_spec, structural

MAX_IMAGE: Final = 4096
"""Characters of a reference to an image. The rules below read each of them."""

_OPEN: structural.Schema = {"x-kubernetes-preserve-unknown-fields": True}
_TEXT: structural.Schema = {"type": "string"}
_OBJECT: structural.Schema = {"type": "object", **_OPEN}
_RESOURCES: structural.Schema = {
    "type": "object",
    "maxProperties": 32,
    "additionalProperties": structural.QUANTITY,
}
_STRINGS: structural.Schema = {
    "type": "object",
    "maxProperties": 64,
    "additionalProperties": {"type": "string", "maxLength": 8192},
}


def _object(**properties: structural.Schema) -> structural.Schema:
    """Return the schema of an object of which these fields have a type, and others may be there."""
    return {"type": "object", "properties": properties, **_OPEN}


def _list(items: structural.Schema) -> structural.Schema:
    return {"type": "array", "maxItems": pod_spec.MAX_ITEMS, "items": items}


_NAMED: structural.Schema = {**_object(name=_TEXT), "required": ["name"]}
_NAMED_LIST = _list(_NAMED)
_TEXTS = _list(_TEXT)
_HANDLER = _object(httpGet=_object(host=_TEXT), tcpSocket=_object(host=_TEXT))
_CONFINED: dict[str, structural.Schema] = {
    "seccompProfile": _OBJECT,
    "appArmorProfile": _OBJECT,
    "seLinuxOptions": _object(user=_TEXT, role=_TEXT, type=_TEXT),
    "windowsOptions": _OBJECT,
}
_SECURITY_CONTEXT = _object(
    privileged={"type": "boolean"},
    procMount=_TEXT,
    capabilities=_object(add=_TEXTS, drop=_TEXTS),
    **_CONFINED,
)
_POD_AFFINITY = _object(
    requiredDuringSchedulingIgnoredDuringExecution=_list(_OBJECT),
    preferredDuringSchedulingIgnoredDuringExecution=_list(_object(podAffinityTerm=_OBJECT)),
)
_VOLUME: structural.Schema = {
    **_object(
        name=_TEXT,
        hostPath={**_object(path=_TEXT), "required": ["path"]},
        flexVolume=_OBJECT,
        projected=_object(sources=_list(_OBJECT)),
    ),
    "required": ["name"],
}
_CONTAINER: structural.Schema = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 63},
        "image": {"type": "string", "maxLength": MAX_IMAGE},
        "command": _TEXTS,
        "args": _TEXTS,
        "workingDir": _TEXT,
        "env": _list({**_object(name=_TEXT, value=_TEXT, valueFrom=_OBJECT), "required": ["name"]}),
        "envFrom": _list(_OBJECT),
        "ports": _list(_OBJECT),
        "volumeMounts": _NAMED_LIST,
        "livenessProbe": _HANDLER,
        "readinessProbe": _HANDLER,
        "startupProbe": _HANDLER,
        "lifecycle": _object(postStart=_HANDLER, preStop=_HANDLER),
        "restartPolicy": _TEXT,
        "terminationMessagePolicy": _TEXT,
        "resources": {"type": "object", "properties": {"limits": _RESOURCES, "requests": _RESOURCES}, **_OPEN},
        "securityContext": _SECURITY_CONTEXT,
    },
    **_OPEN,
}


def _containers(*, least: int) -> structural.Schema:
    return {"type": "array", "minItems": least, "maxItems": 32, "items": _CONTAINER}


_POD_SPEC: structural.Schema = {
    "type": "object",
    "required": ["containers"],
    "properties": {
        "containers": _containers(least=1),
        "initContainers": _containers(least=0),
        "ephemeralContainers": _NAMED_LIST,
        "volumes": _list(_VOLUME),
        "restartPolicy": {"type": "string", "maxLength": 16},
        "schedulerName": {"type": "string", "maxLength": 253},
        "schedulingGates": _NAMED_LIST,
        "nodeName": {"type": "string", "maxLength": 253},
        "tolerations": _list(_OBJECT),
        "affinity": _object(podAffinity=_POD_AFFINITY, podAntiAffinity=_POD_AFFINITY),
        "priorityClassName": _TEXT,
        "runtimeClassName": _TEXT,
        "overhead": _RESOURCES,
        "resources": _object(limits=_RESOURCES, requests=_RESOURCES),
        "subdomain": _TEXT,
        "serviceAccountName": {"type": "string", "maxLength": 253},
        "serviceAccount": {"type": "string", "maxLength": 253},
        "imagePullSecrets": _list(_OBJECT),
        "resourceClaims": _list(_OBJECT),
        "hostPID": {"type": "boolean"},
        "hostIPC": {"type": "boolean"},
        "hostNetwork": {"type": "boolean"},
        "hostUsers": {"type": "boolean"},
        "automountServiceAccountToken": {"type": "boolean"},
        "securityContext": _object(sysctls=_NAMED_LIST, runAsNonRoot={"type": "boolean"}, **_CONFINED),
    },
    **_OPEN,
}


@functools.cache
def pod_template() -> structural.Schema:
    """Return the schema of `spec.template`. It is shared: nobody may change it."""
    return {
        "type": "object",
        "description": "A PodTemplateSpec, as of a Job. The operator adds the GPU share, the gate, the scheduler and "
        "annotations; `restartPolicy` is Never for Training, Always for Inference.",
        "required": ["spec"],
        "properties": {
            "metadata": {"type": "object", "properties": {"labels": _STRINGS, "annotations": _STRINGS}},
            "spec": pod_spec.merged(pod_spec.schema(), _POD_SPEC),
        },
    }
