"""Conditions by the rules of metav1.Condition."""

from datetime import UTC, datetime, timedelta

from cotenant_api import conditions
from cotenant_api.conditions import Condition, Status

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


def condition(status: Status, reason: str = "Because") -> Condition:
    return Condition(type="Ready", status=status, reason=reason)


def test_a_new_condition_is_stamped() -> None:
    (only,) = conditions.updated((), condition(Status.TRUE), now=NOON)
    assert only.last_transition_time == "2026-01-31T12:00:00Z"


def test_another_reason_keeps_the_transition_time() -> None:
    before = conditions.updated((), condition(Status.TRUE), now=NOON)
    (only,) = conditions.updated(before, condition(Status.TRUE, "Other"), now=LATER)
    assert (only.reason, only.last_transition_time) == ("Other", "2026-01-31T12:00:00Z")


def test_another_status_moves_the_transition_time() -> None:
    before = conditions.updated((), condition(Status.TRUE), now=NOON)
    (only,) = conditions.updated(before, condition(Status.FALSE), now=LATER)
    assert only.last_transition_time == "2026-01-31T13:00:00Z"


def test_other_conditions_stay_where_they_are() -> None:
    other = Condition(type="Other", status=Status.TRUE, reason="X")
    before = conditions.updated((other,), condition(Status.TRUE), now=NOON)
    after = conditions.updated(before, condition(Status.FALSE), now=LATER)
    assert [one.type for one in after] == ["Other", "Ready"]
    assert after[0] == other


def test_unknown_is_not_true() -> None:
    assert not conditions.is_true((condition(Status.UNKNOWN),), "Ready")
    assert not conditions.is_true((), "Ready")
    assert conditions.is_true((condition(Status.TRUE),), "Ready")
