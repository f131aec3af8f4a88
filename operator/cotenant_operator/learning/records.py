"""Measurements from what agents tell of a DLJob's pods. Pure.

A line is about one pod. Utilization is known only of time in which the pod had its GPU to itself, so a line names no
co-tenants: its memory peak is of the whole run, its utilization of `durationSeconds` alone.
"""

from collections.abc import Container, Iterable
from typing import Final

from cotenant_api import gpunode, measurement, placement
from cotenant_api.names import GPUModel, GraphDigest
from cotenant_operator.state import views
from cotenant_operator.state.carried import Cause
from cotenant_operator.state.observed import GPU, Observed

SECONDS: Final = gpunode.MEASURED_SECONDS
UNKNOWN: Final = "unknown"
_NO_OUTCOME: Final = frozenset(
    {Cause.NEVER_STARTED, Cause.DISRUPTED, Cause.SUSPENDED, Cause.VICTIM_OF_FAULT, Cause.HOST_OUT_OF_MEMORY}
)
"""Ends of an attempt that say nothing about the job on a GPU."""
_NOT_SEEN: Final = "no agent sees it"
_NOT_ALONE: Final = f"not {SECONDS} s alone on the GPU"
_NO_PEAK: Final = "no memory was seen in use"


def of(observed: Observed, *, known: Container[str]) -> tuple[measurement.Measurement, ...]:
    """Return a line for each pod whose run has ended, and for each replica of an inference job that was measured.

    Args:
        observed: the DLJob.
        known: UIDs of pods that have a line already.
    """
    pods = [pod for pod in observed.pods if pod.meta.uid not in known]
    if not pods:
        return ()
    current = observed.current_job
    if current is not None:
        if current.graph is None or not current.finished:
            return ()
        if current.ended is not None and current.ended.cause in _NO_OUTCOME:
            return ()
        own = [pod for pod in pods if pod.meta.owner_uid == current.meta.uid]
        ends = [(pod, _outcome(pod, current)) for pod in own]
        return _lines(observed, ends, graph=current.graph)
    deployment = observed.deployment
    grant = None if deployment is None else deployment.grant
    if grant is None or grant.graph is None:
        return ()
    found = _lines(observed, [(pod, measurement.Outcome.OK) for pod in pods], graph=grant.graph)
    return tuple(line for line in found if line.values.utilization is not None)


def _lines(
    observed: Observed, ends: Iterable[tuple[views.Pod, measurement.Outcome | None]], *, graph: GraphDigest
) -> tuple[measurement.Measurement, ...]:
    found = (None if end is None else _line(observed, pod, end, graph=graph) for pod, end in ends)
    return tuple(line for line in found if line is not None)


def _outcome(pod: views.Pod, current: views.Job) -> measurement.Outcome | None:
    """Return how the pod's run ended; None where that says nothing about the job."""
    if pod.phase == "Succeeded" or (current.ended is not None and current.ended.cause is Cause.PROFILED):
        return measurement.Outcome.OK
    end = pod.end
    if end is None or not end.started or end.disrupted is not None or end.host_killed is not None:
        return None
    return measurement.Outcome.CRASHED if end.out_of_memory is None else measurement.Outcome.OUT_OF_MEMORY


def _line(
    observed: Observed, pod: views.Pod, outcome: measurement.Outcome, *, graph: GraphDigest
) -> measurement.Measurement | None:
    """None where the pod has not exactly one GPU, or its agent tells nothing of it any more."""
    if pod.placement is None or len(pod.placement.gpus) != 1:
        return None
    booked, seen = pod.placement.gpus[0], observed.gpus.get(pod.placement.gpus[0].uuid)
    entry = None if seen is None else next(iter(seen.told_of((views.pod_uid(pod),))), None)
    if seen is None or seen.seen is None or entry is None:
        return None
    whole = pod.placement.backend is placement.Backend.WHOLE
    values, reasons = _values(entry)
    return measurement.Measurement(
        id=pod.meta.uid,
        group=str(graph),
        graph=graph,
        gpu_model=GPUModel(seen.seen.model),
        mechanism=measurement.Mechanism.ALONE if whole else measurement.Mechanism.MPS,
        thread_percentage=None if whole else booked.active_thread_percentage,
        memory_limit_mib=None if whole else booked.memory_mib,
        duration_seconds=float(entry.alone_seconds or 0),
        outcome=outcome,
        simulated=seen.simulated,
        values=values,
        reasons=reasons,
        environment=_environment(seen, pod),
    )


def _values(entry: gpunode.Tenant | gpunode.Ended) -> tuple[measurement.Values, dict[str, str]]:
    alone = (entry.alone_seconds or 0) >= SECONDS and entry.alone_utilization_percent is not None
    utilization = float(entry.alone_utilization_percent or 0) if alone else None
    values = measurement.Values(utilization=utilization, memory_peak_mib=entry.memory_peak_mib or None)
    why = {"utilization": _NOT_ALONE, "memoryPeakMiB": _NO_PEAK}
    missing = (name for name, value in values.model_dump(by_alias=True).items() if value is None)
    return values, {name: why.get(name, _NOT_SEEN) for name in missing}


def _environment(seen: GPU, pod: views.Pod) -> measurement.Environment:
    """Return what the GPUNode and the pod tell; what runs inside of the pod they do not."""
    return measurement.Environment(
        driver=seen.driver or UNKNOWN,
        cuda=seen.cuda or UNKNOWN,
        torch=UNKNOWN,
        cpu=UNKNOWN,
        commit=f"pod {pod.meta.key.name}",
    )
