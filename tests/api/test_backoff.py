"""How long to wait after what went wrong again."""

from cotenant_api import backoff


def test_each_pause_is_twice_the_last_up_to_the_longest() -> None:
    assert [backoff.doubled(2.0, times, most=20.0) for times in range(6)] == [2.0, 4.0, 8.0, 16.0, 20.0, 20.0]


def test_however_often_it_was_doubled_there_is_a_pause() -> None:
    assert backoff.doubled(2.0, 5000, most=300.0) == 300.0
