"""What of a pod template would harm whoever reads it: the API server, or the operator. Pure.

A number such as `1e999999999` costs the API server as many steps as its exponent says, in every object that has it. The
rest of a template is checked where its pods are made; what the operator looks into has to be of its type before. The
API server refuses another type since the schema spells it out, but DLJobs from before may have one.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant_api import errors
from cotenant_api.crds import structural
from cotenant_api.crds import template as schemas

_AMOUNTS: Final = frozenset({"limits", "requests", "overhead", "sizeLimit", "divisor", "capacity"})
_HUGE: Final = re.compile(r"[eE][+-]?[0-9]{3}")
_TYPES: Final[Mapping[str, tuple[type | tuple[type, ...], str]]] = {
    "object": (Mapping, "an object"),
    "array": ((list, tuple), "a list"),
    "string": (str, "text"),
    "boolean": (bool, "true or false"),
    "integer": (int, "a whole number"),
}
_QUANTITY: Final = ((str, int, float), "a quantity")
_ACCOUNT: Final = re.compile(r"[a-z0-9.-]*")


def problem(template: Mapping[str, Any]) -> str | None:
    """Return why a template can become no pods, with field, value and remedy; None: nothing is known against it."""
    for path, value in _amounts(template, path="spec.template"):
        if _HUGE.search(value):
            return f"{path}: {value[:64]!r}: write the amount with an exponent of two digits at most, or with a unit"
    found = next(_mistyped(template, schemas.pod_template(), path="spec.template"), None)
    return _strange_account(template) if found is None else str(found)


def _mistyped(value: object, schema: structural.Schema, *, path: str) -> Iterator[errors.InvalidInputError]:
    """Yield the fields that are of another type than the schema says. A null counts as an absent field."""
    kind, word = _TYPES.get(schema.get("type", ""), _QUANTITY)
    if not isinstance(value, kind):
        yield errors.InvalidInputError(path, value, f"must be {word}")
    elif isinstance(value, Mapping):
        yield from _mistyped_fields(value, schema, path=path)
    elif isinstance(value, list | tuple) and "items" in schema:
        for number, item in enumerate(value):
            yield from _mistyped(item, schema["items"], path=f"{path}[{number}]")


def _mistyped_fields(
    value: Mapping[str, Any], schema: structural.Schema, *, path: str
) -> Iterator[errors.InvalidInputError]:
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name in schema.get("required", ()):
        if value.get(name) is None:
            yield errors.InvalidInputError(path, value, f"must have {name}")
    for name, inner in value.items():
        expected = fields.get(name, others)
        if inner is not None and expected is not None:
            yield from _mistyped(inner, expected, path=f"{path}.{name}")


def _strange_account(template: Mapping[str, Any]) -> str | None:
    """Return why the ServiceAccount cannot be one: its name becomes part of the path of a request."""
    name = (template.get("spec") or {}).get("serviceAccountName") or ""
    if _ACCOUNT.fullmatch(name) and ".." not in name:
        return None
    path = "spec.template.spec.serviceAccountName"
    return str(errors.InvalidInputError(path, name, "must be the name of a ServiceAccount"))


def _amounts(value: object, *, path: str, counts: bool = False) -> Iterator[tuple[str, str]]:
    """Texts that the API server reads as quantities, with their paths."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _amounts(inner, path=f"{path}.{key}", counts=counts or key in _AMOUNTS)
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _amounts(inner, path=f"{path}[{number}]", counts=counts)
    elif counts and isinstance(value, str):
        yield path, value
