"""Pods that are gone from the API server, but perhaps not from their nodes.

An agent lists a tenant in its GPUNode before the tenant can start, and reads the pod once more in between. So a pod
that is gone has ended when a GPUNode that was read after its deletion does not list it, or when an agent that listed
it lists it no longer, or when its Node is gone. Watches of pods and GPUNodes do not run in step: a pod that was not
listed when its deletion was heard of is doubtful until its GPUNode has been read. Only a request that was sent after
that tells of it: what another found may be from before the pod was listed.
"""

from collections.abc import Callable, Iterable

from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records

Lists = Callable[[PodUID], bool]


class Graves:
    """Pods that are gone, by what is known of their end.

    Attributes:
        pods: those that may still run: they count on.
        doubtful: those of them whose GPUNode must be read.
    """

    def __init__(self) -> None:
        self.pods: dict[PodUID, records.Pod] = {}
        self.doubtful: dict[PodUID, NodeName] = {}
        self._finished: dict[PodUID, NodeName] = {}
        self._asked: frozenset[PodUID] = frozenset()

    def vanished(self, record: records.Pod, *, listed: bool) -> None:
        """Keep a bound pod that is gone and had not finished."""
        self.pods[record.uid] = record
        if record.node is not None and not listed:
            self.doubtful[record.uid] = record.node

    def finished(self, uid: PodUID, node: NodeName) -> None:
        """Note a pod that is gone and had finished, and that its agent still lists: that means nothing."""
        self._finished[uid] = node

    def back(self, uid: PodUID) -> bool:
        """Forget a pod that is there again, as etcd was restored from a snapshot; return whether it counted."""
        self.doubtful.pop(uid, None)
        self._finished.pop(uid, None)
        return self.pods.pop(uid, None) is not None

    def has_finished(self, uid: PodUID) -> bool:
        """Return whether a pod that is gone is known to have finished."""
        return uid in self._finished

    def doubtful_on(self, node: NodeName) -> frozenset[PodUID]:
        """Return the pods of which a request for the node's GPUNode that is sent now will tell."""
        return frozenset(uid for uid, where in self.doubtful.items() if where == node)

    def ask(self) -> None:
        """Note that a list of all GPUNodes is about to be asked for."""
        self._asked = frozenset(self.doubtful)

    def asked_on(self, node: NodeName) -> frozenset[PodUID]:
        """Return the pods of which that list tells on a node."""
        return self._asked & self.doubtful_on(node)

    def told(self, uids: Iterable[PodUID]) -> None:
        """Note that what is known of these pods' GPUNodes was read after they were gone."""
        for uid in list(uids):
            self.doubtful.pop(uid, None)

    def ended(self, node: NodeName, *, listed: Lists | None) -> list[PodUID]:
        """Those that have ended, by what the agent lists now; they are forgotten. None: the Node is gone."""

        def over(uid: PodUID) -> bool:
            return listed is None or not listed(uid)

        found = []
        for uid in [uid for uid, record in self.pods.items() if record.node == node]:
            if not over(uid):
                self.doubtful.pop(uid, None)
            elif listed is None or uid not in self.doubtful:
                del self.pods[uid]
                self.doubtful.pop(uid, None)
                found.append(uid)
        for uid in [uid for uid, where in self._finished.items() if where == node and over(uid)]:
            del self._finished[uid]
        return found
