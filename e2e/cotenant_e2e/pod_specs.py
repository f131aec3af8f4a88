"""The schema of a PodSpec: what is taken of an API server's OpenAPI document into the CRD of DLJob. Pure.

Kept are types, first sentences of descriptions, and the keys by which lists are merged. Not kept: defaults, because the
API server would write them into DLJobs, and required fields, because it knows some that it does not insist on.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

Schema = dict[str, Any]

ROOT: Final = "PodSpec"
DOCUMENT: Final = "apis/batch/v1"
"""The group and version of which a document has the schema: that of Jobs."""
_LEFT_OUT: Final[Mapping[str, frozenset[str]]] = {
    # What templates cannot have, and what nobody writes there.
    "PodSpec": frozenset({"ephemeralContainers"}),
    "ObjectMeta": frozenset(
        {
            "creationTimestamp",
            "deletionGracePeriodSeconds",
            "deletionTimestamp",
            "finalizers",
            "generateName",
            "generation",
            "managedFields",
            "name",
            "namespace",
            "ownerReferences",
            "resourceVersion",
            "selfLink",
            "uid",
        }
    ),
}
_QUANTITY: Final = "Quantity"
_FORMATS: Final = frozenset({"int32", "int64", "double"})
_KEYS: Final = "x-kubernetes-list-map-keys"
_ATOMIC: Final = "x-kubernetes-map-type"


def definitions(document: Mapping[str, Any]) -> dict[str, Schema]:
    """Return the schemas of which a PodSpec is made, by the names of their Go types; references name one another.

    Args:
        document: an OpenAPI document, version 3, that has the PodSpec.
    """
    schemas = {name.rpartition(".")[2]: schema for name, schema in _versioned(document["components"]["schemas"])}
    found: dict[str, Schema] = {}
    left = [ROOT]
    while left:
        name = left.pop()
        if name not in found and name != _QUANTITY:
            found[name] = _kept(_without(schemas[name], _LEFT_OUT.get(name, frozenset())), schemas)
            left.extend(_references(found[name]))
    return dict(sorted(found.items()))


def _versioned(schemas: Mapping[str, Schema]) -> Iterator[tuple[str, Schema]]:
    """Yield schemas of core/v1 last: of two types of one name it is the pod's."""
    return iter(sorted(schemas.items(), key=lambda item: "api.core.v1." in item[0]))


def _without(schema: Schema, fields: frozenset[str]) -> Schema:
    return schema | {"properties": {key: value for key, value in schema["properties"].items() if key not in fields}}


def _kept(node: Mapping[str, Any], schemas: Mapping[str, Schema]) -> Schema:
    """Return what is kept of one schema."""
    name = _name(node)
    text = _first_sentence(node.get("description", ""))
    described = {"description": text} if text else {}
    if name is not None and ("properties" in schemas[name] or name == _QUANTITY):
        return {"$ref": name} | described
    if name is not None:
        # A type that is a number or a text under another name.
        node = schemas[name] | {"description": node.get("description", "")}
    if node.get("format") == "int-or-string":
        return {"x-kubernetes-int-or-string": True} | described
    kept: Schema = {"type": node["type"]} | described
    if node.get("format") in _FORMATS:
        kept["format"] = node["format"]
    if _ATOMIC in node:
        kept[_ATOMIC] = node[_ATOMIC]
    if "properties" in node:
        kept["properties"] = {key: _kept(value, schemas) for key, value in sorted(node["properties"].items())}
    if "additionalProperties" in node:
        kept["additionalProperties"] = _kept(node["additionalProperties"], schemas)
    if "items" in node:
        kept["items"] = _kept(node["items"], schemas)
    return kept | _merging(node, schemas)


def _merging(node: Mapping[str, Any], schemas: Mapping[str, Schema]) -> Schema:
    """Return how the items of a list are told apart: where each has to have the keys."""
    keys = node.get(_KEYS)
    if keys is None:
        return {}
    of_items = schemas[_name(node["items"]) or ""]
    return {_KEYS: keys} if set(keys) <= set(of_items.get("required", ())) else {}


def _name(node: Mapping[str, Any]) -> str | None:
    """Return the type that a schema refers to; None: it is one itself."""
    (inner,) = node.get("allOf") or (node,)
    reference: str | None = inner.get("$ref")
    return None if reference is None else reference.rpartition(".")[2]


def _references(node: Schema) -> Iterator[str]:
    if "$ref" in node:
        yield node["$ref"]
    for inner in (*node.get("properties", {}).values(), node.get("items"), node.get("additionalProperties")):
        if inner is not None:
            yield from _references(inner)


def _first_sentence(text: str) -> str:
    # A server that runs says after an empty line which values there are.
    words = " ".join(text.partition("\n\n")[0].split())
    end = words.find(". ")
    return words if end < 0 else words[: end + 1]
