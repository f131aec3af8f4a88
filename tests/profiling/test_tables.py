"""Tables of measured jobs, by hand and of what is kept of a real GPU."""

from pathlib import Path
from typing import Any

import pytest

from cotenant_predictor.profiling import tables
from gpu import jobs

KEPT = Path(jobs.__file__).parent / "results" / "NVIDIA-H200" / "ten"
SAID = tables.Predicted(
    step_milliseconds=10.0,
    utilization=40.0,
    utilization_upper=50.0,
    sm_activity=30.0,
    sm_activity_upper=40.0,
    memory_mib=900,
    memory_upper=1000,
)


def result(*names: str, speeds: tuple[float, ...] = (100.0,), stage: str = "alone", **more: Any) -> dict[str, Any]:
    """One run of these jobs."""
    limits = more.pop("limits", (None,) * len(names))
    planned = [{"job": name, "thread_percentage": limit} for name, limit in zip(names, limits, strict=True)]
    mechanism = "Alone" if len(names) == 1 else "MPS"
    rows = [{"stepsPerSecond": s, "stepMilliseconds": {"mean": 1000 / s}, "memoryPeakMiB": 1001} for s in speeds]
    return {
        "run": {"stage": stage, "repeat": 0, "mechanism": mechanism, "tenants": planned, **more.pop("run", {})},
        "outcome": "Ok",
        "gpuModel": "NVIDIA-H200",
        "gpuUUID": "GPU-1",
        "simulated": False,
        "environment": {"driver": "580", "cuda": "13.0", "torch": "2.11", "cpu": "a processor"},
        "settings": {"windowSeconds": 1.5},
        "time": "2026-01-02T03:04:05+00:00",
        "gpu": {"utilization": 50.0, "smActivity": 41.0},
        "tenants": rows,
        **more,
    }


def test_what_is_above_its_upper_bound_is_bold_and_counted() -> None:
    lines = tables.alone([result("a")], {"a": SAID})
    assert lines[2] == "| a | 10.00 | 10.00 | 50 | 40 < 50 | **41** | 30 < 40 | **1001** | 900 < 1000 |"
    assert lines[-1] == (
        "Above an upper bound (bold), where that is below 100 %: "
        "utilization of 0 of 1 jobs, SM activity of 1 of 1 jobs, memory of 1 of 1 jobs."
    )


def test_nothing_can_be_above_a_bound_of_100_percent() -> None:
    whole = tables.Predicted(**{**vars(SAID), "utilization_upper": 100.0})
    assert "utilization of 0 of 0 jobs, SM activity of 1 of 1 jobs" in tables.alone([result("a")], {"a": whole})[-1]


def test_repeats_and_runs_that_failed_are_no_rows() -> None:
    again, failed = result("a", run={"repeat": 1}), result("b", outcome="Crashed")
    assert "memory of 0 of 0 jobs" in tables.alone([again, failed], {})[-1]


def test_speeds_of_a_pair_are_against_the_jobs_alone_under_each_mechanism() -> None:
    both = [result("a"), result("b", speeds=(10.0,))]
    free = result("a", "b", speeds=(80.0, 4.0), stage="pairs", id="MPS")
    parted = result("a", "b", speeds=(80.0, 4.0), stage="partitions", limits=(70, 30), id="limits")
    sliced = result("a", "b", speeds=(50.0, 5.0), stage="timeslicing", id="slices", run={"mechanism": "TimeSlicing"})
    said = {"MPS": (1.0, 0.3), "limits": (0.8, 0.4), "slices": (0.5, 0.4)}
    lines = tables.together([*both, parted, free, sliced], said)
    assert lines[0] == "| jobs | time slicing | MPS | MPS, 70 / 30 % |"
    assert lines[2] == "| a + b | 0.50 + 0.50 = 1.00 | 0.80 + 0.40 = 1.20 | 0.80 + 0.40 = 1.20 |"
    assert lines[-3:] == [
        "| time slicing | 1 | 1.00 | 0.90 | 0.10 | 0.50 | 0.40 | 0.05 |",
        "| MPS | 1 | 1.20 | 1.30 | 0.10 | 0.40 | 0.30 | 0.15 |",
        "| MPS, 70 / 30 % | 1 | 1.20 | 1.20 | 0.00 | 0.40 | 0.40 | 0.00 |",
    ]


def test_simulated_results_say_so_and_gpu_models_are_not_mixed() -> None:
    assert "NVIDIA-H200 (**simulated**, 1 of them), driver 580" in tables.conditions([result("a", simulated=True)])
    with pytest.raises(ValueError, match="results of NVIDIA-H200, Tesla-T4: give those of one GPU model"):
        tables.conditions([result("a"), result("a", gpuModel="Tesla-T4")])
    with pytest.raises(ValueError, match="results of no GPU"):
        tables.conditions([])


def test_what_is_kept_of_a_real_gpu_makes_both_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert jobs.main([str(KEPT)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("NVIDIA-H200 (real, 2 of them), driver 580.159.04")
    assert printed.count("| resnet50-128 ") == 5
    assert "| time slicing | 8 |" in printed
