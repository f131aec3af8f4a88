"""What an agent remembers of the objects that it watches. Decisions are made elsewhere."""

from collections.abc import Callable, Iterable
from typing import Protocol

from cotenant_api import documents, errors, gpunode
from cotenant_api.names import PodUID
from cotenant_deviceplugin import pods
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
    """The node's GPUNode: whether it exists, what the admin set, and the status that an earlier agent left.

    Attributes:
        version: resource version that was seen last, here or in the reply to a write; None: of none that exists.
    """

    def __init__(self, log: Log) -> None:
        self.synced = False
        self.exists = False
        self.generation: int | None = None
        self.version: str | None = None
        self.spec = gpunode.Spec()
        self.changed: Callable[[], None] = _nothing
        self._status: Object | None = None
        self._log = log

    def left_status(self) -> gpunode.Status | None:
        """The status as it was read last; None where there is none that can be read."""
        if not self._status:
            return None
        try:
            return documents.validated(gpunode.Status, self._status, source="status")
        except errors.InvalidInputError as error:
            self._log.warning("GPUNode: the status left by an earlier agent is dropped: %s", error)
            return None

    def forget(self) -> None:
        """It was seen to be gone."""
        self.exists, self.version = False, None

    def read(self, manifest: Object) -> None:
        """It was read just now, or is the reply to a write: this is its version, whatever was seen before."""
        self.version = _version(manifest)

    def replace(self, items: Iterable[Object]) -> None:
        """The one there is, if there is one."""
        found = next(iter(items), None)
        self.exists, self.synced, self.version = False, True, None
        if found is not None:
            self._take(found)
        self.changed()

    def apply(self, kind: str, manifest: Object) -> None:
        """One event. A status of the agent's own writing is no change."""
        before = (self.exists, self.generation, self.spec)
        if kind == "DELETED":
            self.forget()
        else:
            self._take(manifest)
        if before != (self.exists, self.generation, self.spec):
            self.changed()

    def _take(self, manifest: Object) -> None:
        self.exists = True
        if _number(_version(manifest)) >= _number(self.version):
            # An event may come after the reply to a later write.
            self.version = _version(manifest)
        self.generation = (manifest.get("metadata") or {}).get("generation")
        self.spec = documents.validated(gpunode.Spec, manifest.get("spec") or {}, source="spec")
        self._status = manifest.get("status")


def _version(manifest: Object) -> str | None:
    return (manifest.get("metadata") or {}).get("resourceVersion")


def _number(version: str | None) -> int:
    """Resource versions are compared as numbers, as the API server does since 1.35."""
    return int(version) if version is not None and version.isdecimal() else 0


def _nothing() -> None:
    """Nobody listens yet."""
