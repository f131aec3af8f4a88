"""A bounded memory that namespaces share: one that fills it forgets its own. No I/O."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class Remembered(Generic[V]):
    """Values by namespace and name; beyond the bound, the namespace with the most loses the one unused for longest.

    Args:
        most: so many values in all.
    """

    def __init__(self, most: int) -> None:
        self._most, self._count = most, 0
        self._found: dict[str, OrderedDict[str, V]] = {}

    def __len__(self) -> int:
        return self._count

    def get(self, namespace: str, name: str) -> V | None:
        """Return a value, which counts as used."""
        own = self._found.get(namespace)
        if own is None or name not in own:
            return None
        own.move_to_end(name)
        return own[name]

    def values(self) -> Iterator[V]:
        """Yield every value."""
        for own in self._found.values():
            yield from own.values()

    def put(self, namespace: str, name: str, value: V) -> None:
        """Remember a value."""
        own = self._found.setdefault(namespace, OrderedDict())
        self._count += name not in own
        own[name] = value
        own.move_to_end(name)
        if self._count > self._most:
            largest = max(self._found, key=lambda each: len(self._found[each]))
            self.forget(largest, next(iter(self._found[largest])))

    def forget(self, namespace: str, name: str) -> None:
        """Forget a value."""
        own = self._found.get(namespace)
        if own is None or name not in own:
            return
        del own[name]
        self._count -= 1
        if not own:
            del self._found[namespace]
