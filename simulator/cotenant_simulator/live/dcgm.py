"""What dcgm-exporter's metrics say of pods, from answers of the Prometheus API. Pure.

Labels are those of dcgm-exporter: `namespace` and `pod` of the pod that has the GPU, which Prometheus renames to
`exported_namespace` and `exported_pod` where its own labels win (`honorLabels: false`). Series without them are of GPUs
that nobody had. `DCGM_FI_PROF_GR_ENGINE_ACTIVE` (0..1) is preferred to `DCGM_FI_DEV_GPU_UTIL` (percent), which samples.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, overload

from cotenant_api import documents, errors
from cotenant_simulator.live import snapshot

ENGINE: Final = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
UTILIZATION: Final = "DCGM_FI_DEV_GPU_UTIL"
SM_ACTIVE: Final = "DCGM_FI_PROF_SM_ACTIVE"
DRAM_ACTIVE: Final = "DCGM_FI_PROF_DRAM_ACTIVE"
MEMORY: Final = "DCGM_FI_DEV_FB_USED"
"""MiB."""
SCALES: Final[Mapping[str, float]] = MappingProxyType(
    {ENGINE: 100.0, UTILIZATION: 1.0, SM_ACTIVE: 100.0, DRAM_ACTIVE: 100.0, MEMORY: 1.0}
)
"""By metric: what makes percent or MiB of it."""
METRICS: Final = tuple(SCALES)

Owner = tuple[str, str]


class _Series(NamedTuple):
    """Of one GPU: values in time, of which one may stand for all."""

    owner: Owner
    values: Sequence[float]


def query(metric: str, *, seconds: int) -> str:
    """Return what is asked of a metric: its mean over time, and its peak of memory."""
    return f"{'max' if metric == MEMORY else 'avg'}_over_time({metric}[{seconds}s])"


def usage(answers: Mapping[str, Any], *, source: str) -> tuple[snapshot.Usage, ...]:
    """Return what each pod used, by namespace and name.

    Args:
        answers: of `/api/v1/query` (a vector) or `/api/v1/query_range` (a matrix), by metric; at least one of those
            that tell utilization.
        source: for the message of an error.

    Raises:
        InvalidInputError: an answer is none of Prometheus, or a metric is not known.
    """
    for name in answers:
        if name not in SCALES:
            raise errors.InvalidInputError(source, name, f"must be one of {', '.join(METRICS)}")
    if ENGINE not in answers and UTILIZATION not in answers:
        raise errors.InvalidInputError(source, sorted(answers), f"must hold an answer for {ENGINE} or {UTILIZATION}")
    found = {name: _by_owner(name, answer, source=f"{source}.{name}") for name, answer in answers.items()}
    busy = {**found.get(UTILIZATION, {}), **found.get(ENGINE, {})}
    active, dram, memory = (found.get(name, {}) for name in (SM_ACTIVE, DRAM_ACTIVE, MEMORY))
    return tuple(
        documents.validated(
            snapshot.Usage,
            {
                "namespace": owner[0],
                "pod": owner[1],
                "utilizationPercent": _percent(percent),
                "smActivityPercent": _percent(active.get(owner)),
                "dramActivityPercent": _percent(dram.get(owner)),
                "memoryPeakMiB": None if owner not in memory else math.ceil(memory[owner]),
            },
            source=f"{source}[{errors.shortened('/'.join(owner))}]",
        )
        for owner, percent in sorted(busy.items())
    )


@overload
def _percent(value: float) -> float: ...
@overload
def _percent(value: float | None) -> float | None: ...
def _percent(value: float | None) -> float | None:
    return None if value is None else min(100.0, max(0.0, round(value, 2)))


def _by_owner(metric: str, answer: Any, *, source: str) -> Mapping[Owner, float]:
    """Return the mean over a pod's GPUs, or the peak of one."""
    found: dict[Owner, list[float]] = defaultdict(list)
    for series in _series(answer, source=source):
        values = [value * SCALES[metric] for value in series.values if math.isfinite(value)]
        if values:
            found[series.owner].append(max(values) if metric == MEMORY else sum(values) / len(values))
    return {owner: max(values) if metric == MEMORY else sum(values) / len(values) for owner, values in found.items()}


def _series(answer: Any, *, source: str) -> Iterator[_Series]:
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, dict) or answer.get("status") != "success" or not isinstance(data.get("result"), list):
        remedy = "must be an answer of Prometheus' /api/v1/query or /api/v1/query_range with status success"
        raise errors.InvalidInputError(source, answer, remedy)
    for number, item in enumerate(data["result"]):
        try:
            labels = item["metric"]
            points = item["values"] if "values" in item else [item["value"]]
            values = [float(value) for _, value in points]
            owner = _owner(labels)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            remedy = f"must have the keys metric and value (or values) of a Prometheus answer: {error!r}"
            raise errors.InvalidInputError(f"{source}.data.result[{number}]", item, remedy) from error
        if owner is not None:
            yield _Series(owner, values)


def _owner(labels: Mapping[str, Any]) -> Owner | None:
    for prefix in ("exported_", ""):
        namespace, pod = labels.get(f"{prefix}namespace"), labels.get(f"{prefix}pod")
        if namespace and pod:
            if not (isinstance(namespace, str) and isinstance(pod, str)):
                raise TypeError(f"labels {prefix}namespace and {prefix}pod must be texts")
            return namespace, pod
    return None
