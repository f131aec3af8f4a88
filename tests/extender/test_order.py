"""The order of the queue, and who is considered at all."""

from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.pod import PackedReason
from cotenant_extender import records
from cotenant_extender.queue import passes
from extender import builders
from extender.builders import NOW
from extender.queueing import booked, held, lifted, ordered, queue, run, teller, told, waiting_for

Object = dict[str, Any]


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


@pytest.mark.parametrize(("earlier", "expected"), [(99, ["large", "small"]), (101, ["small", "large"])])
def test_a_share_counts_double_for_every_24th_of_the_longest_wait(earlier: float, expected: list[str]) -> None:
    source = builders.cluster(queue={"maxWaitSeconds": 2400})
    builders.put(source, builders.pod("small", 20, created=NOW - earlier), builders.pod("large", 40, created=NOW))
    assert ordered(source) == expected


def test_fifo_ignores_shares() -> None:
    source = builders.cluster(queue={"order": "FIFO"})
    builders.put(source, builders.pod("late", 80, created=NOW), builders.pod("early", 10, created=NOW - 5))
    assert ordered(source) == ["early", "late"]


def test_a_pod_that_waited_too_long_goes_before_all_of_its_priority_and_after_higher_ones() -> None:
    source = builders.cluster(queue={"maxWaitSeconds": 60})
    builders.put(source, builders.pod("old", 5, created=NOW - 61), builders.pod("older", 1, created=NOW - 99))
    builders.put(source, builders.pod("large", 80, created=NOW - 60), builders.pod("urgent", 1, priority=1))
    assert ordered(source) == ["urgent", "older", "old", "large"]


def test_among_those_that_waited_too_long_the_higher_priority_goes_first() -> None:
    source = builders.cluster(queue={"maxWaitSeconds": 60})
    builders.put(source, builders.pod("old", created=NOW - 99), builders.pod("urgent", created=NOW - 61, priority=1))
    assert ordered(source) == ["urgent", "old"]


def test_a_pass_ends_after_looking_at_many_gpus_and_the_next_goes_on() -> None:
    source = builders.cluster(gpus=2)
    builders.put(source, builders.pod("large", 60), builders.pod("small", 50))
    assert source.policy is not None
    plan = queue(source).plan(source, source.policy, now=NOW, cells=1)
    assert ([lift.record.name for lift in plan.lifts], plan.cut) == (["large"], True)
    assert lifted(source) == ["small"]


def test_a_pod_with_another_gate_is_not_considered() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("a", gates=("cotenant.dev/packing", "kueue.x-k8s.io/admission")))
    assert lifted(source) == []
    assert teller(source).waiting(source) == []


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
    ("missing", "said"),
    [(0, "1 GPU is promised to a job that is being bound"), (1, "1 GPU lacks 1.1 GiB;")],
)
def test_a_gpu_that_has_enough_memory_but_for_what_is_promised_is_said_to_be_promised(missing: int, said: str) -> None:
    source = builders.cluster(gpus=1)
    may = builders.MEMORY_MIB[builders.H200] * 95 // 100
    before = may * 65 // 100
    # Bound when a share did not have to be the memory's part.
    builders.put(source, builders.bound("old", 10, "n0", "GPU-n0-0", memory_mib=before))
    builders.put(source, builders.pod("a", 30, annotations={names.GPU_MEMORY: "1Gi"}))
    assert lifted(source) == ["a"]
    builders.put(source, builders.pod("b", 40, annotations={names.GPU_MEMORY: f"{may - before + missing}Mi"}))
    assert told(source, "b")[1].startswith(said)


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
    count = passes.LIFTS_PER_PASS + 2
    builders.put(source, *(builders.pod(f"p{number}", 50) for number in range(count)))
    first = run(source)
    assert (len(first.lifts), first.cut) == (passes.LIFTS_PER_PASS, True)
    second = run(source)
    assert (len(second.lifts), second.cut) == (2, False)


def test_a_pod_is_tried_everywhere_though_its_like_was_placed_before_and_nothing_changed_since() -> None:
    source = builders.cluster(nodes=2, gpus=1)
    for name in ("first", "second", "third"):
        builders.put(source, builders.pod(name, 40))
        assert lifted(source) == [name]
        assert lifted(source) == []


@pytest.mark.parametrize("spec", [{"paused": True}, {"mode": "Observe"}])
def test_nothing_is_held_while_the_policy_is_paused_or_observes(spec: Object) -> None:
    source = waiting_for(60, builders.bound("b", 60, "n0", "GPU-n0-0"))
    source.policy_changed(builders.in_force(generation=2, queue={"maxWaitSeconds": 60}, **spec))
    run(source)
    assert held(source) == []


def test_a_node_that_lists_no_gpu_takes_nobody_and_is_no_fault() -> None:
    source = builders.cluster(gpus=0)
    builders.put(source, builders.pod("a"))
    assert told(source, "a")[0] is not PackedReason.PLACED
    assert booked(source) == {}
