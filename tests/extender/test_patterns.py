"""What pieces are worth, and the linear program of dual prices, against plain counts."""

import itertools

import numpy as np
import pytest

from cotenant_extender.packing import cutting, patterns
from cotenant_extender.packing.patterns import Array


def solved(market: cutting.Market) -> cutting.Program:
    program = cutting.Program(market)
    for _ in range(cutting.MOST_STEPS):
        if program.done:
            break
        program.step()
    assert program.done
    return program


def market(shares: list[int], demand: list[float], **changes: object) -> cutting.Market:
    """One group of 100 GPUs, eight to a node."""
    standing: dict[str, object] = {
        "shares": np.array([min(share, 100) for share in shares]),
        "gpus": np.array([max(share // 100, 1) for share in shares]),
        "demand": np.array(demand),
        "supply": np.array([100.0]),
        "most_gpus": np.array([8]),
        "allowed": np.ones((1, len(shares)), dtype=np.bool_),
        "most_jobs": 16,
    }
    return cutting.Market(**(standing | changes))  # type: ignore[arg-type]


def best_by_hand(prices: Array, shares: Array, most: int, free: int) -> float:
    sets = itertools.chain.from_iterable(
        itertools.combinations_with_replacement(range(len(shares)), jobs) for jobs in range(most + 1)
    )
    return max(float(prices[list(one)].sum()) for one in sets if shares[list(one)].sum() <= free)


@pytest.mark.parametrize("seed", range(10))
def test_a_piece_is_worth_its_best_set_of_jobs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares, prices = rng.integers(5, 90, size=5), rng.uniform(0, 1, size=5)
    found = patterns.worth(prices, shares, 4)
    for most, free in itertools.product(range(5), (0, 4, 30, 61, 100)):
        assert found[most, free] == pytest.approx(best_by_hand(prices, shares, most, free), abs=1e-8)


def test_more_free_and_more_jobs_are_never_worth_less() -> None:
    found = patterns.worth(np.array([0.3, 0.81, 0.2]), np.array([32, 81, 25]), 6)
    assert (np.diff(found, axis=0) >= 0).all()
    assert (np.diff(found, axis=1) >= 0).all()


def test_the_pattern_is_the_set_that_the_worth_is_of() -> None:
    prices, shares = np.array([0.45, 0.30, 0.62]), np.array([47, 32, 65])
    found = patterns.worth(prices, shares, 16)
    counts = patterns.pattern(prices, shares, found)
    assert counts @ prices == pytest.approx(found[-1, 100])
    assert counts @ shares <= 100


def test_idle_gpus_of_a_node_may_be_worth_more_together() -> None:
    found = patterns.of_idle(0.5, np.array([2.0]), np.array([2]), 5)
    assert list(found) == [0, 0.5, 2.0, 2.5, 4.0, 4.5]


def test_a_class_that_wastes_the_rest_of_its_gpu_sets_the_price_of_a_gpu() -> None:
    program = solved(market([100, 81, 47], [20, 150, 10]))
    assert program.prices() == pytest.approx([0.81, 0.81, 0.405], abs=1e-3)
    assert program.served() == pytest.approx(20 + 0.81 * 75 + 4.7, rel=1e-3)


def test_what_is_not_scarce_is_worth_nothing() -> None:
    program = solved(market([100, 50], [10, 20]))
    assert program.prices() == pytest.approx([0, 0], abs=1e-3)
    assert program.served() == pytest.approx(20, rel=1e-3)


def test_prices_do_not_change_when_supply_and_demand_grow_alike() -> None:
    one, ten = (
        market([100, 81, 47, 32], [20, 90, 70, 50]),
        market([100, 81, 47, 32], [200, 900, 700, 500], supply=np.array([1000.0])),
    )
    assert solved(one).prices() == pytest.approx(solved(ten).prices(), abs=1e-3)


def test_a_model_that_more_is_asked_of_than_there_is_costs_more() -> None:
    allowed = np.array([[True, True], [False, True]])
    program = solved(
        market([100, 100], [100, 10], allowed=allowed, supply=np.array([50.0, 50.0]), most_gpus=np.array([8, 8]))
    )
    assert program.prices() == pytest.approx([1.0, 0.0], abs=1e-3)


def test_better_patterns_are_looked_for_in_every_group() -> None:
    allowed = np.array([[False, False], [True, True]])
    two = {"allowed": allowed, "supply": np.array([5.0, 10.0]), "most_gpus": np.array([8, 8])}
    assert solved(market([60, 40], [10, 10], **two)).served() == pytest.approx(10, rel=1e-3)


def test_a_job_on_more_gpus_than_any_node_has_is_not_served() -> None:
    program = solved(market([800], [5], most_gpus=np.array([4])))
    assert program.served() == pytest.approx(0, abs=1e-3)


def test_demand_that_no_model_may_serve_is_left_out() -> None:
    program = solved(market([50], [5], allowed=np.zeros((1, 1), dtype=np.bool_)))
    assert program.served() == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_no_pattern_gains_at_the_prices_that_are_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares = rng.permutation(np.arange(3, 101))[:40]
    given = market([int(share) for share in shares], list(rng.uniform(1, 20, size=40)))
    program = solved(given)
    prices = program.prices()
    gpu = patterns.worth(prices, shares, 16)[-1, 100]
    bound = gpu * 100 + given.demand @ (shares / 100 - prices)
    assert program.served() == pytest.approx(bound, rel=1e-3)
