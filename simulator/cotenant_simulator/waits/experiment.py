"""Jobs of the case study that arrive at random, under one way to order the queue. Pure.

Load 1 is what `FIFO` with backfill serves of the same jobs when all are submitted at once: the pace at which the first
`SERVED` of them end. The same arguments give the same figures.
"""

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cotenant_api import packingpolicy, prediction
from cotenant_extender.packing import policies
from cotenant_predictor import devices
from cotenant_predictor.colocation import speeds
from cotenant_simulator.engine import conditions, history, interference, jobs, ways, world
from cotenant_simulator.horus import population, published
from cotenant_simulator.twin import sites

SERVED: Final = 0.9
CLASSES: Final = (25, 50, 75, 100)
"""Upper ends of the size classes, in hundredths of a GPU booked."""
NEVER_SECONDS: Final = 604800
"""The longest `maxWaitSeconds`: longer than any job of a run waits."""


class Way(enum.StrEnum):
    """How the queue is ordered."""

    FIFO = "FIFO"
    DEFAULT = "DecreasingShare"
    SIZE_ALONE = "size alone"
    """DecreasingShare where waiting counts for next to nothing: what waiting costs is seen against it."""

    @property
    def queue(self) -> packingpolicy.Queue:
        """The policy's part."""
        if self is Way.FIFO:
            return packingpolicy.Queue(order=packingpolicy.Order.FIFO)
        return packingpolicy.Queue(max_wait_seconds=NEVER_SECONDS) if self is Way.SIZE_ALONE else packingpolicy.Queue()


COMPARED: Final = (Way.FIFO, Way.DEFAULT)
"""Whose waits are held against each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One run.

    Attributes:
        load: of what `FIFO` serves.
        count: how many jobs.
        seed: of jobs, run times and arrivals.
    """

    way: Way
    load: float
    count: int
    seed: int

    @property
    def title(self) -> str:
        """For progress."""
        return f"{self.way}, seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one run came to.

    Attributes:
        waits: seconds from submission to start, of every job that was placed, by its class.
        unplaced: jobs that never were.
    """

    waits: Mapping[int, Sequence[float]]
    makespan_seconds: float
    unplaced: int


def run(key: Key, mix: Mapping[str, prediction.Prediction], model: speeds.SpeedModel) -> Figures:
    """One run.

    Args:
        key: which one.
        mix: what is predicted of the models that jobs are drawn from, by name.
        model: of co-location.
    """
    given = population.drawn(mix, seed=key.seed, sigma=published.RMSLE, count=key.count)
    at_once = _played(Way.FIFO, given, model)
    seconds = served_seconds(at_once) / key.load
    found = _played(key.way, population.arriving(given, seed=key.seed, seconds=seconds), model)
    return figures(found)


def served_seconds(found: history.History) -> float:
    """Return how long all jobs of a run take at the pace at which the first of them ended."""
    ends = sorted(life.ended for life in found.lives if life.ended is not None)
    first = max(math.floor(SERVED * len(ends)), 1)
    return ends[first - 1] * len(found.lives) / first


def figures(found: history.History) -> Figures:
    """Return what a run came to."""
    shares = {span.place: span.share for span in found.spans or ()}
    waits: dict[int, list[float]] = {upper: [] for upper in CLASSES}
    for place, life in enumerate(found.lives):
        if life.waited is not None and place in shares:
            waits[class_of(shares[place])].append(life.waited)
    unplaced = sum(life.started is None for life in found.lives)
    return Figures(waits=waits, makespan_seconds=found.makespan_seconds, unplaced=unplaced)


def class_of(share: int) -> int:
    """Return the size class of a share, by its upper end."""
    return next(upper for upper in CLASSES if share <= upper)


def _played(way: Way, given: Sequence[jobs.Job], model: speeds.SpeedModel) -> history.History:
    (device,) = devices.select([published.GPU_MODEL])
    spec = packingpolicy.Spec(queue=way.queue)
    made = world.World(
        sites.alike(published.GPUS, gpus=1, model=published.GPU_MODEL, memory_mib=device.memory_mib),
        given,
        way=ways.Predicted(),
        policy=policies.InForce(packingpolicy.PackingPolicy(generation=1, spec=spec)),
        speeds=interference.Interference(model, interference.MPS),
    )
    return made.run(under=conditions.Conditions(spans=True))
