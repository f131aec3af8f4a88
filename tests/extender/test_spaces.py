"""On how many GPUs a namespace is, in the fleet and in scenes: whatever happens, as when it is counted anew."""

import random

import pytest

from cotenant_api.names import Namespace, PodUID
from cotenant_extender.packing import rules, spaces
from cotenant_extender.queue import order, scene
from extender import builders

NAMESPACES = ("team", "others", "third")


@pytest.mark.parametrize("seed", range(10))
def test_a_scene_counts_who_came_and_who_left(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    source = builders.cluster(nodes=2, gpus=2, tenancy="Any", maxGPUsPerNamespace=3, maxTenantsPerGPU=4)
    there: dict[tuple[int, int], list[str]] = {(row, slot): [] for row in range(2) for slot in range(2)}
    standing: dict[PodUID, tuple[tuple[int, int], str]] = {}
    for number in range(6):
        cell, namespace = chance.choice(sorted(there)), chance.choice(NAMESPACES)
        if len(there[cell]) < 3:
            there[cell].append(namespace)
            name = f"b{number}"
            gpu = f"GPU-n{cell[0]}-{cell[1]}"
            builders.put(source, builders.bound(name, 10, f"n{cell[0]}", gpu, namespace=namespace))
            standing[PodUID(f"uid-{name}")] = cell, namespace
    play = scene.Scene(source, source.seen())
    for number in range(12):
        if standing and chance.random() < 0.5:
            uid = chance.choice(sorted(standing))
            cell, namespace = standing.pop(uid)
            there[cell].remove(namespace)
            play.remove([uid])
        else:
            cell, namespace = chance.choice(sorted(there)), chance.choice(NAMESPACES)
            builders.put(source, builders.pod(f"p{number}", 5, namespace=namespace))
            before = play.before(cell[0])
            play.put(order.request_of(source.pods[PodUID(f"uid-p{number}")]), cell[0], (cell[1],))
            if chance.random() < 0.3:
                play.restore(before)
            else:
                there[cell].append(namespace)
        for namespace in NAMESPACES:
            held = spaces.held(play.fleet, Namespace(namespace))
            assert {cell for cell, here in there.items() if namespace in here} == {
                cell for cell in there if held[cell]
            }, namespace


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_look_at_pods_that_are_alike_follows_what_their_namespace_has_elsewhere(most: int) -> None:
    source = builders.cluster(nodes=8, gpus=1, tenancy="Any", maxGPUsPerNamespace=most)
    builders.put(source, *(builders.bound(f"b{i}", 50, f"n{i}", f"GPU-n{i}-0", namespace="others") for i in range(4)))
    builders.put(source, *(builders.pod(f"p{number}", 20) for number in range(12)))
    play = scene.Scene(source, source.seen())
    for number in range(12):
        request = order.request_of(source.pods[PodUID(f"uid-p{number}")])
        fits = rules.offers(play.fleet, request, check_host=True).fits
        assert (play.looks.offers(request).fits == fits).all()
        if play.place(request, source.known) is None:
            assert not fits.any()
    assert spaces.count(play.fleet, lambda seen: spaces.held(seen, Namespace("team"))) == most
