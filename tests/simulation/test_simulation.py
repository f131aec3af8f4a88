"""Whole worlds, seed by seed: whatever goes wrong around it, the extender is never wrong about state.

`make soak` runs many more seeds; a seed that fails is reproduced by the command that the failure names.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation import defects, runs, soak, starvation

SEEDS = 100
PER_TEST = 20
DEFECT_SEEDS = 60
RARE = {
    "believes deletions": 6,
    "believes in time": 91,
    "evicts one by one": 40,
    "fences nothing": 172,
    "gives up early": 13,
    "leads for ever": 66,
    "overbooks by one hundredth": 6,
    "preempts nobody": 13,
}
"""Where to begin with defects that few worlds show."""
TESTS = Path(__file__).parent.parent


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_nothing_that_must_hold_is_ever_broken(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        found = runs.run(seed)
        assert not found.violations, f"{found.violations[0]}\nreproduce with: {soak.COMMAND.format(seed=seed)}"


@pytest.mark.parametrize("defect", defects.DEFECTS)
def test_a_planted_defect_is_found(defect: str) -> None:
    plant, first = defects.DEFECTS[defect], RARE.get(defect, 0)
    assert any(runs.run(seed, prepare=plant).violations for seed in range(first, first + DEFECT_SEEDS))


@pytest.mark.parametrize("seed", [3, 79])
def test_a_seed_gives_the_same_history_in_every_process(seed: int) -> None:
    here = runs.run(seed)
    command = (sys.executable, "-m", "simulation", "--seed", str(seed))
    for salt in ("1", "3"):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), "PYTHONHASHSEED": salt}
        told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        assert told.strip().endswith(here.digest[:16])


def test_different_seeds_give_different_histories() -> None:
    assert runs.run(3).digest != runs.run(4).digest


@pytest.mark.parametrize("seed", range(5))
def test_no_job_waits_beyond_the_stated_bound(seed: int) -> None:
    assert starvation.run(seed) == []


def test_seeds_that_are_run_in_portions_make_one_table() -> None:
    first, last, again = "| 0-9 | 0 | 1 | 1 | 1 |", "| 20-29 | 0 | 3 | 1 | 1 |", "| 5-12 | 0 | 2 | 1 | 1 |"
    written = [*soak.HEADER, first, last]
    assert soak.beside(range(10, 20), "now", written) == [first, "now", last]
    assert soak.beside(range(5, 13), again, written) == [again, last]
