"""Where the volumes of waiting pods can be used, by their claims. Pure; objects in, affected pods out.

A claim that is bound can be used where the node affinity of its PersistentVolume allows. One that is not can be used
where its StorageClass allows its volume to be made; whether there is room for it, only kube-scheduler evaluates.
"""

from collections.abc import Collection

from cotenant_api.names import PodUID
from cotenant_extender import records, storage
from cotenant_extender.packing import constraints

KINDS: tuple[type[storage.Stored], ...] = (storage.Claim, storage.Volume, storage.StorageClass)
NOBODY: frozenset[PodUID] = frozenset()


class Volumes:
    """All claims, volumes and storage classes, and which waiting pods use which claims."""

    def __init__(self) -> None:
        self._stored: dict[type[storage.Stored], dict[storage.Key, storage.Stored]] = {kind: {} for kind in KINDS}
        self._users: dict[storage.Key, set[PodUID]] = {}
        self._used: dict[PodUID, list[storage.Key]] = {}

    def put(self, found: storage.Stored) -> frozenset[PodUID]:
        """Note an object as it is; return the pods whose volumes it may concern."""
        self._stored[type(found)][found.key] = found
        return self._concerned(found)

    def remove(self, kind: type[storage.Stored], key: storage.Key) -> frozenset[PodUID]:
        """Note that an object is gone; return the pods whose volumes it may have concerned."""
        gone = self._stored[kind].pop(key, None)
        return NOBODY if gone is None else self._concerned(gone)

    def retain(self, kind: type[storage.Stored], keys: Collection[storage.Key]) -> frozenset[PodUID]:
        """Note that all other objects of a kind are gone; return the pods whose volumes that may concern."""
        gone = [key for key in self._stored[kind] if key not in keys]
        return NOBODY.union(*(self.remove(kind, key) for key in gone))

    def follow(self, record: records.Pod) -> None:
        """Note which claims a pod uses while it waits."""
        self.forget(record.uid)
        if record.pending and record.volume_claims:
            used = self._used[record.uid] = [(str(record.namespace), name) for name in record.volume_claims]
            for key in used:
                self._users.setdefault(key, set()).add(record.uid)

    def forget(self, uid: PodUID) -> None:
        """Forget a pod that waits no longer."""
        for key in self._used.pop(uid, ()):
            users = self._users.get(key, set())
            users.discard(uid)
            if not users:
                self._users.pop(key, None)

    def where(self, record: records.Pod) -> tuple[storage.Terms, ...]:
        """Return where the volumes of a pod can be used: alternatives of each that cannot be used everywhere."""
        found = (self._of_claim((str(record.namespace), name)) for name in record.volume_claims)
        return tuple(sorted({terms for one in found for terms in one}, key=repr))

    def _of_claim(self, key: storage.Key) -> tuple[storage.Terms, ...]:
        claim = self._stored[storage.Claim].get(key)
        if not isinstance(claim, storage.Claim):
            return ()
        if claim.volume:
            return _terms(self._stored[storage.Volume].get(("", claim.volume)))
        selected: tuple[storage.Terms, ...] = ()
        if claim.selected:
            named = constraints.Expression("metadata.name", "In", (claim.selected,))
            selected = ((constraints.Term((), (named,)),),)
        made_by = self._stored[storage.StorageClass].get(("", claim.storage_class))
        return (*_terms(made_by), *selected)

    def _concerned(self, item: storage.Stored) -> frozenset[PodUID]:
        match item:
            case storage.Claim():
                return frozenset(self._users.get(item.key, ()))
            case storage.Volume():
                return NOBODY if item.claim is None else frozenset(self._users.get(item.claim, ()))
            case storage.StorageClass():
                return frozenset(self._used)


def _terms(found: storage.Stored | None) -> tuple[storage.Terms, ...]:
    """Return the alternatives of a volume, or of a class, if there are any."""
    restricts = isinstance(found, storage.Volume | storage.StorageClass) and found.terms
    return (restricts,) if restricts else ()
