"""What the HTTP service says of itself: the protocol's bodies as OpenAPI schemas. Constants only.

The handlers read and write bytes, so that no model is on the way of a request: FastAPI cannot know these by itself.
Keys are PascalCase, as kube-scheduler's own types have them. Of a Pod only what the extender reads is described.
"""

from typing import Any

Schema = dict[str, Any]

JSON = "application/json"
TEXT = "text/plain"
MAX_NAME = 253


def _object(properties: Schema, *required: str, closed: bool = False) -> Schema:
    found: Schema = {"type": "object", "properties": properties}
    if required:
        found["required"] = list(required)
    if closed:
        found["additionalProperties"] = False
    return found


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _answer(schema: Schema, description: str) -> Schema:
    return {"description": description, "content": {JSON: {"schema": schema}}}


_STRING: Schema = {"type": "string"}
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_NAME}
_STRINGS: Schema = {"type": "object", "additionalProperties": _STRING}
_QUANTITIES: Schema = {"type": "object", "additionalProperties": {"type": ["string", "integer"]}}
_CONTAINER = _object({"name": _STRING, "resources": _object({"limits": _QUANTITIES, "requests": _QUANTITIES})})
_CONDITION = _object({"type": _STRING, "status": _STRING, "reason": _STRING, "message": _STRING}, "type", "status")
_TOLERATION = _object({"key": _STRING, "operator": _STRING, "value": _STRING, "effect": _STRING})
_METADATA: Schema = _object(
    {
        "name": _STRING,
        "namespace": _STRING,
        "uid": _NAME,
        "resourceVersion": _STRING,
        "creationTimestamp": {"type": "string", "format": "date-time"},
        "deletionTimestamp": {"type": "string", "format": "date-time"},
        "labels": _STRINGS,
        "annotations": _STRINGS,
    },
    "uid",
)
_POD = _object(
    {
        "metadata": _METADATA,
        "spec": _object(
            {
                "schedulerName": _STRING,
                "nodeName": _STRING,
                "priority": {"type": "integer"},
                "schedulingGates": _list(_object({"name": _STRING}, "name")),
                "containers": _list(_CONTAINER),
                "initContainers": _list(_CONTAINER),
                "overhead": _QUANTITIES,
                "nodeSelector": _STRINGS,
                "tolerations": _list(_TOLERATION),
            }
        ),
        "status": _object({"phase": _STRING, "conditions": _list(_CONDITION)}),
    },
    "metadata",
)
_NODE = _object({"metadata": _object({"name": _NAME}, "name")}, "metadata")
_NODES = _nullable(_object({"items": _list(_NODE)}, "items"))
_NAMES = _nullable(_list(_NAME))
_REASONS: Schema = {"type": "object", "additionalProperties": _STRING}
_EXTENDER_ARGS = _object({"Pod": _POD, "Nodes": _NODES, "NodeNames": _NAMES}, "Pod")
_FILTER_RESULT = _object(
    {
        "Nodes": _NODES,
        "NodeNames": _NAMES,
        "FailedNodes": _REASONS,
        "FailedAndUnresolvableNodes": _REASONS,
        "Error": _STRING,
    },
    "Nodes",
    "NodeNames",
    "FailedNodes",
    "FailedAndUnresolvableNodes",
    "Error",
    closed=True,
)
_SCORE: Schema = {"type": "integer", "minimum": 0, "maximum": 10}
_PRIORITIES = _list(_object({"Host": _NAME, "Score": _SCORE}, "Host", "Score", closed=True))
_BINDING_ARGS = _object(
    {"PodName": _NAME, "PodNamespace": _NAME, "PodUID": _NAME, "Node": _NAME},
    "PodName",
    "PodNamespace",
    "PodUID",
    "Node",
)
_BINDING_RESULT = _object({"Error": _STRING}, "Error", closed=True)
_REFUSAL = _object({"error": _STRING}, "error", closed=True)
_READINESS = _object(
    {"ready": {"type": "boolean"}, "missing": _list(_STRING), "serving": {"type": "boolean"}},
    "ready",
    "missing",
    "serving",
    closed=True,
)


def _verb(request: Schema, result: Schema, description: str, *, refuses: bool = False) -> Schema:
    """Return what `add_api_route` is told of a verb. `refuses`: with 400 or 413; else the result says what is wrong."""
    responses = {
        200: _answer(result, description),
        503: _answer(_REFUSAL, "It does not lead, or its ledger is not whole"),
    }
    if refuses:
        responses[400] = _answer(_REFUSAL, "The body is malformed")
        responses[413] = _answer(_REFUSAL, "The body is too large")
    body = {"required": True, "content": {JSON: {"schema": request}}}
    return {"openapi_extra": {"requestBody": body}, "responses": responses}


FILTER = _verb(_EXTENDER_ARGS, _FILTER_RESULT, "ExtenderFilterResult; `Error` says what is wrong with the request")
PRIORITIZE = _verb(_EXTENDER_ARGS, _PRIORITIES, "HostPriorityList", refuses=True)
BIND = _verb(_BINDING_ARGS, _BINDING_RESULT, "ExtenderBindingResult; an empty `Error` is success")
READYZ: Schema = {
    "responses": {
        200: _answer(_READINESS, "The ledger is whole"),
        503: _answer(_READINESS, "The ledger is not whole yet: what is missing"),
    }
}
PLAIN: Schema = {"responses": {200: {"description": "Plain text", "content": {TEXT: {"schema": _STRING}}}}}
_NULLABLE_STRING = _nullable(_STRING)
_EXPLAINED = _object(
    {
        "namespace": _STRING,
        "pod": _STRING,
        "state": {"enum": ["Waiting", "Promised", "Placed"]},
        "reason": _STRING,
        "message": _STRING,
        "since": {"type": "string", "format": "date-time"},
        "priority": {"type": "integer"},
        "gang": _NULLABLE_STRING,
        "position": _nullable({"type": "integer", "minimum": 1}),
        "victims": _list(_STRING),
        "heldGPUs": _list(_STRING),
        "expectedStart": _nullable({"type": "string", "format": "date-time"}),
        "placement": _nullable({"type": "object"}),
        "coTenants": _list(_STRING),
    },
    "namespace",
    "pod",
    "state",
    "reason",
    "message",
    closed=True,
)
EXPLAIN: Schema = {
    "openapi_extra": {
        "parameters": [
            {"name": "pod", "in": "query", "required": False, "schema": _STRING, "description": "NAMESPACE/NAME"}
        ]
    },
    "responses": {
        200: _answer(_object({"jobs": _list(_EXPLAINED)}, "jobs", closed=True), "In the order of the queue"),
        404: _answer(_REFUSAL, "No such pod waits or is placed"),
        503: _answer(_REFUSAL, "It does not lead, or its ledger is not whole"),
    },
}
