"""Dual prices: what the pods that came teach, and where the next ones go."""

import numpy as np

from cotenant_api.names import GPUModel
from cotenant_extender.packing import dual_price, fleet, knowledge, mix, placing, prices, registry, view
from extender import shapes
from extender.shapes import A, B

WHOLE, WIDE, HALF, THIRD = (mix.Demand(4000, share, memory_bytes=10**9) for share in (100, 81, 50, 33))
USUAL = [WHOLE, WIDE, HALF, THIRD]

SCORE = registry.ByRow(dual_price.basis, dual_price.scores)


def learned(source: fleet.Fleet, demands: list[mix.Demand]) -> knowledge.Knowledge:
    """What is known when prices have been found for these, for this fleet."""
    known = shapes.known(demands)
    for _ in range(200):
        known.prices.tables(known.mix, source)
    return known


def chosen(source: fleet.Fleet, asked: view.Request, known: knowledge.Knowledge) -> tuple[str, int]:
    """The node, and the index of the first GPU (-1: none)."""
    found = placing.best(shapes.offered(source, asked), SCORE, known)
    assert found is not None
    return found.node.name, found.gpus[0].index if found.gpus else -1


def losses(source: fleet.Fleet, asked: view.Request, known: knowledge.Knowledge) -> list[list[float]]:
    """In hundredths of a GPU."""
    offers = shapes.offered(source, asked)
    return np.where(offers.fits, -SCORE(offers, known), np.nan).tolist()  # type: ignore[no-any-return]


def test_a_piece_that_nobody_else_can_use_is_taken_first() -> None:
    source = shapes.nodes(shapes.node("n0", [100, 100]), shapes.node("n1", [40, 100]))
    assert chosen(source, shapes.request(33), learned(source, [WHOLE, HALF])) == ("n1", 0)


def test_a_piece_is_not_cut_where_the_rest_is_of_no_use() -> None:
    source = shapes.nodes(shapes.node("n0", [81, 19]), shapes.node("n1", [50, 100]))
    known = learned(source, [WHOLE, WIDE, HALF])
    assert chosen(source, shapes.request(19), known) == ("n0", 1)
    assert chosen(source, shapes.request(50), known) == ("n1", 0)


def test_a_pod_without_gpu_goes_where_gpus_do_not_miss_its_cpu() -> None:
    source = shapes.nodes(shapes.node("n0", [100, 100], cpu=9000), shapes.node("n1", [0, 0], cpu=9000))
    assert chosen(source, shapes.request(0, cpu=8000), learned(source, USUAL)) == ("n1", -1)


def test_a_pod_that_needs_much_memory_goes_where_gpus_do_not_miss_it() -> None:
    source = shapes.nodes(shapes.node("n0", [100, 100], memory=3 * 10**9), shapes.node("n1", [100, 100]))
    assert chosen(source, shapes.request(100, memory=2 * 10**9), learned(source, USUAL)) == ("n1", 0)


def test_a_pod_that_needs_little_cpu_goes_where_there_is_little() -> None:
    source = shapes.nodes(shapes.node("n0", [100, 100]), shapes.node("n1", [100, 100], cpu=3000))
    assert chosen(source, shapes.request(100, cpu=1000), learned(source, USUAL)) == ("n1", 0)


def test_whole_nodes_are_kept_for_jobs_on_several_gpus() -> None:
    source = shapes.nodes(shapes.node("n0", [100] * 4), shapes.node("n1", [100, 100, 0, 0]))
    assert chosen(source, shapes.request(100), learned(source, [mix.Demand(0, 400)])) == ("n1", 0)


def test_a_model_that_many_ask_for_by_name_is_kept_for_them() -> None:
    named = mix.Demand(0, 100, frozenset({B}))
    source = shapes.nodes(shapes.node("n0", [100] * 2, model=B), shapes.node("n1", [100] * 2, model=A))
    assert chosen(source, shapes.request(100), learned(source, [named, named, named, WHOLE])) == ("n1", 0)


def test_a_piece_is_worth_what_those_pay_who_may_use_its_model() -> None:
    halves, wholes = mix.Demand(0, 50, frozenset({B})), mix.Demand(0, 100, frozenset({A}))
    gpus = (shapes.node(f"{model}{left}", [left], model=model) for model in (A, B) for left in (60, 100))
    source = shapes.nodes(*gpus, maxTenantsPerGPU=3)
    known = learned(source, [halves, halves, wholes])
    # A: a whole GPU alone is of use. B: the half of a GPU is, too.
    assert losses(source, shapes.request(20), known) == [[0], [100], [50], [50]]
    assert losses(source, shapes.request(50), known) == [[0], [100], [50], [50]]


def test_a_gpu_that_takes_its_last_tenant_loses_what_is_left() -> None:
    tight, loose = (shapes.nodes(shapes.node("n0", [60]), maxTenantsPerGPU=most) for most in (2, 3))
    assert losses(tight, shapes.request(10), learned(tight, [HALF])) == [[50]]
    assert losses(loose, shapes.request(10), learned(loose, [HALF])) == [[0]]


def test_equal_losses_go_to_the_first() -> None:
    same = [shapes.node(f"n{place}", [100, 60]) for place in range(4)]
    source = shapes.nodes(*same)
    known = learned(source, USUAL)
    assert chosen(source, shapes.request(33), known)[0] == "n0"
    assert len({tuple(row) for row in losses(source, shapes.request(33), known)}) == 1


def test_the_order_of_nodes_changes_no_loss() -> None:
    kinds = [shapes.node("n0", [100, 60]), shapes.node("n1", [30, 70], cpu=5000), shapes.node("n2", [100, 100])]
    forward, backward = shapes.nodes(*kinds), shapes.nodes(*kinds[::-1])
    asked = shapes.request(30, cpu=2000)
    known = learned(forward, USUAL)
    assert losses(forward, asked, known) == losses(backward, asked, learned(backward, USUAL))[::-1]


def test_twice_the_cluster_with_the_same_mix_has_the_same_losses() -> None:
    kinds = [[100, 60], [30, 70], [100, 100]]
    small = shapes.nodes(*(shapes.node(f"n{place}", free) for place, free in enumerate(kinds)))
    large = shapes.nodes(*(shapes.node(f"n{place}", free) for place, free in enumerate(kinds * 2)))
    asked = shapes.request(30, cpu=2000)
    found = losses(large, asked, learned(large, USUAL))
    assert found == losses(small, asked, learned(small, USUAL)) * 2


def test_first_fit_until_enough_have_come() -> None:
    source = shapes.nodes(shapes.node("n0", [100, 100]), shapes.node("n1", [40, 100]))
    known = knowledge.Knowledge(mix=mix.Mix([HALF] * (prices.FIRST - 1)))
    for _ in range(100):
        assert chosen(source, shapes.request(33), known) == ("n0", 0)
    known.mix.add(WHOLE)
    for _ in range(100):
        SCORE(shapes.offered(source, shapes.request(33)), known)
    assert chosen(source, shapes.request(33), known) == ("n1", 0)


def test_prices_stay_while_nobody_comes() -> None:
    source = shapes.nodes(shapes.node("n0", [40, 100]), shapes.node("n1", [70, 100]))
    known = learned(source, [WHOLE, HALF])
    found = [known.prices.tables(known.mix, source) for _ in range(600)]
    assert found[-1] is not None
    assert all(tables is found[-1] for tables in found[300:])


def test_prices_follow_a_mix_that_changes() -> None:
    source = shapes.nodes(shapes.node("n0", [40, 100]), shapes.node("n1", [70, 100]))
    known = learned(source, [WHOLE, mix.Demand(4000, 40)])
    asked = shapes.request(30)
    assert chosen(source, asked, known) == ("n1", 0)
    for _ in range(6 * int(mix.MEMORY)):
        known.mix.add(mix.Demand(4000, 70))
        known.prices.tables(known.mix, source)
    assert chosen(source, asked, known) == ("n0", 1)


def test_changed_nodes_are_looked_at_again_and_copies_too() -> None:
    source = shapes.nodes(shapes.node("n0", [40, 100]), shapes.node("n1", [100, 100]))
    known, asked = learned(source, [WHOLE, HALF]), shapes.request(33)
    assert chosen(source, asked, known) == ("n0", 0)
    source.put(shapes.node("n0", [20, 100]))
    source.put(shapes.node("n1", [100, 40]))
    assert chosen(source, asked, known) == ("n1", 1)
    copy = source.emptied(np.zeros(source.present.shape, dtype=np.bool_))
    assert chosen(copy, asked, known) == ("n1", 1)
    copy.take(1, 1, asked, share=33, memory_mib=0)
    assert chosen(copy, asked, known) == ("n0", 1)
    assert chosen(source, asked, known) == ("n1", 1)


def test_a_part_of_the_fleet_has_the_losses_of_the_whole() -> None:
    kinds = [[100, 60], [30, 70], [100, 100], [50, 50], [100, 20], [33, 81]]
    source = shapes.nodes(*(shapes.node(f"n{place}", free) for place, free in enumerate(kinds)))
    known, asked = learned(source, USUAL), shapes.request(30, cpu=2000)
    every = losses(source, asked, known)
    few, most = source.part([source.nodes[4].name]), source.part([node.name for node in source.nodes[1:]])
    np.testing.assert_array_equal(losses(few, asked, known), [every[4]])
    np.testing.assert_array_equal(losses(most, asked, known)[-5:], every[1:])


def test_a_model_that_comes_later_has_worth_too() -> None:
    source = shapes.nodes(shapes.node("n0", [100]))
    known = learned(source, [WHOLE, HALF])
    source.put(shapes.node("n1", [40, 100], model=GPUModel("C")))
    assert chosen(source, shapes.request(33), known) == ("n1", 0)


def test_a_mix_without_gpus_teaches_nothing() -> None:
    source = shapes.nodes(shapes.node("n0", [100]), shapes.node("n1", [40]))
    assert chosen(source, shapes.request(30), learned(source, [mix.Demand(1000, 0)])) == ("n0", 0)


def test_no_gpu_at_all_is_no_fault() -> None:
    source = shapes.nodes(shapes.node("n0", [100]))
    source.remove(source.nodes[0].name)
    assert learned(source, USUAL).prices.tables(mix.Mix(), source) is None


def test_memory_and_cpu_that_nobody_asks_for_do_not_count() -> None:
    source = shapes.nodes(shapes.node("n0", [100], cpu=0, memory=0), shapes.node("n1", [40], cpu=0, memory=0))
    assert chosen(source, shapes.request(33), learned(source, [mix.Demand(0, 100), mix.Demand(0, 50)])) == ("n1", 0)
