"""Makes the fields that an object was created with those of server-side apply. Pure.

A created object's fields belong to its creator by the operation Update. Apply removes only what belongs to the manager
by the operation Apply, so a field that a later manifest lacks would stay for ever.
(https://kubernetes.io/docs/reference/using-api/server-side-apply/#upgrading-from-client-side-apply)
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

Json = dict[str, Any]

_APPLY: Final = "Apply"


def applied(entries: Iterable[Mapping[str, Any]], *, manager: str) -> list[Json] | None:
    """Return `managedFields` in which what a manager created is applied by it; None where nothing has to change.

    Args:
        entries: `metadata.managedFields` as they stand.
        manager: who created the object and is about to apply to it.
    """
    kept: list[Json] = []
    own: list[Json] = []
    for entry in entries:
        (own if entry.get("manager") == manager and not entry.get("subresource") else kept).append(dict(entry))
    if all("f:spec" not in entry.get("fieldsV1", {}) for entry in own if entry.get("operation") != _APPLY):
        return None
    fields: Json = {}
    for entry in own:
        fields = _union(fields, entry.get("fieldsV1", {}))
    return [*kept, {**own[-1], "operation": _APPLY, "fieldsV1": fields}]


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> Json:
    both = one.keys() & other.keys()
    return {**one, **other, **{name: _union(one[name], other[name]) for name in both}}
