"""The published observations as yes or no."""

from typing import Any

from cotenant_predictor.profiling import observations, plan, sets
from cotenant_predictor.profiling.mechanisms import Mechanism
from profiling.results import first, result, tenant

SERVING, TRAINING = "squeezenet-inference-8", "resnet18-64"
COMPARED = plan.runs(sets.smoke(), ["compare"])


def answered(mean: float, std: float) -> dict[str, Any]:
    times = {"mean": mean, "p50": mean, "p99": mean + 2 * std, "std": std}
    return tenant(SERVING, 1000 / mean, turnaroundMilliseconds=times)


def compared(mechanism: Mechanism, *, mean: float, std: float, training: float | None = None) -> dict[str, Any]:
    run = next(run for run in COMPARED if run.mechanism is mechanism and run.tenants[-1].job in (TRAINING, SERVING))
    rows = [answered(mean, std)] + ([] if training is None else [tenant(TRAINING, training)])
    return result(run, rows)


AS_PUBLISHED = [
    result(first("alone"), [tenant(TRAINING, 100.0)]),
    compared(Mechanism.ALONE, mean=5.0, std=0.1),
    compared(Mechanism.PRIORITY_STREAMS, mean=9.0, std=3.0, training=80.0),
    compared(Mechanism.TIME_SLICING, mean=8.0, std=0.2, training=50.0),
    compared(Mechanism.MPS, mean=10.0, std=4.0, training=70.0),
]


def judged(*results: dict[str, Any]) -> dict[str, bool | None]:
    return {row["observation"]: row["holds"] for row in observations.rows(results)}


def test_what_was_published_holds_where_it_is_measured_again() -> None:
    assert judged(*AS_PUBLISHED) == {"O1": True, "O2": True, "O5": True}


def test_priority_streams_that_keep_turnaround_low_contradict_the_first() -> None:
    calm = compared(Mechanism.PRIORITY_STREAMS, mean=5.1, std=0.3, training=80.0)
    assert judged(*AS_PUBLISHED[:2], calm, *AS_PUBLISHED[3:])["O1"] is False


def test_time_slicing_that_varies_most_contradicts_the_second() -> None:
    unsteady = compared(Mechanism.TIME_SLICING, mean=8.0, std=6.0, training=50.0)
    assert judged(*AS_PUBLISHED[:3], unsteady, AS_PUBLISHED[4])["O2"] is False


def test_mps_without_gain_over_time_slicing_contradicts_the_fifth() -> None:
    slow = compared(Mechanism.MPS, mean=10.0, std=4.0, training=50.0)
    assert judged(*AS_PUBLISHED[:4], slow)["O5"] is False


def test_what_is_not_measured_is_neither_yes_nor_no() -> None:
    assert judged(*AS_PUBLISHED[:3]) == {"O1": True, "O2": None, "O5": None}


def test_a_row_carries_turnaround_variance_and_copies_of_each_mechanism() -> None:
    row = observations.rows(AS_PUBLISHED)[0]
    assert (row["serving"], row["training"], row["load"]) == (SERVING, TRAINING, "SingleStream")
    assert row["figures"]["TimeSlicing"]["variance"] == 0.2**2
    assert row["figures"]["TimeSlicing"]["hostToDeviceMilliseconds"] == 0.1
    assert row["figures"]["TimeSlicing"]["trainingStepsPerSecond"] == 50.0
