"""What is idle and of no use to typical pods, by examples that can be checked by hand."""

import pytest

from cotenant_simulator.openb import fragmentation, ledger, trace
from simulator import kit


def measured(nodes: list[trace.Node], pods: list[trace.Pod], *placed: tuple[trace.Pod, str, list[int]]) -> float:
    read, order = kit.arriving(nodes, pods)
    counts = ledger.Ledger(order.nodes, max_tenants=16)
    meter = fragmentation.Meter(read, order.nodes)
    for pod, node, gpus in placed:
        counts.place(pod, node, gpus)
        meter.note(counts.row(node))
    return meter.milli(counts)


def test_typical_pods_are_the_most_frequent_until_they_are_95_percent() -> None:
    pods = [*[kit.pod(500)] * 60, *[kit.pod(300)] * 36, *[kit.pod(100)] * 4]
    assert fragmentation.typical(pods) == {
        (1000, 500, 1, ()): pytest.approx(60 / 96),
        (1000, 300, 1, ()): pytest.approx(36 / 96),
    }


def test_memory_makes_no_other_pod_of_it() -> None:
    assert len(fragmentation.typical([kit.pod(500, memory=1), kit.pod(500, memory=2)])) == 1


def test_an_empty_cluster_that_every_pod_can_use_is_not_fragmented() -> None:
    assert measured([kit.node(gpus=2)], [kit.pod(500)]) == 0


def test_the_idle_part_of_a_gpu_that_is_too_small_counts() -> None:
    assert measured([kit.node(gpus=2)], [kit.pod(500)], (kit.pod(700), "n", [0])) == 300


def test_popularity_weighs() -> None:
    pods = [kit.pod(500), kit.pod(200)]
    assert measured([kit.node(gpus=2)], pods, (kit.pod(700), "n", [0])) == 150


def test_all_idle_counts_where_the_node_cannot_take_the_pod() -> None:
    short_of_cpu = kit.node(gpus=2, cpu=500)
    other_model = kit.node(gpus=2, model="B")
    too_few = kit.node(gpus=1)
    assert measured([short_of_cpu], [kit.pod(500)]) == 2000
    assert measured([other_model], [kit.pod(500, models=["A"])]) == 2000
    assert measured([too_few], [kit.pod(1000, gpus=2)]) == 1000


def test_for_a_pod_without_gpu_all_idle_counts() -> None:
    assert measured([kit.node(gpus=2)], [kit.pod(gpus=0), kit.pod(500)]) == 1000


def test_nodes_with_fewer_gpus_than_others_have_no_more_idle_than_they_have() -> None:
    assert measured([kit.node("a", gpus=1, cpu=0), kit.node("b", gpus=8)], [kit.pod(500)]) == 1000


def test_a_node_is_measured_again_when_it_has_changed() -> None:
    read, order = kit.arriving([kit.node(gpus=1)], [kit.pod(500)])
    counts = ledger.Ledger(order.nodes, max_tenants=16)
    meter = fragmentation.Meter(read, order.nodes)
    assert meter.milli(counts) == 0
    counts.place(kit.pod(800), "n", [0])
    meter.note(0)
    assert meter.milli(counts) == 200
