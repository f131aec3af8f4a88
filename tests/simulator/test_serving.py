"""A replica's queue: against the formula for constant speed, and against a step-by-step one for any."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_simulator.inference_mix import serving

ALONE = [serving.Speed(0.0, 1.0)]


def one_by_one(times: list[float], work: float, speeds: list[serving.Speed]) -> list[float]:
    """The same queue, a request and a change of speed at a time."""
    found, free = [], 0.0
    for time in times:
        now, left = max(time, free), work
        for place, (begins, speed) in enumerate(speeds):
            ends = speeds[place + 1].seconds if place + 1 < len(speeds) else float("inf")
            if ends <= now:
                continue
            usable = (ends - max(now, begins)) * speed
            if usable >= left:
                now = max(now, begins) + left / speed
                left = 0.0
                break
            now, left = ends, left - usable
        assert left == 0.0
        free = now
        found.append(free - time)
    return found


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_mean_wait_is_that_of_pollaczek_and_khinchine(load: float) -> None:
    work = 0.1
    times = serving.arrivals(load / work, until=100_000.0, seed=(1,))
    waits = serving.latencies(times, work=work, speeds=ALONE) - work
    # M/D/1: load / (2 (1 - load)) service times.
    assert waits.mean() == pytest.approx(work * load / (2 * (1 - load)), rel=0.02)


def test_half_the_speed_is_twice_the_work() -> None:
    times = serving.arrivals(3.0, until=1000.0, seed=(2,))
    slow = serving.latencies(times, work=0.1, speeds=[serving.Speed(0.0, 0.5)])
    assert slow == pytest.approx(serving.latencies(times, work=0.2, speeds=ALONE))


def test_nobody_waits_who_comes_alone() -> None:
    found = serving.latencies(np.array([0.0, 1.0, 2.0]), work=0.5, speeds=ALONE)
    assert found == pytest.approx([0.5, 0.5, 0.5])


def test_request_is_slowed_from_the_change_on() -> None:
    speeds = [serving.Speed(0.0, 1.0), serving.Speed(1.0, 0.5)]
    assert serving.latencies(np.array([0.5, 0.6]), work=1.0, speeds=speeds) == pytest.approx([1.5, 3.4])


def test_no_request_has_no_latency() -> None:
    assert serving.latencies(np.array([]), work=1.0, speeds=ALONE).shape == (0,)


def test_overloaded_replica_falls_behind_as_long_as_it_lasts() -> None:
    times = np.arange(0.0, 100.0)
    found = serving.latencies(times, work=2.0, speeds=ALONE)
    assert found == pytest.approx(2.0 + times)


def test_requests_come_as_often_as_asked_and_at_any_time() -> None:
    times = serving.arrivals(5.0, until=10_000.0, seed=(3, 1))
    gaps = np.diff(times)
    assert len(times) == pytest.approx(50_000, rel=0.02)
    assert gaps.mean() == pytest.approx(0.2, rel=0.02)
    # Exponential: as much spread as mean.
    assert gaps.std() == pytest.approx(0.2, rel=0.03)
    assert np.array_equal(times, serving.arrivals(5.0, until=10_000.0, seed=(3, 1)))


@given(
    st.lists(st.floats(0, 50), min_size=1, max_size=30),
    st.floats(0.01, 5),
    st.lists(st.tuples(st.floats(0.01, 10), st.floats(0.02, 1)), max_size=6),
)
def test_any_speeds_give_what_a_queue_one_by_one_gives(
    times: list[float], work: float, changes: list[tuple[float, float]]
) -> None:
    starts = np.cumsum([0.0, *(length for length, _ in changes)])
    speeds = [
        serving.Speed(float(at), speed) for at, speed in zip(starts, [1.0, *(s for _, s in changes)], strict=True)
    ]
    found = serving.latencies(np.array(sorted(times)), work=work, speeds=speeds)
    assert found == pytest.approx(one_by_one(sorted(times), work, speeds), rel=1e-6, abs=1e-6)
