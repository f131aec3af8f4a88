"""A status is written at once where somebody may wait for it, and what can wait takes turns. In virtual time."""

import itertools

import pytest

from cotenant_operator.loop import pace
from cotenant_operator.state.views import Key

KEY = Key("team", "train")


def test_what_is_urgent_is_written_at_once_for_the_first_time() -> None:
    assert pace.Pace().due(KEY, 7.0, urgent=True) == 7.0


def test_what_is_urgent_is_written_once_a_second() -> None:
    turns, now, writes = pace.Pace(), 0.0, 0
    while now < 10.0:
        if now >= turns.due(KEY, now, urgent=True):
            turns.wrote(KEY, now)
            writes += 1
        now += 0.125
    assert writes == 10


def test_what_is_urgent_does_not_wait_for_other_dljobs() -> None:
    turns = pace.Pace()
    for number in range(1000):
        turns.due(Key("team", f"other-{number}"), 0.0, urgent=False)
        turns.wrote(Key("team", f"other-{number}"), 0.0)
    assert turns.due(KEY, 0.0, urgent=True) == 0.0


def test_what_is_urgent_does_not_wait_for_the_turn_of_what_can_wait() -> None:
    turns = pace.Pace()
    turns.wrote(KEY, 0.0)
    assert turns.due(KEY, 0.0, urgent=False) == pace.LAZY_SECONDS
    assert turns.due(KEY, 0.5, urgent=True) == pace.URGENT_SECONDS


def test_what_can_wait_is_written_every_fifteen_seconds_for_one_dljob() -> None:
    turns, now, writes = pace.Pace(), 0.0, []
    while now < 60.0:
        due = turns.due(KEY, now, urgent=False)
        if now >= due:
            turns.wrote(KEY, now)
            writes.append(now)
        now += 0.5
    assert writes == [0.0, 15.0, 30.0, 45.0]


def test_what_can_wait_is_written_ten_times_a_second_for_all_dljobs() -> None:
    turns = pace.Pace()
    dues = [turns.due(Key("team", f"job-{number}"), 3.0, urgent=False) for number in range(1000)]
    assert dues[0] == 3.0
    assert all(after - before >= pace.LAZY_SPACING_SECONDS * 0.999 for before, after in itertools.pairwise(dues))
    assert dues[-1] == pytest.approx(3.0 + 999 * pace.LAZY_SPACING_SECONDS)


def test_a_dljob_keeps_its_turn_until_it_has_written() -> None:
    turns = pace.Pace()
    turns.due(Key("team", "first"), 0.0, urgent=False)
    turn = turns.due(KEY, 0.0, urgent=False)
    assert turns.due(KEY, 0.05, urgent=False) == turn
    turns.wrote(KEY, turn)
    assert turns.due(KEY, turn, urgent=False) == turn + pace.LAZY_SECONDS


def test_an_urgent_write_takes_the_turn_of_what_waited_with_it() -> None:
    turns = pace.Pace()
    turns.wrote(KEY, 0.0)
    assert turns.due(KEY, 1.0, urgent=False) == pace.LAZY_SECONDS
    turns.wrote(KEY, 10.0)
    assert turns.due(KEY, 10.0, urgent=False) == 10.0 + pace.LAZY_SECONDS


def test_a_dljob_that_is_made_again_waits_for_nothing() -> None:
    turns = pace.Pace()
    turns.wrote(KEY, 0.0)
    turns.due(KEY, 0.0, urgent=False)
    turns.forget(KEY)
    assert turns.due(KEY, 0.5, urgent=True) == 0.5
