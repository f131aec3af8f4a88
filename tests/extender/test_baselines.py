"""The placements that stand for ways to share GPUs as published: what they cost, and which GPU they choose."""

import json
from collections import Counter
from typing import Any

import pytest

from cotenant_api import names, placement
from cotenant_api.packingpolicy import Placement
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import best_fit, knowledge, placing
from extender import builders, shapes

BASELINES = (
    Placement.EXCLUSIVE,
    Placement.REACTIVE,
    Placement.MEMORY_ONLY,
    Placement.SM_PERCENT,
    Placement.MEM_PERCENT,
    Placement.RANDOM,
)


def predicted(
    upper: float, *, memory_mib: int = 1000, source: str = "Model", memory_busy: float = 1.0
) -> dict[str, str]:
    """The annotation of a pod whose GPU is busy for `upper` percent of the time, half of that in the median."""
    document = json.loads(builders.prediction(h200=(upper, memory_mib, 10)))
    busy = {"q50": memory_busy, "upper": memory_busy}
    document["byGPU"][builders.H200] |= {"memoryUtilization": busy}
    return {names.PREDICTION: json.dumps(document | {"source": source})}


def tenant(name: str, share: int, gpu: int, *, memory_mib: int = 1000, **known: Any) -> builders.Object:
    """A pod on a GPU of n0, with a prediction if something of it is known."""
    notes = predicted(**known) if known else {}
    return builders.bound(name, share, "n0", builders.gpu("n0", gpu), memory_mib=memory_mib, annotations=notes)


def placed(source: ledger.Ledger, pod: builders.Object) -> placement.Placement | None:
    request = records.pod_record(pod).request
    assert request is not None
    found = placing.choose(source.seen(), request, source.known)
    return None if found is None else placing.document(found, request, source.seen().policy, source.known)


def index(source: ledger.Ledger, pod: builders.Object) -> int | None:
    found = placed(source, pod)
    return None if found is None else int(found.gpus[0].uuid.rpartition("-")[2])


@pytest.mark.parametrize("notes", [{}, predicted(20)])
def test_exclusive_gives_every_pod_an_empty_gpu_to_itself(notes: dict[str, str]) -> None:
    source = builders.cluster(gpus=3, placement=Placement.EXCLUSIVE)
    builders.put(source, tenant("a", 5, 0))
    found = placed(source, builders.pod("new", 20, annotations=notes))
    assert found is not None
    assert (found.backend, found.gpus[0].uuid, found.gpus[0].share) == ("Whole", builders.gpu("n0", 1), 100)


def test_exclusive_lets_nobody_join_who_was_placed_before_it() -> None:
    source = builders.cluster(gpus=2, placement=Placement.EXCLUSIVE)
    builders.put(source, tenant("a", 5, 0), tenant("b", 5, 1))
    assert placed(source, builders.pod("new", 5)) is None


def test_reactive_gives_a_whole_gpu_to_a_prediction_that_nobody_has_measured() -> None:
    source = builders.cluster(gpus=2, placement=Placement.REACTIVE)
    builders.put(source, tenant("a", 20, 0))
    found = placed(source, builders.pod("new", 20, annotations=predicted(20)))
    assert found is not None
    assert (found.gpus[0].uuid, found.gpus[0].share) == (builders.gpu("n0", 1), 100)
    measured = placed(source, builders.pod("new", 20, annotations=predicted(20, source="Profile")))
    assert measured is not None
    assert (measured.gpus[0].uuid, measured.gpus[0].share) == (builders.gpu("n0", 0), 20)


def test_reactive_lets_nobody_join_a_pod_that_nobody_has_measured() -> None:
    source = builders.cluster(gpus=1, placement=Placement.REACTIVE)
    builders.put(source, tenant("a", 20, 0, upper=20))
    assert placed(source, builders.pod("new", 20, annotations=predicted(20, source="Profile"))) is None


def test_by_memory_only_busy_pods_share_a_gpu_until_its_memory_is_booked() -> None:
    source = builders.cluster(gpus=1, placement=Placement.MEMORY_ONLY, maxTenantsPerGPU=16)
    half = builders.MEMORY_MIB[builders.H200] * 95 // 200
    for name in ("a", "b"):
        new = builders.pod(name, 1, annotations=predicted(90, memory_mib=half))
        found = placed(source, new)
        assert found is not None
        assert (found.gpus[0].share, found.gpus[0].memory_mib) == (50, half)
        new["metadata"]["annotations"][names.PLACEMENT] = found.to_json()
        new["spec"] |= {"nodeName": "n0", "schedulingGates": []}
        builders.put(source, new)
    assert placed(source, builders.pod("c", 1, annotations=predicted(1, memory_mib=100))) is None


def test_by_memory_only_a_gpu_takes_no_more_tenants_than_the_policy_allows() -> None:
    source = builders.cluster(gpus=1, placement=Placement.MEMORY_ONLY, maxTenantsPerGPU=1)
    builders.put(source, tenant("a", 1, 0))
    assert placed(source, builders.pod("new", 1)) is None


def test_by_memory_only_the_gpu_with_least_free_memory_is_taken() -> None:
    source = builders.cluster(gpus=4, placement=Placement.MEMORY_ONLY)
    free = builders.MEMORY_MIB[builders.H200] * 95 // 100
    for number, left in enumerate((5000, 3000, 1000)):
        builders.put(source, tenant(f"t{number}", 1, number, memory_mib=free - left))
    assert index(source, builders.pod("new", 1, annotations=predicted(50, memory_mib=2000))) == 1


def test_by_memory_only_several_gpus_are_those_of_the_first_node() -> None:
    source = builders.cluster(nodes=2, gpus=3, placement=Placement.MEMORY_ONLY)
    builders.put(source, tenant("busy", 50, 1, memory_mib=9000))
    found = placed(source, builders.pod("new", 200))
    assert found is not None
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-n0-0", "GPU-n0-2"]


def test_sm_percent_joins_the_busiest_partners() -> None:
    source = builders.cluster(gpus=4, placement=Placement.SM_PERCENT)
    builders.put(
        source, tenant("idle", 5, 1, upper=10), tenant("busy", 5, 2, upper=60), tenant("busier", 5, 3, upper=90)
    )
    assert index(source, builders.pod("new", 10, annotations=predicted(10))) == 3
    assert index(source, builders.pod("new", 20, annotations=predicted(20))) == 2


def test_sm_percent_counts_all_partners_of_a_gpu() -> None:
    source = builders.cluster(gpus=3, placement=Placement.SM_PERCENT)
    builders.put(source, tenant("one", 5, 1, upper=50))
    builders.put(source, tenant("two", 5, 2, upper=30), tenant("three", 5, 2, upper=30))
    assert index(source, builders.pod("new", 10)) == 2


def test_mem_percent_joins_the_partners_that_use_memory_least() -> None:
    source = builders.cluster(gpus=3, placement=Placement.MEM_PERCENT)
    builders.put(source, tenant("a", 5, 1, upper=20, memory_busy=40.0), tenant("b", 5, 2, upper=20, memory_busy=30.0))
    assert index(source, builders.pod("new", 10)) == 2


@pytest.mark.parametrize("placement", [Placement.SM_PERCENT, Placement.MEM_PERCENT])
def test_an_empty_gpu_is_taken_only_where_no_other_fits(placement: Placement) -> None:
    source = builders.cluster(gpus=2, placement=placement)
    builders.put(source, tenant("a", 60, 1))
    assert index(source, builders.pod("new", 40)) == 1
    assert index(source, builders.pod("new", 41)) == 0


def test_random_finds_the_same_gpu_for_a_pod_again_whatever_other_nodes_there_are() -> None:
    few, more = (builders.cluster(nodes=count, gpus=8, placement=Placement.RANDOM) for count in (1, 4))
    for number in range(20):
        new = builders.pod(f"p{number}", 10)
        wide = placed(more, new)
        assert wide == placed(more, new)
        if wide is not None and wide.node == "n0":
            assert placed(few, new) == wide


def test_random_takes_each_gpu_as_often_as_any_other() -> None:
    source = builders.cluster(nodes=2, gpus=4, placement=Placement.RANDOM)
    found = Counter((here.node, here.gpus[0].uuid) for here in _of_many(source, 1600))
    assert len(found) == 8
    # Binomial: 200 with a standard deviation of 13.
    assert all(abs(count - 200) < 60 for count in found.values())


def _of_many(source: ledger.Ledger, count: int) -> list[placement.Placement]:
    found = [placed(source, builders.pod(f"p{number}", 10)) for number in range(count)]
    return [one for one in found if one is not None]


@pytest.mark.parametrize("placement", BASELINES)
def test_no_baseline_books_memory_that_is_not_there(placement: Placement) -> None:
    source = builders.cluster(gpus=2, placement=placement)
    free = builders.MEMORY_MIB[builders.H200] * 95 // 100
    builders.put(source, *(tenant(f"t{number}", 1, number, memory_mib=free - 999) for number in range(2)))
    assert placed(source, builders.pod("new", 1, annotations=predicted(1, source="Profile"))) is None


@pytest.mark.parametrize("placement", BASELINES)
def test_no_baseline_shares_a_gpu_across_namespaces(placement: Placement) -> None:
    source = builders.cluster(gpus=1, placement=placement)
    builders.put(source, tenant("a", 1, 0))
    assert placed(source, builders.pod("new", 1, namespace="other")) is None


def test_a_gpu_that_a_node_does_not_have_is_no_room() -> None:
    # Both have 20 hundredths free, so that the first in strict order is best; one free less would round otherwise.
    source = shapes.nodes(shapes.node("n0", [10, 10], cpu=0), shapes.node("n1", [20], cpu=0))
    found = placing.best(shapes.offered(source, shapes.request(3)), best_fit.score, knowledge.Knowledge())
    assert found is not None
    assert found.node.name == "n0"
