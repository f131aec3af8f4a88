"""From results to lines of the measurement document, one for each tenant of a run. Pure; standard library only.

Speeds are relative to the same job alone, measured in the same campaign. What NVML says of the whole GPU is a job's own
figure only where the job was alone; beside others it is null, with the GPU's figure in the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import measured, statistics

_OF_GPU = ("utilization", "memoryUtilization", "smActivity", "dramActivity", "powerWatts")
_VALUES = (
    *_OF_GPU,
    "memoryPeakMiB",
    "stepMilliseconds",
    "normalizedSpeed",
    "turnaroundMilliseconds",
    "hostToDeviceMilliseconds",
    "longKernelShare",
    "largeKernelShare",
)
_NO_WINDOW_STEP = "no step lay wholly within the window"


class MissingGraphError(Exception):
    """A measured job has no graph document; the message names it."""


@dataclasses.dataclass(frozen=True)
class Lines:
    """Documents: of runs at full speed, and of inference that answered requests, which is another thing."""

    measurements: tuple[dict[str, Any], ...]
    requests: tuple[dict[str, Any], ...]


def lines(results: Sequence[Mapping[str, Any]], digests: Mapping[str, str]) -> Lines:
    """Return the documents of all results, by id. `digests`: of the jobs' graphs.

    Raises:
        MissingGraphError: a job is not among `digests`.
    """
    alone = measured.alone_of(results)
    found: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    for result in sorted(results, key=lambda result: str(result["id"])):
        asked = any(tenant["load"] != "Steps" for tenant in result["run"]["tenants"])
        for index in range(len(result["tenants"])):
            found[asked].append(line(result, index, digests=digests, alone=alone))
    return Lines(tuple(found[0]), tuple(found[1]))


def line(
    result: Mapping[str, Any], index: int, *, digests: Mapping[str, str], alone: Mapping[str, measured.Alone]
) -> dict[str, Any]:
    """Return the document of one tenant."""
    planned, row = result["run"]["tenants"][index], result["tenants"][index]
    values, reasons = _values(result, index, alone)
    job = result["jobs"][planned["job"]]
    return {
        "v": 1,
        "id": result["id"],
        "group": job["group"],
        "family": job["family"],
        "name": job["name"],
        "stage": result["run"]["stage"],
        "load": planned["load"],
        "graph": _digest(planned["job"], digests),
        "gpuModel": result["gpuModel"],
        "mechanism": result["run"]["mechanism"],
        "threadPercentage": planned["thread_percentage"],
        "clientPriority": planned["client_priority"],
        "memoryLimitMiB": row["memoryLimitMiB"],
        "coTenants": [
            {"graph": _digest(other["job"], digests), "threadPercentage": other["thread_percentage"]}
            for place, other in enumerate(result["run"]["tenants"])
            if place != index
        ],
        "repeat": result["run"]["repeat"],
        "durationSeconds": result["durationSeconds"],
        "outcome": row["outcome"],
        "simulated": result["simulated"],
        "values": values,
        "kernels": result.get("profile", {}).get("kernels", []),
        "reasons": reasons,
        "environment": result["environment"],
    }


def noise_floor(results: Iterable[Mapping[str, Any]]) -> dict[str, float] | None:
    """Relative standard deviation of the speed over repeats of the same run: what no prediction can be better than."""
    found: dict[str, list[float]] = {}
    for result in results:
        if result["outcome"] == "Ok":
            for index, row in enumerate(result["tenants"]):
                run = {**result["run"], "repeat": 0}
                found.setdefault(f"{run}{index}", []).append(row["stepsPerSecond"])
    return statistics.noise_floor(found.values())


def _values(
    result: Mapping[str, Any], index: int, alone: Mapping[str, measured.Alone]
) -> tuple[dict[str, Any], dict[str, str]]:
    row, profile = result["tenants"][index], result.get("profile", {})
    if row["outcome"] != "Ok":
        reason = f"{row['outcome']}: {row['error']}"[:256]
        return dict.fromkeys(_VALUES), dict.fromkeys(_VALUES, reason)
    values: dict[str, Any] = {**dict.fromkeys(_VALUES), **{key: row[key] for key in _VALUES if key in row}}
    values.update({key: profile.get(key) for key in ("longKernelShare", "largeKernelShare")})
    reasons = {
        "memoryPeakMiB": "not told apart from the co-tenant's in the same process",
        "stepMilliseconds": _NO_WINDOW_STEP,
        "turnaroundMilliseconds": "the job answered no requests",
        "hostToDeviceMilliseconds": "no copy was timed",
        **dict.fromkeys(("longKernelShare", "largeKernelShare"), _of_kernels(profile)),
    }
    for key in _OF_GPU:
        values[key], reasons[key] = _of_gpu(result, key)
    values["normalizedSpeed"], reasons["normalizedSpeed"] = _speed(result, index, alone)
    return values, {key: reasons[key] for key in _VALUES if values[key] is None}


def _of_gpu(result: Mapping[str, Any], key: str) -> tuple[Any, str]:
    read = result["gpu"][key]
    if read is None:
        return None, str(result["gpu"]["reasons"].get(key, "not read"))
    if len(result["tenants"]) > 1:
        return None, f"of the whole GPU while shared: {read:.1f}"
    return read, ""


def _of_kernels(profile: Mapping[str, Any]) -> str:
    unknown = "kernels are listed once, with the job's first run alone"
    return str(profile.get("reasons", {}).get("kernels", unknown))


def _speed(result: Mapping[str, Any], index: int, alone: Mapping[str, measured.Alone]) -> tuple[float | None, str]:
    planned, row = result["run"]["tenants"][index], result["tenants"][index]
    if planned["load"] == "Poisson":
        return None, "the requests decide how many are answered: see turnaroundMilliseconds"
    if planned["load"] == "SingleStream":
        return None, "answered one by one: see turnaroundMilliseconds, and the same without co-tenant"
    if any(other["outcome"] != "Ok" for other in result["tenants"]):
        return None, "a co-tenant did not run throughout"
    if not all(other["overlapped"] for other in result["tenants"]):
        return None, "not all tenants ran throughout the window"
    if planned["job"] not in alone:
        return None, "the job was not measured alone"
    return round(row["stepsPerSecond"] / alone[planned["job"]].steps_per_second, 6), ""


def _digest(job: str, digests: Mapping[str, str]) -> str:
    if job not in digests:
        raise MissingGraphError(f"{job} has no graph document: extract it with torch (`cotenant profile graphs`)")
    return digests[job]
