"""A run of the experiment by its name: a trace, a way to place pods, a seed. Pure but for the clock it is given."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from cotenant_api import packingpolicy
from cotenant_extender.packing import placing
from cotenant_simulator.openb import arrivals, cluster, published, replay, trace

GPU_PACKING: Final = "GpuPacking"
"""The name of the published policy that no cluster has."""

Clock = Callable[[], float]


class Setting(NamedTuple):
    """How pods are placed.

    Attributes:
        policy: a placement of PackingPolicy, or `GPU_PACKING`.
        max_tenants: pods on one GPU at most.
    """

    policy: str
    max_tenants: int = cluster.MOST_TENANTS


class Key(NamedTuple):
    """Names a run; runs of equal keys come to the same.

    Attributes:
        trace: the trace's name.
    """

    trace: str
    setting: Setting
    seed: int


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run that is wanted.

    Attributes:
        clock: in seconds, of any origin; a function that can be sent to another process.
    """

    read: trace.Trace
    setting: Setting
    seed: int
    clock: Clock

    @property
    def key(self) -> Key:
        """Its name."""
        return Key(self.read.name, self.setting, self.seed)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a run came to, and how long it took."""

    key: Key
    outcome: replay.Outcome
    seconds: float


def result(task: Task) -> Result:
    """One run."""
    began = task.clock()
    order = arrivals.order(task.read, seed=task.seed)
    own = task.setting.policy == GPU_PACKING
    placement = packingpolicy.Spec().placement if own else packingpolicy.Placement(task.setting.policy)
    in_force = cluster.policy(placement, max_tenants=task.setting.max_tenants)
    outcome = replay.run(task.read, order, in_force, published.choose if own else placing.choose)
    return Result(key=task.key, outcome=outcome, seconds=task.clock() - began)
