"""How far off predictions were: predicted beside observed, where a job had its GPU to itself. Pure.

NVML does not tell the processes of a shared GPU apart, so that there is no other observation of one job.
"""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from cotenant_api import documents, gpunode
from cotenant_cli.reading import objects
from cotenant_cli.views import usage

SHOWN: Final = 200
"""Rows at most; the summary is of all."""


class Measured(documents.Model):
    """One job on one GPU model; percent of the GPU. `enough`: it was alone for so long that it counts as measured."""

    namespace: str
    job: str
    gpu_model: str | None
    predicted_percent: float
    upper_percent: float
    observed_percent: int
    alone_seconds: int
    source: str | None

    @property
    def error(self) -> float:
        """Points by which it was predicted too high."""
        return self.predicted_percent - self.observed_percent

    @property
    def enough(self) -> bool:
        """Whether it was alone for so long that the operator takes it for measured."""
        return self.alone_seconds >= gpunode.MEASURED_SECONDS


def of_tenants(gpus: Iterable[usage.GPU]) -> Iterator[Measured]:
    """Of pods that are on a GPU now."""
    for gpu in gpus:
        for tenant in gpu.tenants:
            seen, known = tenant.observed, tenant.predicted
            if known is None or seen is None or seen.alone_utilization_percent is None:
                continue
            yield Measured(
                namespace=tenant.namespace,
                job=tenant.dljob or tenant.pod,
                gpu_model=gpu.model,
                predicted_percent=known.utilization_percent,
                upper_percent=known.upper_percent,
                observed_percent=seen.alone_utilization_percent,
                alone_seconds=seen.alone_seconds or 0,
                source=known.source,
            )


def of_dljob(job: objects.DLJob) -> Measured | None:
    """Return what its operator says, also when it is over."""
    known, seen = job.status.prediction, job.status.observed
    if known is None or seen is None or seen.gpu_utilization_percent is None:
        return None
    if known.utilization_percent is None or known.upper_percent is None:
        return None
    return Measured(
        namespace=job.namespace,
        job=job.name,
        gpu_model=known.gpu_model,
        predicted_percent=known.utilization_percent,
        upper_percent=known.upper_percent,
        observed_percent=seen.gpu_utilization_percent,
        alone_seconds=seen.alone_seconds or 0,
        source=known.source,
    )


def part(live: Iterable[Measured], told: Iterable[Measured]) -> dict[str, Any]:
    """Return the part of the page; what is observed live goes before what a DLJob says of itself."""
    known = {(one.namespace, one.job): one for one in told} | {(one.namespace, one.job): one for one in live}
    rows = sorted(known.values(), key=lambda one: (not one.enough, -abs(one.error), one.namespace, one.job))
    enough = [one for one in rows if one.enough]
    return {
        "summary": _summary(enough),
        "jobs": len(rows),
        "leastSeconds": gpunode.MEASURED_SECONDS,
        "rows": [one.to_object() | {"enough": one.enough} for one in rows[:SHOWN]],
    }


def _summary(rows: Sequence[Measured]) -> dict[str, Any] | None:
    if not rows:
        return None
    return {
        "jobs": len(rows),
        "medianAbsolutePoints": round(statistics.median(abs(one.error) for one in rows), 1),
        "meanPoints": round(statistics.fmean(one.error for one in rows), 1),
        "withinUpper": sum(one.observed_percent <= one.upper_percent for one in rows),
    }
