"""Tables of measured jobs: alone beside what was predicted of them, and together under each mechanism. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Results = Sequence[Mapping[str, Any]]
_BOLD = "**{}**"
_BOUNDED = ("utilization", "SM activity", "memory")


@dataclasses.dataclass(frozen=True)
class Predicted:
    """Of one job on the GPU of the results: milliseconds, percent, MiB; `..._upper`: what would be booked."""

    step_milliseconds: float
    utilization: float
    utilization_upper: float
    sm_activity: float
    sm_activity_upper: float
    memory_mib: float
    memory_upper: float


def conditions(results: Results) -> str:
    """One line: on what, with what, when.

    Raises:
        ValueError: there are no results, or they are of several GPU models.
    """
    models = sorted({str(result["gpuModel"]) for result in results})
    if len(models) != 1:
        raise ValueError(f"results of {', '.join(models) or 'no GPU'}: give those of one GPU model")
    latest = max(results, key=lambda result: str(result["time"]))
    cards = len({str(result["gpuUUID"]) for result in results})
    environment, day = latest["environment"], str(latest["time"])[:10]
    kind = "**simulated**" if any(result["simulated"] for result in results) else "real"
    return (
        f"{models[0]} ({kind}, {cards} of them), driver {environment['driver']}, CUDA {environment['cuda']}, torch "
        f"{environment['torch']}, {environment['cpu']}; {day}, {len(results)} runs of "
        f"{latest['settings']['windowSeconds']:g} s."
    )


def alone(results: Results, predicted: Mapping[str, Predicted]) -> list[str]:
    """Return a row for each job, the first of its repeats; what is above its upper bound is bold."""
    heads = ["job"]
    for what in ("step, ms", "utilization, %", "SM activity, %", "memory, MiB"):
        heads += [what, "predicted"]
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    rows, above, bounded = _alone(results), dict.fromkeys(_BOUNDED, 0), dict.fromkeys(_BOUNDED, 0)
    for name, result in sorted(rows.items()):
        said, gpu, tenant = predicted[name], result["gpu"], result["tenants"][0]
        seen = (
            ("utilization", gpu["utilization"], said.utilization, said.utilization_upper),
            ("SM activity", gpu["smActivity"], said.sm_activity, said.sm_activity_upper),
            ("memory", tenant["memoryPeakMiB"], said.memory_mib, said.memory_upper),
        )
        cells = [f"{tenant['stepMilliseconds']['mean']:.2f}", f"{said.step_milliseconds:.2f}"]
        for what, value, median, upper in seen:
            above[what] += value > upper
            bounded[what] += what == "memory" or upper < 100  # nothing is above a bound of 100 %
            cells += [_BOLD.format(f"{value:.0f}") if value > upper else f"{value:.0f}", f"{median:.0f} < {upper:.0f}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    told = ", ".join(f"{what} of {above[what]} of {bounded[what]} jobs" for what in _BOUNDED)
    return [*lines, "", f"Above an upper bound (bold), where that is below 100 %: {told}."]


def pairs(results: Results) -> Iterator[Mapping[str, Any]]:
    """Of runs of two jobs that went well, the first of each."""
    for result in results:
        if len(result["run"]["tenants"]) == 2 and not result["run"]["repeat"] and result["outcome"] == "Ok":
            yield result


def together(results: Results, predicted: Mapping[str, Sequence[float]]) -> list[str]:
    """Return a row for each pair.

    Both speeds against the job alone and their sum, under each mechanism that was measured.

    Below it, for each mechanism, over the pairs that were measured under it. `predicted`: both speeds, by a run's id.
    """
    usual = {name: float(row["tenants"][0]["stepsPerSecond"]) for name, row in _alone(results).items()}
    found: dict[tuple[str, ...], dict[str, Sequence[float]]] = {}
    said: dict[str, list[tuple[Sequence[float], Sequence[float]]]] = {}
    for result in pairs(results):
        names = tuple(str(tenant["job"]) for tenant in result["run"]["tenants"])
        rates = zip(names, result["tenants"], strict=True)
        speeds = [float(row["stepsPerSecond"]) / usual[name] for name, row in rates]
        found.setdefault(names, {})[_mechanism(result["run"])] = speeds
        said.setdefault(_mechanism(result["run"]), []).append((speeds, predicted[result["id"]]))
    heads = sorted({head for cells in found.values() for head in cells}, key=_place)
    lines = ["| jobs | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    for names, cells in sorted(found.items()):
        lines.append(f"| {' + '.join(names)} | " + " | ".join(_sum(cells.get(head)) for head in heads) + " |")
    return [*lines, "", *_means({head: said[head] for head in heads})]


def _sum(speeds: Sequence[float] | None) -> str:
    return "" if speeds is None else f"{speeds[0]:.2f} + {speeds[1]:.2f} = {sum(speeds):.2f}"


def _means(rows: Mapping[str, Sequence[tuple[Sequence[float], Sequence[float]]]]) -> list[str]:
    heads = ("mean of the sums", "predicted", "mean error of a sum", "the slowest job", "predicted")
    lines = [f"| | pairs | {' | '.join(heads)} | mean error of one job's speed |", "|---|" + "---:|" * (len(heads) + 2)]
    for head, both in rows.items():
        count, (seen, said) = len(both), zip(*both, strict=True)
        errors = [abs(one - other) for row in both for one, other in zip(*row, strict=True)]
        sums = (f"{sum(map(sum, speeds)) / count:.2f}" for speeds in (seen, said))
        off = sum(abs(sum(one) - sum(other)) for one, other in both) / count
        slowest = (f"{min(map(min, speeds)):.2f}" for speeds in (seen, said))
        cells = [head, str(count), *sums, f"{off:.2f}", *slowest, f"{sum(errors) / len(errors):.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _alone(results: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {
        str(result["run"]["tenants"][0]["job"]): result
        for result in results
        if result["run"]["stage"] == "alone" and not result["run"]["repeat"] and result["outcome"] == "Ok"
    }


def _mechanism(run: Mapping[str, Any]) -> str:
    limits = [tenant["thread_percentage"] for tenant in run["tenants"]]
    if run["mechanism"] == "TimeSlicing":
        return "time slicing"
    return "MPS" if limits == [None, None] else "MPS, " + " / ".join(f"{limit}" for limit in limits) + " %"


def _place(head: str) -> tuple[bool, bool, str]:
    """Time slicing first, then MPS without limits."""
    return (head != "time slicing", head != "MPS", head)
