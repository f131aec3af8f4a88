"""Each way of the case study on the same jobs, and what it came to."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cotenant_api import packingpolicy, prediction
from cotenant_extender.packing import policies
from cotenant_predictor import devices
from cotenant_predictor.colocation import speeds
from cotenant_simulator.engine import history, interference, ways, world
from cotenant_simulator.horus import population, published
from cotenant_simulator.twin import sites

TIME_SLICING: Final = "TimeSlicing"
_NEVER: Final = 604800
"""The longest wait that a policy can state: the study aged nobody."""
_NO_AUTOSCALER: Final = 86400


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One way to share the cluster.

    Attributes:
        mechanism: how jobs share a GPU, of `colocation.prior.RESOURCES`.
        packing: fields of the PackingPolicy that differ from those that ship.
    """

    name: str
    way: ways.Way
    mechanism: str
    packing: Mapping[str, Any] = field(default_factory=dict)


SETTINGS: Final[Sequence[Setting]] = (
    Setting(name="Slot", way=ways.Slot(), mechanism=TIME_SLICING),
    Setting(name="Reactive", way=ways.Reactive(), mechanism=TIME_SLICING),
    Setting(name="Horus", way=ways.Median(), mechanism=TIME_SLICING),
    Setting(name="Cotenant", way=ways.Predicted(), mechanism=interference.MPS),
    Setting(name="Cotenant, Hybrid", way=ways.Hybrid(), mechanism=interference.MPS),
    Setting(
        name="Cotenant, SMActivity",
        way=ways.Predicted(),
        mechanism=interference.MPS,
        packing={"metric": "SMActivity"},
    ),
)


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
class Result:
    """One setting's runs, by seed."""

    setting: Setting
    runs: Mapping[int, Figures]


def run(
    setting: Setting, mix: Mapping[str, prediction.Prediction], model: speeds.SpeedModel, *, seed: int, sigma: float
) -> history.History:
    """One run; the same arguments give the same history."""
    (device,) = devices.select([published.GPU_MODEL])
    queue = {"maxWaitSeconds": _NEVER, "scaleUpAfterSeconds": _NO_AUTOSCALER}
    spec = packingpolicy.Spec.model_validate({"queue": queue, **setting.packing})
    made = world.World(
        sites.alike(published.GPUS, gpus=1, model=published.GPU_MODEL, memory_mib=device.memory_mib),
        population.drawn(mix, seed=seed, sigma=sigma),
        way=setting.way,
        policy=policies.InForce(packingpolicy.PackingPolicy(generation=1, spec=spec)),
        speeds=interference.Interference(model, setting.mechanism),
    )
    return made.run()


def figures(found: history.History) -> Figures:
    """What a run came to. Jobs that failed count among no times."""
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
