"""Preemptions under way: what is held while victims leave, how long for, and what ends it."""

from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.names import PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import budgets, planning, preempting, preemption
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


def test_a_pod_that_takes_a_day_to_leave_is_not_waited_for_where_another_can_be_evicted() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "slow", 80, terminationGracePeriodSeconds=86_400)
    runs(source, "other", 80, "GPU-n0-1")
    leaving(source, "slow", until=NOW + 86_400)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["other"]


@pytest.mark.parametrize("until", [preemption.SOON_SECONDS, 30.0, -10.0, None])
def test_a_pod_that_leaves_soon_is_waited_for_and_nobody_is_evicted(until: float | None) -> None:
    source = builders.cluster(gpus=2)
    runs(source, "going", 80, terminationGracePeriodSeconds=300)
    runs(source, "other", 80, "GPU-n0-1")
    leaving(source, "going", until=None if until is None else NOW + until)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []
    assert held(source) == ["GPU-n0-0"]


def test_nobody_is_evicted_who_would_be_gone_no_sooner_than_a_pod_that_leaves_late() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "slow", 80, terminationGracePeriodSeconds=900)
    runs(source, "other", 80, "GPU-n0-1", terminationGracePeriodSeconds=900)
    leaving(source, "slow", until=NOW + 890)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []
    assert held(source) == ["GPU-n0-0"]


def test_the_one_pod_that_would_be_gone_sooner_is_found_among_many_that_would_not() -> None:
    source, count = builders.cluster(nodes=5, gpus=8), 40
    for number in range(count):
        grace, started = (30, NOW - 9999) if number == 20 else (900, NOW - 100)
        gpu = f"GPU-n{number // 8}-{number % 8}"
        runs(source, f"low{number}", 80, gpu, terminationGracePeriodSeconds=grace, started=started)
    leaving(source, "low0", until=NOW + 800)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["low20"]


def test_of_pods_with_long_grace_periods_one_is_evicted_that_would_be_gone_before_a_pod_that_leaves_late() -> None:
    source = builders.cluster(gpus=3)
    for name, gpu, grace, started in (
        ("leaves", "GPU-n0-0", 36_000, NOW - 100),
        ("hour", "GPU-n0-1", 3600, NOW - 9999),
        ("day", "GPU-n0-2", 86_400, NOW - 100),
    ):
        runs(source, name, 80, gpu, terminationGracePeriodSeconds=grace, started=started)
    leaving(source, "leaves", until=NOW + 36_000)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["hour"]


def test_a_gang_of_which_one_pod_would_be_gone_no_sooner_stays_whole() -> None:
    source = builders.cluster(gpus=3)
    runs(source, "slow", 80)
    for number, grace in enumerate((30, 900), start=1):
        notes = builders.gang("g", 2)
        runs(source, f"g{number}", 80, f"GPU-n0-{number}", annotations=notes, terminationGracePeriodSeconds=grace)
    leaving(source, "slow", until=NOW + 800)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []
    assert held(source) == ["GPU-n0-0"]


def test_nothing_is_held_for_who_waits_for_a_pod_that_takes_a_day_to_leave() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "slow", 80, terminationGracePeriodSeconds=86_400)
    runs(source, "young", 80, "GPU-n0-1", annotations={names.MINIMUM_RUN_SECONDS: "1000"}, started=NOW)
    leaving(source, "slow", until=NOW + 86_400)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []
    assert held(source) == []
    when = next(step for step in range(1, 2000, 50) if evicted(source, now=NOW + step) == ["young"])
    assert 1000 <= when <= 1050
    assert held(source) == ["GPU-n0-1"]


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


def test_a_new_leader_gives_a_victim_that_leaves_soon_the_rest_of_its_time() -> None:
    source = two_victims()
    leaving(source, "slow", until=NOW + 350)
    source.end_all_holds()
    later, policy = planning.Queue(), source.policy
    assert policy is not None
    last = NOW + 350 + preempting.GONE_SECONDS
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


def one_of_two_is_closed() -> ledger.Ledger:
    """A job waits for a victim on the first of two GPUs, which then closes."""
    source = builders.cluster(gpus=2)
    runs(source, "low0", 80)
    runs(source, "low1", 80, "GPU-n0-1")
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["low0"]
    leaving(source, "low0")
    healths(source, "Unhealthy", now=NOW + 1)
    return source


def healths(source: ledger.Ledger, first: str, *, now: float) -> None:
    reported = builders.gpunode("n0")
    reported["status"]["gpus"][0]["health"] = first
    source.gpunode(records.gpunode_record(reported), now=now)


def test_when_its_gpu_stays_closed_it_is_decided_anew() -> None:
    source = one_of_two_is_closed()
    assert evicted(source, now=NOW + 2) == []
    assert evicted(source, now=NOW + 2 + preempting.KEPT_SECONDS) == ["low1"]


def test_when_its_gpu_closes_for_a_moment_as_the_victim_ends_nobody_else_is_evicted() -> None:
    source = one_of_two_is_closed()
    assert evicted(source, now=NOW + 2) == []
    end(source, "low0")
    assert evicted(source, now=NOW + 3) == []
    healths(source, "Healthy", now=NOW + 4)
    assert lifted(source, now=NOW + 4) == ["high"]


def test_a_gpu_that_closes_again_and_again_has_no_while_of_its_own_each_time() -> None:
    source = one_of_two_is_closed()
    assert evicted(source, now=NOW + 2) == []
    healths(source, "Healthy", now=NOW + 5)
    assert evicted(source, now=NOW + 5) == []
    healths(source, "Unhealthy", now=NOW + 11)
    assert evicted(source, now=NOW + 11) == []
    assert evicted(source, now=NOW + 2 + preempting.KEPT_SECONDS) == ["low1"]


def test_a_gpu_that_closes_when_its_victim_has_gone_makes_no_eviction_one_in_vain() -> None:
    source = one_of_two_is_closed()
    end(source, "low0")
    assert evicted(source, now=NOW + 2) == []
    assert evicted(source, now=NOW + 2 + preempting.KEPT_SECONDS) == ["low1"]
    assert "left in vain" not in told(source, "high", now=NOW + 13)[1]


def test_before_a_victim_leaves_a_gpu_that_closes_is_given_up_and_the_victim_kept() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "low0", 80)
    runs(source, "low1", 80, "GPU-n0-1")
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["low0"]
    healths(source, "Unhealthy", now=NOW + 1)
    assert evicted(source, now=NOW + 3) == ["low1"]


def test_who_evicts_nobody_does_not_wait_for_a_gpu_that_has_closed() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "going", 80)
    runs(source, "low", 80, "GPU-n0-1")
    leaving(source, "going")
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []
    healths(source, "Unhealthy", now=NOW + 1)
    assert evicted(source, now=NOW + 3) == ["low"]


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


def cpus(share: int, cpu: str) -> list[dict[str, Any]]:
    """The containers of a pod that requests so many CPUs."""
    return [builders.container({"requests": {"cpu": cpu}, "limits": {names.GPU_SHARE: str(share)}})]


@pytest.mark.parametrize("share", [100, 60])
def test_pods_on_other_gpus_of_a_node_leave_for_its_cpu(share: int) -> None:
    """Nobody was evicted, as victims were looked for on the GPUs alone that the job would get."""
    source = builders.cluster(nodes=1, gpus=2)
    runs(source, "low", 20, "GPU-n0-0", containers=cpus(20, "40"))
    runs(source, "spared", 20, "GPU-n0-0", containers=cpus(20, "1"))
    runs(source, "top", 20, "GPU-n0-0", priority=2000)
    builders.put(source, builders.pod("high", share, priority=1000, containers=cpus(share, "60")))
    assert evicted(source, now=NOW + 1) == ["low"]
    end(source, "low")
    assert lifted(source, now=NOW + 2) == ["high"]


def test_pods_on_several_gpus_leave_for_the_cpu_of_their_node() -> None:
    source = builders.cluster(nodes=1, gpus=2)
    runs(source, "first", 20, "GPU-n0-0", containers=cpus(20, "40"))
    runs(source, "second", 20, "GPU-n0-1", containers=cpus(20, "20"))
    builders.put(source, builders.pod("high", 100, priority=1000, containers=cpus(100, "60")))
    assert sorted(evicted(source, now=NOW + 1)) == ["first", "second"]


def test_nobody_leaves_for_cpu_that_a_higher_priority_keeps() -> None:
    source = builders.cluster(nodes=1, gpus=2)
    runs(source, "low", 20, "GPU-n0-0", containers=cpus(20, "10"))
    runs(source, "top", 20, "GPU-n0-0", priority=2000, containers=cpus(20, "30"))
    builders.put(source, builders.pod("high", 100, priority=1000, containers=cpus(100, "60")))
    assert evicted(source, now=NOW + 1) == []


def test_a_pod_that_leaves_late_elsewhere_keeps_nobody_from_room() -> None:
    source = builders.cluster(nodes=3, gpus=1)
    runs(source, "low", 80, "GPU-n0-0", terminationGracePeriodSeconds=400)
    runs(source, "late", 80, "GPU-n1-0", terminationGracePeriodSeconds=86_400)
    runs(source, "apart", 100, "GPU-n2-0", terminationGracePeriodSeconds=310)
    leaving(source, "late", until=NOW + 86_400)
    leaving(source, "apart", until=NOW + 310)
    builders.put(source, builders.pod("high", 60, priority=5, nodeSelector={"pool": "a"}))
    for name in ("n0", "n1"):
        source.node(records.node_record(builders.node(name, gpus=1, labels={"pool": "a"})))
    assert evicted(source) == ["low"]


def test_a_job_gets_no_gpus_held_because_its_author_deleted_a_pod_with_a_long_grace_period() -> None:
    source = builders.cluster(gpus=8)
    runs(source, "mine", 100, priority=1, terminationGracePeriodSeconds=86_400)
    leaving(source, "mine", until=NOW + 86_400)
    builders.put(source, builders.pod("big", 800, priority=1), builders.pod("other", 100, priority=1, created=NOW + 1))
    assert (lifted(source, now=NOW + 2), held(source)) == (["other"], [])


def test_of_equals_the_one_that_came_first_gets_the_first_victim_that_may_leave() -> None:
    source = builders.cluster(gpus=1)
    runs(source, "low", 100, annotations={names.MINIMUM_RUN_SECONDS: "1000"}, started=NOW)
    builders.put(source, builders.pod("old", 100, priority=5, created=NOW))
    for step in range(990, 1010):
        builders.put(source, builders.pod(f"new{step}", 100, priority=5, created=NOW + step))
        found = run(source, now=NOW + step).evictions
        if found:
            break
    assert [(eviction.preemptor.name, step >= 1000) for eviction in found] == [("old", True)]


def test_of_equal_victims_the_one_goes_whose_grace_period_is_short() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "slow", 80, terminationGracePeriodSeconds=864_000)
    runs(source, "quick", 80, "GPU-n0-1", started=NOW - 7200)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["quick"]


def test_no_victim_of_a_higher_priority_goes_in_place_of_one_with_a_long_grace_period() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "slow", 80, terminationGracePeriodSeconds=301)
    runs(source, "quick", 80, "GPU-n0-1", priority=1)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["slow"]
