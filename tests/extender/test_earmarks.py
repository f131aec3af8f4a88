"""Earmarks and every way they end."""

from cotenant_api.names import PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records
from cotenant_extender.queue import order
from extender import builders
from extender.builders import NOW
from extender.queueing import booked, lift, lifted, run, told


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
    assert [item.earmark and item.earmark.attempt for item in again] == [2]
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


def test_an_earmark_ends_when_its_pod_is_being_bound_elsewhere() -> None:
    source = builders.cluster(nodes=2, gpus=1)
    builders.put(source, builders.pod("a", 80))
    (item,) = run(source).lifts
    assert item.earmark is not None
    lift(source, "a")
    elsewhere = item.earmark.placed.model_copy(update={"node": "n1"})
    source.reserve(item.record.uid, elsewhere)
    builders.put(source, builders.pod("b", 80))
    assert lifted(source) == ["b"]
    source.release(item.record.uid)
    assert booked(source) == {"GPU-n0-0": 80}


def test_a_pod_that_is_gone_leaves_neither_earmark_nor_setback() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, builders.pod("a"), builders.pod("b"))
    run(source)
    lift(source, "b", unschedulable="no port is free")
    for name in "ab":
        source.pod_gone(PodUID(f"uid-{name}"))
    assert (len(source.earmarks), source.earmarks.setback(PodUID("uid-b"))) == (0, None)
