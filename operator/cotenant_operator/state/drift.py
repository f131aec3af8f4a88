"""Who else has written into what we made, by its `managedFields`. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from cotenant_operator import labels
from cotenant_operator.state import views

PARALLELISM: Final = ("spec", "parallelism")
PAUSED: Final = ("spec", "paused")
_TEMPLATE: Final = ("spec", "template", "spec")
_MAX_NAME: Final = 128
_MOST: Final = 64
"""Entries that are kept of one object: anybody may apply under many names."""


def writer(value: views.Object) -> str | None:
    """Return the field manager that has written into the template's spec, and whose writing stands; None: nobody.

    What `kubectl rollout restart` writes is in the template's metadata, and is meant.
    """
    return next((_name(entry) for entry in _of_others(value, _TEMPLATE) if _owned(entry, _TEMPLATE)), None)


def last_writer(value: views.Object, path: Sequence[str]) -> str | None:
    """Return the field manager that wrote a field last, other than the operator; None: no other one has it."""
    found = sorted(_of_others(value, path), key=lambda entry: str(entry.get("time") or ""))
    return _name(found[-1]) if found else None


def read_of(entries: Iterable[views.Object]) -> list[dict[str, Any]]:
    """Return what decisions read of `managedFields`, in little space."""
    found = []
    for entry in entries:
        spec: dict[str, Any] = {}
        if _owned(entry, _TEMPLATE) is not None:
            # Whether there is any field in it is read, and not which.
            spec["f:template"] = {"f:spec": dict.fromkeys(list(_owned(entry, _TEMPLATE))[:1])}
        spec |= {f"f:{path[1]}": {} for path in (PARALLELISM, PAUSED) if _owned(entry, path) is not None}
        if spec:
            kept = {name: entry[name] for name in ("manager", "time", "subresource") if name in entry}
            found.append({**kept, "manager": _name(entry), "fieldsV1": {"f:spec": spec}})
    return found[:_MOST]


def _of_others(value: views.Object, path: Sequence[str]) -> Iterator[views.Object]:
    """Return the entries of others that have a field."""
    for entry in value["metadata"].get("managedFields") or ():
        mine = entry.get("manager") == labels.FIELD_MANAGER
        if not mine and not entry.get("subresource") and _owned(entry, path) is not None:
            yield entry


def _owned(entry: views.Object, path: Sequence[str]) -> Any:
    """Return what an entry has below a field; None: it has not the field."""
    found: Any = entry.get("fieldsV1") or {}
    for name in path:
        found = found.get(f"f:{name}") if isinstance(found, dict) else None
    return found


def _name(entry: views.Object) -> str:
    return str(entry.get("manager") or "somebody")[:_MAX_NAME]
