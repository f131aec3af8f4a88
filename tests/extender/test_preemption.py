"""Who is evicted for a job of higher priority, who never is, and what is held meanwhile."""

from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.names import PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records
from cotenant_extender.queue import preempting, preemption, roster, scene
from extender import builders
from extender.builders import NOW
from extender.queueing import booked, end, evicted, held, leaving, lift, lifted, member, run, runs, words

Object = dict[str, Any]


def test_a_pod_of_lower_priority_leaves_for_one_of_higher() -> None:
    source = builders.cluster(gpus=1)
    runs(source, "low", 80)
    builders.put(source, builders.pod("high", 60, priority=5))
    plan = run(source)
    assert [eviction.preemptor.name for eviction in plan.evictions] == ["high"]
    assert [victim.name for eviction in plan.evictions for victim in eviction.victims] == ["low"]
    assert plan.lifts == ()


@pytest.mark.parametrize("priority", [5, 6])
def test_nobody_leaves_for_an_equal_or_lower_priority(priority: int) -> None:
    source = builders.cluster(gpus=1)
    runs(source, "low", 80, priority=priority)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []


def test_nobody_leaves_where_the_pod_fits_anyway() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "low", 80)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert (evicted(source), booked(source)["GPU-n0-1"]) == ([], 60)


def test_a_pod_whose_policy_is_never_to_preempt_waits() -> None:
    source = builders.cluster(gpus=1)
    runs(source, "low", 80)
    builders.put(source, builders.pod("high", 60, priority=5, preemptionPolicy="Never"))
    assert evicted(source) == []


@pytest.mark.parametrize("spec", [{"paused": True}, {"mode": "Observe"}])
def test_nobody_leaves_while_the_policy_is_paused_or_observes(spec: Object) -> None:
    source = builders.cluster(gpus=1, **spec)
    runs(source, "low", 80)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []


def test_pods_of_the_lowest_priority_leave_first() -> None:
    source = builders.cluster(gpus=3)
    for slot, priority in enumerate((3, 1, 2)):
        runs(source, f"low{priority}", 80, f"GPU-n0-{slot}", priority=priority)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["low1"]


def test_fewer_pods_leave_rather_than_those_that_ran_less() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "a", 40, started=NOW - 10)
    runs(source, "b", 40, started=NOW - 10)
    runs(source, "c", 80, "GPU-n0-1")
    builders.put(source, builders.pod("high", 90, priority=5))
    assert evicted(source) == ["c"]


def test_among_equals_those_that_ran_least_leave() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "old", 80, started=NOW - 100)
    runs(source, "young", 80, "GPU-n0-1", started=NOW - 50)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["young"]


def test_those_that_ran_least_leave_wherever_they_are() -> None:
    source = builders.cluster(gpus=8)
    for slot in range(8):
        runs(source, f"low{slot}", 80, f"GPU-n0-{slot}", started=NOW - 100 + slot)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["low7"]


def test_no_more_pods_leave_than_needed() -> None:
    source = builders.cluster(gpus=1)
    runs(source, "a", 20)
    runs(source, "b", 30)
    runs(source, "c", 40)
    builders.put(source, builders.pod("high", 50, priority=5))
    assert evicted(source) == ["c"]


def test_a_pod_of_another_namespace_needs_the_gpu_for_itself() -> None:
    source = builders.cluster(gpus=1)
    runs(source, "a", 20)
    runs(source, "b", 30)
    builders.put(source, builders.pod("high", 10, priority=5, namespace="others"))
    assert sorted(evicted(source)) == ["a", "b"]


def test_memory_that_leaves_counts() -> None:
    source = builders.cluster(gpus=1)
    runs(source, "small", 40, memory_mib=1000)
    runs(source, "large", 40, memory_mib=100_000)
    builders.put(source, builders.pod("high", 60, priority=5, annotations={names.GPU_MEMORY: "80Gi"}))
    assert evicted(source) == ["large"]


def test_what_victims_request_of_their_node_counts() -> None:
    source = builders.cluster(gpus=1)
    source.node(records.node_record(builders.node("n0", gpus=1, allocatable={"pods": "1"})))
    runs(source, "low", 10)
    builders.put(source, builders.pod("high", 10, priority=5))
    assert evicted(source) == ["low"]


def test_where_the_node_is_short_of_more_than_victims_give_back_nobody_leaves() -> None:
    source = builders.cluster(gpus=1)
    source.node(records.node_record(builders.node("n0", gpus=1, allocatable={"cpu": "50m"})))
    runs(source, "low", 80)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []


def test_a_pod_that_has_not_run_for_its_least_time_stays_until_it_has() -> None:
    source = builders.cluster(gpus=1)
    runs(source, "low", 80, started=NOW - 50, annotations={names.MINIMUM_RUN_SECONDS: "60"})
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []
    assert evicted(source, now=NOW + 9) == []
    assert evicted(source, now=NOW + 12) == ["low"]


def test_a_least_time_counts_up_to_that_of_the_policy() -> None:
    source = builders.cluster(gpus=1, queue={"maxMinimumRunSeconds": 60})
    runs(source, "low", 80, started=NOW - 50, annotations={names.MINIMUM_RUN_SECONDS: "999999999"})
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []
    assert evicted(source, now=NOW + 12) == ["low"]


def test_a_policy_that_counts_less_holds_for_who_runs_already() -> None:
    source = builders.cluster(gpus=1)
    runs(source, "low", 80, started=NOW - 50, annotations={names.MINIMUM_RUN_SECONDS: "3600"})
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
        runs(source, f"a{slot}", 100, f"GPU-n0-{slot}", priority=slot)
        runs(source, f"b{slot}", 100, f"GPU-n1-{slot}", priority=9)
    builders.put(source, builders.pod("high", 200, priority=5))
    assert evicted(source) == ["a0", "a1"]
    assert held(source) == ["GPU-n0-0", "GPU-n0-1"]


def test_a_gang_leaves_whole_and_so_is_dearer_than_a_single_pod() -> None:
    source = builders.cluster(gpus=3)
    for slot, name in enumerate(("g1", "g2")):
        runs(source, name, 80, f"GPU-n0-{slot}", annotations=builders.gang("g", 2), started=NOW - 1)
    runs(source, "single", 80, "GPU-n0-2")
    builders.put(source, builders.pod("first", 60, priority=5))
    assert evicted(source) == ["single"]
    builders.put(source, builders.pod("second", 60, priority=5))
    assert evicted(source) == ["g1", "g2"]


def test_a_pod_of_higher_priority_that_names_the_gang_protects_nobody() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "g1", 80, annotations=builders.gang("g", 2))
    runs(source, "ticket", 1, "GPU-n0-1", annotations=builders.gang("g", 2), priority=9)
    builders.put(source, builders.pod("high", 100, priority=5))
    assert evicted(source) == ["g1"]


def test_a_gang_above_the_policys_size_protects_nobody() -> None:
    source = builders.cluster(gpus=2)
    for slot, (name, least) in enumerate({"low": "0", "mate": "3600"}.items()):
        notes = builders.gang("g", 2) | {names.MINIMUM_RUN_SECONDS: least}
        runs(source, name, 80, f"GPU-n0-{slot}", annotations=notes, started=NOW - 60)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []
    source.policy_changed(builders.in_force(queue={"maxGangSize": 1}))
    assert evicted(source, now=NOW + 3) == ["low"]


def test_a_pod_of_a_gang_that_is_leaving_keeps_none_of_the_others() -> None:
    source = builders.cluster(gpus=2)
    for slot, (name, share) in enumerate({"low": 80, "slow": 1}.items()):
        runs(source, name, share, f"GPU-n0-{slot}", annotations=builders.gang("g", 2))
    runs(source, "stays", 99, "GPU-n0-1", priority=5)
    leaving(source, "slow", until=NOW + 86_400)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["low"]


def test_for_a_gang_room_is_made_for_all_of_its_pods_or_nobody_leaves() -> None:
    source = builders.cluster(gpus=3)
    for slot in range(2):
        runs(source, f"low{slot}", 80, f"GPU-n0-{slot}")
    runs(source, "equal", 80, "GPU-n0-2", priority=5)
    builders.put(source, *(member(name, 60, priority=5) for name in "abc"))
    assert evicted(source) == []
    end(source, "equal")
    assert evicted(source, now=NOW + 3) == ["low0", "low1"]
    assert len(held(source)) == 3


def test_pods_that_are_leaving_already_are_waited_for() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "going", 80)
    runs(source, "low", 80, "GPU-n0-1")
    leaving(source, "going")
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []
    assert held(source) == ["GPU-n0-0"]
    assert words(source, "high") == (
        PackedReason.WAITING_FOR_TURN,
        "waits for team/going to leave; 1st in the queue",
    )


def test_a_pod_that_leaves_another_gpu_is_waited_for_where_its_node_is_short_of_what_it_requests() -> None:
    source = builders.cluster(gpus=2)
    source.node(records.node_record(builders.node("n0", gpus=2, allocatable={"pods": "2"})))
    runs(source, "low", 20)
    runs(source, "going", 80, "GPU-n0-1")
    leaving(source, "going")
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []
    assert held(source) == ["GPU-n0-0"]
    assert words(source, "high") == (
        PackedReason.WAITING_FOR_TURN,
        "waits for team/going to leave; 1st in the queue",
    )


def test_another_leaves_when_one_whose_request_keeps_the_node_short_is_stuck() -> None:
    source = builders.cluster(gpus=2)
    source.node(records.node_record(builders.node("n0", gpus=2, allocatable={"pods": "2"})))
    runs(source, "low", 20)
    runs(source, "going", 80, "GPU-n0-1")
    leaving(source, "going")
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []
    assert evicted(source, now=NOW + preempting.GONE_SECONDS + 99) == ["low"]


def test_an_earmark_is_taken_back_before_anybody_who_runs_leaves() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "runs", 80)
    builders.put(source, builders.pod("promised", 80))
    assert lifted(source) == ["promised"]
    lift(source, "promised")
    builders.put(source, builders.pod("high", 60, priority=5))
    plan = run(source)
    assert [item.record.name for item in plan.lifts] == ["high"]
    assert plan.evictions == ()
    assert booked(source) == {"GPU-n0-0": 80, "GPU-n0-1": 60}


def test_whoever_can_make_no_room_keeps_nobody_from_making_some() -> None:
    source = builders.cluster(gpus=1)
    runs(source, "low", 80)
    hopeless = [builders.pod(f"h{number}", 100 + 100 * (number + 1), priority=9) for number in range(20)]
    builders.put(source, *hopeless, builders.pod("high", 60, priority=5))
    found = [name for step in range(30) for name in evicted(source, now=NOW + step)]
    assert found == ["low"]


def test_pods_of_a_gang_take_room_beside_each_other_before_more_leave() -> None:
    source = builders.cluster(nodes=2, gpus=2)
    for slot in range(2):
        runs(source, f"a{slot}", 80, f"GPU-n0-{slot}")
        runs(source, f"b{slot}", 80, f"GPU-n1-{slot}")
    builders.put(source, *(member(f"g{number}", 50, size=6, priority=5) for number in range(6)))
    assert evicted(source) == ["a0", "a1", "b0"]
    assert held(source) == ["GPU-n0-0", "GPU-n0-1", "GPU-n1-0"]


def test_a_very_large_gang_evicts_nobody() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "low", 80)
    count = preemption.PODS + 1
    builders.put(source, *(member(f"g{number}", 1, size=count, priority=5) for number in range(count)))
    assert evicted(source) == []


def test_for_pods_of_a_gang_that_are_alike_it_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    source = builders.cluster(nodes=2, gpus=4)
    for number in range(8):
        runs(source, f"low{number}", 80, f"GPU-n{number // 4}-{number % 4}", started=NOW - 100 - number)
    builders.put(source, *(member(name, 60, size=4, priority=5) for name in "abcd"))
    searched: list[int] = []
    without = scene.without_all

    def counted(*arguments: Any) -> Any:
        searched.append(1)
        return without(*arguments)

    monkeypatch.setattr(scene, "without_all", counted)
    assert evicted(source) == ["low0", "low1", "low2", "low3"]
    assert len(searched) == 1


def test_however_many_wait_for_pods_that_are_leaving_a_job_of_a_higher_priority_gets_room() -> None:
    count = preempting.LIMIT
    source, last = builders.cluster(nodes=count // 2 + 1, gpus=2), f"n{count // 2}"
    source.node(records.node_record(builders.node(last, gpus=2, labels={"pool": "b"})))
    for number in range(count + 2):
        runs(source, f"low{number}", 100, f"GPU-n{number // 2}-{number % 2}", started=NOW - 100 - number)
    for number in range(count):
        leaving(source, f"low{number}", until=NOW + 200)
    builders.put(source, *(builders.pod(f"waits{number}", 100, priority=1) for number in range(count)))
    assert [name for step in range(count) for name in evicted(source, now=NOW + step / 4)] == []
    assert len(held(source)) == count
    there = {"nodeSelector": {"pool": "b"}}
    builders.put(source, builders.pod("equal", 100, priority=1, **there))
    assert [name for step in range(20, 30) for name in evicted(source, now=NOW + step)] == []
    builders.put(source, builders.pod("urgent", 100, priority=2, **there))
    assert [name for step in range(30, 40) for name in evicted(source, now=NOW + step)] == [f"low{count}"]


def test_a_namespace_whose_jobs_wait_for_pods_that_take_a_day_to_leave_keeps_none_of_another_waiting() -> None:
    """All of the priority that they had waited for a day, for the price of as many hundredths."""
    count = preempting.LIMIT
    source, last = builders.cluster(nodes=count // 2 + 1, gpus=2), f"n{count // 2}"
    source.node(records.node_record(builders.node(last, gpus=2, labels={"pool": "b"})))
    for number in range(count + 2):
        runs(source, f"low{number}", 100, f"GPU-n{number // 2}-{number % 2}", started=NOW - 100 - number)
    for number in range(count):
        leaving(source, f"low{number}", until=NOW + 200)
    builders.put(source, *(builders.pod(f"waits{number}", 100, priority=1) for number in range(count)))
    assert [name for step in range(count) for name in evicted(source, now=NOW + step / 4)] == []
    equal = builders.pod("equal", 100, priority=1, nodeSelector={"pool": "b"})
    equal["metadata"]["namespace"] = "honest"
    builders.put(source, equal)
    assert [name for step in range(20, 30) for name in evicted(source, now=NOW + step)] == [f"low{count}"]


def test_a_gang_of_more_pods_than_the_policy_lets_one_have_protects_nobody() -> None:
    source = builders.cluster(gpus=4, queue={"maxGangSize": 2})
    for number in range(3):
        notes = builders.gang("g", 3)
        runs(source, f"m{number}", 100, f"GPU-n0-{number}", started=NOW - 100 - number, annotations=notes)
    uid = PodUID("uid-m0")
    assert roster.together(source, uid) == [uid]


def test_a_pod_too_many_neither_leaves_with_a_gang_nor_protects_it() -> None:
    source = builders.cluster(gpus=4)
    for number in range(3):
        notes = builders.gang("g", 2)
        runs(source, f"m{number}", 100, f"GPU-n0-{number}", started=NOW - 100 - number, annotations=notes)
    first, second, surplus = (PodUID(f"uid-m{number}") for number in range(3))
    assert set(roster.together(source, first)) == {first, second}
    assert roster.together(source, surplus) == [surplus]
