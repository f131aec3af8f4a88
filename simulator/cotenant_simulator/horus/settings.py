"""The ways that are compared: the study's three, and Cotenant's by PackingPolicies that an admin can write. Values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cotenant_simulator.engine import interference, ways
from cotenant_simulator.horus import population

TIME_SLICING: Final = "TimeSlicing"
BASE: Final = "Slot"
"""What others are compared with, seed by seed."""
HORUS: Final = "Horus"
COTENANT: Final = "Cotenant"
LIMITS_LONG: Final = "Cotenant, limits, long first"
DENSE: Final = "Cotenant, dense"
DENSE_LONG: Final = "Cotenant, dense, long first"
_STUDY: Final[Mapping[str, Any]] = {"queue": {"maxWaitSeconds": 604800, "scaleUpAfterSeconds": 86400}}
"""Nobody is aged: the longest wait that a policy can state."""
_DENSE: Final[Mapping[str, Any]] = {
    "metric": "SMActivity",
    "maxUtilizationPercent": 140,
    "threadPartition": "None",
    "queue": {"order": "FIFO"},
}
"""Upper bounds of the shipped model are 1.4 times its medians: 140 gives the margin back. Nobody's threads are limited,
and nobody goes before who came first."""
_LIMITS: Final[Mapping[str, Any]] = {"metric": "SMActivity", "maxUtilizationPercent": 125, "queue": {"order": "FIFO"}}
"""Between: threads stay limited to what a job needs, as the policy that ships has it."""
LONG_FIRST: Final = population.Classes(long_seconds=3600.0, short_seconds=900.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One way to share the cluster.

    Attributes:
        mechanism: how jobs share a GPU, of `colocation.prior.RESOURCES`.
        packing: fields of the PackingPolicy that differ from those that ship.
        classes: PriorityClasses of the jobs; None: all are equal.
    """

    name: str
    way: ways.Way
    mechanism: str = interference.MPS
    packing: Mapping[str, Any] = field(default_factory=dict)
    classes: population.Classes | None = None


ALL: Final[Sequence[Setting]] = (
    Setting(name=BASE, way=ways.Slot(), mechanism=TIME_SLICING, packing=_STUDY),
    Setting(name="Slot, long first", way=ways.Slot(), mechanism=TIME_SLICING, packing=_STUDY, classes=LONG_FIRST),
    Setting(name="Reactive", way=ways.Reactive(), mechanism=TIME_SLICING, packing=_STUDY),
    Setting(name=HORUS, way=ways.Median(), mechanism=TIME_SLICING, packing=_STUDY),
    Setting(name="Horus, long first", way=ways.Median(), mechanism=TIME_SLICING, packing=_STUDY, classes=LONG_FIRST),
    Setting(name=COTENANT, way=ways.Predicted()),
    Setting(name="Cotenant, Hybrid", way=ways.Hybrid(), packing={"correction": "Hybrid"}),
    Setting(name="Cotenant, SMActivity", way=ways.Predicted(), packing={"metric": "SMActivity"}),
    Setting(name=LIMITS_LONG, way=ways.Predicted(), packing=_LIMITS, classes=LONG_FIRST),
    Setting(name=DENSE, way=ways.Predicted(), packing=_DENSE),
    Setting(name=DENSE_LONG, way=ways.Predicted(), packing=_DENSE, classes=LONG_FIRST),
)


_BY_NAME: Final = {setting.name: setting for setting in ALL}


def named(name: str) -> Setting:
    """One of them.

    Raises:
        KeyError: there is no such way.
    """
    return _BY_NAME[name]
