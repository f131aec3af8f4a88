"""Conditions by the rules of `metav1.Condition`. Pure: the time is a parameter."""

import enum
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from cotenant_api import documents

MAX_MESSAGE = 32768


class Status(enum.StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


def _cut(message: Any) -> Any:
    """Return a message that fits: others' words may be of any length."""
    return message[:MAX_MESSAGE] if isinstance(message, str) else message


class Condition(documents.Model):
    """One condition; `reason` is CamelCase and required, `message` is for people."""

    type: str = Field(min_length=1, max_length=316)
    """What it says."""
    status: Status
    """Whether it holds."""
    reason: Annotated[str, Field(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", min_length=1, max_length=1024)]
    """Why, in a stable word that programs may compare."""
    message: Annotated[str, BeforeValidator(_cut)] = Field(default="", max_length=MAX_MESSAGE)
    """Why, for people; its words may change."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The `metadata.generation` that it speaks of."""
    last_transition_time: str = Field(default="", json_schema_extra={"format": "date-time"})
    """When `status` changed last; reason and message may be newer."""


def find(conditions: Sequence[Condition], condition_type: str) -> Condition | None:
    """Return the condition of a type, if it is there."""
    return next((condition for condition in conditions if condition.type == condition_type), None)


def is_true(conditions: Sequence[Condition], condition_type: str) -> bool:
    """Return whether a condition is there and True."""
    found = find(conditions, condition_type)
    return found is not None and found.status is Status.TRUE


def is_false(conditions: Sequence[Condition], condition_type: str) -> bool:
    """Return whether a condition is there and False."""
    found = find(conditions, condition_type)
    return found is not None and found.status is Status.FALSE


def updated(conditions: Sequence[Condition], new: Condition, *, now: datetime) -> tuple[Condition, ...]:
    """Return the list with `new` in it; its transition time changes only when the status does."""
    old = find(conditions, new.type)
    unchanged = old is not None and old.status is new.status
    time = old.last_transition_time if old is not None and unchanged else timestamp(now)
    stamped = new.model_copy(update={"last_transition_time": time})
    if old is None:
        return (*conditions, stamped)
    return tuple(stamped if condition.type == new.type else condition for condition in conditions)


def timestamp(now: datetime) -> str:
    """RFC 3339 in UTC with seconds, as `metav1.Time`."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(now: datetime) -> str:
    """Format a time as `metav1.MicroTime`: RFC 3339 in UTC with microseconds."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def from_objects(objects: Any) -> tuple[Condition, ...]:
    """Conditions of an object's status, as read from the API server."""
    return tuple(Condition.model_validate(item) for item in objects or ())
