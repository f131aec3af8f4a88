"""How many GPUs a namespace may be on, whatever part of each its pods book: `maxGPUsPerNamespace`."""

from typing import Any

import pytest

from cotenant_api import names, placement
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records, verbs
from cotenant_extender.ledger import ledger, views
from cotenant_extender.packing import placing, rules
from extender import builders, forgetful
from extender.builders import NOW
from extender.queueing import booked, end, evicted, held, leaving, lift, lifted, member, queue, run, runs, tenant, told


def bounded(most: int, *, nodes: int = 1, gpus: int = 4, **spec: Any) -> ledger.Ledger:
    return builders.cluster(nodes=nodes, gpus=gpus, maxGPUsPerNamespace=most, **spec)


@pytest.mark.parametrize("tenancy", ["SameNamespace", "Any"])
def test_a_namespace_gets_no_further_gpu_but_shares_those_that_it_has(tenancy: str) -> None:
    source = bounded(2, tenancy=tenancy)
    builders.put(source, builders.bound("a", 80, "n0", "GPU-n0-0"), builders.bound("b", 80, "n0", "GPU-n0-1"))
    builders.put(source, builders.pod("c", 80), builders.pod("d", 20), builders.pod("other", 80, namespace="others"))
    assert sorted(lifted(source)) == ["d", "other"]
    assert booked(source) == {"GPU-n0-0": 100, "GPU-n0-1": 80, "GPU-n0-2": 80}
    assert "beyond maxGPUsPerNamespace of the PackingPolicy" in told(source, "c")[1]


def test_where_namespaces_share_a_gpu_it_counts_for_each() -> None:
    source = bounded(1, tenancy="Any", gpus=2)
    builders.put(source, builders.bound("a", 60, "n0", "GPU-n0-0"))
    builders.put(source, builders.bound("b", 20, "n0", "GPU-n0-0", namespace="others"))
    builders.put(source, builders.pod("c", 40), builders.pod("d", 40, namespace="third"), builders.pod("e", 20))
    assert sorted(lifted(source)) == ["d", "e"]
    assert booked(source) == {"GPU-n0-0": 100, "GPU-n0-1": 40}


def test_when_it_has_given_up_a_gpu_it_may_use_any_other() -> None:
    source = bounded(1, nodes=2, gpus=1)
    builders.put(source, builders.bound("a", 80, "n0", "GPU-n0-0"), builders.pod("b", 80))
    assert lifted(source) == []
    source.node(records.node_record(builders.node("n0", gpus=1, unschedulable=True)))
    assert lifted(source) == []
    end(source, "a")
    assert lifted(source) == ["b"]
    assert booked(source) == {"GPU-n1-0": 80}


def test_whole_gpus_and_gangs_count_with_all_of_theirs() -> None:
    source = bounded(2)
    builders.put(source, builders.pod("three", 300), *(member(name, 80, size=3) for name in "abc"))
    assert lifted(source) == []
    builders.put(source, builders.pod("two", 200))
    assert lifted(source) == ["two"]


def test_filter_and_bind_refuse_what_is_beyond() -> None:
    source = bounded(1, nodes=2, gpus=1)
    builders.put(source, builders.pod("a", 80))
    assert lifted(source) == ["a"]
    lift(source, "a")
    builders.put(source, builders.bound("b", 80, "n1", "GPU-n1-0"))
    record = source.pods[PodUID("uid-a")]
    assert record.request is not None
    found = verbs.filter_nodes(source, record, [NodeName("n0")])
    assert found.chosen == ()
    assert found.failed == {
        NodeName("n0"): "TenantLimit: 1 GPU is beyond maxGPUsPerNamespace of the PackingPolicy",
    }
    here = views.node(source, NodeName("n0"), without=record.uid)
    assert not rules.offers(here, record.request, check_host=False).fits.any()


def test_a_pod_of_higher_priority_makes_room_among_those_of_its_own_namespace() -> None:
    source = bounded(1, gpus=2)
    builders.put(source, builders.bound("low", 80, "n0", "GPU-n0-0"))
    builders.put(source, builders.bound("other", 80, "n0", "GPU-n0-1", namespace="others"))
    builders.put(source, builders.pod("high", 80, priority=5))
    assert evicted(source) == ["low"]


def test_a_pod_waits_for_one_of_its_namespace_that_leaves_another_node_and_nobody_else_has_to() -> None:
    source = bounded(1, nodes=2, gpus=1)
    runs(source, "going", 20, "GPU-n1-0")
    runs(source, "stays", 50, "GPU-n1-0", namespace="others", priority=9)
    leaving(source, "going")
    builders.put(source, builders.pod("high", 80, priority=5))
    assert evicted(source) == []
    assert held(source) == ["GPU-n0-0"]


@pytest.mark.parametrize("others", [5, 40, 200])
@pytest.mark.parametrize(("gpus", "share"), [(1, 80), (2, 200)])
def test_its_own_victims_are_found_among_many_gpus_of_others_that_look_cheaper(
    others: int, gpus: int, share: int
) -> None:
    source = bounded(gpus, nodes=others + 1, gpus=gpus)
    for node in range(others + 1):
        last = node == others
        for slot in range(gpus):
            namespace, started = ("team", NOW - 3600) if last else (f"other{node}", NOW - 600)
            runs(source, f"b{node}-{slot}", 80, f"GPU-n{node}-{slot}", namespace=namespace, started=started)
    builders.put(source, builders.pod("high", share, priority=5))
    found = [name for number in range(6) for name in evicted(source, now=NOW + number)]
    assert found == [f"b{others}-{slot}" for slot in range(gpus)]


def test_a_namespace_that_is_beyond_its_lowered_limit_evicts_where_one_of_its_own_stays() -> None:
    source = bounded(1, gpus=3)
    runs(source, "alone", 100, "GPU-n0-0", priority=9)
    runs(source, "stays", 30, "GPU-n0-1", started=NOW - 7200)
    runs(source, "low", 50, "GPU-n0-1")
    runs(source, "other", 80, "GPU-n0-2", namespace="others", started=NOW - 60)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["low"]


@pytest.mark.parametrize(("most", "shown"), [(1, []), (2, ["b"])])
def test_no_node_is_asked_for_that_would_be_beyond(most: int, shown: list[str]) -> None:
    source = bounded(most, gpus=1, queue={"scaleUpAfterSeconds": 5})
    builders.put(source, builders.bound("a", 80, "n0", "GPU-n0-0"), builders.pod("b", 80))
    assert [lift.record.name for lift in run(source, now=NOW + 6).lifts] == shown


def test_without_a_bound_nothing_is_counted() -> None:
    source = builders.cluster(gpus=2)
    builders.put(source, builders.bound("a", 80, "n0", "GPU-n0-0"), builders.pod("b", 80))
    assert not source.seen().space.any()
    assert lifted(source) == ["b"]


def test_a_gang_evicts_nobody_that_does_not_help_its_namespace() -> None:
    source = bounded(1, gpus=2, tenancy="Any")
    for slot in range(2):
        runs(source, f"stay{slot}", 50, f"GPU-n0-{slot}", namespace="others", priority=50)
        runs(source, f"victim{slot}", 50, f"GPU-n0-{slot}", namespace="others")
    builders.put(source, *(member(name, 50, size=2, priority=10) for name in "ab"))
    assert evicted(source) == []
    assert lifted(source) == []


def test_a_gang_is_not_on_more_gpus_than_its_namespace_may_beside_other_namespaces() -> None:
    source = bounded(1, gpus=2, tenancy="Any")
    builders.put(source, *(builders.bound(f"b{i}", 30, "n0", f"GPU-n0-{i}", namespace="others") for i in range(2)))
    builders.put(source, *(member(name, 50, size=2) for name in "ab"))
    assert lifted(source) == []
    builders.put(source, *(builders.pod(name, 35, annotations=builders.gang("h", 2)) for name in "cd"))
    assert lifted(source) == ["c", "d"]
    assert sorted(booked(source).values()) == [30, 100]


def test_who_was_refused_may_use_any_gpu_when_one_of_its_namespace_vanishes() -> None:
    source = bounded(1, nodes=2, gpus=2)
    builders.put(source, builders.bound("a", 80, "n0", "GPU-n0-1"), builders.pod("b", 80))
    assert lifted(source) == []
    source.gpunode(records.gpunode_record(builders.gpunode("n0", gpus=1, version=9)), now=NOW)
    assert forgetful.held_back(source, queue(source), now=NOW) == []
    assert lifted(source) == ["b"]


def test_a_look_without_a_pod_wakes_nobody() -> None:
    source = bounded(3, nodes=3, gpus=1)
    builders.put(source, builders.pod("a", 80))
    assert lifted(source) == ["a"]
    released = source.seen().released
    with views.without(source, PodUID("uid-a")) as seen:
        assert not seen.space.any()
    assert source.seen().released == released


def test_a_pods_own_earmark_on_another_node_does_not_count_against_it() -> None:
    source = bounded(1, nodes=2, gpus=2)
    builders.put(source, builders.pod("a", 80))
    assert lifted(source) == ["a"]
    request = source.pods[PodUID("uid-a")].request
    assert request is not None
    for name in source.order:
        here = views.node(source, name, without=PodUID("uid-a"))
        assert isinstance(placing.place(here, request, source.known, check_host=False), placement.Placement)
    builders.put(source, builders.bound("b", 10, "n1", "GPU-n1-0"))
    here = views.node(source, NodeName("n0"), without=PodUID("uid-a"))
    assert not rules.offers(here, request, check_host=False).fits.any()


def test_gpus_of_a_node_that_are_not_looked_at_count_for_its_namespace() -> None:
    source = bounded(1, gpus=2)
    builders.put(source, builders.bound("b", 10, "n0", "GPU-n0-0"), builders.pod("a", 80))
    request = source.pods[PodUID("uid-a")].request
    assert request is not None
    here = views.node(source, NodeName("n0"), gpus={GPUUID("GPU-n0-1")})
    assert not rules.offers(here, request, check_host=False).fits.any()


def test_a_pod_whose_memory_is_a_larger_part_of_a_gpu_than_its_share_is_refused_with_the_share_that_it_needs() -> None:
    source = builders.cluster(gpus=20)
    builders.put(source, *(builders.pod(f"p{i}", 1, annotations={names.GPU_MEMORY: "130Gi"}) for i in range(20)))
    assert lifted(source) == []
    assert told(source, "p0") == (
        PackedReason.INVALID_REQUEST,
        "20 GPUs take so much gpu-memory only for a gpu-share of at least 98 hundredths; 1st in the queue",
    )


def test_a_predicted_pod_is_booked_for_at_least_its_part_of_the_memory() -> None:
    source, notes = builders.cluster(), {names.PREDICTION: builders.prediction(h200=(10.0, 68_292, 50))}
    builders.put(source, builders.pod("a", 50, annotations=notes), builders.pod("b", 10, annotations=notes))
    assert sorted(lifted(source)) == ["a", "b"]
    assert sorted(booked(source).values()) == [51, 51]


def test_for_an_aged_job_that_its_namespace_keeps_out_gpus_are_held_where_it_can_start_and_passes_rest() -> None:
    source = bounded(1, nodes=2, gpus=1, tenancy="Any", queue={"maxWaitSeconds": 60})
    builders.put(source, tenant("own", 100, "GPU-n0-0", 36_000), tenant("t1", 60, "GPU-n1-0", 900, namespace="others"))
    builders.put(source, builders.pod("old", 50, created=NOW - 120))
    assert forgetful.held_back(source, queue(source), now=NOW) == []
    run(source)
    found = queue(source).reservation.expected
    assert found is not None
    assert (found.start, held(source)) == (NOW + 36_000, ["GPU-n0-0"])
    builders.put(source, builders.pod("guest", 40, namespace="others"))
    assert lifted(source, now=NOW + 1) == ["guest"]
    version = source.version
    assert lifted(source, now=NOW + 2) == []
    assert source.version == version


def test_for_an_aged_job_that_its_namespace_keeps_out_for_ever_nothing_is_held_and_the_next_holds() -> None:
    source = bounded(1, nodes=2, gpus=1, queue={"maxWaitSeconds": 60})
    builders.put(source, builders.bound("own", 100, "n0", "GPU-n0-0", restartPolicy="Always"))
    builders.put(source, tenant("t1", 60, "GPU-n1-0", 900, namespace="others"))
    builders.put(source, builders.pod("old", 50, created=NOW - 120))
    assert lifted(source) == []
    assert held(source) == []
    builders.put(source, builders.pod("next", 80, namespace="others", created=NOW - 90))
    assert lifted(source) == []
    assert [hold.holders for hold in source.holds] == [{"uid-next"}]
