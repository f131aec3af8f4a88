"""Each policy on the same services, requests and training jobs, and what it came to."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from cotenant_api import errors, packingpolicy
from cotenant_extender.packing import policies
from cotenant_predictor.colocation import speeds
from cotenant_predictor.trees import Array
from cotenant_simulator.engine import interference
from cotenant_simulator.inference_mix import floor, population, serving
from cotenant_simulator.twin import sites

_NO_AUTOSCALER: Final = 86400


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setting:
    """One way to share the cluster.

    Attributes:
        packing: fields of the PackingPolicy that differ from those that ship.
        priorities: whether MPS client priorities are obeyed.
    """

    name: str
    packing: Mapping[str, Any] = field(default_factory=dict)
    priorities: bool = True


BASE: Final = "Exclusive"
"""What others are compared with."""
_BY_MEMORY: Final = {"placement": "MemoryOnly", "threadPartition": "None"}
"""As gpushare, which limits no threads."""

SETTINGS: Final[Sequence[Setting]] = (
    Setting(name=BASE, packing={"placement": "Exclusive"}),
    Setting(name="FirstFit (as shipped)"),
    Setting(name="FirstFit, no client priority", priorities=False),
    Setting(name="FirstFit, threadPartition None", packing={"threadPartition": "None"}),
    Setting(name="Interference", packing={"placement": "Interference"}),
    Setting(name="FirstFit, 150 %", packing={"maxUtilizationPercent": 150}),
    Setting(name="FirstFit, 150 %, no client priority", packing={"maxUtilizationPercent": 150}, priorities=False),
    Setting(name="SMActivity", packing={"metric": "SMActivity"}),
    Setting(name="Random", packing={"placement": "Random"}),
    Setting(name="MemoryOnly", packing=_BY_MEMORY),
    Setting(name="MemoryOnly, no client priority", packing=_BY_MEMORY, priorities=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one run. Latencies are of all requests of all services that were answered, the wait in their queue included.

    Attributes:
        p50_milliseconds, p99_milliseconds: latency.
        worst_p99_steps: of the slowest service, in its own steps alone.
        within_percent: requests answered within what their service promises.
        kept_percent: services that keep their promise: so many of their answers as it says are in time.
        service_wait_seconds: the longest that a service waited to be placed; None: one never was.
        training_hours: work done by training jobs, counted alone, without what evicted attempts did.
        evictions: of training jobs, for services.
        slowdown_mean_percent, slowdown_worst_percent: how much longer training jobs ran than what they did takes alone.
        training_wait_seconds: mean until it first ran, of those that did.
        occupied: mean number of GPUs in use.
        utilization_percent: mean over GPUs.
    """

    p50_milliseconds: float
    p99_milliseconds: float
    worst_p99_steps: float
    within_percent: float
    kept_percent: float
    service_wait_seconds: float | None
    training_hours: float
    evictions: int
    slowdown_mean_percent: float
    slowdown_worst_percent: float
    training_wait_seconds: float
    occupied: float
    utilization_percent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Of one setting and one seed.

    Attributes:
        figures: what it came to.
        quantiles: of latency in steps alone, at `LEVELS` of all requests.
    """

    figures: Figures
    quantiles: Sequence[float]


LEVELS: Final = tuple(round(1 - 10 ** (-step / 16), 6) for step in range(1, 65))
"""Up to 99.99 %, closer to each other where answers are rare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One setting's runs, by seed."""

    setting: Setting
    runs: Mapping[int, Run]


def run(
    setting: Setting, known: population.Mix, model: speeds.SpeedModel, scale: population.Scale, *, seed: int
) -> Run:
    """One run; the same arguments give the same figures.

    Raises:
        InvalidInputError: the time is too short for a single answer.
    """
    device = known.device
    spec = packingpolicy.Spec.model_validate({"queue": {"scaleUpAfterSeconds": _NO_AUTOSCALER}, **setting.packing})
    made = floor.Floor(
        sites.alike(scale.gpus, gpus=1, model=device.name, memory_mib=device.memory_mib),
        policies.InForce(packingpolicy.PackingPolicy(generation=1, spec=spec)),
        speeds=interference.Interference(model, interference.MPS),
        priorities=setting.priorities,
    )
    found = made.run(
        population.services(known, scale, seed=seed),
        population.trainings(known, scale, seed=seed),
        until=scale.seconds,
    )
    return _measured(found, scale, seed=seed)


def _measured(found: floor.Outcome, scale: population.Scale, *, seed: int) -> Run:
    answers = [_answered(life, number, scale, seed=seed) for number, life in enumerate(found.services)]
    served = [one for one in answers if len(one.seconds)]
    if not served:
        raise errors.InvalidInputError("--hours", scale.hours, "must be long enough that a service answers a request")
    seconds = np.concatenate([one.seconds for one in served])
    steps = np.concatenate([one.seconds / one.service.step_seconds for one in served])
    within = np.concatenate([one.seconds <= one.service.promised_seconds for one in served])
    kept = [_keeps(one) for one in served]
    p50, p99 = np.quantile(seconds, [0.5, 0.99]) * 1000
    ran = [life for life in found.trainings if life.started is not None]
    slower = [100 * (life.ran / (life.worked + life.lost) - 1) for life in ran if life.ran > 0]
    waits = [None if life.started is None else life.started - life.asked.arrives for life in found.services]
    figures = Figures(
        p50_milliseconds=float(p50),
        p99_milliseconds=float(p99),
        worst_p99_steps=max(float(np.quantile(one.seconds, 0.99)) / one.service.step_seconds for one in served),
        within_percent=100 * float(within.mean()),
        kept_percent=100 * statistics.fmean(kept),
        service_wait_seconds=None if None in waits else max(wait for wait in waits if wait is not None),
        training_hours=sum(life.worked for life in found.trainings) / 3600,
        evictions=sum(life.evictions for life in found.trainings),
        slowdown_mean_percent=statistics.fmean(slower) if slower else 0.0,
        slowdown_worst_percent=max(slower, default=0.0),
        training_wait_seconds=statistics.fmean(_waited(life) for life in ran) if ran else 0.0,
        occupied=found.occupied,
        utilization_percent=100 * found.utilization,
    )
    return Run(figures=figures, quantiles=tuple(float(value) for value in np.quantile(steps, LEVELS)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    """Latencies of one service's requests."""

    service: population.Service
    seconds: Array


def _answered(life: floor.Life, number: int, scale: population.Scale, *, seed: int) -> _Answers:
    """Answer requests from when the replica is there; those of the same service are the same under every setting."""
    service = life.asked
    if not isinstance(service, population.Service):
        raise TypeError(f"{service.name} answers no requests")
    times = serving.arrivals(service.batches_per_second, until=scale.seconds, seed=(seed, number))
    if life.started is None:
        return _Answers(service=service, seconds=times[:0])
    come = times[times >= life.started]
    return _Answers(service=service, seconds=serving.latencies(come, work=service.step_seconds, speeds=life.speeds))


def _keeps(answers: _Answers) -> bool:
    within = answers.seconds <= answers.service.promised_seconds
    return 100 * float(within.mean()) >= population.PERCENTILE


def _waited(life: floor.Life) -> float:
    return (life.started or 0.0) - life.asked.arrives
