"""The placement by predicted speeds together: where a pod adds most, and that remembering changes nothing."""

import dataclasses
from collections.abc import Sequence

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from cotenant_api import pod, prediction
from cotenant_extender.packing import fleet, interference, knowledge, placing, rules, view
from extender import sharing
from extender.sharing import INFERENCE, busy, figures, gpu, tenant

LOADS = st.sampled_from([0.0, 10.0, 30.0, 55.0, 80.0, 100.0])
PREDICTED = st.none() | st.builds(figures, LOADS, LOADS, threads=st.sampled_from([20, 60, 100]))
TENANTS = st.builds(
    tenant,
    PREDICTED,
    thread_percentage=st.sampled_from([10, 40, 100]),
    client_priority=st.sampled_from([0, 1]),
    workload_type=st.sampled_from(list(pod.WorkloadType)),
)
GPUS = st.builds(lambda tenants: gpu(*tenants), st.lists(TENANTS, max_size=3))


def scores(source: fleet.Fleet, request: view.Request, known: knowledge.Knowledge) -> list[float]:
    offers = rules.offers(source, request, check_host=False)
    return [float(score) for score in interference.score(offers, known)[:, 0]]


def chosen(source: fleet.Fleet, request: view.Request) -> str | None:
    found = placing.choose(source, request, sharing.known(), check_host=False)
    return None if found is None else found.node.name


def test_an_empty_gpu_goes_before_one_whose_tenant_leaves_too_little() -> None:
    source = sharing.packed(gpu(busy(80)), gpu())
    assert scores(source, sharing.request(figures(60)), sharing.known()) == pytest.approx([5 / 6 - 3 / 8, 1.0])
    assert chosen(source, sharing.request(figures(60))) == "n001"


def test_beside_a_tenant_that_leaves_enough_a_pod_adds_as_much_as_alone_so_the_first_is_taken() -> None:
    assert chosen(sharing.packed(gpu(busy(40, 50)), gpu()), sharing.request(figures(60, 50))) == "n000"


def test_of_two_contended_gpus_the_one_where_more_is_left_is_taken() -> None:
    assert chosen(sharing.packed(gpu(busy(90)), gpu(busy(70))), sharing.request(figures(60))) == "n001"


def test_memory_bandwidth_counts_as_sm_time_does() -> None:
    source = sharing.packed(gpu(busy(5, 80)), gpu(busy(80, 5)))
    assert chosen(source, sharing.request(figures(10, 60))) == "n001"
    assert chosen(source, sharing.request(figures(60, 10))) == "n000"


def test_gpus_with_equal_tenants_go_by_strict_order_whatever_order_these_are_in() -> None:
    one, other = busy(70, 10), busy(20, 60, thread_percentage=50)
    source = sharing.packed(gpu(one, other), gpu(other, one), gpu(one, other))
    first, second, third = scores(source, sharing.request(figures(50, 50)), sharing.known())
    assert first == second == third
    assert chosen(source, sharing.request(figures(50, 50))) == "n000"


@pytest.mark.parametrize("load", ["sm", "dram"])
@pytest.mark.parametrize("threads", [30, 100])
def test_the_busier_a_neighbour_the_less_a_pod_adds(load: str, threads: int) -> None:
    neighbours = [busy(**{"sm": 0.0, load: float(percent)}, thread_percentage=threads) for percent in range(0, 101, 5)]
    found = scores(sharing.packed(*map(gpu, neighbours)), sharing.request(figures(60, 60)), sharing.known())
    assert found == sorted(found, reverse=True)
    assert found[0] == 1.0


def test_a_tenant_without_prediction_counts_as_busy_with_all_threads_that_it_may_use() -> None:
    source = sharing.packed(gpu(tenant(None, thread_percentage=60)), gpu(busy(50)), gpu(busy(60, 60)))
    unknown, less, equal = scores(source, sharing.request(figures(60)), sharing.known())
    assert unknown < less
    assert unknown == equal


def test_a_pod_without_prediction_counts_as_busy_with_all_threads_that_it_gets() -> None:
    source = sharing.packed(gpu(busy(70)), gpu(busy(50)), threadPartition="Demand")
    assert chosen(source, sharing.request(None, share=50)) == "n001"
    found = scores(source, sharing.request(None, share=50), sharing.known())
    known = scores(source, sharing.request(figures(50, 50, threads=10), share=50), sharing.known())
    assert found == pytest.approx(known, abs=0.01)


def test_the_thread_percentage_that_the_policy_gives_is_what_disturbs() -> None:
    request = sharing.request(figures(80), share=40)
    tenants = gpu(busy(50)), gpu()
    assert chosen(sharing.packed(*tenants, threadPartition="None"), request) == "n001"
    assert chosen(sharing.packed(*tenants, threadPartition="Proportional"), request) == "n000"


def test_training_adds_less_beside_inference_that_goes_before_it() -> None:
    source = sharing.packed(gpu(busy(70)), gpu(busy(70, workload_type=INFERENCE)))
    beside_training, beside_inference = scores(source, sharing.request(figures(40)), sharing.known())
    request = sharing.request(figures(40), kind=INFERENCE)
    assert beside_inference != beside_training
    assert len(set(scores(source, request, sharing.known()))) == 1


def test_several_whole_gpus_are_the_first_nodes_that_has_them() -> None:
    nodes = [sharing.node("a", gpu(), gpu(busy(10))), sharing.node("b", gpu(), gpu()), sharing.node("c", gpu(), gpu())]
    assert chosen(fleet.Fleet.of(nodes, sharing.in_force()), sharing.request(None, share=200)) == "b"


def test_where_nothing_is_known_of_speeds_together_it_is_first_fit() -> None:
    source = sharing.packed(gpu(busy(100)), gpu())
    found = placing.choose(source, sharing.request(figures(60)), knowledge.Knowledge(), check_host=False)
    assert found is not None
    assert found.node.name == "n000"


def test_among_more_situations_than_are_compared_the_least_loaded_are_and_one_is_always_chosen() -> None:
    loaded = [gpu(busy(30 + place / 10)) for place in range(2 * interference.MOST)]
    request = sharing.request(figures(75))
    assert chosen(sharing.packed(*loaded, gpu()), request) == f"n{len(loaded):03}"
    assert chosen(sharing.packed(*reversed(loaded)), request) == f"n{len(loaded) - 1:03}"


def test_situations_that_were_compared_for_another_pod_do_not_change_which_are_compared() -> None:
    loaded = [gpu(busy(30 + place / 10)) for place in range(2 * interference.MOST)]
    source, known = sharing.packed(*reversed(loaded)), sharing.known()
    scores(sharing.packed(*reversed(loaded[interference.MOST :])), sharing.request(figures(75)), known)
    request = sharing.request(figures(75))
    assert scores(source, request, known) == scores(source, request, sharing.known())


@hypothesis.given(
    gpus=st.lists(GPUS, min_size=1, max_size=6),
    newcomers=st.lists(PREDICTED, min_size=2, max_size=3),
    changes=st.lists(st.tuples(st.integers(0, 5), GPUS), max_size=4),
    partition=st.sampled_from(["None", "Demand", "Throughput", "MaxMin", "Primary"]),
)
@hypothesis.settings(max_examples=60, deadline=None)
def test_what_is_remembered_is_what_would_be_found_anew(
    gpus: Sequence[view.GPU],
    newcomers: Sequence[prediction.GPUPrediction | None],
    changes: Sequence[tuple[int, view.GPU]],
    partition: str,
) -> None:
    source, known = sharing.packed(*gpus, threadPartition=partition), sharing.known()
    for place, changed in [(0, gpus[0]), *changes]:
        if place < len(gpus):
            source.put(sharing.node(f"n{place:03}", changed))
        for newcomer in newcomers:
            request = sharing.request(newcomer, share=15)
            assert scores(source, request, known) == scores(source, request, sharing.known())


@hypothesis.given(gpus=st.lists(GPUS, min_size=2, max_size=6), newcomer=PREDICTED, data=st.data())
@hypothesis.settings(max_examples=60, deadline=None)
def test_the_order_of_tenants_and_of_other_gpus_changes_no_score(
    gpus: Sequence[view.GPU], newcomer: prediction.GPUPrediction | None, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(gpus))))
    shuffled = [dataclasses.replace(gpus[place], tenants=gpus[place].tenants[::-1]) for place in order]
    request = sharing.request(newcomer)
    before = scores(sharing.packed(*gpus), request, sharing.known())
    after = scores(sharing.packed(*shuffled), request, sharing.known())
    assert np.allclose(after, [before[place] for place in order], atol=2e-6)


@hypothesis.given(tenants=st.lists(TENANTS, max_size=3), newcomer=PREDICTED)
@hypothesis.settings(max_examples=60, deadline=None)
def test_a_pod_never_adds_more_than_it_would_on_an_empty_gpu(
    tenants: Sequence[view.Tenant], newcomer: prediction.GPUPrediction | None
) -> None:
    shared, empty = scores(sharing.packed(gpu(*tenants), gpu()), sharing.request(newcomer), sharing.known())
    assert shared <= empty + 1e-6


def test_a_changed_policy_is_heeded_at_once() -> None:
    known, request = sharing.known(), sharing.request(figures(80), share=40)
    tenants = gpu(busy(50)), gpu()
    before = scores(sharing.packed(*tenants, threadPartition="None"), request, known)
    after = scores(sharing.packed(*tenants, threadPartition="Proportional"), request, known)
    assert before[0] < before[1]
    assert after[0] == after[1]
