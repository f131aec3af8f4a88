"""Seats for the pods of a gang that differ: whenever all of them fit beside each other they are placed, and evict."""

import itertools
import random
from typing import Any

import pytest

from cotenant_api import names, packingpolicy
from cotenant_api.names import PodUID
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import order, scene, seating
from extender import builders, forgetful, together
from extender.builders import H200, NOW, T4
from extender.queueing import booked, end, evicted, held, lifted, member, queue, run, runs, words

Object = dict[str, Any]
PLACEMENTS = [
    packingpolicy.Placement.FIRST_FIT,
    packingpolicy.Placement.BEST_FIT,
    packingpolicy.Placement.SPREAD,
    packingpolicy.Placement.FGD,
    packingpolicy.Placement.DUAL_PRICE,
    packingpolicy.Placement.INTERFERENCE,
]


def requests(source: ledger.Ledger, *pods: Object) -> list[Any]:
    """What these pods ask for."""
    builders.put(source, *pods)
    return [order.request_of(source.pods[PodUID(pod["metadata"]["uid"])]) for pod in pods]


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("shares", [(50, 100), (100, 50)])
def test_a_small_pod_does_not_take_the_only_gpu_of_a_large_one_of_its_gang(
    placement: str, shares: tuple[int, int]
) -> None:
    source = builders.cluster(gpus=2, placement=placement)
    builders.put(source, builders.bound("x", 50, "n0", "GPU-n0-1"))
    builders.put(source, *(member(name, share, size=2) for name, share in zip("ab", shares, strict=True)))
    assert lifted(source) == ["a", "b"]
    assert booked(source) == {"GPU-n0-0": 100, "GPU-n0-1": 100}


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("models", [({}, {names.GPU_MODELS: H200}), ({names.GPU_MODELS: H200}, {})])
def test_a_pod_that_takes_any_model_leaves_the_only_one_of_another_of_its_gang(
    placement: str, models: tuple[Object, Object]
) -> None:
    source = builders.cluster(gpus=1, placement=placement)
    builders.add_node(source, "n1", gpus=1, model=T4)
    builders.put(source, *(member(name, 100, size=2, annotations=one) for name, one in zip("ab", models, strict=True)))
    assert lifted(source) == ["a", "b"]


def test_a_gang_in_a_cluster_without_nodes_is_told_so() -> None:
    source = builders.cluster(nodes=0)
    builders.put(source, *(member(name, size=2) for name in ("a", "b")))
    assert lifted(source) == []
    assert words(source, "a")[1].startswith("all GPUs together, if empty, have room for 0 of the gang's 2 waiting pods")


def test_it_is_not_claimed_that_unlike_pods_could_fit_in_no_order() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, *(member(name, share, size=2) for name, share in zip("ab", (70, 40), strict=True)))
    assert lifted(source) == []
    said = "one after the other, empty GPUs have room for 1 of the gang's 2 waiting pods"
    assert words(source, "a")[1].startswith(said)


def test_an_aged_gang_that_fits_is_placed_and_nothing_is_held_idle() -> None:
    source = builders.cluster(gpus=2, queue={"maxWaitSeconds": 60})
    builders.put(source, builders.bound("x", 50, "n0", "GPU-n0-1"))
    builders.put(source, member("a", 50, size=2, created=NOW - 99), member("b", 100, size=2, created=NOW - 99))
    assert lifted(source) == ["a", "b"]
    assert held(source) == []


def test_a_gang_that_evicts_is_seated_where_its_victims_were() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "low", 100, "GPU-n0-0", namespace="others")
    runs(source, "stay", 50, "GPU-n0-1", priority=9)
    builders.put(source, member("a", 50, size=2, priority=5), member("b", 100, size=2, priority=5))
    assert evicted(source) == ["low"]
    end(source, "low")
    builders.put(source, builders.pod("successor", 100, namespace="others"))
    assert lifted(source, now=NOW + 1) == ["a", "b"]


def test_nobody_leaves_for_a_gang_whose_pods_would_not_be_seated_then(monkeypatch: pytest.MonkeyPatch) -> None:
    source = builders.cluster(gpus=1)
    runs(source, "low", 100)
    builders.put(source, member("a", 40, size=2, priority=5), member("b", 50, size=2, priority=5))
    monkeypatch.setattr(seating, "seats", lambda *_args, **_named: None)
    assert evicted(source) == []
    monkeypatch.undo()
    assert evicted(source, now=NOW + 9) == ["low"]


@pytest.mark.parametrize("placement", ["Spread", "FirstFit", "BestFit"])
def test_where_the_first_places_leave_none_for_the_last_pod_others_are_tried(placement: str) -> None:
    found = []
    for shares in itertools.product((30, 40, 50, 60, 70), repeat=4):
        source = builders.cluster(gpus=3, placement=placement)
        builders.put(source, builders.bound("x", 40, "n0", "GPU-n0-0"), builders.bound("y", 10, "n0", "GPU-n0-1"))
        asked = requests(source, *(builders.pod(f"p{number}", share) for number, share in enumerate(shares)))
        if together.fit(source, asked):
            found.append(shares)
            assert seating.seats(scene.Scene(source, source.seen()), asked, source.known) is not None, shares
    assert found


def test_pods_that_are_alike_are_tried_elsewhere_where_it_is_bounded_on_how_many_gpus_they_may_be() -> None:
    source = builders.cluster(gpus=4, placement="FirstFit", maxGPUsPerNamespace=2, tenancy="Any")
    builders.put(source, *(builders.bound(f"x{n}", 50, "n0", f"GPU-n0-{n}", namespace="others") for n in range(2)))
    builders.put(source, *(member(name, 50, size=4) for name in "abcd"))
    assert lifted(source) == ["a", "b", "c", "d"]
    assert booked(source) == {"GPU-n0-0": 50, "GPU-n0-1": 50, "GPU-n0-2": 100, "GPU-n0-3": 100}


@pytest.mark.parametrize("seed", range(40))
def test_a_small_gang_is_seated_whenever_some_way_of_all_seats_it(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same world each time
    most, tenancy = chance.choice([None, None, 1, 2, 3]), chance.choice(["SameNamespace", "Any"])
    placement = chance.choice(PLACEMENTS)
    source = builders.cluster(nodes=0, placement=placement, maxGPUsPerNamespace=most, tenancy=tenancy)
    for number in range(chance.randint(1, 3)):
        name, gpus = f"n{number}", chance.randint(1, 3)
        builders.add_node(source, name, gpus=gpus, model=chance.choice([H200, T4]))
        for slot in range(gpus):
            if chance.random() < 0.7:
                namespace = chance.choice(["team", "others"])
                share = chance.choice([20, 40, 50, 60])
                raw = builders.bound(f"b{number}{slot}", share, name, f"GPU-{name}-{slot}", namespace=namespace)
                builders.put(source, raw)
    pods = []
    for number in range(chance.randint(2, 3)):
        notes = chance.choice([{}, {}, {names.GPU_MODELS: T4}, {names.GPU_MODELS: H200}, {names.GPU_MEMORY: "5Gi"}])
        pods.append(builders.pod(f"p{number}", chance.choice([30, 40, 50, 60, 100, 200]), annotations=notes))
    asked = requests(source, *pods)
    found = seating.seats(scene.Scene(source, source.seen()), asked, source.known)
    assert (found is not None) is together.fit(source, asked)
    if found is not None:
        play = scene.Scene(source, source.seen())
        for request, seat in zip(asked, found, strict=True):
            assert play.takes(request, seat.row, seat.slots, ())
            play.put(request, seat.row, seat.slots)


def test_a_queue_that_waits_for_the_victims_of_a_gang_comes_to_rest() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "low", 100, "GPU-n0-0", namespace="others")
    runs(source, "stay", 50, "GPU-n0-1", priority=9)
    builders.put(source, member("a", 50, size=2, priority=5), member("b", 100, size=2, priority=5))
    run(source)
    assert forgetful.held_back(source, queue(source), now=NOW) == []
