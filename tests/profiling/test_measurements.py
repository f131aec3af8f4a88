"""From results to measurement documents."""

from typing import Any

import pytest

from cotenant_api.measurement import Measurement
from cotenant_predictor.profiling import measured, measurements, slowdowns
from cotenant_predictor.profiling.mechanisms import Mechanism
from cotenant_predictor.profiling.plan import Run, Tenant
from cotenant_predictor.profiling.seats import Seat, TenantError
from profiling.results import DIGESTS, first, result, tenant

RESNET, LSTM = "resnet18-64", "lstm-256x1-16"
ALONE = [
    result(first("alone"), [tenant(RESNET, 100.0)]),
    result(Run("alone", Mechanism.ALONE, (Tenant(LSTM),)), [tenant(LSTM, 50.0)]),
]
PAIR = first("pairs")


def lines(*results: dict[str, Any]) -> list[dict[str, Any]]:
    return list(measurements.lines([*ALONE, *results], DIGESTS).measurements)


def joint(*results: dict[str, Any]) -> list[dict[str, Any]]:
    return [line for line in lines(*results) if line["coTenants"]]


def test_every_line_is_a_valid_document() -> None:
    failed = tenant(LSTM, 1.0, outcome="Crashed", error="ended with -11")
    for line in lines(
        result(PAIR, [tenant(RESNET, 60.0), tenant(LSTM, 40.0)]),
        result(first("timeslicing"), [tenant(RESNET, 60.0), failed]),
    ):
        assert Measurement.from_object(line, source="line").simulated


def test_a_job_alone_has_the_gpus_figures_and_reasons_for_the_rest() -> None:
    line = next(line for line in lines() if line["graph"] == DIGESTS[RESNET])
    assert line["values"]["utilization"] == 80.0
    assert line["values"]["normalizedSpeed"] == 1.0
    assert line["values"]["smActivity"] is None
    assert line["reasons"]["smActivity"] == "GPM counters: Insufficient Permissions"
    assert line["coTenants"] == []


def test_speed_beside_others_is_relative_to_the_same_job_alone() -> None:
    first_line, second = joint(result(PAIR, [tenant(RESNET, 60.0), tenant(LSTM, 40.0)]))
    assert (first_line["values"]["normalizedSpeed"], second["values"]["normalizedSpeed"]) == (0.6, 0.8)
    assert first_line["id"] == second["id"]
    assert first_line["coTenants"] == [{"graph": DIGESTS[LSTM], "threadPercentage": None}]


def test_figures_of_a_shared_gpu_are_no_tenants_own() -> None:
    line = joint(result(PAIR, [tenant(RESNET, 60.0), tenant(LSTM, 40.0)]))[0]
    assert line["values"]["utilization"] is None
    assert line["reasons"]["utilization"] == "of the whole GPU while shared: 80.0"
    assert line["values"]["memoryPeakMiB"] == 1000


def test_a_survivor_beside_a_failed_tenant_has_no_speed_beside_it() -> None:
    failed = tenant(RESNET, 1.0, outcome="OutOfMemory", error="CUDA out of memory")
    lost, survivor = joint(result(PAIR, [failed, tenant(LSTM, 50.0)]))
    assert lost["outcome"] == "OutOfMemory"
    assert set(lost["values"].values()) == {None}
    assert lost["reasons"]["stepMilliseconds"] == "OutOfMemory: CUDA out of memory"
    assert survivor["outcome"] == "Ok"
    assert survivor["reasons"]["normalizedSpeed"] == "a co-tenant did not run throughout"


def test_tenants_that_did_not_overlap_have_no_speed() -> None:
    line = joint(result(PAIR, [tenant(RESNET, 60.0), tenant(LSTM, 40.0, overlapped=False)]))[0]
    assert line["reasons"]["normalizedSpeed"] == "not all tenants ran throughout the window"


def test_requests_are_kept_apart_from_runs_at_full_speed() -> None:
    run = next(run for run in [first("compare")] if run.tenants[0].load == "SingleStream")
    serving = tenant("squeezenet-inference-8", 200.0, turnaroundMilliseconds={"mean": 5, "p50": 5, "p99": 6, "std": 1})
    found = measurements.lines([*ALONE, result(run, [serving])], DIGESTS)
    assert {line["stage"] for line in found.measurements} == {"alone"}
    assert [line["load"] for line in found.requests] == ["SingleStream"]


def test_a_missing_graph_is_named_with_the_remedy() -> None:
    with pytest.raises(measurements.MissingGraphError, match="lstm-256x1-16 has no graph document: extract it"):
        measurements.lines(ALONE, {RESNET: DIGESTS[RESNET]})


def test_the_noise_floor_is_that_of_repeats_of_the_same_run() -> None:
    repeats = [first("alone", repeat=number) for number in range(3)]
    rates = (99.0, 100.0, 101.0)
    noisy = [result(run, [tenant(RESNET, rate)]) for run, rate in zip(repeats, rates, strict=True)]
    found = measurements.noise_floor([*noisy, ALONE[1]])
    assert found == {"median": pytest.approx(0.01), "max": pytest.approx(0.01), "groups": 1}


def test_a_jobs_speed_alone_is_the_mean_of_its_good_repeats() -> None:
    repeats = [first("alone", repeat=number) for number in range(3)]
    rows = [tenant(RESNET, 90.0), tenant(RESNET, 110.0), tenant(RESNET, 1.0, outcome="Timeout")]
    found = measured.alone_of([result(run, [row]) for run, row in zip(repeats, rows, strict=True)])
    assert found[RESNET] == measured.Alone(step_seconds=0.01, steps_per_second=100.0, memory_mib=1000)


def test_a_limit_in_percent_of_the_peak_alone_is_rounded_up() -> None:
    alone = {RESNET: measured.Alone(0.01, 100.0, memory_mib=1001)}
    assert measured.memory_limit_mib(Tenant(RESNET, memory_limit_percent=50), alone) == 501
    assert measured.memory_limit_mib(Tenant(RESNET), alone) is None


def test_a_tenants_row_holds_what_happened_within_the_window() -> None:
    report = {
        "spans": [[0.0, 1.0], [1.0, 1.5], [1.5, 2.5]],
        "hostToDeviceMilliseconds": [1.0, 2.0, 3.0],
        "turnaroundMilliseconds": [],
    }
    row = measured.tenant(Tenant(RESNET), report, window=(0.5, 2.0), failure=None)
    assert row["stepsPerSecond"] == pytest.approx(2.0 / 1.5, abs=1e-6)
    assert row["stepMilliseconds"]["mean"] == 500.0
    assert row["hostToDeviceMilliseconds"] == 2.0
    assert row["overlapped"]


def test_a_failed_tenants_row_says_why() -> None:
    failure = TenantError("Timeout", "no answer in time", Seat((RESNET,)))
    row = measured.tenant(Tenant(RESNET), measured.NOTHING, window=(0.0, 1.0), failure=failure)
    assert (row["outcome"], row["error"], row["stepsPerSecond"]) == ("Timeout", "no answer in time", None)


def test_the_worst_outcome_is_the_runs() -> None:
    assert measured.worst(["Ok", "OutOfMemory", "Timeout"]) == "Timeout"
    assert measured.worst(["Ok", "Ok"]) == "Ok"


def test_slowdown_is_set_against_the_sum_of_predictions_for_each_mechanism_alone() -> None:
    pair = result(PAIR, [tenant(RESNET, 50.0), tenant(LSTM, 40.0)])
    sliced = result(first("timeslicing"), [tenant(RESNET, 25.0), tenant(LSTM, 25.0)])
    rows = slowdowns.rows(lines(pair, sliced), {DIGESTS[RESNET]: 60.0, DIGESTS[LSTM]: 30.0})
    found = {(row["mechanism"], row["graph"]): row["slowdown"] for row in rows}
    assert found == {
        ("MPS", DIGESTS[RESNET]): 1.0,
        ("MPS", DIGESTS[LSTM]): 0.25,
        ("TimeSlicing", DIGESTS[RESNET]): 3.0,
        ("TimeSlicing", DIGESTS[LSTM]): 1.0,
    }
    assert {row["summedUtilizationPercent"] for row in rows} == {90.0}
