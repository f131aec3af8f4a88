"""Gangs in virtual time: placed whole or not at all, as fast as their slowest pod, ended together."""

import dataclasses
from typing import Any

import pytest

from cotenant_api.names import GPUUID, GPUModel, NodeName
from cotenant_simulator.engine import conditions, interference, jobs, ways, world
from cotenant_simulator.twin import sites
from simulator import jobs_kit

LARGE = jobs_kit.needs(80, memory_mib=6000)
"""Two of these do not share a GPU's memory."""


def large(name: str, **changed: Any) -> jobs.Job:
    kind = jobs.Kind(name=name, predicted=jobs_kit.believed(LARGE, name=name), real={jobs_kit.MODEL: LARGE})
    one = jobs.Job(name=name, kind=kind, arrives=0.0, seconds={jobs_kit.MODEL: 1000.0})
    return dataclasses.replace(one, **changed)


def test_gang_waits_until_all_its_pods_fit_and_starts_as_one() -> None:
    first = jobs_kit.job("first", 90, seconds=500)
    gang = jobs_kit.job("gang", 90, arrives=1.0, replicas=2)
    found = jobs_kit.ran([first, gang], nodes=2)
    assert [(life.started, life.ended) for life in found.lives] == [(0, 500), (500, 1500)]
    assert max(moment.running for moment in found.moments) == 1


def test_pods_of_a_gang_share_gpus_with_others() -> None:
    found = jobs_kit.ran([large("gang", replicas=2), jobs_kit.job("a", 15, arrives=1.0)], nodes=2)
    assert [life.started for life in found.lives] == [0, 1]
    assert max(moment.occupied for moment in found.moments) == 2


def test_gang_is_as_fast_as_its_slowest_pod_and_keeps_no_gpu_busier() -> None:
    gang, beside = large("gang", replicas=2), jobs_kit.job("beside", 80, seconds=500)
    found = jobs_kit.ran([gang, beside], nodes=2, max_utilization_percent=200)
    # Beside the other a pod has half of the SMs and needs 0.8 of them: 0.625, for 800 s.
    assert [life.ended for life in found.lives] == [pytest.approx(1300), pytest.approx(800)]
    assert found.moments[0].utilization == pytest.approx(0.625 * 0.8 * 2 + 0.625 * 0.8)


def test_gang_on_several_gpu_models_takes_the_time_of_the_slowest() -> None:
    other = GPUModel("NVIDIA-B")
    nodes = [
        sites.Node(name=NodeName(f"n{index}"), gpus=(sites.GPU(uuid=GPUUID(model), model=model, memory_mib=8000),))
        for index, model in enumerate((jobs_kit.MODEL, other))
    ]
    gang = large("gang", replicas=2, seconds={jobs_kit.MODEL: 1000.0, other: 400.0})
    by_gpu = {jobs_kit.MODEL: LARGE, other: LARGE}
    predicted = jobs_kit.believed(LARGE).model_copy(update={"by_gpu": by_gpu})
    gang = dataclasses.replace(gang, kind=jobs.Kind(name="gang", predicted=predicted, real=by_gpu))
    made = world.World(
        nodes,
        [gang],
        way=ways.Predicted(),
        policy=jobs_kit.policy(),
        speeds=interference.Interference(jobs_kit.PRIOR, interference.MPS),
    )
    found = made.run()
    assert found.lives[0].ended == 1000
    assert found.moments[0].utilization == pytest.approx(0.8 + 0.8 * 0.4)


def test_gang_of_whole_gpus_holds_nodes() -> None:
    gang = jobs_kit.job("gang", 90, replicas=2, gpus=2)
    found = jobs_kit.ran([gang, jobs_kit.job("a", 10, arrives=1.0)], nodes=2, gpus=2)
    assert [life.started for life in found.lives] == [0, 1000]


def test_one_pod_without_memory_ends_the_attempt_of_all() -> None:
    holds = jobs_kit.job("holds", 10, real=jobs_kit.needs(10, memory_mib=9500))
    gang = jobs_kit.job("gang", 60, real=jobs_kit.needs(60, memory_mib=4000), arrives=1.0, replicas=2)
    found = jobs_kit.ran([holds, gang], nodes=2, mechanism="TimeSlicing")
    assert found.lives[1].out_of_memory >= 1
    assert found.lives[1].ended is not None
    assert all(moment.running <= 2 for moment in found.moments)


def test_gang_that_the_cluster_cannot_hold_is_never_placed_in_part_and_says_why() -> None:
    gang = jobs_kit.job("gang", 90, replicas=3)
    found = jobs_kit.ran([gang, jobs_kit.job("a", 90, arrives=1.0)], nodes=2)
    assert [life.attempts for life in found.lives] == [0, 1]
    assert found.lives[0].why.startswith("InsufficientShare: all GPUs together, if empty, have room for 2")
    assert found.reasons == {"InsufficientShare": 1}


def test_gang_of_which_a_promised_gpu_breaks_comes_again_whole() -> None:
    gang = jobs_kit.job("gang", 90, seconds=100, replicas=2)
    under = conditions.Conditions(bind_seconds=5.0, faults=[jobs_kit.broken("node-1/0", at=2.0, repair=1000.0)])
    found = jobs_kit.ran([gang], nodes=2, under=under)
    # The one that was bound is evicted 60 s after the other was not, and 10 s later the gang waits for the repair.
    assert (found.lives[0].evictions, found.lives[0].attempts) == (1, 1)
    assert found.lives[0].started == 1002 + 5
