"""What breaks in virtual time, and what it costs."""

from collections.abc import Sequence
from typing import Any

import pytest

from cotenant_api import errors
from cotenant_simulator.engine import conditions, faults, history, jobs
from cotenant_simulator.twin import sites
from simulator import jobs_kit


def ran(given: Sequence[jobs.Job], *broken: faults.Fault, **changed: Any) -> history.History:
    return jobs_kit.ran(given, under=conditions.Conditions(faults=broken, spans=True), **changed)


def test_job_on_a_broken_gpu_loses_its_work_and_comes_again_elsewhere() -> None:
    found = ran([jobs_kit.job("a", 90)], jobs_kit.broken("node-0/0", at=250.0, repair=1e6), gpus=2)
    (life,) = found.lives
    assert (life.faults, life.attempts, life.lost, life.ended) == (1, 2, 250, 250 + 10 + 1000)
    spans = [(span.gpu, span.start, span.end, span.share) for span in found.spans or ()]
    assert spans == [("node-0/0", 0, 250, 90), ("node-0/1", 260, 1260, 90)]


def test_broken_gpu_takes_nobody_until_it_is_repaired() -> None:
    found = ran([jobs_kit.job("a", 90)], jobs_kit.broken("node-0/0", at=250.0, repair=400.0))
    assert found.lives[0].ended == 650 + 1000


def test_of_two_faults_of_a_gpu_the_last_repair_counts() -> None:
    two = jobs_kit.broken("node-0/0", at=0.0, repair=400.0), jobs_kit.broken("node-0/0", at=100.0, repair=50.0)
    assert ran([jobs_kit.job("a", 90, arrives=1.0)], *two).lives[0].started == 400


def test_job_with_checkpoints_begins_at_the_last_one() -> None:
    given = jobs_kit.job("a", 90, checkpoint_seconds=100.0)
    (life,) = ran([given], jobs_kit.broken("node-0/0", at=250.0, repair=1.0)).lives
    assert (life.lost, life.ended) == (50, 260 + 800)


def test_checkpoints_count_the_work_and_not_the_time() -> None:
    slow = [jobs_kit.job(name, 100, checkpoint_seconds=100.0) for name in "ab"]
    found = ran(slow, jobs_kit.broken("node-0/0", at=250.0, repair=1.0), max_utilization_percent=200)
    # At half speed 125 s of work were done, of which 100 are safe.
    assert [life.lost for life in found.lives] == [25, 25]


def test_delay_before_the_next_attempt_doubles() -> None:
    three = [jobs_kit.broken("node-0/0", at=at, repair=1.0) for at in (100.0, 200.0, 300.0)]
    found = ran([jobs_kit.job("a", 90)], *three)
    assert [span.start for span in found.spans or ()] == [0, 110, 220, 340]


def test_broken_node_ends_what_runs_on_all_its_gpus() -> None:
    fault = faults.Fault(seconds=100.0, what=faults.What.NODE, where="node-0", repair_seconds=1e6)
    found = ran([jobs_kit.job(name, 90) for name in "abc"], fault, nodes=2, gpus=2)
    assert sorted(life.faults for life in found.lives) == [0, 1, 1]
    assert {span.gpu for span in found.spans or () if span.start > 100} <= {"node-1/0", "node-1/1"}


def test_fatal_fault_of_a_tenant_takes_its_neighbours_along_under_mps() -> None:
    fault = faults.Fault(seconds=100.0, what=faults.What.TENANT, where="node-0/0", repair_seconds=50.0)
    found = ran([jobs_kit.job("a", 40), jobs_kit.job("b", 40)], fault)
    assert [(life.faults, life.ended) for life in found.lives] == [(1, 1150), (1, 1150)]


def test_fatal_fault_of_a_tenant_is_its_own_where_gpus_are_time_sliced() -> None:
    fault = faults.Fault(seconds=100.0, what=faults.What.TENANT, where="node-0/0", repair_seconds=50.0, lot=0.6)
    found = ran([jobs_kit.job("a", 40), jobs_kit.job("b", 39)], fault, mechanism="TimeSlicing")
    assert [(life.faults, life.ended) for life in found.lives] == [(0, 1000), (1, 1110)]


def test_fatal_fault_of_a_tenant_with_a_gpu_to_itself_breaks_no_mps_server() -> None:
    fault = faults.Fault(seconds=100.0, what=faults.What.TENANT, where="node-0/0", repair_seconds=1e6)
    assert ran([jobs_kit.job("a", 90, gpus=2)], fault, gpus=2).lives[0].ended == 1110


def test_fault_of_nobody_is_none() -> None:
    fault = faults.Fault(seconds=100.0, what=faults.What.TENANT, where="node-0/1", repair_seconds=1e6)
    found = ran([jobs_kit.job("a", 90), jobs_kit.job("b", 90, arrives=200.0)], fault, gpus=2)
    assert [life.started for life in found.lives] == [0, 200]


def test_gang_loses_its_attempt_with_one_gpu() -> None:
    gang = jobs_kit.job("gang", 90, replicas=2)
    (life,) = ran([gang], jobs_kit.broken("node-1/0", at=100.0, repair=1.0), nodes=2).lives
    assert (life.faults, life.attempts, life.ended) == (1, 2, 1110)


def test_job_that_is_starting_on_a_gpu_that_breaks_loses_its_attempt() -> None:
    under = conditions.Conditions(start_seconds=20.0, faults=[jobs_kit.broken("node-0/0", at=10.0, repair=1e6)])
    found = jobs_kit.ran([jobs_kit.job("a", 90)], gpus=2, under=under)
    assert (found.lives[0].faults, found.lives[0].started) == (1, 40)


def test_fault_of_a_gpu_that_is_not_there_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="must be the UUID of a GPU"):
        ran([jobs_kit.job("a", 90)], jobs_kit.broken("node-7/0", at=1.0, repair=1.0))


@pytest.mark.parametrize("wrong", [{"seconds": -1.0}, {"repair_seconds": float("inf")}, {"lot": 1.0}])
def test_fault_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    given = {"seconds": 1.0, "repair_seconds": 1.0, **wrong}
    with pytest.raises(errors.InvalidInputError, match=next(iter(wrong))):
        faults.Fault(what=faults.What.GPU, where="node-0/0", **given)


def test_rate_without_a_mean_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="mean_seconds_between"):
        faults.Rate(what=faults.What.GPU, mean_seconds_between=0.0, repair_seconds=1.0)


def drawn(nodes: int, *rates: faults.Rate, seed: int = 1) -> list[faults.Fault]:
    cluster = sites.alike(nodes, gpus=4, model=jobs_kit.MODEL, memory_mib=1)
    return faults.drawn(cluster, rates, until_seconds=1e6, seed=seed)


GPU_RATE = faults.Rate(what=faults.What.GPU, mean_seconds_between=1e5, repair_seconds=60.0)
NODE_RATE = faults.Rate(what=faults.What.NODE, mean_seconds_between=1e5, repair_seconds=600.0)


def test_drawn_faults_come_in_order_and_about_as_often_as_asked() -> None:
    found = drawn(9, GPU_RATE, NODE_RATE)
    assert [fault.seconds for fault in found] == sorted(fault.seconds for fault in found)
    assert 280 < sum(fault.what is faults.What.GPU for fault in found) < 440
    assert 60 < sum(fault.what is faults.What.NODE for fault in found) < 120


def test_same_seed_draws_the_same_faults_and_another_seed_others() -> None:
    assert drawn(3, GPU_RATE) == drawn(3, GPU_RATE)
    assert drawn(3, GPU_RATE) != drawn(3, GPU_RATE, seed=2)


def test_more_nodes_change_no_fault_of_those_that_were_there() -> None:
    few = drawn(3, GPU_RATE)
    assert [fault for fault in drawn(5, GPU_RATE, NODE_RATE) if fault in few] == few
