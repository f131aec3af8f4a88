"""What the API server stores: objects of all kinds under one resource version, and the history that watches replay.

An object is never changed in place: a change stores another. Whoever was given one may keep it, and may not change it.
"""

import bisect
import functools
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson

from api_server import answers

Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace, empty for what is cluster-scoped, and name."""


class Change:
    """One event of the history.

    Attributes:
        kind: ADDED, MODIFIED or DELETED.
        before: the object as it was; None where there was none.
    """

    def __init__(self, collection: str, kind: str, value: Object, before: Object | None) -> None:
        self.collection, self.kind, self.value, self.before = collection, kind, value, before
        self.version = int(value["metadata"]["resourceVersion"])

    @functools.cached_property
    def line(self) -> bytes:
        """It as a line of a watch."""
        return orjson.dumps({"type": self.kind, "object": self.value}) + b"\n"


Listener = Callable[[Change], None]


class Snapshot(NamedTuple):
    """Everything as of a version."""

    version: int
    objects: dict[str, dict[Key, Object]]


class Store:
    """Objects by collection and key.

    Attributes:
        version: the latest resource version.
        compacted: up to which version the history is forgotten.
        listeners: are told of every change, at once and in order.
    """

    def __init__(self) -> None:
        self.version = 1
        self.compacted = 0
        self.objects: defaultdict[str, dict[Key, Object]] = defaultdict(dict)
        self.listeners: list[Listener] = []
        self._history: defaultdict[str, list[Change]] = defaultdict(list)
        """By collection: most watches are of one in which nothing happens while others change."""
        self._pages: dict[str, tuple[int, list[Object]]] = {}

    def find(self, collection: str, key: Key) -> Object:
        """An object; refuses with 404 where there is none."""
        found = self.objects[collection].get(key)
        if found is None:
            raise answers.RefusedError(404, f'{collection.rpartition("/")[2]} "{key[1]}" not found')
        return found

    def create(self, collection: str, value: Object) -> Object:
        """Another object; refuses with 409 where the name is taken."""
        key = key_of(value)
        if key in self.objects[collection]:
            raise answers.RefusedError(409, f'{collection.rpartition("/")[2]} "{key[1]}" already exists')
        return self._store(collection, value, None)

    def update(self, collection: str, value: Object) -> Object:
        """An object as it is now; one that is the same is not written."""
        old = self.find(collection, key_of(value))
        if old is value or _content(old) == _content(value):
            return old
        return self._store(collection, value, old)

    def put(self, collection: str, value: Object) -> Object:
        """Create or replace."""
        return self._store(collection, value, self.objects[collection].get(key_of(value)))

    def delete(self, collection: str, key: Key) -> Object:
        """An object less; its last state has the version of its deletion."""
        before = self.find(collection, key)
        del self.objects[collection][key]
        return self._record(collection, "DELETED", before, before)

    def since(self, collection: str, version: int) -> list[Change]:
        """The changes of a collection after a version; refuses with 410 where they are forgotten."""
        if version < self.compacted:
            raise answers.RefusedError(410, f"too old resource version: {version} ({self.compacted})")
        history = self._history[collection]
        return history[bisect.bisect_right(history, version, key=lambda change: change.version) :]

    def as_of(self, collection: str, key: Key, version: int) -> Object | None:
        """An object as it was at a version; refuses with 410 what is forgotten, with 504 a version that is to come."""
        if version < self.compacted:
            raise answers.RefusedError(410, f"too old resource version: {version} ({self.compacted})")
        if version > self.version:
            raise answers.RefusedError(504, f"Too large resource version: {version}, current: {self.version}")
        found = self.objects[collection].get(key)
        for change in reversed(self._history[collection]):
            if change.version <= version:
                break
            if key_of(change.value) == key:
                found = change.before
        return found

    def page(self, collection: str, namespace: str, *, limit: int, token: str) -> Object:
        """A list, or the next page of one, all pages as of the same version."""
        if token:
            version, items = self._pages.pop(token, (0, []))
            if not version:
                raise answers.RefusedError(410, "The provided continue parameter is too old")
        else:
            version = self.version
            found = sorted(self.objects[collection].items())
            items = [value for (where, _), value in found if not namespace or where == namespace]
        metadata: Object = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            metadata["continue"] = f"{version}-{len(items)}-{collection}"
            self._pages[metadata["continue"]] = version, items[limit:]
            items = items[:limit]
        return {"kind": "List", "metadata": metadata, "items": items}

    def compact(self) -> None:
        """Forget the history, and what further pages of lists need."""
        self._history.clear()
        self._pages.clear()
        self.version += 1
        self.compacted = self.version

    def snapshot(self) -> Snapshot:
        """Everything as it is, as etcdctl saves it."""
        return Snapshot(self.version, {collection: dict(found) for collection, found in self.objects.items()})

    def restore(self, snapshot: Snapshot, *, bump: int = 0) -> None:
        """Everything as it was, as etcdutl restores it.

        Args:
            snapshot: what it was.
            bump: by how much the version is raised above that of the snapshot; the history before that is forgotten.
                0: versions go back, and the history after the snapshot never was.
        """
        self.objects.clear()
        self.objects.update({collection: dict(found) for collection, found in snapshot.objects.items()})
        for history in self._history.values():
            history[:] = [change for change in history if change.version <= snapshot.version]
        self._pages.clear()
        self.version = snapshot.version + bump
        if bump:
            self._history.clear()
            self.compacted = self.version

    def forget_last(self) -> None:
        """The last change is not told to watches that start later."""
        max(filter(None, self._history.values()), key=lambda history: history[-1].version).pop()

    def _store(self, collection: str, value: Object, before: Object | None) -> Object:
        metadata = dict(value["metadata"])
        if before is not None and "generation" in before["metadata"]:
            changed = value.get("spec") != before.get("spec") and metadata.get("generation") == generation(before)
            metadata["generation"] = generation(before) + 1 if changed else metadata.get("generation")
        stored = {**value, "metadata": metadata}
        self.objects[collection][key_of(value)] = stored
        return self._record(collection, "ADDED" if before is None else "MODIFIED", stored, before)

    def _record(self, collection: str, kind: str, value: Object, before: Object | None) -> Object:
        self.version += 1
        if kind == "DELETED":
            value = {**value, "metadata": {**value["metadata"], "resourceVersion": str(self.version)}}
        else:
            value["metadata"]["resourceVersion"] = str(self.version)
        change = Change(collection, kind, value, before)
        self._history[collection].append(change)
        for listener in list(self.listeners):
            listener(change)
        return value


def key_of(value: Mapping[str, Any]) -> Key:
    """Namespace and name."""
    return value["metadata"].get("namespace", ""), value["metadata"]["name"]


def generation(value: Mapping[str, Any]) -> int:
    """The generation of an object."""
    return int(value["metadata"].get("generation", 0))


def _content(value: Object) -> Object:
    """What makes a write a change: everything but the version."""
    metadata = {key: item for key, item in value["metadata"].items() if key != "resourceVersion"}
    return {**value, "metadata": metadata}
