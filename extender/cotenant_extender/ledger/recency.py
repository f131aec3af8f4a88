"""Decide which news of a collection to believe: a list, an event of a watch, or the reply to a request.

A list is read after it was asked for, so it is newer than all that was known by then, whatever the resource versions
say: after etcd was restored from a snapshot, objects come back with lower versions, and some that were deleted come
back at all. Only what was learned while the list was under way may be newer than the list; there the versions decide.

Of an object that is known, an event or a reply is believed if its version is that of the object, or above both that one
and the version of the last list. A list shows everything up to its own version, so what else is at or below it is from
before the list. Of an object that is gone nothing but a list is believed.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)

GONE_PODS = 20_000
"""Deleted pods whose late events are still recognised."""


class Versioned(Protocol):
    """An object that has a resource version."""

    @property
    def version(self) -> int:
        """The resource version; 0 where it is no number."""


class Recency(Generic[K]):
    """What is known of the age of one collection's objects.

    Args:
        gone_limit: how many objects that are gone are remembered; 0 where a key may be used again.
    """

    def __init__(self, *, gone_limit: int = 0) -> None:
        self._gone_limit = gone_limit
        self._gone: OrderedDict[K, None] = OrderedDict()
        self._version = 0
        self._learned: set[K] | None = None

    def begin(self) -> None:
        """Note that a list is about to be asked for."""
        self._learned = set()

    def end(self, version: int) -> None:
        """Note that a list of this version was taken in."""
        self._version, self._learned = version, None

    def forget(self, key: K) -> bool:
        """Note that an object is gone; return whether that is new."""
        if key in self._gone:
            return False
        self._learn(key)
        self._gone[key] = None
        if len(self._gone) > self._gone_limit:
            self._gone.popitem(last=False)
        return True

    def believes(self, key: K, found: Versioned, *, known: Versioned | None) -> bool:
        """Return whether an event or a reply is to be believed."""
        if key in self._gone:
            return False
        if known is not None and known.version != found.version <= max(known.version, self._version):
            return False
        self._learn(key)
        return True

    def lists(self, key: K, version: int, *, known: Versioned | None) -> bool:
        """Return whether a list of this version is to be believed about an object that it has."""
        if key in self._gone and self._during(key):
            return False
        self._gone.pop(key, None)
        return known is None or not self.outlasts(key, version, known=known)

    def outlasts(self, key: K, version: int, *, known: Versioned) -> bool:
        """Return whether an object stays as it is known, whatever a list of this version says."""
        return known.version > version and self._during(key)

    def _during(self, key: K) -> bool:
        """Return whether a list is under way, and something was learned of an object since it was asked for.

        Where nobody said when a list was asked for, anything may have been learned since.
        """
        return self._learned is None or key in self._learned

    def _learn(self, key: K) -> None:
        if self._learned is not None:
            self._learned.add(key)
