"""Results as a campaign writes them, for tests of what is made of them."""

from collections.abc import Sequence
from typing import Any

from cotenant_predictor.profiling import plan, sets

JOBS = {job.name: job for job in sets.smoke().jobs}
DIGESTS = {name: "sha256:" + f"{number:064x}" for number, name in enumerate(JOBS)}
GPU = {"utilization": 80.0, "memoryUtilization": 30.0, "smActivity": None, "dramActivity": 12.0, "powerWatts": 400.0}


def tenant(job: str, rate: float, **more: Any) -> dict[str, Any]:
    """A tenant's row of a run that went well."""
    times = {"mean": 1000 / rate, "p50": 1000 / rate, "p99": 1100 / rate, "std": 10 / rate}
    row: dict[str, Any] = {
        "job": job,
        "outcome": "Ok",
        "error": None,
        "overlapped": True,
        "stepsPerSecond": rate,
        "stepMilliseconds": times,
        "hostToDeviceMilliseconds": 0.1,
        "turnaroundMilliseconds": None,
        "turnarounds": [],
        "memoryPeakMiB": 1000,
        "memoryLimitMiB": None,
    }
    return {**row, **more}


def result(run: plan.Run, tenants: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """The result of a run with these tenants."""
    outcomes = [row["outcome"] for row in tenants]
    complete = {
        "v": 1,
        "id": run.id,
        "run": run.to_object(),
        "jobs": {row["job"]: JOBS[row["job"]].to_object() for row in tenants},
        "gpuModel": "NVIDIA-H200",
        "gpuUUID": "GPU-1",
        "simulated": True,
        "outcome": next((outcome for outcome in outcomes if outcome != "Ok"), "Ok"),
        "durationSeconds": 5.0,
        "tenants": list(tenants),
        "gpu": {**GPU, "reasons": {"smActivity": "GPM counters: Insufficient Permissions"}},
        "environment": {"driver": "1", "cuda": "13.0", "torch": "2", "cpu": "x", "commit": "c"},
    }
    return {**complete, **more}


def first(stage: str, **wanted: Any) -> plan.Run:
    """The first run of a stage whose fields are as wanted."""
    runs = plan.runs(sets.smoke(), [stage])
    return next(run for run in runs if all(getattr(run, key) == value for key, value in wanted.items()))
