"""What is lifted without an earmark, so that an autoscaler sees it."""

from dataclasses import replace
from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.names import NodeName, PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records, steps
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import newnodes, passes, planning, scaleup, showing
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
    count = passes.LIFTS_PER_PASS + 2
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
        {"containers": [builders.container({"requests": {"cpu": "65"}, "limits": {names.GPU_SHARE: "90"}})]},
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
    builders.put(source, *(waits(f"p{number}", 90) for number in range(showing.LIMIT)), waits("large", 100))
    first = shown(source)
    assert (len(first), first[0]) == (showing.LIMIT, "large")
    for name in first:
        builders.put(source, waits(name, 90, gates=(), version=2))
    assert shown(source, now=NOW + 40) == []


def test_those_whose_gates_are_being_lifted_count_already() -> None:
    source = full()
    builders.put(source, *(waits(f"p{number:03}") for number in range(showing.LIMIT + 3)))
    assert len(shown(source)) == showing.LIMIT
    assert shown(source, now=NOW + 3) == []


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


def visible(source: ledger.Ledger, found: list[str], *, now: float = NOW) -> None:
    """The API server shows pods without their gates; kube-scheduler found no node for them."""
    for name in found:
        record = source.pods[PodUID(f"uid-{name}")]
        report = f"{now} no node"
        source.pod(replace(record, gates=(), unschedulable=report, version=record.version + 1), now=now)


def two_kinds(**spec: Any) -> ledger.Ledger:
    """A full node with H200 GPUs, and a full one with a T4."""
    source = full(**spec)
    builders.add_node(source, "t", gpus=1, model=T4)
    builders.put(source, builders.bound("t0", 70, "t", "GPU-t-0"))
    return source


def of_model(name: str, model: str, **changes: Any) -> Object:
    """A pod that waits for one model of GPU."""
    return waits(name, annotations={names.GPU_MODELS: model}, **changes)


def crowd(source: ledger.Ledger, count: int = showing.LIMIT + 44) -> list[str]:
    """Many pods that wait for an H200; those that are shown first."""
    builders.put(source, *(of_model(f"p{number:03}", H200, seconds=60) for number in range(count)))
    found = shown(source)
    assert len(found) == min(count, showing.LIMIT)
    visible(source, found)
    return found


def test_pods_of_a_kind_that_is_not_served_keep_no_job_of_another_kind_from_being_shown() -> None:
    source = two_kinds()
    crowd(source)
    builders.put(source, of_model("t", T4, seconds=40))
    assert shown(source, now=NOW + 2) == ["t"]


def test_kinds_of_nodes_that_labels_alone_tell_apart_are_counted_apart() -> None:
    source = full(nodes=2)
    for name in ("n0", "n1"):
        source.node(records.node_record(builders.node(name, labels={"zone": name})))
    pods = [waits(f"p{number}", nodeSelector={"zone": "n0"}, seconds=60) for number in range(showing.LIMIT + 1)]
    builders.put(source, *pods, waits("other", nodeSelector={"zone": "n1"}), waits("any"))
    found = shown(source)
    assert len(found) == showing.LIMIT + 2
    assert {"other", "any"} <= set(found)


def test_a_job_that_several_kinds_would_take_is_shown_while_one_of_them_has_room() -> None:
    source = two_kinds()
    crowd(source)
    builders.put(source, of_model("both", f"{H200},{T4}"))
    assert shown(source, now=NOW + 2) == ["both"]


def test_models_of_which_there_is_no_node_are_kinds_of_their_own() -> None:
    source = full(overrides=[{"gpuModels": [T4], "maxTenantsPerGPU": 2}])
    crowd(source)
    builders.put(source, *(of_model(f"t{number}", T4) for number in range(showing.LIMIT + 1)))
    assert len(shown(source, now=NOW + 2)) == showing.LIMIT


def test_when_no_node_comes_others_have_their_turn_and_all_say_so() -> None:
    source = two_kinds()
    first = crowd(source)
    others = sorted({f"p{number:03}" for number in range(showing.LIMIT + 44)} - set(first))
    last = NOW + showing.PATIENCE_SECONDS
    assert [shown(source, now=now) for now in (NOW + 2, last - 1)] == [[], []]
    assert words(source, first[0], now=last)[0] is PackedReason.WAITING_FOR_SCALE_UP
    reason, message = words(source, others[0], now=last)
    assert reason is PackedReason.WAITING_FOR_TURN
    assert message.startswith("others are shown to the autoscaler first: ")
    assert shown(source, now=last) == []
    assert shown(source, now=last + 1) == others
    reason, message = words(source, first[0], now=last + 1)
    assert reason is PackedReason.INSUFFICIENT_SHARE
    assert message.startswith("no other node came while it was shown to the autoscaler, others have their turn: ")
    visible(source, others, now=last + 2)
    assert told(source, others[0], now=last + 2)[0] is PackedReason.WAITING_FOR_SCALE_UP


def turns(source: ledger.Ledger, until: float, *, now: float = NOW + 2) -> list[int]:
    """After how many seconds more pods are shown, looked at every five minutes."""
    found = []
    while now < until:
        names_of = shown(source, now=now)
        visible(source, names_of, now=now)
        found.extend([round(now - NOW)] if names_of else [])
        now += 300
    return found


def test_each_turn_in_vain_lasts_twice_as_long() -> None:
    source = full()
    crowd(source, 5 * showing.LIMIT)
    found = turns(source, NOW + 17 * showing.PATIENCE_SECONDS)
    gaps = [after - before for before, after in zip([0, *found], found, strict=False)]
    assert [round(gap / showing.PATIENCE_SECONDS) for gap in gaps] == [1, 2, 4, 8]


def test_a_node_that_comes_gives_the_turn_its_time_again() -> None:
    source = full()
    crowd(source)
    later = NOW + showing.PATIENCE_SECONDS - 60
    assert shown(source, now=later) == []
    builders.add_node(source, "n9", gpus=2)
    for slot in range(2):
        builders.put(source, builders.bound(f"n{slot}", 100, "n9", f"GPU-n9-{slot}"))
    assert shown(source, now=later + 15) == []
    last = later + 15 + showing.PATIENCE_SECONDS
    assert turns(source, last, now=later + 16) == []
    assert [len(shown(source, now=now)) for now in (last, last + 1)] == [0, 44]


def test_a_node_that_is_looked_at_in_steps_gives_the_turn_its_time_again_too() -> None:
    source = full()
    crowd(source)
    policy, queue = source.policy, planning.Queue()
    assert policy is not None

    def lifts(now: float) -> int:
        steps.finish(queue.prepare(source, policy, now=now))
        return len(queue.plan(source, policy, now=now).lifts)

    came = NOW + showing.PATIENCE_SECONDS
    assert [lifts(NOW), lifts(came - 60)] == [0, 0]
    builders.add_node(source, "n9", gpus=2)
    for slot in range(2):
        builders.put(source, builders.bound(f"n{slot}", 100, "n9", f"GPU-n9-{slot}"))
    assert [lifts(came - 45), lifts(came + 1), lifts(came - 46 + showing.PATIENCE_SECONDS)] == [0, 0, 0]
    assert [lifts(came - 45 + showing.PATIENCE_SECONDS), lifts(came - 44 + showing.PATIENCE_SECONDS)] == [0, 44]


def test_a_node_of_another_kind_gives_it_no_time() -> None:
    source = full()
    crowd(source)
    builders.add_node(source, "t", gpus=1, model=T4)
    builders.put(source, builders.bound("t0", 70, "t", "GPU-t-0"))
    last = NOW + showing.PATIENCE_SECONDS
    assert [len(shown(source, now=now)) for now in (NOW + 2, last, last + 1)] == [0, 0, 44]


def test_a_new_leader_counts_those_that_it_finds_shown() -> None:
    source = full()
    first = crowd(source)
    policy, later = source.policy, planning.Queue()
    assert policy is not None

    def lifts(now: float) -> int:
        return len(later.plan(source, policy, now=now).lifts)

    assert [
        lifts(NOW + 10),
        lifts(NOW + 11 + showing.PATIENCE_SECONDS),
        lifts(NOW + 13 + showing.PATIENCE_SECONDS),
    ] == [
        0,
        0,
        44,
    ]
    assert len(first) == showing.LIMIT


def test_a_pod_that_is_set_back_again_and_again_does_not_keep_its_turn() -> None:
    source = full()
    first = crowd(source)
    last = NOW + showing.PATIENCE_SECONDS
    shown(source, now=NOW + 2)
    for number in range(100):
        now = NOW + 60 + 5 * number
        for name in first[:5]:
            record = source.pods[PodUID(f"uid-{name}")]
            source.pod(replace(record, unschedulable=f"{now} again", version=record.version + 1), now=now)
        shown(source, now=now)
    assert [len(shown(source, now=now)) for now in (last, last + 1)] == [0, 44]


def test_a_gang_counts_with_all_of_its_pods() -> None:
    source = full()
    size = showing.LIMIT - 1
    builders.put(source, *(member(f"g{number}", 60, size=size, created=NOW - 90) for number in range(size)))
    builders.put(source, *(waits(f"p{number}") for number in range(3)))
    assert len(shown(source)) == size + 1


def grown_over(count: int, **labels: Any) -> scaleup.Growth:
    """What new nodes there may be in a cluster of so many nodes; each label's values by the node's number."""
    growth, source = scaleup.Growth(), full(nodes=count)
    for number in range(count):
        own = {key.replace("_", "/"): str(value(number)) for key, value in labels.items()}
        memory = {"memory": f"{250 * 1024 * 1024 + 37 * number}Ki"}
        source.node(records.node_record(builders.node(f"n{number}", labels=own, allocatable=memory)))
    assert source.policy is not None
    growth.refresh(source, source.policy, now=NOW)
    return growth


def in_memory(raw: Object, size: str) -> Object:
    """A pod that requests so much memory of its host."""
    raw["spec"]["containers"][0]["resources"]["requests"]["memory"] = size
    return raw


def test_nodes_that_differ_in_what_names_them_and_in_a_little_memory_are_of_one_kind() -> None:
    stamps = {"nvidia_gfd.timestamp": lambda number: 1_700_000_000 + number}
    assert grown_over(20, **stamps).count == 1
    assert grown_over(20, zone=lambda number: f"z{number % 3}", **stamps).count == 3


def test_labels_of_few_values_tell_kinds_of_nodes_apart_even_if_each_is_of_one_node() -> None:
    assert grown_over(newnodes.FEW_VALUES, group=str).count == newnodes.FEW_VALUES


def test_a_new_node_of_a_kind_has_no_more_memory_than_the_smallest_that_there_is() -> None:
    source = full(nodes=2)
    for name, memory in (("n0", "251Gi"), ("n1", "250Gi")):
        source.node(records.node_record(builders.node(name, allocatable={"memory": memory})))
    builders.put(source, *(in_memory(waits(f"of{size}"), f"{size}Gi") for size in (250, 251)))
    assert shown(source) == ["of250"]


def test_a_label_is_counted_anew_when_nodes_come_change_and_go() -> None:
    bearers = newnodes.Bearers()
    for number in range(20):
        bearers.see(NodeName(f"n{number}"), {"stamp": f"{number}"})
    assert "stamp" in bearers.naming()
    for number in range(20):
        bearers.see(NodeName(f"n{number}"), {"stamp": f"{number % 2}"})
    assert "stamp" not in bearers.naming()
    bearers.retain(set())
    assert bearers.naming() == newnodes.Bearers().naming()


def test_nodes_are_looked_at_in_steps_and_again_only_when_that_is_due() -> None:
    growth, source = scaleup.Growth(), builders.cluster(nodes=3 * scaleup.NODES_PER_STEP, gpus=1)
    assert source.policy is not None
    assert len(list(growth.prepare(source, source.policy, now=NOW))) > 3
    assert list(growth.prepare(source, source.policy, now=NOW + 1)) == []
