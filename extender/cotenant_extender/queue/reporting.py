"""Which pods' condition `cotenant.dev/Packed` is to be written now.

`Placed` and `InvalidRequest` at once; why a pod waits when it has waited `FIRST_SECONDS` and no queue is being worked
off, and after that when the reason changes, its place in the queue has, when it is expected to start, or the words of
the message beside its numbers, at most every `INTERVAL_SECONDS` per pod. Who is not among the first `FRONT` is told a
new place when it is half, or twice, of what was told, and new words after `WORDS_SECONDS`: a few times in a long wait.
Among thousands that wait, words and starts are told more rarely, `POD_SECONDS` for each of them: a report is up to
three writes, with its event and with what the operator makes of it, and they delay Bindings.
A pod whose report is still being written, or whose namespace has many that are, is looked at anew after that.
A pod that has waited `EVENT_SECONDS` is told by an event, too: `kubectl describe pod` shows no words of conditions.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from cotenant_api import places
from cotenant_api.names import PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import booked, records, steps
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import telling

FIRST_SECONDS = 1.0
INTERVAL_SECONDS = 30.0
EVENT_SECONDS = 10.0
WORDS_SECONDS = 300.0
POD_SECONDS = 0.5
MOST_SECONDS = 900.0
"""However many wait."""
FRONT = 10
STEP_SECONDS = 300.0
"""An expected start that has moved by less is not told again, nor one that has by less than a quarter of the rest."""
RECHECK_SECONDS = 5.0
"""How often the reason of a pod that waits is asked for."""

TALLIES = 16
"""Tallies over all GPUs that are made at a time; who has waited longest for one goes first."""
LOOKED_AT = 256
"""Pods that are looked at, at a time; who has waited longest for it goes first."""
EVENTS = 32
"""Pods that are told by an event at a time; the others soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A condition to write.

    Attributes:
        times: how often its event has been told with this time; 0: no event.
    """

    record: records.Pod
    reason: PackedReason
    message: str
    times: int = 0

    @property
    def placed(self) -> bool:
        """Whether the condition is True."""
        return self.reason is PackedReason.PLACED


@dataclass(slots=True)
class _Told:
    """What a pod was told last, and when it is to be looked at again.

    Attributes:
        place: in the queue, as it was told; 0: none.
        spoken: the reason that an event told of.
        times: how often.
        start: when it was expected to start; None: nothing was said of that.
        words: the message without its numbers.
        when: when it was told.
    """

    reason: str | None
    again: float
    place: int = 0
    spoken: str | None = None
    times: int = 0
    start: float | None = None
    words: str = ""
    when: float = 0.0


Room = Callable[[records.Pod], bool]


def _everywhere(_: records.Pod) -> bool:
    return True


class _Pace(NamedTuple):
    """How much is told.

    Attributes:
        crowd: seconds after which a pod may be told other words, or another start.
        aloud: whether an event may tell it, too.
    """

    now: float
    crowd: float
    aloud: bool


class Reporter:
    """Remembers what was written when.

    Args:
        room: whether a report on a pod can be taken now; asked again after each that was yielded.
    """

    def __init__(self, room: Room = _everywhere) -> None:
        self._room = room
        self._told: dict[PodUID, _Told] = {}

    def placed(self, source: ledger.Ledger, *, now: float) -> Iterator[Report]:
        """Yield the conditions of placed pods to write now; they count as written.

        Those that could not be written before come after all others: they may never be.
        """
        due = [record for record in source.index.unreported.values() if self._room(record)]
        for record in sorted(due, key=self._failed_at):
            report = self._placed(record, now=now) if self._room(record) else None
            if report is not None:
                yield report

    def waiting(
        self,
        source: ledger.Ledger,
        teller: telling.Teller,
        *,
        now: float,
        calm: bool = True,
        late: steps.Late = steps.never,
    ) -> Iterator[Report | None]:
        """Yield the conditions of pods that wait to write now; they count as written.

        Unless it is calm, only those of requests that cannot be read: while a queue is worked off, most of the others
        would be outdated by the time they are written, and what that costs the API server delays Bindings.

        None: it is late, and whoever asks lets others have their turn before it goes on. Who has changed by then is
        told another time. Without a policy nobody is told anything.
        """
        policy = source.policy
        if policy is None:
            return

        waited, due = False, list[telling.Waiting]()
        for _ in self._due(source, teller, due, now=now, calm=calm):
            if late(steps.BEGIN):
                waited = True
                yield None
        limit, events = teller.asked + TALLIES, 0
        crowd = min(POD_SECONDS * len(source.index.pending), MOST_SECONDS)
        for pod in due[:LOOKED_AT]:
            if teller.asked >= limit:
                break
            if late(steps.BEGIN_LONG if pod.entry is not None and pod.entry.gang is not None else steps.BEGIN):
                waited = True
                yield None
            if not self._room(pod.record) or (waited and source.pods.get(pod.record.uid) is not pod.record):
                continue
            words = teller.explain(source, policy, pod, now=now)
            start = teller.expected_start(pod.entry)
            report = self._waiting(pod, words, start, pace=_Pace(now, crowd, events < EVENTS))
            if report is not None:
                events += report.times > 0
                yield report
        if len(self._told) > 2 * len(source.pods) + 100:
            self._told = {uid: told for uid, told in self._told.items() if uid in source.pods}

    def _due(
        self, source: ledger.Ledger, teller: telling.Teller, found: list[telling.Waiting], *, now: float, calm: bool
    ) -> steps.Steps[None]:
        """Find in steps whose turn it is to be looked at, who has waited longest for it first."""

        def is_due(record: records.Pod) -> bool:
            return (calm or record.request is None) and self._again(record, now=now) <= now and self._room(record)

        found += yield from teller.looked_for(source, among=is_due)
        found.sort(key=lambda pod: self._told[pod.record.uid].again)

    def failed(self, report: Report, *, now: float) -> None:
        """Note that a report could not be written: it comes again soon, but not at once."""
        reason = report.reason if report.placed else None
        self._told[report.record.uid] = _Told(reason, now + RECHECK_SECONDS)

    def _failed_at(self, record: records.Pod) -> float:
        """Return when the condition of a placed pod is tried again; 0: it was not tried."""
        told = self._told.get(record.uid)
        return told.again if told is not None and told.reason == PackedReason.PLACED else 0.0

    def _placed(self, record: records.Pod, *, now: float) -> Report | None:
        told = self._told.get(record.uid)
        if record.placement is None or (told and told.reason == PackedReason.PLACED and now < told.again):
            return None
        self._told[record.uid] = _Told(PackedReason.PLACED, now + INTERVAL_SECONDS)
        return Report(record=record, reason=PackedReason.PLACED, message=where(record.placement))

    def _again(self, record: records.Pod, *, now: float) -> float:
        """When a pod is to be looked at."""
        told = self._told.get(record.uid)
        if told is None:
            reason, message = record.packed or (None, "")
            first = now if record.request is None else now + FIRST_SECONDS
            place = places.position(message) or 0
            told = _Told(reason, first, place=place, spoken=reason, times=1, words=_words(message))
            self._told[record.uid] = told
        return told.again

    def _waiting(
        self, pod: telling.Waiting, words: telling.Words, start: float | None, *, pace: _Pace
    ) -> Report | None:
        (now, crowd, aloud), told, (reason, message) = pace, self._told[pod.record.uid], words
        speaks = aloud and (reason is PackedReason.INVALID_REQUEST or now - pod.record.since >= EVENT_SECONDS)
        silent = speaks and reason != told.spoken
        same = reason == told.reason and not silent and not _moved(told.place, pod.position)
        same = same and pod.record.told in (None, pod.record.since)
        since, front = now - told.when, pod.position <= FRONT
        reworded = _words(message) != told.words and since >= (0.0 if front else max(WORDS_SECONDS, crowd))
        shifted = _shifted(told.start, start, now=now) and (front or since >= crowd)
        if same and not reworded and not shifted:
            told.again = now + RECHECK_SECONDS
            return None
        told.times = 0 if not speaks else 1 if silent else told.times + 1
        told.spoken = reason if speaks else told.spoken
        told.reason, told.again, told.place = reason, now + INTERVAL_SECONDS, pod.position
        told.start, told.words, told.when = start, _words(message), now
        return Report(record=pod.record, reason=reason, message=message, times=told.times)


def _moved(told: int, place: int) -> bool:
    """Return whether a pod's place is so different from what it was told that it is worth a request."""
    return place != told and (place <= FRONT or 2 * place <= told or place >= 2 * told)


def _words(message: str) -> str:
    """Return what a message says apart from how many and how much: that changes with every pod that comes or goes."""
    return re.sub(r"[\d.]+\w*", "", message)


def _shifted(told: float | None, start: float | None, *, now: float) -> bool:
    """Return whether a pod's expected start differs so much from what it was told that it is worth a request."""
    if told is None or start is None:
        return told is not start
    return abs(told - start) > max(STEP_SECONDS, abs(start - now) / 4)


def where(placed: booked.AnyPlaced) -> str:
    """Where a pod is, in words."""
    gpus = ", ".join(f"{gpu.uuid} ({gpu.share} hundredths, {gpu.memory_mib} MiB)" for gpu in placed.gpus)
    return f"on node {placed.node}: {gpus}"
