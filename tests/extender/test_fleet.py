"""The arrays say of every node what its value says, whatever is put, removed and replaced."""

import random
from dataclasses import replace

import numpy as np
import pytest

from cotenant_api import names
from cotenant_api.names import NodeName
from cotenant_api.pod import PackedReason
from cotenant_extender import records, steps
from cotenant_extender.ledger import lists
from cotenant_extender.packing import fleet, rules, view
from extender import builders
from extender.builders import H200, T4

OF_NODES = ("node_closed", "schedulable", "free_share", "free_cpu_millis", "free_memory_bytes", "free_pods")
OF_GPUS = ("present", "closed", "free", "free_mib", "bookable_mib", "tenants", "tenants_left", "promised", "promises")


def values(*sizes: int, tenants: int = 0) -> list[view.Node]:
    """Nodes n0, n1, ... with so many GPUs, and tenants on each one's first."""
    source = builders.cluster(nodes=0)
    for row, gpus in enumerate(sizes):
        builders.add_node(source, f"n{row}", gpus=gpus, model=(H200, T4)[row % 2])
        for number in range(tenants):
            builders.put(source, builders.bound(f"p{row}-{number}", 20, f"n{row}", f"GPU-n{row}-0"))
    return list(source.seen().nodes)


def same(found: fleet.Fleet, expected: fleet.Fleet) -> bool:
    """Whether both say the same; a fleet may have columns that no node needs."""
    if found.nodes != expected.nodes or found.rows != expected.rows:
        return False
    columns = expected.present.shape[1]
    if found.present[:, columns:].any():
        return False
    return all(np.array_equal(getattr(found, name), getattr(expected, name)) for name in OF_NODES) and all(
        np.array_equal(getattr(found, name)[:, :columns], getattr(expected, name)) for name in OF_GPUS
    )


def request(name: str = "new", share: int = 30, **changes: object) -> view.Request:
    found = records.pod_record(builders.pod(name, share, **changes)).request
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(5))
def test_nodes_put_and_removed_in_any_order_make_the_same_fleet(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311
    policy, nodes = builders.in_force(), values(2, 8, 0, 1, 4, tenants=2)
    source = fleet.Fleet.of((), policy)
    for node in draw.sample(nodes, len(nodes)):
        source.put(node)
    assert same(source, fleet.Fleet.of(nodes, policy))
    gone = draw.sample(nodes, 2)
    for node in gone:
        source.remove(node.name)
    source.remove(NodeName("never"))
    assert same(source, fleet.Fleet.of([node for node in nodes if node not in gone], policy))


def test_a_node_that_loses_gpus_keeps_nothing_of_them() -> None:
    policy = builders.in_force()
    source = fleet.Fleet.of(values(4, 4, tenants=1), policy)
    smaller = values(1, 4)
    source.put(smaller[0])
    assert source.present[0].tolist() == [True, False, False, False]
    assert source.free[0].tolist() == [100, 0, 0, 0]


def test_only_the_row_that_was_put_has_a_new_version() -> None:
    source = fleet.Fleet.of(values(2, 2, 2), builders.in_force())
    before = source.versions.copy()
    source.put(source.nodes[1])
    assert (source.versions > before).tolist() == [False, True, False]


def test_a_gpu_that_changed_is_written_and_its_neighbours_stay_as_they_are() -> None:
    policy, (full, _, empty) = builders.in_force(), values(3, 1, 3, tenants=2)
    source = fleet.Fleet.of([full], policy)
    changed = replace(full, gpus=(full.gpus[0], replace(empty.gpus[0], index=1), full.gpus[2]))
    source.free[0, 2] = 7
    source.put(changed)
    assert source.free[0].tolist() == [60, 60, 7]
    assert source.tenants[0].tolist() == [2, 2, 0]


def test_what_replaces_a_node_is_gone_after_the_block_even_if_it_failed() -> None:
    policy, full, empty = builders.in_force(), values(2, 2, tenants=2), values(2, 2)
    source = fleet.Fleet.of(full, policy)
    with source.replacing(empty[0]) as seen:
        assert seen.free[0].tolist() == [100, 100]
    with pytest.raises(KeyError), source.replacing(empty[0]):
        raise KeyError
    assert same(source, fleet.Fleet.of(full, policy))


def test_a_small_part_holds_the_named_nodes_in_strict_order() -> None:
    policy, nodes = builders.in_force(), values(2, 3, 1, 1, 1, 1, 1, 1, tenants=1)
    part = fleet.Fleet.of(nodes, policy).part([NodeName("n2"), NodeName("unknown"), NodeName("n0")])
    assert same(part, fleet.Fleet.of([nodes[0], nodes[2]], policy))


@pytest.mark.parametrize("named", [["n0"], ["n0", "n2", "n3"], ["n3", "n2", "n1"]])
def test_a_part_offers_the_gpus_of_the_named_nodes_alone(named: list[str]) -> None:
    source = fleet.Fleet.of(values(2, 2, 2, 2), builders.in_force())
    part = source.part([NodeName(name) for name in named])
    one = request(share=30)
    none = replace(one, demand=replace(one.demand, share=0))
    for wanted in (one, request(share=200), none):
        offers = rules.offers(part, wanted, check_host=True)
        rows = np.flatnonzero(offers.fits.any(axis=1))
        assert [part.nodes[row].name for row in rows] == sorted(named)
    told = rules.rejection(part, request(share=300), check_host=True)
    assert sum(told.counts.values()) == 2 * len(named)


def test_a_part_of_all_is_the_fleet_itself() -> None:
    source = fleet.Fleet.of(values(1, 1), builders.in_force())
    assert source.part([NodeName("n1"), NodeName("n0")]) is source


def test_a_copy_that_was_emptied_takes_what_the_fleet_refuses_and_leaves_the_fleet_alone() -> None:
    source = fleet.Fleet.of(values(1, tenants=3), builders.in_force())
    wanted = request(share=90)
    assert not rules.offers(source, wanted, check_host=True).fits.any()
    emptied = source.emptied()
    assert rules.offers(emptied, wanted, check_host=True).fits.any()
    emptied.take(0, 0, wanted, share=90, memory_mib=1000)
    assert not rules.offers(emptied, wanted, check_host=True).fits.any()
    assert source.free.tolist() == [[40]]


def test_a_taken_gpu_is_its_tenants_alone() -> None:
    source = fleet.Fleet.of(values(1), builders.in_force()).emptied()
    source.take(0, 0, request("mine", namespace="mine"), share=10, memory_mib=10)
    assert rules.offers(source, request("b", namespace="mine"), check_host=True).fits.any()
    assert not rules.offers(source, request("c", namespace="theirs"), check_host=True).fits.any()


def test_a_taken_gpu_has_less_memory() -> None:
    source = fleet.Fleet.of(values(1), builders.in_force()).emptied()
    wanted = request(annotations={names.GPU_MEMORY: "100Gi"})
    source.take(0, 0, wanted, share=30, memory_mib=100 * 1024)
    assert (source.tenants.tolist(), source.tenants_left.tolist()) == ([[1]], [[2]])
    assert not rules.offers(source, wanted, check_host=True).fits.any()
    assert rules.offers(source, request(annotations={names.GPU_MEMORY: "30Gi"}), check_host=True).fits.any()


def test_labels_that_change_are_asked_again() -> None:
    source = builders.cluster()
    wanted = request(nodeSelector={"pool": "a"})
    assert not rules.offers(source.seen(), wanted, check_host=True).fits.any()
    source.node(records.node_record(builders.node("n0", labels={"pool": "a"})))
    assert rules.offers(source.seen(), wanted, check_host=True).fits.any()


def test_many_namespaces_that_come_and_go_are_not_remembered_for_ever() -> None:
    source = builders.cluster(gpus=1)
    for number in range(1200):
        builders.put(source, builders.bound(f"p{number}", 10, "n0", "GPU-n0-0", namespace=f"team-{number}"))
        assert source.seen().free.tolist() == [[90]]
        source.pod_gone(records.pod_record(builders.pod(f"p{number}")).uid)
        source.graves.ask()
        listed = [records.gpunode_record(builders.gpunode("n0", gpus=1))]
        steps.finish(lists.gpunodes(source, listed, version=1, now=builders.NOW))
    assert not source.seen().crowded


def test_a_gpu_that_only_an_earmark_keeps_from_taking_a_pod_says_so() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.pod("first", 80))
    first = source.pods[records.pod_record(builders.pod("first")).uid]
    placed = builders.place(source, first)
    source.earmark(first.uid, placed, now=builders.NOW)
    told = rules.rejection(source.seen(), request(share=30), check_host=True)
    assert (told.reason, told.message) == (
        PackedReason.WAITING_FOR_TURN,
        "1 GPU is promised to a job that is being bound",
    )
    too_large = request(share=30, annotations={names.GPU_MEMORY: "500Gi"})
    assert rules.rejection(source.seen(), too_large, check_host=True).reason is PackedReason.INSUFFICIENT_SHARE
