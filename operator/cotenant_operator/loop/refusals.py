"""Remembers what the API server refused, so that the same is not asked for again at once. A restart asks once more."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cotenant_operator.loop import executor
from cotenant_operator.state import views
from cotenant_operator.state.observed import AnyPart, Observed, Refusal
from cotenant_operator.state.views import Key


@dataclass(frozen=True, kw_only=True, slots=True)
class _Noted:
    """What was refused, of which DLJob; `until` when, in seconds of the clock that only grows."""

    uid: str
    refusal: Refusal
    until: float


class Refusals:
    """The last refusal of each part of a DLJob.

    Args:
        monotonic: seconds that only grow: a clock that is set back makes nothing wait longer.
    """

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._found: dict[Key, dict[AnyPart, _Noted]] = {}

    def note(self, observed: Observed, error: executor.Refused, *, now: datetime) -> None:
        """Note that what was made for a DLJob is refused; `now`: the time of day."""
        meta = observed.job.meta
        refusal = Refusal(
            generation=meta.generation, labels=meta.labels, reason=error.reason, message=str(error), retry_at=now
        )
        until = self._monotonic() + error.retry_seconds
        self._found.setdefault(meta.key, {})[error.part] = _Noted(uid=meta.uid, refusal=refusal, until=until)

    def of(self, job: views.DLJob | None, *, now: datetime) -> Mapping[AnyPart, Refusal]:
        """Return what was refused of a DLJob; `now`: the time of day."""
        noted = {} if job is None else self._found.get(job.meta.key, {})
        return {
            part: replace(one.refusal, retry_at=now + timedelta(seconds=one.until - self._monotonic()))
            for part, one in noted.items()
            if job is not None and job.meta.uid == one.uid
        }

    def forget(self, key: Key) -> None:
        """Forget a DLJob that is gone."""
        self._found.pop(key, None)
