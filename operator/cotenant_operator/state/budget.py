"""How much is kept of the objects of one namespace: a part of the store. No I/O.

Whoever may create objects decides how much there is to keep. One namespace that goes beyond its bound loses what is
beyond, by name, and takes nothing from the others.
"""

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel

from cotenant_api import errors

MAX_OBJECT_BYTES: Final = 256 * 1024
"""Of one object, as it is kept: a DLJob's spec, what a Job asks for, the annotations that are read."""
MAX_NAMESPACE_BYTES: Final = 64 * 1024 * 1024
"""Of all objects of a namespace that concern DLJobs, as they are kept."""
ORDINARY_BYTES: Final = 2048
"""Of each object that are not counted: ten thousand finished jobs are no reason to refuse the next one."""


class TooMuchError(errors.InvalidInputError):
    """The namespace has no room for an object; it may have when others are gone.

    Args:
        size: of the object, in bytes.
    """

    def __init__(self, field: str, value: object, remedy: str, *, size: int) -> None:
        super().__init__(field, value, remedy)
        self.size = size


class Budget:
    """The bytes of each object that is kept, by namespace; those beyond ORDINARY_BYTES count.

    Args:
        per_object, per_namespace: bounds in bytes.
    """

    def __init__(self, *, per_object: int = MAX_OBJECT_BYTES, per_namespace: int = MAX_NAMESPACE_BYTES) -> None:
        self._per_object, self._per_namespace = per_object, per_namespace
        self._held: dict[str, dict[str, int]] = {}
        self._sums: dict[str, int] = {}

    def held(self, namespace: str) -> int:
        """Return the bytes that are kept of a namespace."""
        return self._sums.get(namespace, 0)

    def left(self, namespace: str) -> int:
        """Return the bytes that there is room for."""
        return self._per_namespace - self.held(namespace)

    def take(self, namespace: str, uid: str, kept: object) -> None:
        """Count an object in the place of its last version, which stays counted where this one is refused.

        Raises:
            TooMuchError: the namespace has no room for it now.
            InvalidInputError: it is too large by itself.
        """
        size, before = max(weight(kept) - ORDINARY_BYTES, 0), self._held.get(namespace, {}).get(uid, 0)
        if size > self._per_object:
            remedy = f"may have {self._per_object}: remove labels, annotations and containers that it does not need"
            raise errors.InvalidInputError("what the operator has to keep of it", f"{size} bytes", remedy)
        if size > self.left(namespace) + before:
            remedy = (
                f"namespace {namespace} may have {self._per_namespace}: delete finished DLJobs, or put graphs, "
                "variables and commands into ConfigMaps"
            )
            raise TooMuchError("what the operator keeps", f"{self.held(namespace)} bytes", remedy, size=size)
        self.drop(namespace, uid)
        if not size:
            return
        self._held.setdefault(namespace, {})[uid] = size
        self._sums[namespace] = self.held(namespace) + size

    def drop(self, namespace: str, uid: str) -> None:
        """Count an object no longer."""
        held = self._held.get(namespace)
        size = None if held is None else held.pop(uid, None)
        if held is None or size is None:
            return
        self._sums[namespace] -= size
        if not held:
            del self._held[namespace], self._sums[namespace]


def weight(value: object) -> int:
    """Return the bytes of a value and all that is in it."""
    total, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        if one is None or isinstance(one, (bool, int)):
            continue
        total += sys.getsizeof(one)
        if not isinstance(one, (str, bytes)):
            waiting.extend(_parts(one))
    return total


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return (*value.keys(), *value.values())
    if isinstance(value, (tuple, list, frozenset)):
        return value
    if isinstance(value, BaseModel):
        return vars(value).values()
    return [getattr(value, name) for name in getattr(type(value), "__slots__", ())]
