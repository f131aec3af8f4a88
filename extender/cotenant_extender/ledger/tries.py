"""What kube-scheduler's tries of waiting pods told: which nodes its own plugins refused. Pure; bounded in memory.

kube-scheduler asks filter about the nodes that its plugins accept, and asks nothing where they accept none. Then its
report has no reason of filter's, and tells that all nodes were refused. It writes no report that equals the standing
one. So what a report says is read from its words alone, not from what was seen since the one before.

An answer stands until kube-scheduler's next try. It tries a pod again whenever something changes that may help, and
every 5 minutes. An answer that named nodes and was not renewed for `EXPIRES_SECONDS` is forgotten. One that refused all
stands: a try with the same end writes nothing, and one with another end asks filter, or reports something else. For
the same reason the report of a pod whose answer is missing is taken back (`podreports.TAKEN_BACK`): its next try writes
one, whatever it says.

Where filter left a node and a report without its words follows, the try may have failed later (a volume was bound
meanwhile), or been another one: nothing is known then. Nor where news of a silent try come after the question of the
next.
"""

import itertools
import math
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from cotenant_api.names import NodeName, PodUID
from cotenant_extender import podreports, records
from cotenant_extender.packing import nodeset

EXPIRES_SECONDS = 600.0
"""Twice the time after which kube-scheduler tries every pod again (`podMaxInUnschedulablePodsDuration`)."""
LIMIT = 4096
"""Pods with answers."""
Kind: TypeAlias = tuple[nodeset.NodeSet | None, bool]
FLEETS = 8
"""Different sets of nodes, as nodes come and go, that answers may tell of: the oldest are forgotten with the ninth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What kube-scheduler's last try of a pod told.

    Attributes:
        rows: the nodes that there were.
        refused: those of them that it refused; None: none.
        expires: when it is forgotten, in seconds since the epoch.
        excludes: whether the pod itself excludes others from its node.
    """

    rows: nodeset.Rows
    refused: nodeset.NodeSet | None
    expires: float
    excludes: bool = True

    @staticmethod
    def of(rows: nodeset.Rows, refused: nodeset.Array, *, silent: bool, now: float, excludes: bool = True) -> "Answer":
        """Make an answer of a mask of shape (N,); `silent`: filter was not asked."""
        expires = math.inf if silent else now + EXPIRES_SECONDS
        return Answer(rows=rows, refused=nodeset.NodeSet.of(rows, refused), expires=expires, excludes=excludes)

    @property
    def kind(self) -> "Kind":
        """What answers have in common that are looked at together when a pod leaves a node."""
        return self.refused, self.excludes


class Tries:
    """Answers by pod, while this extender answers kube-scheduler.

    Attributes:
        following: whether this extender answers kube-scheduler; another's tries tell nothing.
    """

    def __init__(self) -> None:
        self.following = False
        self._answers: OrderedDict[PodUID, Answer] = OrderedDict()
        self._alike: dict[Kind, dict[PodUID, None]] = {}
        self._expiring: OrderedDict[PodUID, float] = OrderedDict()
        self._rows: list[nodeset.Rows] = []
        self._left: set[PodUID] = set()
        self._silent: dict[PodUID, None] = {}

    def start(self) -> None:
        """Follow kube-scheduler's tries from now on."""
        self.following = True

    def stop(self) -> list[PodUID]:
        """Follow nothing: another extender answers. Return the pods whose answers are forgotten."""
        forgotten = list(self._answers)
        self.following = False
        for known in (self._answers, self._alike, self._expiring, self._left, self._silent, self._rows):
            known.clear()
        return forgotten

    def verdict(self, uid: PodUID) -> nodeset.NodeSet | None:
        """Return the nodes that were refused for a pod when kube-scheduler tried it last."""
        found = self._answers.get(uid)
        return None if found is None else found.refused

    def tells_of(self, uid: PodUID, names: Collection[NodeName]) -> bool:
        """Return whether it is known of each of these nodes what kube-scheduler's last try of a pod found there.

        Where this extender answers no kube-scheduler there is none to wait for.
        """
        found = self._answers.get(uid)
        return not self.following or (found is not None and all(name in found.rows for name in names))

    def observe(self, known: records.Pod | None, record: records.Pod) -> None:
        """Note what a pod's new state tells of tries."""
        if not self.following or known is None:
            return
        report = record.unschedulable
        if not record.pending:
            self.forget(record.uid)
        elif report is not None and report != known.unschedulable:
            self._ended(record.uid, report, errored=record.errored)

    def asked(self, uid: PodUID, *, left: bool) -> bool:
        """Note that filter was asked about a pod. Return whether what it was asked is worth remembering.

        `left`: whether filter left a node, so that the pod is about to be bound.
        """
        if self.following:
            self._silent.pop(uid, None)
            (self._left.add if left else self._left.discard)(uid)
        return self.following and not left

    def _ended(self, uid: PodUID, report: str, *, errored: bool) -> None:
        """Note that a try was in vain; one that ended by an error tells of no node."""
        left = uid in self._left
        self._left.discard(uid)
        self._silent.pop(uid, None)
        if errored:
            return
        if podreports.from_filter(report):
            standing = self._answers.get(uid)
            if standing is not None and standing.expires == math.inf:
                self._drop([uid])
        elif left:
            self._drop([uid])
        else:
            self._silent[uid] = None

    @property
    def any_silent(self) -> bool:
        """Whether `silent` would return a pod."""
        return bool(self._silent)

    def silent(self, *, most: int) -> list[PodUID]:
        """Return pods whose last try ended without a question to filter, at most so many; each is returned once."""
        found = list(itertools.islice(self._silent, most))
        for uid in found:
            del self._silent[uid]
        return found

    def learn(self, uid: PodUID, answer: Answer) -> list[PodUID]:
        """Note an answer in place of the last one. Return the pods whose answers were forgotten for it."""
        self._drop([uid])
        forgotten: list[PodUID] = []
        if not any(rows is answer.rows for rows in self._rows):
            self._rows.append(answer.rows)
        if len(self._rows) > FLEETS:
            oldest = self._rows.pop(0)
            forgotten += [pod for pod, known in self._answers.items() if known.rows is oldest]
        if len(self._answers) >= LIMIT:
            forgotten.append(next(iter(self._answers)))
        self._drop(forgotten)
        self._put(uid, answer)
        if answer.expires < math.inf:
            self._expiring[uid] = answer.expires
        return forgotten

    @property
    def kinds(self) -> int:
        """How many different answers there are."""
        return len(self._alike)

    def refused_on(self, name: NodeName, *, excluding: bool = False) -> list[PodUID]:
        """Return the pods for which a node was refused; `excluding`: only those that exclude others themselves."""
        found = [
            uids
            for (refused, excludes), uids in self._alike.items()
            if refused is not None and (excludes or not excluding) and name in refused
        ]
        return list(itertools.chain.from_iterable(found))

    def accept(self, uid: PodUID, name: NodeName) -> bool:
        """Take a node out of what was refused for a pod; return whether it was refused."""
        found = self._answers.get(uid)
        if found is None or found.refused is None or name not in found.refused:
            return False
        self._unlist(uid, found)
        self._put(uid, replace(found, refused=found.refused.without([name])))
        return True

    def expired(self, *, now: float, most: int) -> list[PodUID]:
        """Forget old answers, at most so many; return whose they were."""
        old = itertools.takewhile(lambda uid: self._expiring[uid] <= now, self._expiring)
        found = list(itertools.islice(old, most))
        self._drop(found)
        return found

    def forget(self, uid: PodUID) -> None:
        """Forget a pod that waits no longer."""
        self._drop([uid])
        self._left.discard(uid)
        self._silent.pop(uid, None)

    def _put(self, uid: PodUID, answer: Answer) -> None:
        self._answers[uid] = answer
        self._alike.setdefault(answer.kind, {})[uid] = None

    def _unlist(self, uid: PodUID, answer: Answer) -> None:
        alike = self._alike[answer.kind]
        del alike[uid]
        if not alike:
            del self._alike[answer.kind]

    def _drop(self, uids: Iterable[PodUID]) -> None:
        for uid in uids:
            found = self._answers.pop(uid, None)
            if found is not None:
                self._unlist(uid, found)
            self._expiring.pop(uid, None)
