"""Waiting with a deadline, in virtual time."""

import pytest

from cotenant_e2e import waiting
from cotenant_e2e.waiting import Clock


class VirtualTime:
    """Time that passes only in pauses."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.clock = Clock(now=lambda: self.seconds, pause=self.pass_)

    def pass_(self, seconds: float) -> None:
        """Let them pass."""
        self.seconds += seconds


def test_a_true_condition_is_not_waited_for() -> None:
    time = VirtualTime()
    assert waiting.wait_until(lambda: "value", "it", 5, clock=time.clock) == "value"
    assert time.seconds == 0


def test_the_first_true_value_is_returned() -> None:
    values = iter(["", "", "third"])
    assert waiting.wait_until(lambda: next(values), "it", 5, clock=VirtualTime().clock) == "third"


def test_the_deadline_names_what_was_waited_for() -> None:
    time = VirtualTime()
    with pytest.raises(waiting.NotReadyError, match="not within 5 s: six ready nodes"):
        waiting.wait_until(lambda: False, "six ready nodes", 5, clock=time.clock)
    assert time.seconds == pytest.approx(5, abs=0.1)


def test_an_error_of_the_condition_ends_the_waiting() -> None:
    def fails() -> bool:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        waiting.wait_until(fails, "it", 5, clock=VirtualTime().clock)
