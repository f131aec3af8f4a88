"""What a real node's agent remembers beside its pods and its GPUNode: the Node, the policy, other GPU drivers.

Remembers and reads; what follows from it is decided in `publishing` and `node`.
"""

from collections.abc import Callable, Iterable, Mapping

from cotenant_api import errors, packingpolicy
from cotenant_deviceplugin.kube.cluster import NVIDIA_DRA_DRIVER, Object
from cotenant_deviceplugin.retry import Log

NVIDIA_RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-")
"""What NVIDIA's own device plugin offers begins so; also `nvidia.com/gpu.shared`."""


class Node:
    """The Node: its labels, its container runtime, and what NVIDIA's own device plugin offers of it."""

    def __init__(self) -> None:
        self.synced = False
        self.container_runtime: str | None = None
        self.labels: Mapping[str, str] = {}
        self.offered: tuple[str, ...] = ()
        """Resources of NVIDIA's own device plugin of which there are more than none.

        Not of what is allocatable alone: while the plugin restarts nothing is, and its pods run on.
        """
        self.changed: Callable[[], None] = _nothing

    def replace(self, items: Iterable[Object]) -> None:
        """Take in the one there is, if there is one."""
        self._take(next(iter(items), {}))

    def apply(self, kind: str, manifest: Object) -> None:
        """One event."""
        self._take({} if kind == "DELETED" else manifest)

    def _take(self, manifest: Object) -> None:
        status = manifest.get("status") or {}
        runtime = (status.get("nodeInfo") or {}).get("containerRuntimeVersion") or None
        labels = dict((manifest.get("metadata") or {}).get("labels") or {})
        amounts = [*(status.get("capacity") or {}).items(), *(status.get("allocatable") or {}).items()]
        offered = tuple(sorted({key for key, value in amounts if _foreign(key, value)}))
        differs = not self.synced or (runtime, labels, offered) != (self.container_runtime, self.labels, self.offered)
        self.synced, self.container_runtime, self.labels, self.offered = True, runtime, labels, offered
        if differs:
            self.changed()


class Slices:
    """The ResourceSlices that NVIDIA's DRA driver publishes of the node."""

    def __init__(self) -> None:
        self.synced = False
        self.changed: Callable[[], None] = _nothing
        self._names: frozenset[str] = frozenset()

    def offer(self) -> bool:
        """Return whether it offers a device."""
        return bool(self._names)

    def replace(self, items: Iterable[Object]) -> None:
        """All there are."""
        self._put({_name(item) for item in items if _offers(item)})

    def apply(self, kind: str, manifest: Object) -> None:
        """One event."""
        others = set(self._names - {_name(manifest)})
        self._put(others if kind == "DELETED" or not _offers(manifest) else others | {_name(manifest)})

    def _put(self, names: set[str]) -> None:
        differs = not self.synced or names != self._names
        self.synced, self._names = True, frozenset(names)
        if differs:
            self.changed()


class Policy:
    """The PackingPolicy `default`.

    The last that could be read stays in force, also when it is deleted: without one the extender places nothing, and
    while Cotenant is taken away the GPUs that were given back must not be taken again.
    """

    def __init__(self, log: Log) -> None:
        self.spec: packingpolicy.Spec | None = None
        """None: it has not been seen yet, so that nothing may be offered."""
        self.changed: Callable[[], None] = _nothing
        self._log = log

    def tenant_user(self) -> packingpolicy.TenantUser | None:
        """Whom pods on shared GPUs may run as; None: the policy has not been seen yet."""
        return None if self.spec is None else self.spec.tenant_user

    def replace(self, items: Iterable[Object]) -> None:
        """Take in the one there is; where there has never been one, its defaults are in force."""
        found = next(iter(items), None)
        if found is not None or self.spec is None:
            self._take(found or {})

    def apply(self, kind: str, manifest: Object) -> None:
        """One event."""
        if kind != "DELETED":
            self._take(manifest)

    def _take(self, manifest: Object) -> None:
        try:
            read = packingpolicy.PackingPolicy.from_object(dict(manifest)).spec
        except errors.InvalidInputError as error:
            self._log.warning("the PackingPolicy cannot be read, the last that could stays in force: %s", error)
            return
        if read != self.spec:
            self.spec = read
            self.changed()


def _foreign(resource: str, amount: object) -> bool:
    return resource.startswith(NVIDIA_RESOURCES) and str(amount) != "0"


def _offers(piece: Object) -> bool:
    """Return whether a ResourceSlice offers a device of NVIDIA's; shared counters alone are none."""
    spec = piece.get("spec") or {}
    return spec.get("driver") == NVIDIA_DRA_DRIVER and bool(spec.get("devices"))


def _name(manifest: Object) -> str:
    return str((manifest.get("metadata") or {}).get("name", ""))


def _nothing() -> None:
    """Nobody listens yet."""
