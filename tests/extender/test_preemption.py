"""Who is evicted for a job of higher priority, who never is, and what is held meanwhile."""

from dataclasses import replace
from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.names import PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import planning, preempting, preemption
from extender import builders
from extender.builders import NOW
from extender.queueing import booked, end, evicted, full, held, lift, lifted, member, queue, run, told, words

Object = dict[str, Any]


def bound(source: ledger.Ledger, name: str, share: int, gpu: str = "GPU-n0-0", **changes: Any) -> None:
    """A pod that runs since an hour, unless `started` says otherwise."""
    started = changes.pop("started", NOW - 3600)
    raw = builders.bound(name, share, gpu.split("-")[1], gpu, **changes)
    raw["status"]["startTime"] = builders.timestamp(started)
    builders.put(source, raw)


def leaving(source: ledger.Ledger, name: str, *, until: float | None = None) -> None:
    """A pod is being deleted, with a deletion timestamp."""
    record = source.pods[PodUID(f"uid-{name}")]
    source.pod(replace(record, deleting=True, tenure=replace(record.tenure, leaves=until)), now=NOW)


def test_a_pod_of_lower_priority_leaves_for_one_of_higher() -> None:
    source = builders.cluster(gpus=1)
    bound(source, "low", 80)
    builders.put(source, builders.pod("high", 60, priority=5))
    plan = run(source)
    assert [eviction.preemptor.name for eviction in plan.evictions] == ["high"]
    assert [victim.name for eviction in plan.evictions for victim in eviction.victims] == ["low"]
    assert plan.lifts == ()


@pytest.mark.parametrize("priority", [5, 6])
def test_nobody_leaves_for_an_equal_or_lower_priority(priority: int) -> None:
    source = builders.cluster(gpus=1)
    bound(source, "low", 80, priority=priority)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []


def test_nobody_leaves_where_the_pod_fits_anyway() -> None:
    source = builders.cluster(gpus=2)
    bound(source, "low", 80)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert (evicted(source), booked(source)["GPU-n0-1"]) == ([], 60)


def test_a_pod_whose_policy_is_never_to_preempt_waits() -> None:
    source = builders.cluster(gpus=1)
    bound(source, "low", 80)
    builders.put(source, builders.pod("high", 60, priority=5, preemptionPolicy="Never"))
    assert evicted(source) == []


@pytest.mark.parametrize("spec", [{"paused": True}, {"mode": "Observe"}])
def test_nobody_leaves_while_the_policy_is_paused_or_observes(spec: Object) -> None:
    source = builders.cluster(gpus=1, **spec)
    bound(source, "low", 80)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []


def test_pods_of_the_lowest_priority_leave_first() -> None:
    source = builders.cluster(gpus=3)
    for slot, priority in enumerate((3, 1, 2)):
        bound(source, f"low{priority}", 80, f"GPU-n0-{slot}", priority=priority)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["low1"]


def test_fewer_pods_leave_rather_than_those_that_ran_less() -> None:
    source = builders.cluster(gpus=2)
    bound(source, "a", 40, started=NOW - 10)
    bound(source, "b", 40, started=NOW - 10)
    bound(source, "c", 80, "GPU-n0-1")
    builders.put(source, builders.pod("high", 90, priority=5))
    assert evicted(source) == ["c"]


def test_among_equals_those_that_ran_least_leave() -> None:
    source = builders.cluster(gpus=2)
    bound(source, "old", 80, started=NOW - 100)
    bound(source, "young", 80, "GPU-n0-1", started=NOW - 50)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["young"]


def test_those_that_ran_least_leave_wherever_they_are() -> None:
    source = builders.cluster(gpus=8)
    for slot in range(8):
        bound(source, f"low{slot}", 80, f"GPU-n0-{slot}", started=NOW - 100 + slot)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["low7"]


def test_no_more_pods_leave_than_needed() -> None:
    source = builders.cluster(gpus=1)
    bound(source, "a", 20)
    bound(source, "b", 30)
    bound(source, "c", 40)
    builders.put(source, builders.pod("high", 50, priority=5))
    assert evicted(source) == ["c"]


def test_a_pod_of_another_namespace_needs_the_gpu_for_itself() -> None:
    source = builders.cluster(gpus=1)
    bound(source, "a", 20)
    bound(source, "b", 30)
    builders.put(source, builders.pod("high", 10, priority=5, namespace="others"))
    assert sorted(evicted(source)) == ["a", "b"]


def test_memory_that_leaves_counts() -> None:
    source = builders.cluster(gpus=1)
    bound(source, "small", 40, memory_mib=1000)
    bound(source, "large", 40, memory_mib=100_000)
    builders.put(source, builders.pod("high", 10, priority=5, annotations={names.GPU_MEMORY: "80Gi"}))
    assert evicted(source) == ["large"]


def test_what_victims_request_of_their_node_counts() -> None:
    source = builders.cluster(gpus=1)
    source.node(records.node_record(builders.node("n0", gpus=1, allocatable={"pods": "1"})))
    bound(source, "low", 10)
    builders.put(source, builders.pod("high", 10, priority=5))
    assert evicted(source) == ["low"]


def test_where_the_node_is_short_of_more_than_victims_give_back_nobody_leaves() -> None:
    source = builders.cluster(gpus=1)
    source.node(records.node_record(builders.node("n0", gpus=1, allocatable={"cpu": "50m"})))
    bound(source, "low", 80)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []


def test_a_pod_that_has_not_run_for_its_least_time_stays_until_it_has() -> None:
    source = builders.cluster(gpus=1)
    bound(source, "low", 80, started=NOW - 50, annotations={names.MINIMUM_RUN_SECONDS: "60"})
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []
    assert evicted(source, now=NOW + 9) == []
    assert evicted(source, now=NOW + 12) == ["low"]


def test_a_least_time_counts_up_to_that_of_the_policy() -> None:
    source = builders.cluster(gpus=1, queue={"maxMinimumRunSeconds": 60})
    bound(source, "low", 80, started=NOW - 50, annotations={names.MINIMUM_RUN_SECONDS: "999999999"})
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []
    assert evicted(source, now=NOW + 12) == ["low"]


def test_a_policy_that_counts_less_holds_for_who_runs_already() -> None:
    source = builders.cluster(gpus=1)
    bound(source, "low", 80, started=NOW - 50, annotations={names.MINIMUM_RUN_SECONDS: "3600"})
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []
    source.policy_changed(builders.in_force(queue={"maxMinimumRunSeconds": 0}))
    assert evicted(source, now=NOW + 3) == ["low"]


def test_a_pod_with_a_least_time_that_has_not_started_stays() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.bound("low", 80, "n0", "GPU-n0-0", annotations={names.MINIMUM_RUN_SECONDS: "60"}))
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []


def test_several_whole_gpus_of_one_node_are_cleared() -> None:
    source = builders.cluster(nodes=2, gpus=3)
    for slot in range(3):
        bound(source, f"a{slot}", 100, f"GPU-n0-{slot}", priority=slot)
        bound(source, f"b{slot}", 100, f"GPU-n1-{slot}", priority=9)
    builders.put(source, builders.pod("high", 200, priority=5))
    assert evicted(source) == ["a0", "a1"]
    assert held(source) == ["GPU-n0-0", "GPU-n0-1"]


def test_a_gang_leaves_whole_and_so_is_dearer_than_a_single_pod() -> None:
    source = builders.cluster(gpus=3)
    for slot, name in enumerate(("g1", "g2")):
        bound(source, name, 80, f"GPU-n0-{slot}", annotations=builders.gang("g", 2), started=NOW - 1)
    bound(source, "single", 80, "GPU-n0-2")
    builders.put(source, builders.pod("first", 60, priority=5))
    assert evicted(source) == ["single"]
    builders.put(source, builders.pod("second", 60, priority=5))
    assert evicted(source) == ["g1", "g2"]


def test_a_gang_with_one_pod_of_no_lower_priority_stays_whole() -> None:
    source = builders.cluster(gpus=2)
    bound(source, "g1", 80, annotations=builders.gang("g", 2))
    bound(source, "g2", 80, "GPU-n0-1", annotations=builders.gang("g", 2), priority=5)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []


def test_for_a_gang_room_is_made_for_all_of_its_pods_or_nobody_leaves() -> None:
    source = builders.cluster(gpus=3)
    for slot in range(2):
        bound(source, f"low{slot}", 80, f"GPU-n0-{slot}")
    bound(source, "equal", 80, "GPU-n0-2", priority=5)
    builders.put(source, *(member(name, 60, priority=5) for name in "abc"))
    assert evicted(source) == []
    end(source, "equal")
    assert evicted(source, now=NOW + 3) == ["low0", "low1"]
    assert len(held(source)) == 3


def test_pods_that_are_leaving_already_are_waited_for() -> None:
    source = builders.cluster(gpus=2)
    bound(source, "going", 80)
    bound(source, "low", 80, "GPU-n0-1")
    leaving(source, "going")
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []
    assert held(source) == ["GPU-n0-0"]
    assert words(source, "high") == (
        PackedReason.WAITING_FOR_TURN,
        "waits for team/going to leave; 1st in the queue",
    )


def test_an_earmark_is_taken_back_before_anybody_who_runs_leaves() -> None:
    source = builders.cluster(gpus=2)
    bound(source, "runs", 80)
    builders.put(source, builders.pod("promised", 80))
    assert lifted(source) == ["promised"]
    lift(source, "promised")
    builders.put(source, builders.pod("high", 60, priority=5))
    plan = run(source)
    assert [item.record.name for item in plan.lifts] == ["high"]
    assert plan.evictions == ()
    assert booked(source) == {"GPU-n0-0": 80, "GPU-n0-1": 60}


def test_the_freed_gpu_is_kept_for_the_preemptor_until_it_is_bound() -> None:
    source = builders.cluster(gpus=1)
    bound(source, "low", 80)
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
    bound(source, "low0", 80)
    bound(source, "low1", 80, "GPU-n0-1")
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["low0"]
    assert evicted(source, now=NOW + 1) == []
    leaving(source, "low0")
    assert evicted(source, now=NOW + 60) == []


def test_two_preemptors_get_two_gpus() -> None:
    source = builders.cluster(gpus=2)
    bound(source, "low0", 80)
    bound(source, "low1", 80, "GPU-n0-1")
    builders.put(source, builders.pod("a", 60, priority=5), builders.pod("b", 60, priority=5))
    assert evicted(source) + evicted(source) == ["low0", "low1"]
    assert held(source) == ["GPU-n0-0", "GPU-n0-1"]


def test_a_pod_that_may_not_be_evicted_is_left_alone_for_a_while_and_others_are_asked() -> None:
    source = builders.cluster(gpus=2)
    bound(source, "guarded", 80)
    bound(source, "low", 80, "GPU-n0-1", started=NOW - 7200)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["guarded"]
    queue(source).refused(source, PodUID("uid-guarded"), now=NOW)
    assert held(source) == []
    assert evicted(source) == ["low"]


def test_it_is_asked_again_after_the_backoff() -> None:
    source = builders.cluster(gpus=1)
    bound(source, "guarded", 80)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["guarded"]
    queue(source).refused(source, PodUID("uid-guarded"), now=NOW)
    assert evicted(source, now=NOW + preempting.BACKOFF_SECONDS - 1) == []
    assert evicted(source, now=NOW + preempting.BACKOFF_SECONDS + 2) == ["guarded"]


def test_victims_that_do_not_go_are_given_up_and_others_are_asked() -> None:
    source = builders.cluster(gpus=2)
    bound(source, "stuck", 80)
    bound(source, "low", 80, "GPU-n0-1", started=NOW - 7200)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["stuck"]
    leaving(source, "stuck")
    assert evicted(source, now=NOW + preempting.GONE_SECONDS - 1) == []
    assert evicted(source, now=NOW + preempting.GONE_SECONDS) == ["low"]
    assert held(source) == ["GPU-n0-1"]


def two_victims() -> ledger.Ledger:
    """Two GPUs, on each a pod that may be evicted, and the one that goes first has been chosen."""
    source = builders.cluster(gpus=2)
    bound(source, "slow", 80)
    bound(source, "low", 80, "GPU-n0-1", started=NOW - 7200)
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
    bound(source, "low", 80)
    builders.put(source, builders.pod("high", 60, priority=5))
    run(source)
    source.pod_gone(PodUID("uid-high"))
    run(source)
    assert held(source) == []


def test_when_the_preemptor_fits_elsewhere_meanwhile_it_goes_there() -> None:
    source = builders.cluster(gpus=2)
    bound(source, "low", 80)
    bound(source, "equal", 80, "GPU-n0-1", priority=5)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["low"]
    end(source, "equal")
    assert lifted(source) == ["high"]
    run(source)
    assert held(source) == []


def test_when_its_gpu_closes_meanwhile_it_is_decided_anew() -> None:
    source = builders.cluster(gpus=2)
    bound(source, "low0", 80)
    bound(source, "low1", 80, "GPU-n0-1")
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["low0"]
    sick = builders.gpunode("n0")
    sick["status"]["gpus"][0]["health"] = "Unhealthy"
    source.gpunode(records.gpunode_record(sick), now=NOW)
    assert evicted(source, now=NOW + 3) == ["low1"]


def test_a_higher_priority_takes_what_is_held_for_a_lower_one() -> None:
    source = builders.cluster(gpus=1)
    bound(source, "low", 80)
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


def test_whoever_can_make_no_room_keeps_nobody_from_making_some() -> None:
    source = builders.cluster(gpus=1)
    bound(source, "low", 80)
    hopeless = [builders.pod(f"h{number}", 100 + 100 * (number + 1), priority=9) for number in range(20)]
    builders.put(source, *hopeless, builders.pod("high", 60, priority=5))
    found = [name for step in range(30) for name in evicted(source, now=NOW + step)]
    assert found == ["low"]


def test_pods_of_a_gang_take_room_beside_each_other_before_more_leave() -> None:
    source = builders.cluster(nodes=2, gpus=2)
    for slot in range(2):
        bound(source, f"a{slot}", 80, f"GPU-n0-{slot}")
        bound(source, f"b{slot}", 80, f"GPU-n1-{slot}")
    builders.put(source, *(member(f"g{number}", 50, size=6, priority=5) for number in range(6)))
    assert evicted(source) == ["a0", "a1", "b0"]
    assert held(source) == ["GPU-n0-0", "GPU-n0-1", "GPU-n1-0"]


def test_a_very_large_gang_evicts_nobody() -> None:
    source = builders.cluster(gpus=2)
    bound(source, "low", 80)
    count = preemption.PODS + 1
    builders.put(source, *(member(f"g{number}", 1, size=count, priority=5) for number in range(count)))
    assert evicted(source) == []
