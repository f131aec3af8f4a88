"""The published observations about sharing mechanisms (Gilman and Walls 2021), as yes or no on what was measured. Pure.

O1: priority streams do not preempt running blocks: turnaround of requests beside training is higher, less predictable.
O2: time slicing is predictable for short requests unless transfers contend, at the price of utilization: of all
    mechanisms its turnaround varies least, and training is slowest.
O5: MPS uses the GPU better than time slicing, but both jobs take longer than alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

MARGIN = 1.05
"""Beyond this ratio something counts as longer: below it lies noise."""


def rows(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each observation, pair of jobs and kind of requests.

    `holds` is None where a measurement is missing.
    """
    training, serving, mixed = _sorted_out(results)
    found = []
    for (server, trainer, load), by_mechanism in sorted(mixed.items()):
        figures = {
            "alone": serving.get((server, load)),
            "trainingAlone": training.get(trainer),
            **by_mechanism,
        }
        for name, judge in (("O1", _priority_streams), ("O2", _time_slicing), ("O5", _mps)):
            found.append(
                {
                    "observation": name,
                    "serving": server,
                    "training": trainer,
                    "load": load,
                    "holds": judge(figures),
                    "figures": figures,
                }
            )
    return found


def _sorted_out(results: Iterable[Mapping[str, Any]]) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any]]:
    training: dict[str, float] = {}
    serving: dict[tuple[str, str], Any] = {}
    mixed: dict[tuple[str, str, str], dict[str, Any]] = {}
    for result in results:
        tenants, run = result["tenants"], result["run"]
        if result["outcome"] != "Ok":
            continue
        if run["stage"] == "alone":
            training[tenants[0]["job"]] = tenants[0]["stepsPerSecond"]
        elif run["stage"] == "compare" and len(tenants) == 1:
            serving[tenants[0]["job"], run["tenants"][0]["load"]] = _figures(tenants[0])
        elif run["stage"] == "compare":
            key = (tenants[0]["job"], tenants[1]["job"], run["tenants"][0]["load"])
            figures = {**_figures(tenants[0]), "trainingStepsPerSecond": tenants[1]["stepsPerSecond"]}
            mixed.setdefault(key, {})[run["mechanism"]] = figures
    return training, serving, mixed


def _figures(row: Mapping[str, Any]) -> dict[str, Any]:
    times = row["turnaroundMilliseconds"]
    return {
        **times,
        "variance": times["std"] ** 2,
        "relativeStd": times["std"] / times["mean"],
        "hostToDeviceMilliseconds": row["hostToDeviceMilliseconds"],
    }


def _priority_streams(figures: Mapping[str, Any]) -> bool | None:
    alone, streams = figures["alone"], figures.get("PriorityStreams")
    if alone is None or streams is None:
        return None
    return bool(streams["mean"] > MARGIN * alone["mean"] and streams["std"] > alone["std"])


def _time_slicing(figures: Mapping[str, Any]) -> bool | None:
    others = [figures.get("PriorityStreams"), figures.get("MPS")]
    slicing = figures.get("TimeSlicing")
    if slicing is None or None in others:
        return None
    steadier = all(slicing["relativeStd"] <= other["relativeStd"] for other in others if other)
    slower = all(slicing["trainingStepsPerSecond"] < other["trainingStepsPerSecond"] for other in others if other)
    return bool(steadier and slower)


def _mps(figures: Mapping[str, Any]) -> bool | None:
    alone, training = figures["alone"], figures["trainingAlone"]
    mps, slicing = figures.get("MPS"), figures.get("TimeSlicing")
    if alone is None or training is None or mps is None or slicing is None:
        return None
    better = mps["trainingStepsPerSecond"] > MARGIN * slicing["trainingStepsPerSecond"]
    longer = mps["mean"] > MARGIN * alone["mean"] and training > MARGIN * mps["trainingStepsPerSecond"]
    return bool(better and longer)
