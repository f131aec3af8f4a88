"""What of a pod template would harm whoever reads it: the API server, or the operator. Pure.

A number such as `1e999999999` costs the API server as many steps as its exponent says, in every object that has it. The
rest of a template is checked where its pods are made; what the operator looks into has to be of its type before.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_AMOUNTS: Final = frozenset({"limits", "requests", "overhead", "sizeLimit", "divisor", "capacity"})
_HUGE: Final = re.compile(r"[eE][+-]?[0-9]{3}")
_NAMED: Final = (
    ("schedulingGates", ("schedulingGates",)),
    ("containers[].env", ("containers", "env")),
    ("initContainers[].env", ("initContainers", "env")),
    ("volumes", ("volumes",)),
)
"""Lists of objects with a name: how they are told, and where they are."""


def problem(template: Mapping[str, Any]) -> str | None:
    """Return why a template can become no pods, with field, value and remedy; None: nothing is known against it."""
    for path, value in _amounts(template, path="spec.template"):
        if _HUGE.search(value):
            return f"{path}: {value[:64]!r}: write the amount with an exponent of two digits at most, or with a unit"
    inner = template.get("spec")
    pod = inner if isinstance(inner, Mapping) else {}
    wrong = next((told for told, keys in _NAMED if not all(_is_named(one) for one in _items(pod, *keys))), None)
    return None if wrong is None else f"spec.template.spec.{wrong}: must be a list of objects that each have a name"


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


def _items(value: Mapping[str, Any], key: str, *keys: str) -> Iterator[object]:
    """Yield what stands in a list, or in lists of the objects of one; what is no list stands for itself."""
    found = value.get(key)
    items = found if isinstance(found, list | tuple) else [] if found is None else [found]
    for item in items:
        if not keys:
            yield item
        elif isinstance(item, Mapping):
            yield from _items(item, *keys)


def _is_named(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("name"), str)
