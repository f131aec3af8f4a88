"""What a job is booked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_api import booking, packingpolicy, prediction
from cotenant_api.names import GPUModel

H200, T4 = GPUModel("NVIDIA-H200"), GPUModel("Tesla-T4")


def predicted(upper: float, *, sm_upper: float = 10.0, memory_mib: int = 1000) -> prediction.GPUPrediction:
    return prediction.GPUPrediction.model_validate(
        {
            "utilization": {"q50": upper / 2, "upper": upper},
            "smActivity": {"q50": sm_upper / 2, "upper": sm_upper},
            "dramActivity": {"q50": 1, "upper": 2},
            "memoryMiB": {"q50": memory_mib // 2, "upper": memory_mib},
            "stepMilliseconds": 10.0,
            "threadPercentage": 40,
            "regime": "Compute",
        }
    )


def packing(**changes: object) -> packingpolicy.Packing:
    return packingpolicy.Packing.model_validate(changes)


@pytest.mark.parametrize(
    ("upper", "maximum", "expected"),
    [
        (55.0, 100, 55),
        (54.1, 100, 55),
        (0.0, 100, 1),
        (250.0, 100, 100),
        (55.0, 110, 50),
        (30.0, 300, 10),
        (57, 100, 57),
    ],
)
def test_hundredths_are_rounded_up_and_clamped(upper: float, maximum: int, expected: int) -> None:
    assert booking.hundredths(upper, max_utilization_percent=maximum) == expected


@given(st.integers(1, 100))
def test_a_whole_percentage_costs_itself(upper: int) -> None:
    assert booking.hundredths(upper / 100 * 100, max_utilization_percent=100) == upper


def test_a_cost_is_never_below_the_request() -> None:
    assert booking.cost(share=40, predicted=predicted(20), packing=packing()) == 40


def test_a_cost_follows_the_model_that_is_slower() -> None:
    assert booking.cost(share=40, predicted=predicted(70), packing=packing()) == 70


def test_without_prediction_the_cost_is_the_share() -> None:
    assert booking.cost(share=40, predicted=None, packing=packing()) == 40


def test_the_metric_chooses_which_bound_counts() -> None:
    sm_activity = packing(metric="SMActivity")
    assert booking.cost(share=1, predicted=predicted(70, sm_upper=33), packing=sm_activity) == 33


@pytest.mark.parametrize("known", [None, predicted(20)])
def test_exclusive_costs_a_whole_gpu_predicted_or_not(known: prediction.GPUPrediction | None) -> None:
    assert booking.cost(share=40, predicted=known, packing=packing(placement="Exclusive")) == 100


def test_by_memory_only_a_prediction_costs_what_was_requested_and_no_more() -> None:
    by_memory = packing(placement="MemoryOnly")
    assert booking.cost(share=40, predicted=predicted(90), packing=by_memory) == 40
    assert booking.requested_share({H200: predicted(90)}, lambda _: by_memory) == 1


@pytest.mark.parametrize(
    ("source", "expected"),
    [(None, 100), (prediction.Source.MODEL, 100), (prediction.Source.USER, 100), (prediction.Source.PROFILE, 20)],
)
def test_reactive_believes_what_was_measured_alone(source: prediction.Source | None, expected: int) -> None:
    reactive = packing(placement="Reactive")
    assert booking.cost(share=1, predicted=predicted(20), packing=reactive, source=source) == expected
    assert booking.requested_share({H200: predicted(20)}, lambda _: reactive, source=source) == expected


def test_reactive_leaves_a_request_without_prediction_as_it_is() -> None:
    assert booking.cost(share=40, predicted=None, packing=packing(placement="Reactive")) == 40


@given(st.sampled_from(packingpolicy.Placement), st.integers(1, 100), st.floats(0, 100))
def test_no_placement_costs_less_than_the_request_or_more_than_a_gpu(
    placement: packingpolicy.Placement, share: int, upper: float
) -> None:
    assert share <= booking.cost(share=share, predicted=predicted(upper), packing=packing(placement=placement)) <= 100


def test_the_request_is_the_smallest_cost_over_the_models() -> None:
    by_gpu = {H200: predicted(20), T4: predicted(90)}
    assert booking.requested_share(by_gpu, lambda _: packing()) == 20


def test_the_request_uses_each_models_own_limits() -> None:
    by_gpu = {H200: predicted(40), T4: predicted(40)}
    assert booking.requested_share(by_gpu, lambda m: packing(maxUtilizationPercent=200 if m == T4 else 100)) == 20


def test_headroom_is_never_booked() -> None:
    assert booking.bookable_mib(1000, packing(memoryHeadroomPercent=5)) == 950


@pytest.mark.parametrize(
    ("annotated", "prediction_mib", "expected"), [(300, 700, 300), (None, 700, 700), (None, None, 400)]
)
def test_memory_is_annotated_else_predicted_else_by_share(
    annotated: int | None, prediction_mib: int | None, expected: int
) -> None:
    known = None if prediction_mib is None else predicted(10, memory_mib=prediction_mib)
    assert booking.booked_mib(share=40, annotated_mib=annotated, predicted=known, bookable=1000) == expected


@pytest.mark.parametrize(
    ("memory_mib", "part"), [(0, 1), (1, 1), (94_000, 94), (94_001, 95), (100_000, 100), (200_000, 100)]
)
def test_memory_stands_for_its_part_of_what_may_be_booked(memory_mib: int, part: int) -> None:
    assert booking.memory_part(memory_mib, 100_000) == part


def test_a_request_is_at_least_the_part_of_the_memory_on_the_model_where_that_is_least() -> None:
    gpu_mib = {H200: 100_000, T4: 10_000}
    rows = {H200: predicted(3, memory_mib=9_000), T4: predicted(40, memory_mib=9_000)}
    by_time = booking.requested_share(rows, lambda _: packing())
    assert by_time == 3
    assert booking.requested_share(rows, lambda _: packing(), gpu_mib=gpu_mib) == 10
    assert booking.requested_share({T4: rows[T4]}, lambda _: packing(), gpu_mib=gpu_mib) == 95
    assert booking.requested_share(rows, lambda _: packing(), gpu_mib=gpu_mib, annotated_mib=47_500) == 50
