"""Each way of the case study on the same jobs, and what it came to."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant_api import packingpolicy, prediction
from cotenant_extender.packing import policies
from cotenant_predictor import devices
from cotenant_predictor.colocation import speeds
from cotenant_simulator.engine import conditions, history, interference, jobs, world
from cotenant_simulator.horus import bounds, population, published, settings
from cotenant_simulator.twin import sites


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Of one run; seconds, percent, and slowdowns of which 0 is none."""

    utilization_percent: float
    makespan_seconds: float
    run_seconds: float
    completion_seconds: float
    slowdown_median: float
    slowdown_worst: float
    out_of_memory: int
    failed: int


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run.

    Attributes:
        figures: what it came to.
        bounds: what no schedule of its jobs can beat.
        history: all that happened.
    """

    figures: Figures
    bounds: bounds.Bounds
    history: history.History

    @property
    def work_percent(self) -> float:
        """Time that the jobs' kernels take alone, of all GPU time: what is done, not how long it keeps GPUs busy."""
        return 100 * self.bounds.busy_seconds / (self.bounds.gpus * self.figures.makespan_seconds)


@dataclass(frozen=True, kw_only=True)
class Result:
    """One setting's runs, by seed."""

    setting: settings.Setting
    runs: Mapping[int, Run]


def jobs_of(
    setting: settings.Setting, mix: Mapping[str, prediction.Prediction], *, seed: int, assumed: population.Assumed
) -> Sequence[jobs.Job]:
    """Return the jobs of one run; but for their priorities those of every setting."""
    given = population.drawn(mix, seed=seed, sigma=assumed.sigma)
    given = population.arriving(given, seed=seed, seconds=assumed.arrival_seconds)
    if setting.classes is None:
        return given
    return population.in_classes(given, setting.classes, seed=seed, sigma=assumed.estimate_sigma)


def run(
    setting: settings.Setting,
    mix: Mapping[str, prediction.Prediction],
    model: speeds.SpeedModel,
    *,
    seed: int,
    assumed: population.Assumed,
) -> Run:
    """One run; the same arguments give the same history."""
    given = jobs_of(setting, mix, seed=seed, assumed=assumed)
    found = played(setting, given, model, gpus=published.GPUS)
    return Run(figures=figures(found), bounds=bounds.of(given, gpus=published.GPUS), history=found)


def played(
    setting: settings.Setting, given: Sequence[jobs.Job], model: speeds.SpeedModel, *, gpus: int
) -> history.History:
    """Return what happens with these jobs on so many GPUs."""
    (device,) = devices.select([published.GPU_MODEL])
    spec = packingpolicy.Spec.model_validate(setting.packing)
    # The study evicts nobody for another: the minimum run times of its jobs count as long as they are.
    queue = spec.queue.model_copy(update={"max_minimum_run_seconds": population.NEVER})
    spec = spec.model_copy(update={"queue": queue})
    made = world.World(
        sites.alike(gpus, gpus=1, model=published.GPU_MODEL, memory_mib=device.memory_mib),
        given,
        way=setting.way,
        policy=policies.InForce(packingpolicy.PackingPolicy(generation=1, spec=spec)),
        speeds=interference.Interference(model, setting.mechanism),
    )
    return made.run(under=conditions.Conditions(spans=True))


def figures(found: history.History) -> Figures:
    """Return what a run came to. Jobs that failed count among no times."""
    done = [life for life in found.lives if life.ended is not None]
    return Figures(
        utilization_percent=found.utilization_percent,
        makespan_seconds=found.makespan_seconds,
        run_seconds=statistics.fmean(life.ran for life in done),
        completion_seconds=statistics.fmean((life.ended or 0.0) - life.arrived for life in done),
        slowdown_median=statistics.median(life.slowdown for life in done),
        slowdown_worst=max(life.slowdown for life in done),
        out_of_memory=sum(life.out_of_memory for life in found.lives),
        failed=sum(life.failed for life in found.lives),
    )
