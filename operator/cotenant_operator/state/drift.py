"""Who else has written into what we made, by its `managedFields`. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from cotenant_operator import labels
from cotenant_operator.state import views

_MAX_NAME: Final = 128


def writer(value: views.Object) -> str | None:
    """Return the field manager that has written into the template's spec, and whose writing stands; None: nobody.

    What `kubectl rollout restart` writes is in the template's metadata, and is meant.
    """
    template = ("spec", "template", "spec")
    return next((_name(entry) for entry in _of_others(value, template) if _owned(entry, template)), None)


def last_writer(value: views.Object, path: Sequence[str]) -> str | None:
    """Return the field manager that wrote a field last, other than the operator; None: no other one has it."""
    found = sorted(_of_others(value, path), key=lambda entry: str(entry.get("time") or ""))
    return _name(found[-1]) if found else None


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
