"""Objects that cannot be read, and why: a part of the store. No I/O.

An object of a tenant may be anything that the API server takes. One that cannot be read is named, its DLJob is held,
and the object is read again when it changes.
"""

import itertools
import logging
from dataclasses import dataclass
from typing import Final

from cotenant_api import errors
from cotenant_operator.state import budget, views
from cotenant_operator.state.kinds import Kind

_LOGGER = logging.getLogger(__name__)

WOKEN: Final = 32
"""So many DLJobs are looked at when their namespace has more room."""
_MAX_PROBLEM: Final = 800
"""Characters of a problem: it becomes part of a condition's message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unread:
    """An object that could not be read."""

    kind: Kind
    key: views.Key
    problem: str
    needs: int = 0
    """Bytes, where there was no room for it: there may be."""


class Unreadable:
    """Every such object, by DLJob and UID."""

    def __init__(self) -> None:
        self._found: dict[views.Key, dict[str, Unread]] = {}
        self._crowded: dict[str, set[views.Key]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._found.values()))

    def add(self, kind: Kind, concerns: views.Key, value: views.Object, error: Exception) -> None:
        """Note that an object cannot be read or kept, and name it in the log."""
        metadata = value["metadata"]
        key = views.Key(metadata.get("namespace", ""), metadata["name"])
        needs = error.size if isinstance(error, budget.TooMuchError) else 0
        problem = f"{kind.value} {key.name} cannot be read: {_described(error)}"[:_MAX_PROBLEM]
        found = Unread(kind=kind, key=key, problem=problem, needs=needs)
        if needs:
            self._crowded.setdefault(concerns.namespace, set()).add(concerns)
        before = self._found.setdefault(concerns, {})
        if before.get(metadata["uid"]) != found:
            before[metadata["uid"]] = found
            _LOGGER.warning("%s: %s; what was read of it before stands", key.namespace or "cluster", problem)

    def drop(self, concerns: views.Key, uid: str) -> None:
        """Forget an object: it could be read, or is deleted."""
        inner = self._found.get(concerns)
        if inner is None or inner.pop(uid, None) is None:
            return
        if not any(found.needs for found in inner.values()):
            self._crowded.get(concerns.namespace, set()).discard(concerns)
        if not inner:
            del self._found[concerns]

    def problem(self, concerns: views.Key) -> str | None:
        """Return why a DLJob is held; None: all of its objects could be read."""
        return next((found.problem for found in self._found.get(concerns, {}).values()), None)

    def crowded_out(self, namespace: str) -> frozenset[views.Key]:
        """Return some of the DLJobs of which a namespace had no room for an object."""
        return frozenset(itertools.islice(self._crowded.get(namespace, ()), WOKEN))

    def left_out(self, concerns: views.Key, *, room: int) -> tuple[Unread, ...]:
        """Return the objects of a DLJob that are left out, and that fit into so many bytes now."""
        return tuple(found for found in self._found.get(concerns, {}).values() if 0 < found.needs <= room)


def _described(error: Exception) -> str:
    return str(error) if isinstance(error, errors.InvalidInputError) else f"{error!r}: correct or delete it"
