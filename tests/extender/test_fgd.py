"""Fragmentation gradient descent: the published formula, on nodes small enough to count by hand and against a count."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from cotenant_api.names import GPUModel
from cotenant_extender.packing import fgd, fleet, fragments, knowledge, mix, placing, registry, view
from extender import shapes
from extender.shapes import A, B

HALF, WHOLE = mix.Demand(4000, 50), mix.Demand(4000, 100)

SCORE = registry.ByRow(fgd.basis, fgd.scores)


def scores(source: fleet.Fleet, asked: view.Request, known: knowledge.Knowledge) -> list[list[float]]:
    """Of each GPU or node; NaN where the pod does not fit."""
    offers = shapes.offered(source, asked)
    found = np.where(offers.fits, SCORE(offers, known), math.nan)
    return [[float(cell) for cell in row] for row in found]


def node_chosen(source: fleet.Fleet, asked: view.Request, known: knowledge.Knowledge) -> str:
    found = placing.best(shapes.offered(source, asked), SCORE, known)
    assert found is not None
    return found.node.name


def counted(free: Sequence[int], cpu: int, model: str, kinds: dict[mix.Demand, float]) -> float:
    """F of one node, in hundredths, as published."""
    total = 0.0
    for demand, popularity in kinds.items():
        each = demand.share // demand.gpus if demand.share else 0
        fits = demand.share and demand.cpu_millis <= cpu and (not demand.gpu_models or model in demand.gpu_models)
        fits = fits and sum(left >= each for left in free) >= demand.gpus
        total += popularity * sum(left for left in free if not fits or left < each)
    return total


def test_the_score_is_the_published_one_on_a_node_counted_by_hand() -> None:
    known = shapes.known([HALF, WHOLE])
    source = shapes.nodes(shapes.node("n0", [100, 60]))
    # Before: to WHOLE the 60 are useless (30 of 0.5 x 60), to HALF nothing is. With 50 more on the first GPU, WHOLE
    # fits nowhere: half of 110 is useless, F grows by 25. On the second one 10 are left that nobody can use: F falls
    # by 20.
    sigmoid = [100 / (1 + math.exp(change / 100)) for change in (25, -20)]
    assert scores(source, shapes.request(50, cpu=100), known) == [[math.trunc(score) for score in sigmoid]]


def test_no_change_of_fragmentation_scores_fifty_everywhere_and_the_first_is_taken() -> None:
    known = shapes.known([HALF])
    source = shapes.nodes(shapes.node("n0", [100]), shapes.node("n1", [50]), shapes.node("n2", [100]))
    assert scores(source, shapes.request(50), known) == [[50], [50], [50]]
    assert node_chosen(source, shapes.request(50), known) == "n0"


def test_a_pod_that_takes_the_cpu_away_from_idle_gpus_goes_elsewhere() -> None:
    known = shapes.known([WHOLE])
    source = shapes.nodes(shapes.node("n0", [100], cpu=6000), shapes.node("n1", [10], cpu=6000))
    assert node_chosen(source, shapes.request(0, cpu=4000), known) == "n1"


def test_what_is_left_of_a_gpu_that_takes_its_last_tenant_is_of_no_use() -> None:
    known = shapes.known([HALF])
    tight, loose = (shapes.nodes(shapes.node("n0", [60]), maxTenantsPerGPU=most) for most in (2, 3))
    # 50 are left, of which no other pod makes use on a GPU that takes no other pod.
    assert scores(tight, shapes.request(10), known) == [[math.trunc(100 / (1 + math.exp(0.5)))]]
    assert scores(loose, shapes.request(10), known) == [[50]]


def test_a_model_that_nobody_may_use_is_fragmented_already() -> None:
    known = shapes.known([mix.Demand(0, 100, frozenset({B}))])
    source = shapes.nodes(shapes.node("n0", [100], model=B), shapes.node("n1", [100], model=A))
    assert node_chosen(source, shapes.request(100), known) == "n1"


@pytest.mark.parametrize("seed", range(20))
def test_tables_count_what_a_count_by_the_definition_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares = [0, 5, 30, 50, 100, 200, 400]
    demands = [
        mix.Demand(
            int(rng.integers(0, 9)) * 1000, int(rng.choice(shares)), frozenset([A]) if one % 5 == 0 else frozenset()
        )
        for one in range(8)
    ]
    known = shapes.known(demands)
    weights = {mix.Demand(*kind): part for kind, part in fragments.typical(known.mix.weights()).items()}
    free, cpu = [int(left) for left in rng.integers(0, 101, size=4)], 5000
    free[0] = 100
    asked = shapes.request(30, cpu=1000)
    model = (A, B)[seed % 2]
    found = scores(shapes.nodes(shapes.node("n0", free, cpu=cpu, model=model)), asked, known)[0]
    for slot, left in enumerate(free):
        if left >= 30:
            after = [*free[:slot], left - 30, *free[slot + 1 :]]
            change = counted(after, cpu - 1000, model, weights) - counted(free, cpu, model, weights)
            assert abs(found[slot] - 100 / (1 + math.exp(change / 100))) <= 1 + 1e-6


def test_the_order_of_arrivals_and_of_nodes_changes_no_score() -> None:
    demands = [HALF, WHOLE, mix.Demand(9000, 200), mix.Demand(1000, 30)]
    here, there = shapes.node("n0", [100, 100, 40]), shapes.node("n1", [70, 30, 100], cpu=9000)
    asked = shapes.request(30, cpu=2000)
    forward = scores(shapes.nodes(here, there), asked, shapes.known(demands))
    backward = scores(shapes.nodes(there, here), asked, shapes.known(demands[::-1]))
    assert forward == backward[::-1]


def test_first_fit_until_enough_have_come_and_then_by_what_came() -> None:
    known = knowledge.Knowledge()
    source = shapes.nodes(shapes.node("n0", [100]), shapes.node("n1", [50]))
    asked = shapes.request(50)
    for _ in range(fragments.FIRST - 1):
        known.mix.add(WHOLE)
    assert scores(source, asked, known) == [[0], [0]]
    known.mix.add(WHOLE)
    assert node_chosen(source, asked, known) == "n1"


def test_the_tables_follow_the_mix_when_it_changes() -> None:
    known = shapes.known([WHOLE])
    source = shapes.nodes(shapes.node("n0", [100], cpu=8000), shapes.node("n1", [50], cpu=8000))
    assert node_chosen(source, shapes.request(50), known) == "n1"
    for _ in range(3 * int(mix.MEMORY)):
        known.mix.add(mix.Demand(4000, 50))
    assert node_chosen(source, shapes.request(50), known) == "n0"


def test_typical_demands_are_the_most_frequent_up_to_95_percent_without_memory() -> None:
    weights = {
        mix.Demand(1000, 50, memory_bytes=1): 0.5,
        mix.Demand(1000, 50, memory_bytes=2): 0.3,
        mix.Demand(2000, 100): 0.16,
        mix.Demand(3000, 0): 0.04,
    }
    kinds = fragments.typical(weights)
    assert list(kinds) == [(1000, 50, frozenset()), (2000, 100, frozenset())]
    assert sum(kinds.values()) == pytest.approx(1.0)


def test_a_fleet_with_another_model_gets_tables_of_its_own() -> None:
    known = shapes.known([mix.Demand(0, 100, frozenset({A}))])
    scores(shapes.nodes(shapes.node("n0", [100])), shapes.request(100), known)
    both = shapes.nodes(shapes.node("n0", [100]), shapes.node("n1", [100], model=GPUModel("C")))
    assert node_chosen(both, shapes.request(100), known) == "n1"


def test_what_is_typical_is_looked_at_again_when_half_as_many_more_have_come_or_128() -> None:
    found, learned = fragments.Fragments(), mix.Mix()
    made, standing = [], None
    for count in range(1, 700):
        learned.add(mix.Demand(1000, 50))
        tables = found.tables(learned, (A,), 8)
        if tables is not standing:
            made.append(count)
            standing = tables
    assert made == [32, 64, 96, 144, 216, 324, 452, 580]
