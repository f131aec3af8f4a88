"""Holds back writes that somebody else undoes again and again. Pure: times are passed in, in seconds of any clock.

Another controller may write the same field as the operator, or delete what the operator creates. Written at once each
time, both would write for ever. So the operator remembers its writes, by object and field:

- Three writes of a field within a minute are free. The next one waits 10 s after the last, then 20 s, up to 6 minutes.
- What the operator itself wants otherwise each time, as an autoscaler does of replicas, was not undone: it waits for
  none of that. But nothing is written more than five times in a minute.
- A field that was not written for 10 minutes is free again.
- A write that follows from another edit of the DLJob waits 40 s at most: its user is no rival.

While a write waits, its DLJob is decided on anew at each change. A write that is not needed any more is never made.

What never waits:

- the status and events: they have a pace of their own (`loop.pace`, `loop.events`);
- fences: each is written once for a patch without an answer, and no decision is safe before it (`loop.fences`);
- the deletion of what must not run, whatever became of it: a Job of a former attempt, a run that has ended before;
- the suspension of a gang that a quota has refused: `life.holding` has a backoff for the next try;
- the note of one more pod that is being taken away: without it, a program that ends well then counts as done.

A restart forgets all of this: the first three writes are free again.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from cotenant_api import backoff, dljob
from cotenant_operator import labels
from cotenant_operator.plans import actions
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.views import Key

FREE: Final = 3
"""Writes of a field within WINDOW_SECONDS that do not wait."""
WINDOW_SECONDS: Final = 60.0
FIRST_SECONDS: Final = 10.0
LONGEST_SECONDS: Final = 360.0
MOST_WAITS_OF_EDITS: Final = 2
"""So often the wait is doubled where the DLJob was edited between two writes. Once would be six writes in a minute."""
QUIET_SECONDS: Final = 600.0
"""A field that was not written for so long is free again. Longer than the longest wait."""
MOST_IN_WINDOW: Final = 5
"""So often a field is written within WINDOW_SECONDS, whatever is wanted of it."""
MOST: Final = 4 * dljob.MAX_RUNS
"""Fields that are remembered for one DLJob; the ones written longest ago are forgotten first.

Of a run of a sweep these are its creation, its spec, and its suspension with the note of it.
"""
CREATION: Final = "creation"
DELETION: Final = "deletion"

Path = tuple[str, ...]
_ANNOTATIONS: Final = ("metadata", "annotations")
_SETBACK: Final = (*_ANNOTATIONS, labels.QUOTA_SETBACK)
_OF_SETBACKS: Final = frozenset({_SETBACK, (*_ANNOTATIONS, labels.SUSPEND), ("spec", "suspend")})
_DISRUPTED: Final = (*_ANNOTATIONS, labels.DISRUPTED)
_VARYING: Final = frozenset({("spec", "replicas"), (*_ANNOTATIONS, labels.REPLICAS), _DISRUPTED})
"""Fields of which something else may be wanted each time, without an edit of the DLJob's spec by its user."""
_APART: Final = (
    frozenset({("spec", "backoffLimit")}),
    frozenset((*_ANNOTATIONS, note) for note in (labels.MADE_FROM, labels.SPEC_DIGEST, labels.MODEL_DIGEST)),
    frozenset({_DISRUPTED}),
)
"""Fields of a patch that mean something without the others, so neither waits for the other: a suspension would."""


class Write(NamedTuple):
    """What the operator writes: a field of an object, or the object.

    Attributes:
        field: the path of the field; (CREATION,) or (DELETION,) of the object.
    """

    kind: Kind
    name: str
    field: Path


class _Wait(NamedTuple):
    """Until when a write waits; `undone`: because somebody else undoes it."""

    due: float
    undone: bool = False


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What may be done of an action now.

    Attributes:
        action: what need not wait; None: all of it waits.
        waiting: what waits.
        undone: of that, what somebody else undoes.
        due: when the first of what waits may be written.
    """

    action: actions.Action | None
    waiting: tuple[Write, ...] = ()
    undone: tuple[Write, ...] = ()
    due: float | None = None


@dataclass(slots=True)
class _History:
    """When one field was written. A large sweep has thousands of these.

    Attributes:
        last: times of the last writes, whatever was written.
        times: of the last writes of the same value.
        value: what was last written, of a field that varies.
        waits: how often the next wait is doubled.
        generation: of the DLJob's spec from which the last write followed.
        told: whether it was told that a write waits.
    """

    last: tuple[float, ...] = ()
    times: tuple[float, ...] = ()
    value: object = None
    waits: int = 0
    generation: int | None = None
    told: bool = False

    def wait(self, write: Write, value: object, now: float, generation: int) -> _Wait:
        """Return when the field may be written next, as a spec of this generation says."""
        last = self.last[-1]
        if now - last >= QUIET_SECONDS:
            return _Wait(now)
        if value != self.value and write.field == _DISRUPTED:
            return _Wait(now)
        if value != self.value or not self._is_contested(now):
            often = len(self.last) == MOST_IN_WINDOW
            return _Wait(max(now, self.last[0] + WINDOW_SECONDS) if often else now)
        waits = self.waits if generation == self.generation else min(self.waits, MOST_WAITS_OF_EDITS)
        return _Wait(last + backoff.doubled(FIRST_SECONDS, waits, most=LONGEST_SECONDS), undone=True)

    def wrote(self, value: object, now: float, generation: int) -> None:
        """Note a write that followed from a spec of this generation."""
        if value != self.value or (self.last and now - self.last[-1] >= QUIET_SECONDS):
            self.times, self.waits, self.told = (), 0, False
        if self._is_contested(now):
            self.waits += 1
            if generation != self.generation:
                self.waits = min(self.waits, MOST_WAITS_OF_EDITS)
        self.times = (*self.times, now)[-FREE:]
        self.last = (*self.last, now)[-MOST_IN_WINDOW:]
        self.value, self.generation = value, generation

    def _is_contested(self, now: float) -> bool:
        often = len(self.times) == FREE and now - self.times[0] < WINDOW_SECONDS
        return self.waits > 0 or often


class Contests:
    """Remembers what was written for DLJobs, and when the same may be written again."""

    def __init__(self) -> None:
        self._histories: OrderedDict[Key, OrderedDict[Write, _History]] = OrderedDict()
        self._uids: dict[Key, str] = {}

    def begin(self, key: Key, uid: str) -> None:
        """Forget what was written for another DLJob that had this name."""
        if self._uids.get(key) != uid:
            self.forget(key)
            self._uids[key] = uid

    def turn(self, key: Key, action: actions.Action, now: float, *, generation: int) -> Turn:
        """Return what may be done of an action of a DLJob now, and when the rest may be.

        Args:
            key: the DLJob.
            action: what is to be done.
            now: the time.
            generation: of the DLJob's spec from which the action follows.
        """
        found = {
            write: self._wait(key, write, value, now=now, generation=generation)
            for write, value in writes(action).items()
        }
        if all(wait.due <= now for wait in found.values()):
            return Turn(action=action)
        # Fields that belong together wait for one another.
        held = [group for group in _groups(found) if any(found[write].due > now for write in group)]
        waiting = tuple(write for group in held for write in group if found[write].due > now)
        undone = tuple(write for write in waiting if found[write].undone)
        first = min(max(found[write].due for write in group) for group in held)
        left = None
        if isinstance(action, actions.Change):
            left = _without(action, {write.field for group in held for write in group})
        return Turn(action=left, waiting=waiting, undone=undone, due=first)

    def wrote(self, key: Key, action: actions.Action, now: float, *, generation: int) -> None:
        """Note that an action was done.

        What was refused, or got no answer, is not noted: the work queue has a backoff for that.

        Args:
            key: the DLJob.
            action: what was done.
            now: the time.
            generation: of the DLJob's spec from which the action followed.
        """
        for write, value in writes(action).items():
            known = self._histories.setdefault(key, OrderedDict())
            known.setdefault(write, _History(value=value)).wrote(value, now, generation)
            known.move_to_end(write)
            self._histories.move_to_end(key)
            while len(known) > MOST:
                known.popitem(last=False)
        self._forget_quiet(now)

    def untold(self, key: Key, waiting: tuple[Write, ...]) -> tuple[Write, ...]:
        """Return those writes that wait of which nobody was told yet; from now on they were told."""
        known = self._histories.get(key)
        if known is None:
            return ()
        new = tuple(write for write in waiting if write in known and not known[write].told)
        for write in new:
            known[write].told = True
        return new

    def forget(self, key: Key) -> None:
        """Forget a DLJob that is gone."""
        self._histories.pop(key, None)
        self._uids.pop(key, None)

    def __len__(self) -> int:
        return sum(len(known) for known in self._histories.values())

    def _wait(self, key: Key, write: Write, value: object, *, now: float, generation: int) -> _Wait:
        known = self._histories.get(key)
        if known is None or write not in known:
            return _Wait(now)
        return known[write].wait(write, value, now, generation)

    def _forget_quiet(self, now: float) -> None:
        """Forget what was not written for a while; the DLJobs are kept in the order of their last write."""
        while self._histories:
            key, known = next(iter(self._histories.items()))
            if now - next(reversed(known.values())).last[-1] < QUIET_SECONDS:
                return
            del self._histories[key]


def writes(action: actions.Action) -> dict[Write, object]:
    """Return what an action writes that may have to wait, and the values, of fields that vary."""
    match action:
        case actions.Create():
            return {Write(action.kind, str(action.manifest["metadata"]["name"]), (CREATION,)): None}
        case actions.ApplyDeployment():
            name = str(action.manifest["metadata"]["name"])
            return {Write(Kind.DEPLOYMENT, name, ("spec", "template")): None}
        case actions.Change():
            found = dict(_leaves(action.patch))
            exempt = _OF_SETBACKS if _SETBACK in found else frozenset()
            return {
                Write(action.kind, action.name, path): found[path] if path in _VARYING else None
                for path in sorted(found.keys() - exempt)
            }
        case actions.UpdateRun():
            return {Write(Kind.DLJOB, str(action.manifest["metadata"]["name"]), ("spec",)): None}
        case actions.Delete() if action.version is not None:
            return {Write(action.kind, action.name, (DELETION,)): None}
    return {}


def text(path: Path) -> str:
    """Return the path of a field as people write it."""
    return f"annotation {path[-1]}" if path[:-1] == _ANNOTATIONS else ".".join(path)


def _groups(found: Iterable[Write]) -> Iterator[list[Write]]:
    """Return the writes that belong together."""
    rest = list(found)
    for fields in _APART:
        group = [write for write in rest if write.field in fields]
        rest = [write for write in rest if write.field not in fields]
        if group:
            yield group
    if rest:
        yield rest


def _leaves(value: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, object]]:
    for name, part in value.items():
        if isinstance(part, Mapping):
            yield from _leaves(part, (*path, name))
        else:
            yield (*path, name), part


def _without(change: actions.Change, fields: set[Path]) -> actions.Change | None:
    """Return a patch less some fields; None: nothing is left."""
    left = replace(change, patch=_pruned(change.patch, lambda path: path not in fields))
    return None if next(_leaves(left.patch), None) is None else left


def _pruned(value: Mapping[str, Any], keeps: Callable[[Path], bool], path: Path = ()) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, part in value.items():
        if isinstance(part, Mapping):
            found[name] = _pruned(part, keeps, (*path, name))
        elif keeps((*path, name)):
            found[name] = part
    return found
