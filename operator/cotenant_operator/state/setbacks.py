"""What came of pods that a workload was to have: refusals of the API server, and what they led to. Values; pure."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from cotenant_api import conditions
from cotenant_operator.state import demand, texts

FAILED_CREATE: Final = "FailedCreate"
"""Reason of the events that the controllers of Jobs and ReplicaSets write, and of the condition `ReplicaFailure`."""
MAX_MESSAGE: Final = 512
_MAX_WORDS: Final = 2048
"""Characters of a refusal that are kept: its cause stands before that."""
_MAX_TEXT: Final = 16 * 1024
"""Characters of the annotation; what the operator writes is much less."""
_VERSION: Final = 1
NO_QUOTA: Final = "exceeded quota"
"""How the API server begins to say that a ResourceQuota has no room."""
_QUOTA: Final = re.compile(rf"{NO_QUOTA}|insufficient quota|status unknown for quota")
"""Words of the API server's ResourceQuota plugin."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setback:
    """A gang was started and the quota did not take all its pods: written on its Job when it is suspended again.

    Attributes:
        count: how often in a row.
        at: when it was suspended.
        message: the API server's words.
        left: quota/resource -> what was left then, with what its own pods held: that much is not enough.
        answers: the refusal for which it was, by the clock of whoever told of it; None: a former release did not note.
    """

    count: int
    at: datetime
    message: str
    left: Mapping[str, Decimal]
    answers: datetime | None = None

    def to_json(self) -> str:
        """As an annotation."""
        left = {name: str(amount) for name, amount in sorted(self.left.items())}
        value = {
            "v": _VERSION,
            "at": conditions.timestamp(self.at),
            "count": self.count,
            "left": left,
            "message": self.message[:MAX_MESSAGE],
            "answers": None if self.answers is None else self.answers.isoformat(),
        }
        return json.dumps(value, separators=(",", ":"), sort_keys=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedCreation:
    """The API server refuses pods of a workload.

    Attributes:
        owner: UID of the Job or Deployment.
        since: when it began.
        last: when it last did.
        message: its words.
    """

    owner: str
    since: datetime
    last: datetime
    message: str


def is_of_quota(message: str) -> bool:
    """Return whether it is a ResourceQuota for which the API server refuses an object."""
    return _QUOTA.search(message) is not None


def setback(text: str | None) -> Setback | None:
    """Return the annotation; None where there is none, or somebody spoilt it: then the gang is tried once more."""
    if text is None or len(text) > _MAX_TEXT:
        return None
    try:
        value: Any = json.loads(text)
        if value["v"] > _VERSION:
            return None
        at = texts.time(value["at"])
        if at is None:
            return None
        return Setback(
            count=max(int(value["count"]), 1),
            at=at,
            message=str(value["message"]),
            left=demand.amounts(value["left"]),
            answers=texts.time(value.get("answers")),
        )
    except (ArithmeticError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def of_events(events: Sequence[Mapping[str, Any]], *, owner: str) -> FailedCreation | None:
    """Return what the events about one workload say: the newest, since the first that is of the same kind."""
    told = [(_last(event), event) for event in events if event.get("reason") == FAILED_CREATE]
    known = [(last, event) for last, event in told if last is not None]
    if not known:
        return None
    last, newest = max(known, key=lambda item: item[0])
    message, of_quota = _cut(newest), is_of_quota(_cut(newest))
    alike = [(seen, event) for seen, event in known if is_of_quota(_cut(event)) == of_quota]
    since = min(texts.time(event.get("firstTimestamp") or event.get("eventTime")) or seen for seen, event in alike)
    return FailedCreation(owner=owner, since=since, last=last, message=message)


def refusal(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the condition by which a Deployment or ReplicaSet says that the API server refuses pods of it.

    Its controller writes neither time nor words anew while status and reason stay; and a Deployment takes it over from
    any of its ReplicaSets, also from those of former templates.
    """
    for item in (value.get("status") or {}).get("conditions") or ():
        if item["type"] == "ReplicaFailure" and item["status"] == "True" and item.get("reason") == FAILED_CREATE:
            return dict(item)
    return None


def newest_set(replica_sets: Sequence[Mapping[str, Any]], *, owner: str) -> Mapping[str, Any] | None:
    """Return the ReplicaSet of a Deployment that has the highest revision; of their metadata alone."""
    owned = [value for value in replica_sets if _is_controlled(value, by=owner)]
    return max(owned, key=_revision, default=None)


def of_replica_set(value: Mapping[str, Any], *, owner: str) -> FailedCreation | None:
    """Return why no pods of a ReplicaSet can be made, by its condition; None: they can.

    Args:
        value: the ReplicaSet.
        owner: UID of its Deployment.
    """
    said = refusal(value)
    since = None if said is None else texts.time(said.get("lastTransitionTime"))
    if said is None or since is None:
        return None
    return FailedCreation(owner=owner, since=since, last=since, message=_cut(said))


def told_anew(said: FailedCreation, told: FailedCreation | None) -> FailedCreation:
    """Return what a condition says, in the words of the newest event: those of the condition are of its beginning."""
    if told is None or told.last < said.since:
        return said
    return replace(told, since=max(told.since, said.since))


def _cut(value: Mapping[str, Any]) -> str:
    """Return the message of an event or a condition, as far as it is kept: anybody may write an event."""
    return str(value.get("message") or "")[:_MAX_WORDS]


def _is_controlled(value: Mapping[str, Any], *, by: str) -> bool:
    owners = value["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner["uid"] == by for owner in owners)


def _revision(value: Mapping[str, Any]) -> int:
    return texts.number((value["metadata"].get("annotations") or {}).get("deployment.kubernetes.io/revision", ""))


def _last(event: Mapping[str, Any]) -> datetime | None:
    series = event.get("series") or {}
    return texts.time(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime"))
