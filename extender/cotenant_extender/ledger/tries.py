"""What kube-scheduler's tries of waiting pods told: which nodes its own plugins refused. Pure; bounded in memory.

kube-scheduler asks filter about the nodes that its plugins accept, and asks nothing where they accept none. So a report
that no node was found tells of all nodes, too: of those that were named, or that none was.

A verdict stands until kube-scheduler's next try. It tries a pod again whenever something changes that may help, and
every 5 minutes. A verdict that is older than `EXPIRES_SECONDS` is forgotten all the same.
"""

from collections import OrderedDict
from collections.abc import Iterable

from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import earmarks
from cotenant_extender.packing import nodeset

EXPIRES_SECONDS = 600.0
"""Twice the time after which kube-scheduler tries every pod again (`podMaxInUnschedulablePodsDuration`)."""
LIMIT = 4096
"""Pods with verdicts."""
FLEETS = 8
"""Different sets of nodes, as nodes come and go, that verdicts may tell of: the oldest are forgotten with the ninth."""


class Tries:
    """Verdicts by pod, while this extender answers kube-scheduler.

    Attributes:
        following: whether this extender answers kube-scheduler; another's tries tell nothing.
        ignores_shares: whether kube-scheduler was seen to accept a node that has too little `gpu-share` left.
    """

    def __init__(self) -> None:
        self.ignores_shares = False
        self.following = False
        self._verdicts: OrderedDict[PodUID, tuple[nodeset.NodeSet, float]] = OrderedDict()
        self._rows: list[nodeset.Rows] = []
        self._asked: dict[PodUID, bool] = {}
        self._silent: dict[PodUID, None] = {}

    def start(self) -> None:
        """Follow kube-scheduler's tries from now on."""
        self.following = True

    def stop(self) -> list[PodUID]:
        """Follow nothing: another extender answers. Return the pods whose verdicts are forgotten."""
        forgotten = list(self._verdicts)
        self.following = False
        for known in (self._verdicts, self._asked, self._silent, self._rows):
            known.clear()
        return forgotten

    def verdict(self, uid: PodUID) -> nodeset.NodeSet | None:
        """Return the nodes that were refused for a pod when kube-scheduler tried it last."""
        found = self._verdicts.get(uid)
        return None if found is None else found[0]

    def observe(self, known: records.Pod | None, record: records.Pod) -> None:
        """Note what a pod's new state tells of tries: one begins with the lifted gate and ends with a report."""
        uid = record.uid
        if not self.following or known is None:
            return
        if not record.pending:
            self.forget(uid)
        elif known.gates and not record.gates:
            self._asked[uid] = False
        elif record.unschedulable not in (None, known.unschedulable):
            self.ended(uid, tells=not (record.errored or earmarks.is_early(record.unschedulable)))

    def began(self, uid: PodUID) -> None:
        """A try begins: the pod was given another earmark."""
        if self.following:
            self._asked[uid] = False

    def asked(self, uid: PodUID) -> bool:
        """Note that filter was asked about a pod. Return whether what it was asked is worth remembering."""
        if self.following:
            self._asked[uid] = True
            self._silent.pop(uid, None)
        return self.following

    def ended(self, uid: PodUID, *, tells: bool = True) -> None:
        """Note that a try was in vain. One in which filter was not asked tells that all nodes were refused.

        `tells`: whether the try tells of nodes. It does not where it ended by an error, nor where filter was asked in
        it, perhaps before the pod was given another earmark.
        """
        if self._asked.get(uid) is False and tells:
            self._silent[uid] = None
        if uid in self._asked:
            self._asked[uid] = False

    def silent(self) -> list[PodUID]:
        """Return the pods whose last try ended without a question to filter; each is returned once."""
        found = list(self._silent)
        self._silent.clear()
        return found

    def learn(self, uid: PodUID, verdict: nodeset.NodeSet | None, *, now: float) -> list[PodUID]:
        """Note a verdict in place of the last one. Return the pods whose verdicts were forgotten for it."""
        self._verdicts.pop(uid, None)
        if verdict is None:
            return []
        forgotten: list[PodUID] = []
        if not any(rows is verdict.rows for rows in self._rows):
            self._rows.append(verdict.rows)
        if len(self._rows) > FLEETS:
            oldest = self._rows.pop(0)
            forgotten += [pod for pod, (known, _) in self._verdicts.items() if known.rows is oldest]
        if len(self._verdicts) >= LIMIT:
            forgotten.append(next(iter(self._verdicts)))
        self._drop(forgotten)
        self._verdicts[uid] = verdict, now
        return forgotten

    def refused_on(self, name: NodeName) -> list[PodUID]:
        """Return the pods for which a node was refused."""
        return [uid for uid, (found, _) in self._verdicts.items() if name in found]

    def accept(self, uid: PodUID, name: NodeName) -> None:
        """Take a node out of a pod's verdict."""
        found, since = self._verdicts[uid]
        rest = found.without([name])
        if rest is None:
            self._drop([uid])
        else:
            self._verdicts[uid] = rest, since

    def expired(self, *, now: float) -> list[PodUID]:
        """Forget old verdicts; return whose they were."""
        found = []
        for uid, (_, since) in self._verdicts.items():
            if now - since < EXPIRES_SECONDS:
                break
            found.append(uid)
        self._drop(found)
        return found

    def forget(self, uid: PodUID) -> None:
        """Forget a pod that waits no longer."""
        self._drop([uid])
        self._asked.pop(uid, None)
        self._silent.pop(uid, None)

    def _drop(self, uids: Iterable[PodUID]) -> None:
        for uid in uids:
            self._verdicts.pop(uid, None)
