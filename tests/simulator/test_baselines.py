"""Published baselines as placements of a simulated cluster: the same policy words, the same costs."""

import dataclasses

import pytest

from cotenant_simulator.engine import conditions, jobs
from simulator import jobs_kit


def large(name: str) -> jobs.Job:
    """Hardly busy, and more than half of a GPU's memory, as everybody knows."""
    needs = jobs_kit.needs(5, memory_mib=6000)
    made = jobs_kit.job(name, 5, real=needs)
    kind = dataclasses.replace(made.kind, predicted=jobs_kit.believed(needs, name=name))
    return dataclasses.replace(made, kind=kind)


def test_exclusive_runs_one_after_the_other_without_any_slowdown() -> None:
    found = jobs_kit.ran([jobs_kit.job("a", 20), jobs_kit.job("b", 20)], placement="Exclusive")
    assert [life.ended for life in found.lives] == [1000, 2000]


def test_by_memory_only_busy_jobs_run_together_and_slow_each_other_down() -> None:
    found = jobs_kit.ran([jobs_kit.job("a", 80), jobs_kit.job("b", 80)], placement="MemoryOnly")
    assert [life.ended for life in found.lives] == pytest.approx([1600, 1600])


def test_by_memory_only_nobody_gets_memory_that_is_booked() -> None:
    found = jobs_kit.ran([large("a"), large("b")], placement="MemoryOnly")
    assert [life.ended for life in found.lives] == [1000, 2000]
    assert [life.out_of_memory for life in found.lives] == [0, 0]


@pytest.mark.parametrize(
    ("placement", "partner"), [("FirstFit", "idle"), ("SMPercent", "busy"), ("MemPercent", "idle")]
)
def test_a_partner_is_chosen_by_what_it_keeps_busy(placement: str, partner: str) -> None:
    given = [
        jobs_kit.job("idle", 30, seconds=5000.0),
        jobs_kit.job("busy", 75, seconds=5000.0, arrives=1.0),
        jobs_kit.job("new", 20, arrives=10.0),
    ]
    found = jobs_kit.ran(given, gpus=3, under=conditions.Conditions(spans=True), placement=placement)
    at = {given[span.place].name: span.gpu for span in found.spans or ()}
    # Nobody here uses the memory's bandwidth: of equals the first is taken.
    assert at["new"] == at[partner]


def test_random_repeats() -> None:
    jobs = [jobs_kit.job(f"j{number}", 30, arrives=float(number)) for number in range(12)]
    first, second = (jobs_kit.ran(jobs, gpus=3, nodes=2, placement="Random") for _ in range(2))
    assert first.lives == second.lives
