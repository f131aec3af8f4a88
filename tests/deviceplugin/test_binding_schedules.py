"""No order of calls and faults makes a container wrong, and what is wrong on purpose is found."""

import pytest

from node_kit import schedules
from node_kit.schedules_defects import DEFECTS

SEEDS = 300


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_no_schedule_starts_a_wrong_container_or_keeps_a_right_one_from_starting(first: int) -> None:
    """`PYTHONPATH=tests python -m node_kit.schedules --seed N` shows one."""
    found = {seed: error for seed in range(first, first + 50) if (error := schedules.violation_of(seed))}
    assert not found


def test_a_seed_is_always_the_same_schedule() -> None:
    assert schedules.story(7) == schedules.story(7)
    assert schedules.story(7) != schedules.story(12)


@pytest.mark.parametrize("defect", sorted(DEFECTS))
def test_seeds_find_a_planted_defect(defect: str) -> None:
    found, build = FOUND_BY[defect], DEFECTS[defect]
    assert schedules.violation_of(found, build) is not None
    assert schedules.violation_of(found) is None


FOUND_BY = {
    "end of a pod without looking for its processes": 1661,
    "end of a pod without the API server": 72,
    "grant dropped when its tokens are allocated again": 2774,
    "ledger not on disk when a container starts": 166,
    "new tenant beside a process that none explains": 1487,
    "no cross-check with the checkpoint": 34,
    "no recovery of a lost ledger": 2932,
    "owner guessed by request": 0,
    "placement read at each start": 50,
    "specification named by tokens": 11,
    "tenant not listed before it starts": 0,
}
"""The first seed that shows each: `PYTHONPATH=tests python -m node_kit.schedules_defects`."""
