"""The recent mix: what has come most lately."""

import pytest

from cotenant_extender.packing import mix

WHOLE = mix.Demand(4000, 100)


def test_of_too_many_classes_the_half_that_counts_most_stays() -> None:
    demands = [mix.Demand(number, 50) for number in range(mix.MAX_CLASSES + 1)]
    found = mix.Mix(demands)
    # The later one has come, the more it counts.
    assert set(found.weights()) == set(demands[-(mix.MAX_CLASSES // 2) :])


def test_after_more_classes_than_are_kept_what_comes_next_still_counts() -> None:
    found = mix.Mix(mix.Demand(number, 50) for number in range(mix.MAX_CLASSES + 1))
    for _ in range(9):
        found.add(WHOLE)
    assert next(iter(found.weights())) == WHOLE
    assert sum(found.weights().values()) == pytest.approx(1)
