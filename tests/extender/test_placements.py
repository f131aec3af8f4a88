"""The registry of placements, and the choices of those that need no knowledge."""

import pytest

from cotenant_api import packingpolicy
from cotenant_api.packingpolicy import Placement
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import placing, registry
from extender import builders


def chosen(source: ledger.Ledger, share: int) -> list[str]:
    request = records.pod_record(builders.pod("new", share)).request
    assert request is not None
    found = placing.choose(source.seen(), request, source.known)
    return [] if found is None else [gpu.uuid for gpu in found.gpus]


def filled(placement: Placement, *, gpus: int = 2) -> ledger.Ledger:
    """n0: 80 and 0 booked; n1: 50 and 60; n2: empty."""
    source = builders.cluster(nodes=3, gpus=gpus, placement=placement)
    builders.put(source, builders.bound("a", 80, "n0", "GPU-n0-0"))
    builders.put(source, builders.bound("b", 50, "n1", "GPU-n1-0"), builders.bound("c", 60, "n1", "GPU-n1-1"))
    return source


def test_every_placement_that_the_policy_names_is_registered_and_no_other() -> None:
    assert set(registry.PLACEMENTS) == set(packingpolicy.Placement)


@pytest.mark.parametrize(
    ("placement", "share", "expected"),
    [
        (Placement.FIRST_FIT, 30, ["GPU-n0-1"]),
        (Placement.FIRST_FIT, 200, ["GPU-n2-0", "GPU-n2-1"]),
        (Placement.BEST_FIT, 30, ["GPU-n1-1"]),
        (Placement.BEST_FIT, 20, ["GPU-n1-1"]),
        (Placement.BEST_FIT, 100, ["GPU-n0-1"]),
        (Placement.SPREAD, 20, ["GPU-n0-1"]),
        (Placement.SPREAD, 100, ["GPU-n0-1"]),
    ],
)
def test_a_placement_chooses(placement: Placement, share: int, expected: list[str]) -> None:
    assert chosen(filled(placement), share) == expected


def test_best_fit_takes_the_node_that_is_left_with_less_cpu_where_shares_are_equal() -> None:
    source = builders.cluster(nodes=2, gpus=1, placement=Placement.BEST_FIT)
    builders.put(source, *(builders.pod(f"host-{number}", 0, node="n1") for number in range(40)))
    assert chosen(source, 10) == ["GPU-n1-0"]


def test_best_fit_takes_the_first_of_nodes_that_differ_by_less_than_one_point() -> None:
    source = builders.cluster(nodes=2, gpus=1, placement=Placement.BEST_FIT)
    builders.put(source, builders.pod("host", 0, node="n1"))
    assert chosen(source, 10) == ["GPU-n0-0"]


def test_spread_prefers_fewer_tenants_to_more_free_share() -> None:
    source = builders.cluster(nodes=1, gpus=2, placement=Placement.SPREAD)
    builders.put(source, builders.bound("a", 10, "n0", "GPU-n0-0"), builders.bound("b", 10, "n0", "GPU-n0-0"))
    builders.put(source, builders.bound("c", 60, "n0", "GPU-n0-1"))
    assert chosen(source, 30) == ["GPU-n0-1"]


@pytest.mark.parametrize("placement", list(Placement))
def test_a_whole_multi_gpu_job_is_placed_only_where_one_node_has_all(placement: Placement) -> None:
    source = builders.cluster(nodes=2, gpus=2, placement=placement)
    builders.put(source, builders.bound("a", 5, "n0", "GPU-n0-1"))
    assert chosen(source, 200) == ["GPU-n1-0", "GPU-n1-1"]
    builders.put(source, builders.bound("b", 5, "n1", "GPU-n1-1"))
    assert chosen(source, 200) == []
