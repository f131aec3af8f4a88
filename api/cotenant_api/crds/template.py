"""The schema of a DLJob's pod template: only what the protocol depends on is spelled out.

The API server checks the rest when the operator creates the Job or Deployment.
"""

from cotenant_api.crds import structural

_OPEN = {"x-kubernetes-preserve-unknown-fields": True}
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
_CONTAINER: structural.Schema = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 63},
        "resources": {"type": "object", "properties": {"limits": _RESOURCES, "requests": _RESOURCES}, **_OPEN},
        "securityContext": {"type": "object", "properties": {"privileged": {"type": "boolean"}}, **_OPEN},
    },
    **_OPEN,
}


def _containers(*, least: int) -> structural.Schema:
    return {"type": "array", "minItems": least, "maxItems": 32, "items": _CONTAINER}


POD_TEMPLATE: structural.Schema = {
    "type": "object",
    "description": "A PodTemplateSpec, as of a Job. The operator adds the GPU share, the gate, the scheduler and "
    "annotations; `restartPolicy` is Never for Training, Always for Inference.",
    "required": ["spec"],
    "properties": {
        "metadata": {"type": "object", "properties": {"labels": _STRINGS, "annotations": _STRINGS}},
        "spec": {
            "type": "object",
            "required": ["containers"],
            "properties": {
                "containers": _containers(least=1),
                "initContainers": _containers(least=0),
                "restartPolicy": {"type": "string", "maxLength": 16},
                "schedulerName": {"type": "string", "maxLength": 253},
                "nodeName": {"type": "string", "maxLength": 253},
                "hostPID": {"type": "boolean"},
                "hostIPC": {"type": "boolean"},
            },
            **_OPEN,
        },
    },
}
