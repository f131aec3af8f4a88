"""Takes out of a plan what has to wait because somebody else undoes it, and tells of that once, with who it is."""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from cotenant_api import errors
from cotenant_operator import reasons
from cotenant_operator.kube import api
from cotenant_operator.loop import contests, executor
from cotenant_operator.plans import actions
from cotenant_operator.plans.stages import Plan
from cotenant_operator.state import drift, views
from cotenant_operator.state.kinds import WATCHED, Kind
from cotenant_operator.state.observed import AnyPart, Part
from cotenant_operator.state.views import Key

Tell = Callable[[Key, actions.EmitEvent], Awaitable[None]]
Count = Callable[[Kind], None]

_HOW_OFTEN: Final = "3 times within a minute"
_WAITS: Final = "the operator waits 10 s before the next time, then longer, up to 6 minutes"
_SEE: Final = "docs/concepts/edits.md says which fields are whose"


class Yielding:
    """Yields to other writers.

    Args:
        client: asks the API server who else wrote a field.
        monotonic: seconds that only grow.
        tell: sends an event.
        count: counts what is told, by kind of object.
    """

    def __init__(self, client: api.API, *, monotonic: Callable[[], float], tell: Tell, count: Count) -> None:
        self._client, self._monotonic, self._tell, self._count = client, monotonic, tell, count
        self._contests = contests.Contests()

    async def due(self, key: Key, job: views.DLJob, plan: Plan) -> tuple[Plan, float | None]:
        """Return the plan less what has to wait, and when the first of that is due.

        Raises:
            Refused: the plan is of no use without what has to wait. The next one says so in the status.
        """
        now, generation = self._monotonic(), job.meta.generation
        self._contests.begin(key, job.meta.uid)
        turns = [self._contests.turn(key, action, now, generation=generation) for action in plan.actions]
        if not any(turn.waiting for turn in turns):
            return plan, None
        untold = self._contests.untold(key, tuple(write for turn in turns for write in turn.undone))
        for write in _first_of_each(untold):
            await self._tell_of(key, job, [one for one in untold if one[:2] == write[:2]])
        due = min(turn.due for turn in turns if turn.due is not None)
        blocking = _blocking(plan.actions, turns)
        if blocking is not None:
            write, part = blocking
            text = f"{_words([write])}; {_WAITS}"
            raise executor.Refused(reasons.CONTESTED, text, retry_seconds=due - now, part=part)
        left = tuple(turn.action for turn in turns if turn.action is not None)
        return replace(plan, actions=left), due

    def wrote(self, key: Key, action: actions.Action, *, generation: int) -> None:
        """Note that an action was done that followed from the DLJob's spec of this generation."""
        self._contests.wrote(key, action, self._monotonic(), generation=generation)

    def forget(self, key: Key) -> None:
        """Forget a DLJob that is gone."""
        self._contests.forget(key)

    async def _tell_of(self, key: Key, job: views.DLJob, found: Sequence[contests.Write]) -> None:
        """Tell of writes of one object that wait."""
        kind, name, _ = found[0]
        self._count(kind)
        writer = await self._other(key, found)
        fields = ",".join(sorted(".".join(write.field) for write in found))
        event = actions.EmitEvent(
            uid=job.meta.uid,
            type="Warning",
            reason=reasons.CONTESTED,
            message=f"{_words(found, writer=writer)}; {_WAITS}; {_SEE}",
            identity=f"{job.meta.uid}/{reasons.CONTESTED}/{kind.value}/{name}/{fields}",
        )
        await self._tell(key, event)

    async def _other(self, key: Key, found: Sequence[contests.Write]) -> str | None:
        """Return who else writes the fields; None: nobody says so."""
        kind, name, _ = found[0]
        paths = [write.field for write in found if len(write.field) > 1]
        if not paths or kind not in WATCHED:
            return None
        with contextlib.suppress(api.APIError, errors.TemporaryError):
            value = await self._client.one(kind, Key(key.namespace, name))
            return next((other for path in paths if (other := drift.last_writer(value, path)) is not None), None)
        return None


def _first_of_each(found: Iterable[contests.Write]) -> Iterable[contests.Write]:
    """Return one write of each object."""
    return {write[:2]: write for write in found}.values()


def _blocking(found: Sequence[actions.Action], turns: Sequence[contests.Turn]) -> tuple[contests.Write, AnyPart] | None:
    """Return the write that waits and that the rest of a plan rests on; None: the rest is done without it.

    What is created follows from what was written before it, and the status says that it is there: so it does of a
    Service that is asked for. A run of a sweep is created whatever becomes of the others.
    """
    waits: contests.Write | None = None
    for action, turn in zip(found, turns, strict=True):
        makes = isinstance(action, actions.Create | actions.ApplyDeployment)
        part = actions.part(action)
        if part is Part.SERVICE and turn.waiting and not isinstance(action, actions.Delete):
            return turn.waiting[0], part
        if actions.is_beside(action):
            continue
        if waits is None and turn.waiting and (turn.action is None or makes):
            waits = turn.waiting[0]
        if waits is not None and makes:
            return waits, part
    return None


def _words(found: Sequence[contests.Write], *, writer: str | None = None) -> str:
    """Return what was written too often; the same words for the same writes."""
    kind, name, field = found[0]
    if field == (contests.CREATION,):
        return f"{kind.value} {name} was created {_HOW_OFTEN} and is gone again: find out who deletes it"
    if field == (contests.DELETION,) and kind is not Kind.JOB:
        return f"{kind.value} {name} was deleted {_HOW_OFTEN} and is there again: find out who makes it"
    if field == (contests.DELETION,):
        return f"{kind.value} {name} was deleted {_HOW_OFTEN}, to be made from a changed spec, and is to be again"
    fields = sorted((contests.text(write.field) for write in found), key=lambda text: (text.startswith("annot"), text))
    wrote = f"written by {writer}" if writer is not None else "written by somebody else, or the DLJob changes as often"
    return f"{kind.value} {name}: {', '.join(fields)} was written {_HOW_OFTEN} and stands otherwise again, {wrote}"
