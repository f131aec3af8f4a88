"""What an agent remembers of the objects that it watches. Decisions are made elsewhere."""

from collections.abc import Callable, Iterable
from typing import Protocol

from cotenant_api import documents, errors, gpunode
from cotenant_api.names import PodUID
from cotenant_deviceplugin import pods
from cotenant_deviceplugin.kube import manifests
from cotenant_deviceplugin.kube.cluster import Object
from cotenant_deviceplugin.retry import Log


class Store(Protocol):
    """Takes a list, then what changes."""

    def replace(self, items: Iterable[Object]) -> None:
        """All objects there are."""

    def apply(self, kind: str, manifest: Object) -> None:
        """One event: ADDED, MODIFIED or DELETED."""


class Pods:
    """The pods of the node that ask for a share. `changed` is called when one comes, goes or reads differently."""

    def __init__(self) -> None:
        self.synced = False
        self.changed: Callable[[], None] = _nothing
        self._pods: dict[PodUID, pods.BoundPod] = {}

    def all(self) -> tuple[pods.BoundPod, ...]:
        """Every one, finished ones too."""
        return tuple(self._pods.values())

    def running(self) -> tuple[pods.BoundPod, ...]:
        """Those whose containers run."""
        return tuple(bound for bound in self._pods.values() if bound.running)

    def replace(self, items: Iterable[Object]) -> None:
        """All pods there are: who is not among them is gone."""
        read = (pods.read(manifest) for manifest in items)
        new = {bound.uid: bound for bound in read if bound is not None}
        differs = not self.synced or new != self._pods
        self._pods, self.synced = new, True
        if differs:
            self.changed()

    def apply(self, kind: str, manifest: Object) -> None:
        """One event; what is already known changes nothing."""
        uid = PodUID((manifest.get("metadata") or {}).get("uid", ""))
        bound = None if kind == "DELETED" else pods.read(manifest)
        if bound == self._pods.get(uid):
            return
        if bound is None:
            del self._pods[uid]
        else:
            self._pods[uid] = bound
        self.changed()


class GPUNode:
    """The node's GPUNode: what the admin set, and the status that stands there.

    Lists, events and replies to writes may come in any order: what is older than what is known changes nothing.
    """

    def __init__(self, log: Log) -> None:
        self.synced = False
        self.preconditions: manifests.Preconditions | None = None
        """Of the newest GPUNode that is known; None: there is none."""
        self.generation: int | None = None
        self.spec = gpunode.Spec()
        self.changed: Callable[[], None] = _nothing
        self._newest = 0
        self._status: Object | None = None
        self._log = log

    @property
    def uid(self) -> str | None:
        """The UID of the GPUNode; None: there is none, as far as is known."""
        return None if self.preconditions is None else self.preconditions.uid

    @property
    def nonce(self) -> str | None:
        """The nonce of the status that stands: it tells which write that was."""
        return (self._status or {}).get("nonce")

    def left_status(self) -> gpunode.Status | None:
        """Return the status as it was read last; None where there is none that can be read."""
        if not self._status:
            return None
        try:
            return documents.validated(gpunode.Status, self._status, source="status")
        except errors.InvalidInputError as error:
            self._log.warning("GPUNode: the status left by an earlier agent is dropped: %s", error)
            return None

    def forget(self) -> None:
        """Take note that the API server knows no GPUNode."""
        self._gone(newest=0)

    def read(self, manifest: Object) -> None:
        """Take in what was read after a refused write. It counts whatever was seen: etcd may have been restored."""
        self._newest = 0
        self.take(manifest)

    def take(self, manifest: Object) -> None:
        """Take in a reply to a write."""
        newest = _number(_version(manifest))
        if newest < self._newest:
            return
        spec = documents.validated(gpunode.Spec, manifest.get("spec") or {}, source="spec")
        self.preconditions, self._newest = manifests.Preconditions.of(manifest), newest
        self.generation = (manifest.get("metadata") or {}).get("generation")
        self.spec = spec
        self._status = manifest.get("status")

    def replace(self, items: Iterable[Object]) -> None:
        """Take in the one there is, if there is one."""
        found = next(iter(items), None)
        self.synced = True
        self.forget()
        if found is not None:
            self.take(found)
        self.changed()

    def apply(self, kind: str, manifest: Object) -> None:
        """Take in one event. Another status is no change: most are the agent's own."""
        before = self._seen()
        if kind != "DELETED":
            self.take(manifest)
        elif _number(_version(manifest)) >= self._newest:
            self._gone(newest=_number(_version(manifest)))
        if before != self._seen():
            self.changed()

    def _gone(self, *, newest: int) -> None:
        self.preconditions, self._status, self._newest = None, None, newest

    def _seen(self) -> tuple[object, ...]:
        return self.uid, self.generation, self.spec


def _version(manifest: Object) -> str | None:
    return (manifest.get("metadata") or {}).get("resourceVersion")


def _number(version: str | None) -> int:
    """Resource versions are compared as numbers, as the API server does since 1.35."""
    return int(version) if version is not None and version.isdecimal() else 0


def _nothing() -> None:
    """Nobody listens yet."""
