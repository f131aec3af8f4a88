"""Preemptions under way: what is held while victims leave, how long for, and what ends it."""

from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.names import PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import budgets, planning, preempting
from extender import builders
from extender.builders import NOW
from extender.queueing import end, evicted, full, held, leaving, lift, lifted, queue, run, runs, told

Object = dict[str, Any]


def test_the_freed_gpu_is_kept_for_the_preemptor_until_it_is_bound() -> None:
    source = builders.cluster(gpus=1)
    runs(source, "low", 80)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["low"]
    builders.put(source, builders.pod("peer", 10, priority=5), builders.pod("other", 10))
    leaving(source, "low")
    assert lifted(source) == []
    end(source, "low")
    assert lifted(source) == ["high"]
    assert held(source) == ["GPU-n0-0"]
    lift(source, "high", priority=5)
    builders.put(source, builders.bound("high", 60, "n0", "GPU-n0-0", priority=5, version=3))
    assert lifted(source) == ["peer", "other"]
    assert held(source) == []


def test_nobody_else_is_asked_while_victims_are_leaving() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "low0", 80)
    runs(source, "low1", 80, "GPU-n0-1")
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["low0"]
    assert evicted(source, now=NOW + 1) == []
    leaving(source, "low0")
    assert evicted(source, now=NOW + 60) == []


def test_two_preemptors_get_two_gpus() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "low0", 80)
    runs(source, "low1", 80, "GPU-n0-1")
    builders.put(source, builders.pod("a", 60, priority=5), builders.pod("b", 60, priority=5))
    assert evicted(source) + evicted(source) == ["low0", "low1"]
    assert held(source) == ["GPU-n0-0", "GPU-n0-1"]


def test_a_pod_that_may_not_be_evicted_is_left_alone_for_a_while_and_others_are_asked() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "guarded", 80)
    runs(source, "low", 80, "GPU-n0-1", started=NOW - 7200)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["guarded"]
    queue(source).refused(source, source.pods[PodUID("uid-guarded")], now=NOW)
    assert held(source) == []
    assert evicted(source) == ["low"]


def test_it_is_asked_again_after_the_backoff() -> None:
    source = builders.cluster(gpus=1)
    runs(source, "guarded", 80)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["guarded"]
    queue(source).refused(source, source.pods[PodUID("uid-guarded")], now=NOW)
    assert evicted(source, now=NOW + budgets.BACKOFF_SECONDS - 1) == []
    assert evicted(source, now=NOW + budgets.BACKOFF_SECONDS + 2) == ["guarded"]


def test_victims_that_do_not_go_are_given_up_and_others_are_asked() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "stuck", 80)
    runs(source, "low", 80, "GPU-n0-1", started=NOW - 7200)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["stuck"]
    leaving(source, "stuck")
    assert evicted(source, now=NOW + preempting.GONE_SECONDS - 1) == []
    assert evicted(source, now=NOW + preempting.GONE_SECONDS) == ["low"]
    assert held(source) == ["GPU-n0-1"]


def two_victims() -> ledger.Ledger:
    """Two GPUs, on each a pod that may be evicted, and the one that goes first has been chosen."""
    source = builders.cluster(gpus=2)
    runs(source, "slow", 80)
    runs(source, "low", 80, "GPU-n0-1", started=NOW - 7200)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["slow"]
    return source


@pytest.mark.parametrize("grace", [5, 30, 900, 86_400])
def test_a_victim_has_its_whole_grace_period_before_another_is_asked(grace: int) -> None:
    source = two_victims()
    leaving(source, "slow", until=NOW + grace)
    last = NOW + grace + preempting.GONE_SECONDS
    assert [evicted(source, now=now) for now in (NOW + grace, last - 1, last)] == [[], [], ["low"]]


def test_a_victim_whose_grace_period_is_cut_short_is_stuck_sooner() -> None:
    source = two_victims()
    leaving(source, "slow", until=NOW + 900)
    assert evicted(source, now=NOW + 400) == []
    leaving(source, "slow", until=NOW + 410)
    assert evicted(source, now=NOW + 409 + preempting.GONE_SECONDS) == []
    assert evicted(source, now=NOW + 410 + preempting.GONE_SECONDS) == ["low"]


def test_a_victim_that_is_gone_but_still_listed_by_its_agent_has_its_time_too() -> None:
    source = two_victims()
    source.gpunode(records.gpunode_record(builders.gpunode("n0", tenants={0: ["slow"], 1: ["low"]})), now=NOW)
    leaving(source, "slow", until=NOW + 900)
    source.pod_gone(PodUID("uid-slow"))
    last = NOW + 900 + preempting.GONE_SECONDS
    assert [evicted(source, now=now) for now in (last - 1, last)] == [[], ["low"]]


def test_a_new_leader_gives_a_victim_the_rest_of_its_time() -> None:
    source = two_victims()
    leaving(source, "slow", until=NOW + 900)
    source.end_all_holds()
    later, policy = planning.Queue(), source.policy
    assert policy is not None
    last = NOW + 900 + preempting.GONE_SECONDS
    asked = [later.plan(source, policy, now=now).evictions for now in (NOW + 60, last - 1, last)]
    assert [[victim.name for one in found for victim in one.victims] for found in asked] == [[], [], ["low"]]


def test_when_the_preemptor_is_gone_nothing_is_held_for_it() -> None:
    source = builders.cluster(gpus=1)
    runs(source, "low", 80)
    builders.put(source, builders.pod("high", 60, priority=5))
    run(source)
    source.pod_gone(PodUID("uid-high"))
    run(source)
    assert held(source) == []


def test_when_the_preemptor_fits_elsewhere_meanwhile_it_goes_there() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "low", 80)
    runs(source, "equal", 80, "GPU-n0-1", priority=5)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["low"]
    end(source, "equal")
    assert lifted(source) == ["high"]
    run(source)
    assert held(source) == []


def test_when_its_gpu_closes_meanwhile_it_is_decided_anew() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "low0", 80)
    runs(source, "low1", 80, "GPU-n0-1")
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["low0"]
    sick = builders.gpunode("n0")
    sick["status"]["gpus"][0]["health"] = "Unhealthy"
    source.gpunode(records.gpunode_record(sick), now=NOW)
    assert evicted(source, now=NOW + 3) == ["low1"]


def test_a_higher_priority_takes_what_is_held_for_a_lower_one() -> None:
    source = builders.cluster(gpus=1)
    runs(source, "low", 80)
    builders.put(source, builders.pod("high", 60, priority=5))
    run(source)
    end(source, "low")
    builders.put(source, builders.pod("highest", 60, priority=9))
    assert lifted(source) == ["highest"]


def test_a_preemptor_is_told_whom_it_waits_for() -> None:
    source = full(shares=(80,))
    builders.put(source, builders.pod("high", 60, priority=5))
    assert told(source, "high") == (PackedReason.WAITING_FOR_TURN, "waits for team/b00 to leave; 1st in the queue")


def test_a_pod_that_is_being_bound_is_not_evicted() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.pod("promised", 80))
    (item,) = run(source).lifts
    assert item.earmark is not None
    source.reserve(item.record.uid, item.earmark.placed)
    builders.put(source, builders.pod("high", 60, priority=5))
    plan = run(source)
    assert (plan.lifts, plan.evictions) == ((), ())


def test_a_search_waits_for_passes_that_lift_for_a_fifth_of_a_second() -> None:
    source = builders.cluster(gpus=3)
    for slot in range(2):
        runs(source, f"low{slot}", 90, f"GPU-n0-{slot}")
    runs(source, "stays", 50, "GPU-n0-2", priority=9)

    def lifts_and_evicts(now: float) -> tuple[int, list[str]]:
        plan = run(source, now=now)
        return len(plan.lifts), [victim.name for eviction in plan.evictions for victim in eviction.victims]

    builders.put(source, builders.pod("a", 90, priority=5))
    assert lifts_and_evicts(NOW) == (0, ["low0"])
    builders.put(source, builders.pod("b", 90, priority=5), builders.pod("s0", 5))
    assert lifts_and_evicts(NOW + 0.1) == (1, [])
    builders.put(source, builders.pod("s1", 5))
    assert lifts_and_evicts(NOW + 0.2) == (1, ["low1"])


def test_a_job_without_victims_is_looked_at_again_after_two_seconds() -> None:
    source = builders.cluster(gpus=1)
    runs(source, "low", 80, started=NOW - 29, annotations={names.MINIMUM_RUN_SECONDS: "30"})
    builders.put(source, builders.pod("high", 60, priority=5))
    assert [evicted(source, now=NOW + after) for after in (0, 1.5, 2)] == [[], [], ["low"]]


def test_a_victim_that_frees_just_the_memory_that_lacks_is_enough() -> None:
    source = builders.cluster(gpus=1)
    whole = int(source.seen().bookable_mib[0, 0])
    runs(source, "low", 10, memory_mib=50_000)
    runs(source, "stays", 10, memory_mib=whole - 50_000, priority=9)
    builders.put(source, builders.pod("high", 40, priority=5, annotations={names.GPU_MEMORY: "50000Mi"}))
    assert evicted(source) == ["low"]
