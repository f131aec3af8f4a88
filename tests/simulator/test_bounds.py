"""What any placement could allocate at most, by clusters that can be counted by hand, and against another solver."""

import random

import numpy as np
import pytest

from cotenant_api import errors, packingpolicy
from cotenant_api.names import HUNDREDTHS
from cotenant_extender.packing import cutting, placing
from cotenant_simulator.openb import accounts, arrivals, bounds, cluster, replay, trace
from simulator import kit


def bound(nodes: list[trace.Node], pods: list[trace.Pod], *, max_tenants: int = 16, column: int = 100) -> float | None:
    """Of these pods, arriving in this order."""
    read, order = kit.arriving(nodes, pods)
    return bounds.percent(read, order, column, max_tenants=max_tenants)


@pytest.mark.parametrize(
    ("pods", "most"),
    [
        ([kit.pod(600), kit.pod(400)], 100),
        ([kit.pod(gpus=0)] * 3 + [kit.pod(1000)], 100),
        ([kit.pod(600, cpu=40_000), kit.pod(400, cpu=40_000)], 60 + 40 * 24 / 40),
        ([kit.pod(600, memory=40_000), kit.pod(400, memory=30_000)], 60 + 40 * 25_536 / 30_000),
        ([kit.pod(1000, cpu=64_001)], 0),
        ([kit.pod(1000, models=["B"])], 0),
    ],
)
def test_one_gpu(pods: list[trace.Pod], most: float) -> None:
    read, order = kit.arriving([kit.node(gpus=1)], pods)
    at_the_end = bounds.maximum(read, dict(bounds.demand(order.pods)), max_tenants=16)
    assert at_the_end == pytest.approx(most, abs=1e-6)


def test_what_cannot_lie_beside_each_other_is_cut_apart() -> None:
    read, order = kit.arriving([kit.node(gpus=3)], [kit.pod(600)] * 3)
    assert bounds.maximum(read, dict(bounds.demand(order.pods)), max_tenants=16) == pytest.approx(60)


def test_the_limit_on_tenants_holds_in_the_mean() -> None:
    read, order = kit.arriving([kit.node(gpus=1)], [kit.pod(200)] * 5)
    demand = dict(bounds.demand(order.pods))
    assert bounds.maximum(read, demand, max_tenants=16) == pytest.approx(100)
    assert bounds.maximum(read, demand, max_tenants=3) == pytest.approx(60)


def test_several_gpus_are_of_a_node_that_has_as_many() -> None:
    nodes = [kit.node("a", gpus=1), kit.node("b", gpus=1)]
    assert bound(nodes, [kit.pod(1000, gpus=2)]) == pytest.approx(0)
    assert bound([kit.node(gpus=2)], [kit.pod(1000, gpus=2)]) == pytest.approx(100)


def test_a_column_is_bounded_by_the_mean_demand_of_its_arrivals() -> None:
    """At 100 % stand 100 and, after a pod without GPU, 100 again; at 99 % and below stands less."""
    nodes = [kit.node(gpus=2)]
    assert bound(nodes, [kit.pod(1000), kit.pod(1000), kit.pod(gpus=0)]) == pytest.approx(100)
    hundredth, almost = kit.pod(10), kit.pod(990)
    assert bound(nodes, [kit.pod(1000), almost, hundredth]) == pytest.approx((99.5 + 100) / 2)


def test_a_column_without_arrivals_has_no_bound() -> None:
    assert bound([kit.node(gpus=2)], [kit.pod(1000)]) is None


def test_another_solver_comes_to_the_same() -> None:
    """The program of dual prices: patterns and a simplex of its own; one kind of node, no host resources."""
    draw = random.Random(3)  # noqa: S311 - the same each time
    sizes = sorted(draw.sample(range(50, 900, 10), 8))
    counts = [draw.randrange(3, 30) for _ in sizes]
    pods = [kit.pod(size, cpu=0, memory=0) for size, count in zip(sizes, counts, strict=True) for _ in range(count)]
    read, _ = kit.arriving([kit.node(str(number), gpus=4) for number in range(8)], pods)
    market = cutting.Market(
        shares=np.array(sizes) // trace.MILLI_PER_HUNDREDTH,
        gpus=np.ones(len(sizes), dtype=np.int64),
        demand=np.array(counts),
        supply=np.array([32]),
        most_gpus=np.array([4]),
        allowed=np.ones((1, len(sizes)), dtype=np.bool_),
        most_jobs=HUNDREDTHS,
    )
    program = cutting.Program(market)
    while not program.done:
        program.step()
    found = bounds.maximum(read, dict(bounds.demand(pods)), max_tenants=HUNDREDTHS)
    assert found == pytest.approx(100 * program.served() / 32, abs=0.02)


@pytest.mark.parametrize("placement", [packingpolicy.Placement.FIRST_FIT, packingpolicy.Placement.DUAL_PRICE])
def test_no_placement_allocates_more(placement: packingpolicy.Placement) -> None:
    draw = random.Random(11)  # noqa: S311 - the same each time
    nodes = [kit.node(str(number), gpus=4, cpu=20_000) for number in range(6)]
    pods = [kit.pod(draw.choice((230, 470, 650, 810)), cpu=draw.choice((500, 3000))) for _ in range(90)]
    read, order = kit.arriving(nodes, pods)
    outcome = replay.run(read, order, cluster.policy(placement, max_tenants=16), placing.choose)
    for column in accounts.SHOWN:
        most, found = bounds.percent(read, order, column, max_tenants=16), outcome.allocated_percent[column]
        assert most is not None
        assert found is not None
        assert 0.8 * most < found <= most + bounds.TOLERANCE_PERCENT


def test_what_is_above_its_bound_is_refused_by_name() -> None:
    flat = (96.0,) * (accounts.LAST + 1)
    bounds.require("t", flat, {100: 96.0, 130: None})
    with pytest.raises(
        errors.PermanentError, match=r"t, seed 42: column 100 is 96\.0000, but no placement .* 95\.9000"
    ):
        bounds.require("t, seed 42", flat, {100: 95.9, 130: 99.0})


def test_a_seed_has_the_bounds_of_the_columns_that_are_shown() -> None:
    nodes = [kit.node(str(number), gpus=4) for number in range(5)]
    read = trace.Trace(name="t", nodes=tuple(nodes), pods=tuple(kit.pod(milli) for milli in (250, 500, 750)))
    found = bounds.of(read, seed=42, max_tenants=16)
    assert list(found) == list(accounts.SHOWN)
    order = arrivals.order(read, seed=42)
    assert found[100] == bounds.percent(read, order, 100, max_tenants=16)
