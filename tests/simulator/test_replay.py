"""One run of the experiment, by clusters and arrivals that can be checked by hand."""

import pytest

from cotenant_api.packingpolicy import Placement
from cotenant_extender.packing import fleet, knowledge, placing, view
from cotenant_simulator.openb import cluster, replay, trace
from simulator import kit


def played(
    nodes: list[trace.Node],
    pods: list[trace.Pod],
    *,
    choose: replay.Choose = placing.choose,
    placement: Placement = Placement.FIRST_FIT,
    max_tenants: int = cluster.MOST_TENANTS,
) -> replay.Outcome:
    read, order = kit.arriving(nodes, pods)
    return replay.run(read, order, cluster.policy(placement, max_tenants=max_tenants), choose)


def test_allocation_is_told_after_each_arrival_placed_or_not() -> None:
    outcome = played([kit.node(gpus=2)], [kit.pod(600), kit.pod(600), kit.pod(1000)])
    curve = outcome.allocated_percent
    assert (curve[30], curve[60], curve[110]) == (30, 60, 60)
    assert sum(value is not None for value in curve) == 3
    assert (outcome.refused_though_fitting, outcome.violations) == (0, 0)


def test_arrivals_of_pods_without_gpu_count_in_the_mean_of_their_column() -> None:
    outcome = played([kit.node(gpus=1)], [kit.pod(500, cpu=99_000), kit.pod(500), kit.pod(gpus=0)])
    assert outcome.allocated_percent[50] == 0
    assert outcome.allocated_percent[100] == 50
    outcome = played([kit.node(gpus=1)], [kit.pod(500), kit.pod(gpus=0), kit.pod(500)])
    assert (outcome.allocated_percent[50], outcome.allocated_percent[100]) == (50, 100)


def test_pods_without_gpu_take_the_nodes_cpu() -> None:
    outcome = played([kit.node(gpus=1, cpu=1000)], [kit.pod(gpus=0), kit.pod(1000)])
    assert outcome.allocated_percent[100] == 0


def test_fragmentation_is_told_in_the_headline_columns_alone() -> None:
    outcome = played([kit.node(gpus=2)], [kit.pod(700), kit.pod(700), kit.pod(600)])
    assert outcome.fragmented_percent[100] == pytest.approx(30)
    assert sum(value is not None for value in outcome.fragmented_percent) == 1


def test_shares_fill_a_gpu_to_the_last_hundredth() -> None:
    outcome = played([kit.node(gpus=1)], [kit.pod(330), kit.pod(330), kit.pod(330), kit.pod(10)])
    assert outcome.allocated_percent[100] == 100


def test_a_limit_on_tenants_holds_and_is_known_to_the_judge() -> None:
    outcome = played([kit.node(gpus=1)], [kit.pod(250)] * 4, max_tenants=3)
    assert outcome.allocated_percent[100] == 75
    assert (outcome.refused_though_fitting, outcome.violations) == (0, 0)


def test_models_hold() -> None:
    nodes = [kit.node("a", model="A"), kit.node("b", model="B")]
    outcome = played(nodes, [kit.pod(1000, models=["B"])] * 3)
    assert outcome.allocated_percent[75] == 50
    assert (outcome.refused_though_fitting, outcome.violations) == (0, 0)


def test_whole_gpus_are_of_one_node() -> None:
    outcome = played([kit.node("a", gpus=1), kit.node("b", gpus=1)], [kit.pod(1000, gpus=2)])
    assert outcome.allocated_percent[100] == 0


def test_pods_that_are_refused_though_they_fit_are_counted() -> None:
    def never(_source: fleet.Fleet, _request: view.Request, _known: knowledge.Knowledge) -> None:
        return None

    outcome = played(
        [kit.node(gpus=1, cpu=4000)], [kit.pod(500), kit.pod(gpus=0), kit.pod(500, cpu=9000)], choose=never
    )
    assert outcome.refused_though_fitting == 2


def test_placements_that_take_what_is_not_there_are_counted() -> None:
    def same(source: fleet.Fleet, request: view.Request, known: knowledge.Knowledge) -> placing.Choice | None:
        empty = cluster.empty([kit.node(gpus=2)], source.policy)
        return placing.choose(empty, request, known)

    outcome = played([kit.node(gpus=2)], [kit.pod(600)] * 3, choose=same)
    assert outcome.violations == 2


def test_what_pods_ask_for_is_learned_as_they_arrive() -> None:
    seen = []

    def watching(source: fleet.Fleet, request: view.Request, known: knowledge.Knowledge) -> placing.Choice | None:
        seen.append(known.mix.arrivals)
        return placing.choose(source, request, known)

    played([kit.node()], [kit.pod(100), kit.pod(200)], choose=watching)
    assert seen == [1, 2]


@pytest.mark.parametrize("placement", list(Placement))
def test_every_placement_is_lawful_and_refuses_nothing_that_fits(placement: Placement) -> None:
    nodes = [kit.node(f"n{number}", gpus=1 + number % 4, cpu=8000, model="AB"[number % 2]) for number in range(8)]
    asked = [kit.pod(milli, cpu=cpu) for milli in (50, 330, 470, 810, 1000) for cpu in (500, 3000)]
    asked += [kit.pod(1000, gpus=2), kit.pod(gpus=0, cpu=2000), kit.pod(470, models=["B"])]
    outcome = played(nodes, asked * 3, placement=placement, max_tenants=3)
    assert (outcome.refused_though_fitting, outcome.violations) == (0, 0)
