"""The order of the queue, gangs, earmarks and their ends, holds, and what waiting pods are told."""

from dataclasses import replace
from typing import Any

import pytest

from cotenant_api.names import NodeName, PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import order, planning
from extender import builders
from extender.builders import NOW

Object = dict[str, Any]


def run(source: ledger.Ledger, *, now: float = NOW) -> planning.Plan:
    assert source.policy is not None
    return planning.plan(source, source.policy, now=now)


def lifted(source: ledger.Ledger, *, now: float = NOW) -> list[str]:
    return [lift.record.name for lift in run(source, now=now).lifts]


def told(source: ledger.Ledger, name: str, *, now: float = NOW) -> tuple[PackedReason, str]:
    plan = run(source, now=now)
    assert source.policy is not None
    waiting = next(waiting for waiting in plan.waiting if waiting.record.name == name)
    return planning.explain(source, waiting)


def ordered(source: ledger.Ledger, *, now: float = NOW) -> list[str]:
    assert source.policy is not None
    entries = order.entries(source, source.policy.spec.queue, now=now)
    return [member.name for entry in entries for member in entry.members]


def held(source: ledger.Ledger) -> list[str]:
    return [gpu.uuid for node in source.seen().nodes for gpu in node.gpus if gpu.hold is not None]


def booked(source: ledger.Ledger) -> dict[str, int]:
    return {gpu.uuid: gpu.share for node in source.seen().nodes for gpu in node.gpus if gpu.share}


def test_among_pods_of_one_priority_the_larger_share_goes_first() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("small", 10), builders.pod("large", 80), builders.pod("middle", 50))
    assert ordered(source) == ["large", "middle", "small"]


def test_priority_goes_before_share() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("large", 80), builders.pod("urgent", 10, priority=1))
    assert ordered(source) == ["urgent", "large"]


def test_equal_shares_go_in_the_order_in_which_they_came() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("late", created=NOW), builders.pod("early", created=NOW - 5))
    assert ordered(source) == ["early", "late"]


def test_fifo_ignores_shares() -> None:
    source = builders.cluster(queue={"order": "FIFO"})
    builders.put(source, builders.pod("late", 80, created=NOW), builders.pod("early", 10, created=NOW - 5))
    assert ordered(source) == ["early", "late"]


def test_a_pod_that_waited_too_long_goes_before_all_of_its_priority_and_after_higher_ones() -> None:
    source = builders.cluster(queue={"maxWaitSeconds": 60})
    builders.put(source, builders.pod("old", 5, created=NOW - 61), builders.pod("older", 1, created=NOW - 99))
    builders.put(source, builders.pod("large", 80, created=NOW - 60), builders.pod("urgent", 1, priority=1))
    assert ordered(source) == ["urgent", "older", "old", "large"]


def test_a_pod_with_another_gate_is_not_considered() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("a", gates=("cotenant.dev/packing", "kueue.x-k8s.io/admission")))
    assert lifted(source) == []
    assert run(source).waiting == ()


def test_first_fit_decreasing_packs_the_cluster() -> None:
    source = builders.cluster(gpus=2)
    for name, share in {"a": 60, "b": 50, "c": 40, "d": 30, "e": 20}.items():
        builders.put(source, builders.pod(name, share))
    assert lifted(source) == ["a", "b", "c", "d", "e"]
    assert booked(source) == {"GPU-n0-0": 100, "GPU-n0-1": 100}
    assert lifted(source) == []


def test_what_does_not_fit_waits_and_is_told_why_and_its_position() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.pod("a", 90), builders.pod("b", 80), builders.pod("c", 70))
    assert told(source, "c") == (
        PackedReason.WAITING_FOR_TURN,
        "1 GPU is promised to a job that is being bound; 2nd in the queue",
    )


@pytest.mark.parametrize(
    ("number", "text"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (22, "22nd")]
)
def test_positions_are_said_as_a_person_says_them(number: int, text: str) -> None:
    assert planning.ordinal(number) == text


def test_an_unreadable_request_is_never_lifted_and_told_why() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("a", annotations={"cotenant.dev/gpu-memory": "much"}))
    reason, message = told(source, "a")
    assert reason is PackedReason.INVALID_REQUEST
    assert "cotenant.dev/gpu-memory" in message


@pytest.mark.parametrize(("spec", "words"), [({"paused": True}, "is paused"), ({"mode": "Observe"}, "mode Observe")])
def test_a_paused_or_observing_policy_lifts_nothing(spec: Object, words: str) -> None:
    source = builders.cluster(**spec)
    builders.put(source, builders.pod("a"))
    reason, message = told(source, "a")
    assert reason is PackedReason.WAITING_FOR_TURN
    assert words in message
    assert booked(source) == {}


def test_nodes_that_kube_scheduler_would_refuse_are_not_earmarked() -> None:
    source = builders.cluster(nodes=3)
    source.node(records.node_record(builders.node("n0", unschedulable=True)))
    tainted = builders.node("n1", taints=[{"key": "x", "effect": "NoSchedule"}])
    source.node(records.node_record(tainted))
    builders.put(source, builders.pod("a"), builders.pod("b", nodeSelector={"zone": "none"}))
    assert lifted(source) == ["a"]
    assert booked(source) == {"GPU-n2-0": 40}


def test_a_pass_ends_after_so_many_lifts_and_the_next_goes_on() -> None:
    source = builders.cluster(nodes=40)
    count = planning.LIFTS_PER_PASS + 2
    builders.put(source, *(builders.pod(f"p{number}", 50) for number in range(count)))
    first = run(source)
    assert (len(first.lifts), len(first.waiting), first.cut) == (planning.LIFTS_PER_PASS, 2, True)
    second = run(source)
    assert (len(second.lifts), len(second.waiting), second.cut) == (2, 0, False)


# --- gangs


def member(name: str, share: int = 60, *, size: int = 3, **changes: Any) -> Object:
    return builders.pod(name, share, annotations=builders.gang("g", size), **changes)


def test_a_gang_waits_until_all_of_it_is_there() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, member("a"), member("b"))
    assert told(source, "a") == (
        PackedReason.WAITING_FOR_GANG,
        "2 of the gang's 3 pods are here; 1st in the queue",
    )


def test_a_gang_is_lifted_whole() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, member("a"), member("b"), member("c"))
    assert lifted(source) == ["a", "b", "c"]


def test_a_gang_that_fits_in_part_is_not_lifted_and_leaves_its_gpus_to_others() -> None:
    source = builders.cluster(gpus=2)
    builders.put(source, member("a"), member("b"), member("c"), builders.pod("other", 30))
    assert lifted(source) == ["other"]
    assert told(source, "a") == (
        PackedReason.INSUFFICIENT_SHARE,
        "2 of the gang's 3 waiting pods fit; for the next 2 GPUs lack at least 20 hundredths; 1st in the queue",
    )


def test_a_member_that_comes_again_is_lifted_beside_those_that_are_bound() -> None:
    source = builders.cluster()
    for name, index in {"a": 0, "b": 1}.items():
        uuid = f"GPU-n0-{index}"
        builders.put(source, builders.bound(name, 30, "n0", uuid, annotations=builders.gang("g", 3)))
    builders.put(source, member("c", 30))
    assert lifted(source) == ["c"]


def test_a_gang_of_another_namespace_is_another_gang() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, member("a", size=2), member("b", size=2, namespace="others"))
    assert lifted(source) == []


def test_a_member_with_a_gate_of_somebody_else_is_not_there_yet() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, member("a", size=2), member("b", size=2, gates=("cotenant.dev/packing", "other")))
    assert told(source, "a")[0] is PackedReason.WAITING_FOR_GANG


def test_a_gang_counts_with_the_sum_of_its_shares() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, member("a", 30), member("b", 30), member("c", 30), builders.pod("single", 80))
    assert ordered(source) == ["a", "b", "c", "single"]


# --- earmarks


def lift(source: ledger.Ledger, name: str, **changes: Any) -> None:
    """The gate is gone, as the API server then shows the pod."""
    earmark = source.earmarks.get(PodUID(f"uid-{name}"))
    assert earmark is not None
    notes = {"cotenant.dev/earmark": earmark.note().to_json()}
    builders.put(source, builders.pod(name, gates=(), version=2, annotations=notes, **changes))


def test_an_earmark_ends_when_its_gpu_closes_and_the_pod_is_earmarked_elsewhere() -> None:
    source = builders.cluster(gpus=2)
    builders.put(source, builders.pod("a"))
    run(source)
    lift(source, "a")
    sick = builders.gpunode("n0")
    sick["status"]["gpus"][0]["health"] = "Unhealthy"
    source.gpunode(records.gpunode_record(sick), now=NOW)
    again = run(source).lifts
    assert [item.record.gates for item in again] == [()]
    assert again[0].earmark.note().attempt == 2
    assert booked(source) == {"GPU-n0-1": 40}


def test_an_earmark_ends_when_its_node_is_cordoned() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, builders.pod("a"))
    run(source)
    lift(source, "a")
    source.node(records.node_record(builders.node("n0", unschedulable=True)))
    run(source)
    assert booked(source) == {"GPU-n1-0": 40}


def test_after_kube_schedulers_refusal_the_pod_keeps_its_place_waits_and_then_tries_another_node() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, builders.pod("a"))
    run(source)
    lift(source, "a", unschedulable="no port is free")
    assert told(source, "a") == (
        PackedReason.INSUFFICIENT_HOST_RESOURCES,
        "kube-scheduler found no node: no port is free; 1st in the queue",
    )
    assert lifted(source, now=NOW + 2.1) == ["a"]
    assert booked(source) == {"GPU-n1-0": 40}


def test_a_pod_without_gate_is_left_to_kube_scheduler_at_first() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("a", gates=()))
    assert lifted(source) == []
    assert lifted(source, now=NOW + order.LOOSE_SECONDS + 1) == ["a"]


# --- holds


def end(source: ledger.Ledger, name: str) -> None:
    """A bound pod finishes."""
    record = source.pods[PodUID(f"uid-{name}")]
    source.pod(replace(record, phase="Succeeded"), now=NOW)


def full(*, nodes: int = 1, shares: tuple[int, ...] = (50, 70)) -> ledger.Ledger:
    source = builders.cluster(nodes=nodes, gpus=len(shares), queue={"maxWaitSeconds": 60})
    for index in range(nodes):
        for slot, share in enumerate(shares):
            uuid = f"GPU-n{index}-{slot}"
            builders.put(source, builders.bound(f"b{index}{slot}", share, f"n{index}", uuid))
    return source


def test_the_oldest_pod_that_waited_too_long_holds_the_gpu_with_the_least_booked() -> None:
    source = full()
    builders.put(source, builders.pod("old", 90, created=NOW - 61), builders.pod("new", 20))
    assert lifted(source) == ["new"]
    assert held(source) == ["GPU-n0-0"]
    assert booked(source) == {"GPU-n0-0": 50, "GPU-n0-1": 90}


def test_nothing_is_held_for_a_pod_that_has_not_waited_too_long() -> None:
    source = full()
    builders.put(source, builders.pod("big", 90, created=NOW - 59), builders.pod("new", 20))
    lifted(source)
    assert held(source) == []


def test_a_held_gpu_goes_to_its_holder_when_it_is_free_and_is_held_no_more() -> None:
    source = full()
    builders.put(source, builders.pod("old", 90, created=NOW - 61))
    run(source)
    end(source, "b00")
    builders.put(source, builders.pod("new", 60))
    assert lifted(source) == ["old"]
    assert held(source) == []
    assert booked(source) == {"GPU-n0-0": 90, "GPU-n0-1": 70}


def test_a_hold_stays_where_it_is_although_another_gpu_has_less_booked_now() -> None:
    source = full()
    builders.put(source, builders.pod("old", 100, created=NOW - 61))
    run(source)
    end(source, "b01")
    builders.put(source, builders.bound("b2", 10, "n0", "GPU-n0-1"))
    run(source)
    assert held(source) == ["GPU-n0-0"]


def test_a_hold_moves_when_its_gpu_closes() -> None:
    source = full()
    builders.put(source, builders.pod("old", 100, created=NOW - 61))
    run(source)
    sick = builders.gpunode("n0")
    sick["status"]["gpus"][0]["health"] = "Suspect"
    source.gpunode(records.gpunode_record(sick), now=NOW)
    run(source)
    assert held(source) == ["GPU-n0-1"]


def test_several_whole_gpus_are_held_on_one_node() -> None:
    source = full(nodes=2, shares=(50, 50))
    end(source, "b10")
    builders.put(source, builders.pod("old", 200, created=NOW - 61))
    run(source)
    assert held(source) == ["GPU-n1-0", "GPU-n1-1"]


def test_what_can_never_fit_holds_nothing_and_the_next_does() -> None:
    source = full()
    builders.put(source, builders.pod("never", 90, created=NOW - 90, annotations={"cotenant.dev/gpu-models": "X"}))
    builders.put(source, builders.pod("old", 80, created=NOW - 61))
    run(source)
    assert source.hold is not None
    assert source.hold.holders == {"uid-old"}


def test_for_a_gang_gpus_are_held_for_all_of_its_pods() -> None:
    source = full(nodes=2, shares=(70, 60, 50))
    gang = [member(name, 50, created=NOW - 61) for name in "abc"]
    builders.put(source, *gang, builders.pod("new", 30))
    assert lifted(source) == ["new"]
    assert held(source) == ["GPU-n0-2", "GPU-n1-2"]
    assert booked(source)["GPU-n0-0"] == 100


def test_a_hold_ends_with_its_pod() -> None:
    source = full()
    builders.put(source, builders.pod("old", 90, created=NOW - 61))
    run(source)
    source.pod_gone(PodUID("uid-old"))
    run(source)
    assert held(source) == []


def test_who_waits_for_a_held_gpu_is_told() -> None:
    source = full(shares=(50,))
    builders.put(source, builders.pod("old", 90, created=NOW - 61), builders.pod("new", 20))
    assert told(source, "new") == (
        PackedReason.WAITING_FOR_TURN,
        "1 GPU is held for a job that waits longer; 2nd in the queue",
    )


def test_while_one_pod_is_bound_all_the_time_the_one_that_waits_is_placed_within_the_bound() -> None:
    """New small pods come for ever; the large one is placed when the first tenants of its held GPU have ended."""
    source = builders.cluster(gpus=1, queue={"maxWaitSeconds": 60})
    builders.put(source, builders.pod("large", 100, created=NOW))
    running: list[tuple[float, str]] = []
    builders.put(source, builders.bound("first", 30, "n0", "GPU-n0-0"))
    running.append((NOW + 20, "first"))
    placed_at = None
    for step in range(200):
        now = NOW + step
        source.tick(now=now)
        source.lease(NodeName("n0"), now, now=now)
        for _, name in [item for item in running if item[0] <= now]:
            end(source, name)
        running = [item for item in running if item[0] > now]
        builders.put(source, builders.pod(f"small{step}", 30, created=now))
        for item in run(source, now=now).lifts:
            name = item.record.name
            if name == "large":
                placed_at = now
            else:
                builders.put(source, builders.bound(name, 30, "n0", "GPU-n0-0", version=2))
                running.append((now + 20, name))
        if placed_at is not None:
            break
    assert placed_at is not None
    assert 60 < placed_at - NOW <= 60 + 20 + 1
