"""The thread percentage of a pod on one GPU, by policy; and what those that look at the jobs together promise."""

from collections.abc import Sequence

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from cotenant_api import names, placement, pod, prediction
from cotenant_api.packingpolicy import ThreadPartition
from cotenant_extender import records
from cotenant_extender.packing import jobs, knowledge, placing, speeds, threads
from cotenant_predictor.colocation import partitions
from cotenant_predictor.colocation.speeds import SpeedModel
from extender import builders, sharing
from extender.sharing import INFERENCE, TRAINING, figures, job

BY_SPEED = [ThreadPartition.THROUGHPUT, ThreadPartition.MAX_MIN, ThreadPartition.PRIMARY]
LOADS = st.sampled_from([0.0, 20.0, 45.0, 70.0, 100.0])
FIGURES = st.builds(figures, LOADS, LOADS, threads=st.sampled_from([10, 40, 70, 100]))
JOBS = st.builds(
    job,
    st.none() | FIGURES,
    st.sampled_from([5, 30, 60, 100]),
    priority=st.sampled_from([0, 1]),
    workload_type=st.sampled_from(list(pod.WorkloadType)),
)
JOININGS = st.builds(
    jobs.Joining,
    st.builds(
        job,
        FIGURES,
        st.integers(1, 99),
        priority=st.sampled_from([0, 1]),
        workload_type=st.sampled_from(list(pod.WorkloadType)),
    ),
    st.lists(JOBS, max_size=3).map(tuple),
)


def chosen(joining: jobs.Joining, partition: ThreadPartition) -> int:
    return threads.percentages([joining], partition, speeds.Predicted(SpeedModel()))[0]


def at(joining: jobs.Joining, percentage: int) -> Sequence[float]:
    """The speeds of all, the newcomer's first."""
    return sharing.together(joining.newcomer._replace(threads=percentage), *joining.neighbours)


def every(joining: jobs.Joining) -> list[int]:
    """Percentages that a newcomer may get."""
    share = joining.newcomer.threads
    return [share, *(level for level in range(5, 101, 5) if level > share)]


def bound_with(partition: str, predicted: str | None, *, known: knowledge.Knowledge | None = None) -> int:
    """What a pod of share 40 gets on an empty GPU."""
    source = builders.cluster(threadPartition=partition)
    notes = {} if predicted is None else {names.PREDICTION: predicted}
    request = records.pod_record(builders.pod("a", 40, annotations=notes)).request
    assert request is not None
    found = placing.place(source.seen(), request, known or sharing.known())
    assert isinstance(found, placement.Placement)
    return found.gpus[0].active_thread_percentage


@pytest.mark.parametrize(
    ("partition", "predicted", "percentage"),
    [("Demand", 60, 60), ("Demand", 20, 40), ("Proportional", 60, 40), ("None", 60, 100), ("Primary", 60, 60)],
)
def test_the_thread_percentage_follows_the_policy(partition: str, predicted: int, percentage: int) -> None:
    assert bound_with(partition, builders.prediction(h200=(40.0, 1000, predicted))) == percentage


@pytest.mark.parametrize("partition", [one for one in ThreadPartition if one is not ThreadPartition.NONE])
def test_without_prediction_the_thread_percentage_is_the_share(partition: str) -> None:
    assert bound_with(partition, None) == 40


def test_with_none_a_pod_without_prediction_may_use_all_threads() -> None:
    assert bound_with("None", None) == 100


@pytest.mark.parametrize("partition", BY_SPEED)
def test_where_nothing_is_known_of_speeds_together_demand_holds(partition: str) -> None:
    predicted = builders.prediction(h200=(40.0, 1000, 65))
    assert bound_with(partition, predicted, known=knowledge.Knowledge()) == 65


@pytest.mark.parametrize("partition", list(ThreadPartition))
def test_a_whole_gpu_has_all_threads(partition: ThreadPartition) -> None:
    assert chosen(jobs.Joining(job(figures(50, threads=30), 100), ()), partition) == 100


def test_a_neighbours_percentage_and_priority_are_those_of_its_placement() -> None:
    source = builders.cluster()
    note = builders.placement("a", "n0", {"GPU-n0-0": 30})[names.PLACEMENT]
    note = note.replace('"activeThreadPercentage": 30', '"activeThreadPercentage": 55').replace(
        '"clientPriority": 0', '"clientPriority": 1'
    )
    raw = builders.pod("a", 30, node="n0", phase="Running", annotations={names.PLACEMENT: note})
    builders.put(source, raw)
    tenant = source.seen().nodes[0].gpus[0].tenants[0]
    assert (tenant.thread_percentage, tenant.client_priority) == (55, 1)


@hypothesis.given(joining=JOININGS, partition=st.sampled_from(list(ThreadPartition)))
@hypothesis.settings(max_examples=80, deadline=None)
def test_no_pod_gets_less_than_its_share_nor_more_than_all(joining: jobs.Joining, partition: ThreadPartition) -> None:
    assert joining.newcomer.threads <= chosen(joining, partition) <= 100


@hypothesis.given(joining=JOININGS)
@hypothesis.settings(max_examples=60, deadline=None)
def test_throughput_is_the_smallest_percentage_whose_sum_is_nearly_the_largest(joining: jobs.Joining) -> None:
    sums = {level: sum(at(joining, level)) for level in every(joining)}
    assert chosen(joining, ThreadPartition.THROUGHPUT) == next(
        level for level in sums if sums[level] >= max(sums.values()) - threads.NEAR
    )


@hypothesis.given(joining=JOININGS)
@hypothesis.settings(max_examples=60, deadline=None)
def test_max_min_leaves_the_slowest_nearly_as_fast_as_any_percentage_could(joining: jobs.Joining) -> None:
    slowest = {level: min(at(joining, level)) for level in every(joining)}
    found = chosen(joining, ThreadPartition.MAX_MIN)
    assert slowest[found] >= max(slowest.values()) - threads.NEAR
    equal = [sum(at(joining, level)) for level in slowest if slowest[level] >= max(slowest.values()) - threads.NEAR]
    assert sum(at(joining, found)) >= max(equal) - threads.NEAR


@hypothesis.given(joining=JOININGS)
@hypothesis.settings(max_examples=60, deadline=None)
def test_primary_leaves_inference_its_speed_wherever_any_percentage_does(joining: jobs.Joining) -> None:
    newcomer = joining.newcomer._replace(workload_type=TRAINING)
    served = job(figures(60, 30, threads=60), 60, workload_type=INFERENCE)
    beside = jobs.Joining(newcomer, (served, *(one._replace(workload_type=TRAINING) for one in joining.neighbours)))
    least = threads.KEPT * sharing.together(served)[0]
    able = [level for level in every(beside) if at(beside, level)[1] >= least - 1e-9]
    found = chosen(beside, ThreadPartition.PRIMARY)
    assert found in able if able else found == newcomer.threads


def test_primary_gives_inference_that_joins_training_the_least_that_keeps_its_own_speed() -> None:
    newcomer = job(figures(20, threads=45), 10, workload_type=INFERENCE)
    beside = jobs.Joining(newcomer, (job(figures(60), 80, priority=1),))
    found = chosen(beside, ThreadPartition.PRIMARY)
    assert at(beside, found)[0] >= threads.KEPT * at(beside, 100)[0]
    assert at(beside, found - 5)[0] < threads.KEPT * at(beside, 100)[0]


def test_primary_does_not_let_the_second_newcomer_take_again_what_the_first_has_taken() -> None:
    served, newcomer = job(figures(70, threads=90), 90, workload_type=INFERENCE), job(figures(40), 5)
    first = chosen(jobs.Joining(newcomer, (served,)), ThreadPartition.PRIMARY)
    second = chosen(jobs.Joining(newcomer, (served, newcomer._replace(threads=first))), ThreadPartition.PRIMARY)
    assert first > newcomer.threads
    assert second == newcomer.threads


def test_beside_a_busy_neighbour_throughput_holds_back_a_newcomer_that_needs_much_for_little() -> None:
    greedy, small = job(figures(100), 10), job(figures(40, threads=50), 50)
    alone = chosen(jobs.Joining(greedy, ()), ThreadPartition.THROUGHPUT)
    beside = chosen(jobs.Joining(greedy, (small,)), ThreadPartition.THROUGHPUT)
    assert beside < alone


@pytest.mark.parametrize("partition", BY_SPEED)
@hypothesis.given(joining=JOININGS, data=st.data())
@hypothesis.settings(max_examples=25, deadline=None)
def test_the_order_of_neighbours_does_not_matter(
    partition: ThreadPartition, joining: jobs.Joining, data: st.DataObject
) -> None:
    shuffled = tuple(data.draw(st.permutations(joining.neighbours)))
    assert chosen(joining._replace(neighbours=shuffled), partition) == chosen(joining, partition)


@pytest.mark.parametrize("partition", list(ThreadPartition))
def test_several_newcomers_at_once_get_what_each_would_get(partition: ThreadPartition) -> None:
    every = [
        jobs.Joining(job(figures(70, 20, threads=80), 30), (job(figures(50), 60), job(None, 20))),
        jobs.Joining(job(None, 30), (job(figures(50), 60),)),
        jobs.Joining(job(figures(30), 100), ()),
        jobs.Joining(job(figures(30, 90, threads=40), 7), ()),
        jobs.Joining(job(figures(90, 90), 50), (job(figures(50), 60, workload_type=INFERENCE),)),
    ]
    found = threads.percentages(every, partition, speeds.Predicted(SpeedModel()))
    assert found == [chosen(joining, partition) for joining in every]


@pytest.mark.parametrize("own", [figures(20, threads=30), figures(60, threads=60), figures(90, threads=100)])
def test_alone_a_newcomer_gets_nearly_what_the_free_split_gives_it(own: prediction.GPUPrediction) -> None:
    newcomer = job(own, 5)
    by_level = np.array([[at(jobs.Joining(newcomer, ()), level)[0] for level in partitions.LEVELS]])
    free = partitions.throughput(by_level)[0]
    found = chosen(jobs.Joining(newcomer, ()), ThreadPartition.THROUGHPUT)
    assert found <= free
    assert at(jobs.Joining(newcomer, ()), found)[0] >= at(jobs.Joining(newcomer, ()), free)[0] - threads.NEAR


@pytest.mark.parametrize("partition", BY_SPEED)
def test_of_whom_nothing_is_predicted_keeps_its_share_beside_others_who_are_looked_at_together(
    partition: ThreadPartition,
) -> None:
    known = jobs.Joining(job(figures(20.0), 30), (job(figures(60.0), 40),))
    unknown = known._replace(newcomer=job(None, 30))
    together = threads.percentages([unknown, known], partition, speeds.Predicted(SpeedModel()))
    assert together == [30, chosen(known, partition)]
