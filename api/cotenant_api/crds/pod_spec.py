"""The schema of a PodSpec, as the Kubernetes has it that `pod_spec.json` names.

Every object is open: what a newer Kubernetes knows besides goes through to the API server, which names what it does not
know when the operator makes the Job.
"""

import importlib.resources
import json
from collections.abc import Mapping
from typing import Final

from cotenant_api.crds import structural

FILE: Final = "pod_spec.json"
"""Written by `make pod-spec`."""
MAX_ITEMS: Final = 65536
"""Entries of a list of which only the type is spelled out. Admission lets fewer through, and says how many."""
_ROOT: Final = "PodSpec"
_QUANTITY: Final = "Quantity"
_KEYS: Final = "x-kubernetes-list-map-keys"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_COPIED: Final = ("type", "format", "x-kubernetes-map-type")


def schema() -> structural.Schema:
    """Return it."""
    text = importlib.resources.files(__package__).joinpath(FILE).read_text("utf-8")
    definitions = json.loads(text)["definitions"]
    return _expanded(definitions[_ROOT], definitions)


def merged(below: structural.Schema, above: structural.Schema) -> structural.Schema:
    """Return a schema with another one's keywords over its own, at every depth."""
    result = below | above
    if structural.is_union(above):
        # A quantity, or a number or text: neither has a type.
        return above | {key: below[key] for key in ("description",) if key in below}
    if "properties" in above:
        own: Mapping[str, structural.Schema] = below.get("properties", {})
        over = {name: merged(own.get(name, {}), inner) for name, inner in above["properties"].items()}
        result["properties"] = {**own, **over}
    for name in ("items", "additionalProperties"):
        if name in above and name in below:
            result[name] = merged(below[name], above[name])
    if "required" in below and "required" in above:
        result["required"] = list(dict.fromkeys((*below["required"], *above["required"])))
    return result


def _expanded(node: structural.Schema, definitions: Mapping[str, structural.Schema]) -> structural.Schema:
    """Return a schema without references."""
    described = {"description": node["description"]} if "description" in node else {}
    name = node.get("$ref")
    if name == _QUANTITY:
        return structural.QUANTITY | described
    if name is not None:
        return _expanded(definitions[name] | described, definitions)
    if node.get(_INT_OR_STRING):
        return structural.INT_OR_STRING | described
    result = {key: node[key] for key in _COPIED if key in node} | described
    if "properties" in node:
        inner = {key: _expanded(value, definitions) for key, value in node["properties"].items()}
        result |= {"properties": inner, "x-kubernetes-preserve-unknown-fields": True}
    elif node["type"] == "object" and "additionalProperties" not in node:
        result["x-kubernetes-preserve-unknown-fields"] = True
    if "additionalProperties" in node:
        result["additionalProperties"] = _expanded(node["additionalProperties"], definitions)
    if "items" in node:
        result |= {"maxItems": MAX_ITEMS, "items": _item(node, definitions)}
    if _KEYS in node:
        result |= {"x-kubernetes-list-type": "map", _KEYS: node[_KEYS]}
    return result


def _item(node: structural.Schema, definitions: Mapping[str, structural.Schema]) -> structural.Schema:
    """Return the schema of a list's items; each has the keys by which it is told from the others."""
    found, keys = _expanded(node["items"], definitions), node.get(_KEYS)
    return found if keys is None else found | {"required": list(keys)}
