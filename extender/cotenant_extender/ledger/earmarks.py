"""Earmarks: GPUs promised to pods whose gate was lifted and that kube-scheduler has not bound yet.

An earmark ends when its pod is bound, deleted or finished; when its GPU or node closes; and when kube-scheduler
reports that it found no node, or failed (a Binding or a volume was refused). kube-scheduler writes no event for a
report that equals the standing one: where one stood already when the earmark was made, it also ends after
`STANDING_SECONDS`. A report that filter found no earmark is of a try before the earmark, and ends none. After another
report the pod waits, longer each time, before it is earmarked again, and first where it did not fail.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from cotenant_api import errors, names, placement
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_extender import records

NOT_PROMISED = "the queue has not promised it one yet"
"""What filter says of a pod without an earmark that a GPU would take; it stands in kube-scheduler's report, too."""
STANDING_SECONDS = 20.0
BACKOFF_SECONDS = 2.0
BACKOFF_LIMIT_SECONDS = 300.0


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
        report: kube-scheduler's report that stood when it was made.
        made: when, in seconds since the epoch.
    """

    placed: placement.Placement
    attempt: int
    report: str | None
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


class Earmarks:
    """Standing earmarks and setbacks by pod.

    Attributes:
        leader: the mark of the present term, which every earmark bears.
        unmarked: pods that could not be marked at the take-over: they are not bound before they bear the mark.
    """

    def __init__(self) -> None:
        self.leader = ""
        self.unmarked: set[PodUID] = set()
        self._live: dict[PodUID, Earmark] = {}
        self._setbacks: dict[PodUID, Setback] = {}

    def __len__(self) -> int:
        return len(self._live)

    def items(self) -> Iterator[tuple[PodUID, Earmark]]:
        """All that stand, as of now."""
        return iter(list(self._live.items()))

    def get(self, uid: PodUID) -> Earmark | None:
        """The pod's earmark."""
        return self._live.get(uid)

    def setback(self, uid: PodUID) -> Setback | None:
        """The pod's last setback."""
        return self._setbacks.get(uid)

    def put(self, record: records.Pod, placed: placement.Placement, *, now: float) -> Earmark:
        """Promise GPUs to a pod."""
        standing, written = self._live.get(record.uid), note(record)
        last = max(standing.attempt if standing else 0, written.attempt if written else 0)
        made = Earmark(placed=placed, attempt=last + 1, report=record.unschedulable, made=now, leader=self.leader)
        self._live[record.uid] = made
        return made

    def adopt(self, record: records.Pod, placed: placement.Placement, *, now: float) -> None:
        """Take over an earmark that a former leader wrote."""
        written = note(record)
        attempt = 1 if written is None else written.attempt
        self._live[record.uid] = Earmark(
            placed=placed, attempt=attempt, report=record.unschedulable, made=now, leader=self.leader
        )

    def observe(self, record: records.Pod, *, now: float) -> None:
        """What a pod's state says of its earmark."""
        if record.node is not None or record.deleting or record.finished:
            self.forget(record.uid)
            return
        standing = self._live.get(record.uid)
        if standing is None or is_early(record.unschedulable):
            return
        if record.unschedulable not in (None, standing.report):
            self.fail(record.uid, now=now)

    def overdue(self, *, now: float) -> list[PodUID]:
        """Pods that kube-scheduler had reported before, and has not bound since."""
        return [
            uid
            for uid, earmark in self._live.items()
            if earmark.report is not None and now - earmark.made >= STANDING_SECONDS
        ]

    def fail(self, uid: PodUID, *, now: float) -> None:
        """It came to nothing: the pod waits before the next."""
        ended = self._live.pop(uid, None)
        if ended is None:
            return
        before = self._setbacks.get(uid)
        count = 1 if before is None else before.count + 1
        delay = min(BACKOFF_SECONDS * 2 ** (count - 1), BACKOFF_LIMIT_SECONDS)
        self._setbacks[uid] = Setback(count=count, node=ended.placed.node, until=now + delay)

    def drop(self, uid: PodUID) -> None:
        """It ends through no fault of the pod's: the next may come at once."""
        self._live.pop(uid, None)

    def forget(self, uid: PodUID) -> None:
        """The pod needs none any more."""
        self._live.pop(uid, None)
        self._setbacks.pop(uid, None)

    def clear(self) -> None:
        """Another leader promises now."""
        self._live.clear()
        self._setbacks.clear()
        self.unmarked.clear()


def is_early(report: str | None) -> bool:
    """Return whether a report of kube-scheduler's is of a try in which the pod had no earmark yet."""
    return report is not None and NOT_PROMISED in report


def note(record: records.Pod) -> Note | None:
    """The pod's earmark annotation; one that cannot be read promises nothing."""
    if record.earmark is None:
        return None
    try:
        return Note.from_json(record.earmark, source=names.EARMARK)
    except errors.InvalidInputError:
        return None


def promises(record: records.Pod, placed: placement.Placement) -> bool:
    """Return whether the pod's earmark annotation names these GPUs: then whoever leads next knows of them."""
    written = note(record)
    gpus = {gpu.uuid for gpu in placed.gpus}
    return written is not None and written.node == placed.node and set(written.gpus) == gpus


def next_note(record: records.Pod, *, leader: str) -> Note:
    """Return the pod's earmark annotation with the next attempt and the mark of a leader; the promise stays."""
    written = note(record) or Note(node=NodeName(""))
    return written.model_copy(update={"attempt": written.attempt + 1, "leader": leader})
