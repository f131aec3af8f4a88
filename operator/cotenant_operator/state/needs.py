"""The part of a watched object that is read, of one that is large. Pure.

kopf holds an event as values until it is handled: a megabyte of JSON may be thirty. What is large is made small before
kopf decodes it.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from cotenant_api import names, nesting
from cotenant_operator import labels
from cotenant_operator.state import drift, specs
from cotenant_operator.state.kinds import Kind

LARGE_BYTES: Final = 64 * 1024
"""Events of less are decoded as they are."""
_METADATA: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "ownerReferences",
)
_POD: Final = (
    "resources",
    "overhead",
    "priorityClassName",
    "activeDeadlineSeconds",
    "nodeName",
    "affinity",
    "readinessGates",
    "schedulingGates",
)
_CONTAINER: Final = ("name", "resources", "restartPolicy")


def fitting(event: bytes) -> bytes:
    """Return the JSON of a watch's event, not too deep and not much larger than what is read of it."""
    data = nesting.bounded(event)
    if len(data) <= LARGE_BYTES:
        return data
    value = json.loads(data)
    value["object"] = _reduced(value["object"])
    return json.dumps(value, separators=(",", ":")).encode()


def _reduced(value: Mapping[str, Any]) -> dict[str, Any]:
    metadata: Mapping[str, Any] = value.get("metadata") or {}
    notes = {name: text for name, text in (metadata.get("annotations") or {}).items() if _is_ours(name)}
    written = drift.read_of(metadata.get("managedFields") or ())
    kept = {**value, "metadata": {**_only(metadata, _METADATA), "annotations": notes, "managedFields": written}}
    spec: Mapping[str, Any] = value.get("spec") or {}
    if value.get("kind") == Kind.DLJOB.value:
        kept["spec"] = specs.bounded(spec)
    elif value.get("kind") == Kind.POD.value:
        kept["spec"] = _pod(spec)
    elif "template" in spec:
        kept["spec"] = {**spec, "template": _template(spec["template"])}
    return kept


def _template(template: Mapping[str, Any]) -> dict[str, Any]:
    notes = (template.get("metadata") or {}).get("annotations") or {}
    ours = {name: text for name, text in notes.items() if _is_ours(name)}
    return {"metadata": {"annotations": ours}, "spec": _pod(template.get("spec") or {})}


def _pod(spec: Mapping[str, Any]) -> dict[str, Any]:
    kept = _only(spec, _POD)
    for kind in ("containers", "initContainers"):
        kept[kind] = [_only(one, _CONTAINER) for one in spec.get(kind) or ()]
    return kept


def _is_ours(annotation: str) -> bool:
    return annotation.startswith(f"{names.GROUP}/") or annotation == labels.COMPLETION_INDEX


def _only(value: Mapping[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    return {name: value[name] for name in fields if name in value}
