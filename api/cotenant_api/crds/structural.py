"""From a pydantic model to the structural schema of a CustomResourceDefinition.

Kubernetes wants one type everywhere: no references, no unions, and a null is an absent key.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from cotenant_api import quantity

Schema = dict[str, Any]

_KEPT = (
    "type",
    "description",
    "default",
    "enum",
    "format",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
)
QUANTITY: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": quantity.PATTERN,
    "x-kubernetes-int-or-string": True,
    "maxLength": 24,
}
INT_OR_STRING: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
    "maxLength": 63,
}
_UNIONS = {"x-cotenant-quantity": QUANTITY, "x-cotenant-int-or-string": INT_OR_STRING}
"""What a field of our models is marked with that Kubernetes takes as a number or as text."""


def is_union(schema: Schema) -> bool:
    """Return whether a schema is one of what Kubernetes takes as a number or as text."""
    return bool(schema.get("x-kubernetes-int-or-string"))


def schema_of(model: type[BaseModel], *, defaults: bool) -> Schema:
    """Return the structural schema of a model.

    Args:
        model: the pydantic model; keys are its aliases.
        defaults: whether defaults of fields are written; what the operator has to write must not be the API server's.
    """
    source = model.model_json_schema(by_alias=True)
    return _converted(source, source.get("$defs", {}), defaults=defaults)


def _converted(node: Schema, definitions: Mapping[str, Schema], *, defaults: bool) -> Schema:
    node = _without_null(_resolved(node, definitions), definitions)
    for mark, union in _UNIONS.items():
        if node.get(mark):
            return union | ({"description": node["description"]} if "description" in node else {})
    result = {key: node[key] for key in _KEPT if key in node}
    if "properties" in node:
        result["properties"] = {
            name: _converted(child, definitions, defaults=defaults) for name, child in node["properties"].items()
        }
    if "items" in node:
        result["items"] = _converted(node["items"], definitions, defaults=defaults)
    _set_additional(result, node, definitions)
    _set_default(result, keep=defaults)
    if "description" in result:
        result["description"] = " ".join(str(result["description"]).split())
    return result


def _resolved(node: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Return the node with its reference replaced; what stands beside the reference wins."""
    if "$ref" not in node:
        return node
    beside = {key: value for key, value in node.items() if key != "$ref"}
    return _resolved(definitions[node["$ref"].rpartition("/")[2]] | beside, definitions)


def _without_null(node: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """`X | None` is X: an absent key."""
    if "anyOf" not in node:
        return node
    options = [option for option in node["anyOf"] if option.get("type") != "null"]
    if len(options) != 1:
        raise ValueError(f"a structural schema has no unions: {node}")
    beside = {key: value for key, value in node.items() if key != "anyOf"}
    return _resolved(options[0], definitions) | beside


def _set_additional(result: Schema, node: Schema, definitions: Mapping[str, Schema]) -> None:
    additional = node.get("additionalProperties")
    if additional is True:
        result["x-kubernetes-preserve-unknown-fields"] = True
    elif isinstance(additional, dict):
        result["additionalProperties"] = _converted(additional, definitions, defaults=False)


def _set_default(result: Schema, *, keep: bool) -> None:
    """Make {} the default of an object whose fields bring theirs; nothing is defaulted to emptiness otherwise."""
    if "default" not in result:
        return
    if result["default"] is None:
        del result["default"]
        return
    inner = any("default" in child for child in result.get("properties", {}).values())
    if keep and inner:
        result["default"] = {}
    elif not keep or result["default"] in (None, "", [], {}) or result["type"] == "object":
        del result["default"]
