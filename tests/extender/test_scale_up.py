"""What is lifted without an earmark, so that an autoscaler sees it."""

from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.names import NodeName
from cotenant_api.pod import PackedReason
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import planning, scaleup
from extender import builders
from extender.builders import H200, NOW, T4
from extender.queueing import end, full, lifted, member, run, told, words

Object = dict[str, Any]


def shown(source: ledger.Ledger, *, now: float = NOW) -> list[str]:
    """A pass; names of the pods that are lifted for the autoscaler."""
    return [lift.record.name for lift in run(source, now=now).lifts if lift.earmark is None]


def waits(name: str, share: int = 90, *, seconds: float = 30, **changes: Any) -> Object:
    """A pod that has waited for so long."""
    return builders.pod(name, share, created=NOW - seconds, **changes)


def test_what_fits_nowhere_but_would_fit_another_node_is_lifted_after_a_while() -> None:
    source = full()
    builders.put(source, waits("a", seconds=29))
    assert shown(source) == []
    assert shown(source, now=NOW + 1) == ["a"]
    assert shown(source, now=NOW + 3) == []


def test_the_policy_says_after_how_long() -> None:
    source = full(queue={"scaleUpAfterSeconds": 100})
    builders.put(source, waits("a", seconds=99), waits("b", seconds=100))
    assert shown(source) == ["b"]


def test_what_fits_is_earmarked_instead() -> None:
    source = full()
    builders.put(source, waits("a", 10))
    assert (shown(source), len(source.earmarks)) == ([], 1)


def test_a_pass_that_was_cut_short_shows_nobody_who_was_not_tried() -> None:
    count = planning.LIFTS_PER_PASS + 2
    source = builders.cluster(nodes=count, gpus=1)
    builders.put(source, *(waits(f"p{number:03}", 60) for number in range(count)))
    plan = run(source)
    assert (plan.cut, [lift.record.name for lift in plan.lifts if lift.earmark is None]) == (True, [])
    assert words(source, f"p{count - 1:03}")[1].startswith("others go first; ")
    assert len(lifted(source)) == 2


def test_a_gpunode_that_lists_more_gpus_makes_another_kind_of_node() -> None:
    source = full()
    builders.put(source, waits("a", 300))
    assert shown(source) == []
    larger = builders.gpunode("n0", gpus=3, version=2, gpu={"health": "Unhealthy"})
    source.gpunode(records.gpunode_record(larger), now=NOW)
    assert shown(source, now=NOW + scaleup.REFRESH_SECONDS) == ["a"]


@pytest.mark.parametrize(
    "changes",
    [
        {"share": 300},
        {"nodeSelector": {"zone": "none"}},
        {"containers": [{"name": "main", "resources": {"requests": {"cpu": "65"}, "limits": {names.GPU_SHARE: "90"}}}]},
        {"annotations": {names.GPU_MEMORY: "200Gi"}},
        {"nodeSelector": {"kubernetes.io/hostname": "n0"}},
    ],
)
def test_what_no_kind_of_node_would_take_is_not_lifted(changes: Object) -> None:
    source = full()
    source.node(records.node_record(builders.node("n0", labels={"kubernetes.io/hostname": "n0"})))
    builders.put(source, waits("a", **({"share": 90} | changes)))
    assert shown(source) == []


def test_a_node_that_is_cordoned_or_starting_is_a_kind_of_node_all_the_same() -> None:
    source = builders.cluster()
    taints = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    source.node(records.node_record(builders.node("n0", unschedulable=True, taints=taints)))
    builders.put(source, waits("a"))
    assert shown(source) == ["a"]


def test_taints_of_a_kind_of_node_keep_away_who_does_not_tolerate_them() -> None:
    source = full()
    taints = [{"key": "team", "value": "x", "effect": "NoSchedule"}]
    source.node(records.node_record(builders.node("n0", taints=taints)))
    tolerant = [{"key": "team", "operator": "Exists"}]
    builders.put(source, waits("a"), waits("b", tolerations=tolerant))
    assert shown(source) == ["b"]


@pytest.mark.parametrize(
    ("models", "overrides", "expected"),
    [
        (T4, [], []),
        (T4, [{"gpuModels": [T4], "maxTenantsPerGPU": 2}], ["a"]),
        (H200, [], ["a"]),
        (f"{T4},{H200}", [], ["a"]),
    ],
)
def test_a_model_of_which_there_is_no_node_counts_if_anybody_ever_named_it(
    models: str, overrides: list[Object], expected: list[str]
) -> None:
    source = full(overrides=overrides)
    builders.put(source, waits("a", annotations={names.GPU_MODELS: models}))
    assert shown(source) == expected


def test_a_cluster_that_is_scaled_to_zero_shows_everything() -> None:
    source = builders.cluster(nodes=0)
    builders.put(source, waits("a"), waits("b", annotations={names.GPU_MODELS: T4}))
    assert shown(source) == ["a", "b"]


def test_a_model_that_was_there_once_is_known() -> None:
    source = full()
    builders.add_node(source, "n9", gpus=1, model=T4)
    run(source)
    source.gpunode_gone(NodeName("n9"))
    source.node_gone(NodeName("n9"))
    builders.put(source, waits("a", annotations={names.GPU_MODELS: T4}))
    assert shown(source, now=NOW + scaleup.REFRESH_SECONDS) == ["a"]


def test_nothing_is_shown_while_victims_leave_for_it() -> None:
    source = full()
    builders.put(source, waits("a", priority=5))
    assert len(run(source).evictions) == 1
    assert shown(source, now=NOW + 2) == []


def test_a_gang_is_shown_whole() -> None:
    source = full()
    builders.put(source, *(member(name, 90, size=2, created=NOW - 30) for name in ("g1", "g2")))
    assert shown(source) == ["g1", "g2"]


def test_a_gang_that_is_not_complete_is_not_shown() -> None:
    source = full()
    builders.put(source, member("g1", 90, size=2, created=NOW - 30))
    assert shown(source) == []


def test_so_many_are_shown_at_a_time_in_the_order_of_the_queue() -> None:
    source = full()
    builders.put(source, *(waits(f"p{number}", 90) for number in range(scaleup.LIMIT)), waits("large", 100))
    first = shown(source)
    assert (len(first), first[0]) == (scaleup.LIMIT, "large")
    for name in first:
        builders.put(source, waits(name, 90, gates=(), version=2))
    assert shown(source, now=NOW + 40) == []


def test_what_is_shown_keeps_its_place_says_so_and_is_earmarked_when_it_fits() -> None:
    source = full(shares=(95, 70))
    builders.put(source, waits("a"))
    assert shown(source) == ["a"]
    builders.put(source, waits("a", gates=(), version=2), waits("b", seconds=20))
    reason, message = told(source, "a")
    assert reason is PackedReason.WAITING_FOR_SCALE_UP
    assert message == "waits for another node: 2 GPUs lack at least 60 hundredths; 1st in the queue"
    assert words(source, "b")[0] is PackedReason.INSUFFICIENT_SHARE
    end(source, "b01")
    assert lifted(source) == ["a"]


def test_a_lift_that_failed_is_tried_again() -> None:
    source = full()
    builders.put(source, waits("a"))
    assert shown(source) == ["a"]
    assert shown(source, now=NOW + 31) == ["a"]
