"""Earmarks: GPUs promised to pods whose gate was lifted and that kube-scheduler has not bound yet.

An earmark ends when its pod is bound, deleted or finished; when its GPU or node closes; and when kube-scheduler
reports that it found no node, or failed (a Binding or a volume was refused). kube-scheduler writes no report that
equals the standing one: so that one is taken back before the earmark is written (`podreports.TAKEN_BACK`), and however
long kube-scheduler takes, the next report is of a try with the earmark, or of one that had begun before. A report that
filter found no earmark is of a try before it, and ends none. After another report the pod waits, longer each time,
before it is earmarked again, and first where it did not fail.

Some pods kube-scheduler never tries, and says nothing of: one whose resource claim does not exist, for example. So an
earmark also ends when filter was not asked about its pod for `UNTRIED_SECONDS` after the earmark was seen on the pod,
twice as long each time, and the pod gets no other before kube-scheduler has tried it. Until the earmark is seen on the
pod, kube-scheduler cannot know of it, and cannot try a pod that has a gate: until then an earmark lasts as long as the
write that brings it (see `writer.Writer.lift`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from cotenant_api import backoff, errors, names, placement
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_extender import records

UNTRIED_SECONDS = 300.0
"""As long as kube-scheduler leaves a pod alone at most that it has tried in vain, by default."""
LONGEST_UNTRIED_SECONDS = 3600.0
BACKOFF_SECONDS = 2.0
BACKOFF_LIMIT_SECONDS = 300.0
KEEPING_SETBACKS = 4
"""After so many setbacks, which last half a minute together, nothing is held for a pod while it waits."""


class Note(placement.Earmark):
    """The earmark as annotated.

    Attributes:
        node: empty, as `gpus`, where the pod was fenced and nothing is promised.
        attempt: counts the pod's earmarks. A patch that changes nothing is no event; this one always wakes
            kube-scheduler, even for the same GPUs.
        leader: the mark of the term in which it was written (see `leadership`).
    """

    gpus: tuple[GPUUID, ...] = ()
    attempt: Annotated[int, Field(ge=1)] = 1
    leader: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earmark:
    """A promise.

    Attributes:
        placed: what is promised.
        made: when, in seconds since the epoch.
    """

    placed: placement.Placement
    attempt: int
    made: float
    leader: str

    def note(self) -> Note:
        """Return the annotation."""
        gpus = tuple(gpu.uuid for gpu in self.placed.gpus)
        return Note(node=self.placed.node, gpus=gpus, attempt=self.attempt, leader=self.leader)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """A promise that came to nothing.

    Attributes:
        node: where it was.
        until: when the pod may be earmarked again, in seconds since the epoch.
    """

    count: int
    node: NodeName
    until: float

    @property
    def short(self) -> bool:
        """Whether GPUs are held for the pod until it may be earmarked again."""
        return self.count <= KEEPING_SETBACKS


class Earmarks:
    """Standing earmarks and setbacks by pod.

    Attributes:
        leader: the mark of the present term, which every earmark bears.
        untried: pods that kube-scheduler left alone while they were promised GPUs.
        unmarked: pods that could not be marked at the take-over: they are not bound before they bear the mark.
    """

    def __init__(self) -> None:
        self.leader = ""
        self.untried: set[PodUID] = set()
        self.unmarked: set[PodUID] = set()
        self._live: dict[PodUID, Earmark] = {}
        self._unlifted: set[PodUID] = set()
        self._unasked: dict[PodUID, float] = {}
        self._left_alone: dict[PodUID, int] = {}
        self._setbacks: dict[PodUID, Setback] = {}

    def __len__(self) -> int:
        return len(self._live)

    def items(self) -> Iterator[tuple[PodUID, Earmark]]:
        """All that stand, as of now."""
        return iter(list(self._live.items()))

    def get(self, uid: PodUID) -> Earmark | None:
        """Return the pod's earmark."""
        return self._live.get(uid)

    def setback(self, uid: PodUID) -> Setback | None:
        """Return the pod's last setback."""
        return self._setbacks.get(uid)

    def put(self, record: records.Pod, placed: placement.Placement, *, now: float) -> Earmark:
        """Promise GPUs to a pod."""
        standing, written = self._live.get(record.uid), note(record)
        last = max(standing.attempt if standing else 0, written.attempt if written else 0)
        made = Earmark(placed=placed, attempt=last + 1, made=now, leader=self.leader)
        self._live[record.uid] = made
        self._unasked[record.uid] = now
        self._unlifted.add(record.uid)
        return made

    def adopt(self, record: records.Pod, placed: placement.Placement, *, now: float) -> None:
        """Take over an earmark that a former leader wrote."""
        written = note(record)
        attempt = 1 if written is None else written.attempt
        self._live[record.uid] = Earmark(placed=placed, attempt=attempt, made=now, leader=self.leader)
        self._unasked[record.uid] = now
        self._unlifted.discard(record.uid)

    def tried(self, uid: PodUID) -> bool:
        """Note that kube-scheduler tries a pod; whether it had left that alone."""
        self._stop_waiting(uid)
        found = uid in self.untried
        self.untried.discard(uid)
        return found

    def under_way(self, uid: PodUID) -> bool:
        """Return whether a promise is being written, or kube-scheduler has tried its pod and not reported that in vain.

        It may wait for a volume, for up to its `bindTimeoutSeconds` of 10 minutes.
        """
        return uid in self._live and (uid in self._unlifted or uid not in self._unasked)

    def left_alone(self, *, now: float) -> list[PodUID]:
        """Return the pods that kube-scheduler has left alone for so long that their earmarks end."""
        return [
            uid
            for uid, since in self._unasked.items()
            if uid not in self._unlifted and now - since >= self._patience(uid)
        ]

    def leave(self, uid: PodUID) -> None:
        """End an earmark; there is none for the pod before kube-scheduler has tried it."""
        self.drop(uid)
        self.untried.add(uid)
        self._left_alone[uid] = self._left_alone.get(uid, 0) + 1

    def _patience(self, uid: PodUID) -> float:
        """Return how long a pod may be left alone: a kube-scheduler that is always later would never place it else."""
        return backoff.doubled(UNTRIED_SECONDS, self._left_alone.get(uid, 0), most=LONGEST_UNTRIED_SECONDS)

    def observe(self, known: records.Pod | None, record: records.Pod, *, now: float) -> None:
        """Take in what a pod's state says of its earmark, beside the state that was known."""
        if record.node is not None or record.deleting or record.finished:
            self.forget(record.uid)
            return
        if record.uid in self._unlifted and bears(record, self._live[record.uid]):
            self._unlifted.discard(record.uid)
            self.unmarked.discard(record.uid)
            self._unasked[record.uid] = now
        stood = None if known is None else known.unschedulable
        if record.unschedulable in (None, stood):
            return
        self.tried(record.uid)
        if record.reported:
            self.fail(record.uid, now=now)

    def fail(self, uid: PodUID, *, now: float) -> None:
        """End an earmark that came to nothing: the pod waits before the next."""
        ended = self._live.pop(uid, None)
        self._stop_waiting(uid)
        if ended is None:
            return
        before = self._setbacks.get(uid)
        count = 1 if before is None else before.count + 1
        delay = backoff.doubled(BACKOFF_SECONDS, count - 1, most=BACKOFF_LIMIT_SECONDS)
        self._setbacks[uid] = Setback(count=count, node=ended.placed.node, until=now + delay)

    def drop(self, uid: PodUID) -> None:
        """End an earmark through no fault of the pod's: the next may come at once."""
        self._live.pop(uid, None)
        self._stop_waiting(uid)

    def forget(self, uid: PodUID) -> None:
        """Forget a pod that needs none any more."""
        self.drop(uid)
        self._setbacks.pop(uid, None)
        self.untried.discard(uid)
        self.unmarked.discard(uid)
        self._left_alone.pop(uid, None)

    def clear(self) -> None:
        """Another leader promises now."""
        for known in (self._live, self._setbacks, self._unasked, self._left_alone):
            known.clear()
        for pods in (self._unlifted, self.untried, self.unmarked):
            pods.clear()

    def _stop_waiting(self, uid: PodUID) -> None:
        """Wait no longer for kube-scheduler to try a pod."""
        self._unasked.pop(uid, None)
        self._unlifted.discard(uid)


def note(record: records.Pod) -> Note | None:
    """Return the pod's earmark annotation; one that cannot be read promises nothing."""
    if record.earmark is None:
        return None
    try:
        return Note.from_json(record.earmark, source=names.EARMARK)
    except errors.InvalidInputError:
        return None


def bears(record: records.Pod, earmark: Earmark) -> bool:
    """Return whether a pod has no gate and bears an earmark; a fence may have counted its attempt on."""
    written = note(record)
    if written is None or record.gates:
        return False
    return written.leader == earmark.leader and written.attempt >= earmark.attempt


def promises(record: records.Pod, placed: placement.Placement) -> bool:
    """Return whether the pod's earmark annotation names these GPUs: then whoever leads next knows of them."""
    written = note(record)
    gpus = {gpu.uuid for gpu in placed.gpus}
    return written is not None and written.node == placed.node and set(written.gpus) == gpus


def next_note(record: records.Pod, *, leader: str) -> Note:
    """Return the pod's earmark annotation with the next attempt and the mark of a leader; the promise stays."""
    written = note(record) or Note(node=NodeName(""))
    return written.model_copy(update={"attempt": written.attempt + 1, "leader": leader})
