"""The ways that are compared, two jobs on a GPU at most: of three, no speeds were measured. Values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cotenant_simulator.engine import ways

BASE: Final = "one job a GPU"
"""What others are compared with."""
MAX_TENANTS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One way to share the cluster.

    Attributes:
        packing: fields of the PackingPolicy that differ from those that ship, but for `maxTenantsPerGPU`.
    """

    name: str
    way: ways.Way
    packing: Mapping[str, Any] = field(default_factory=dict)


ALL: Final[Sequence[Setting]] = (
    Setting(name=BASE, way=ways.Slot()),
    Setting(name="Cotenant", way=ways.Predicted()),
    Setting(name="Cotenant, Spread", way=ways.Predicted(), packing={"placement": "Spread"}),
    Setting(
        name="Cotenant, dense",
        way=ways.Predicted(),
        packing={"metric": "SMActivity", "maxUtilizationPercent": 140, "threadPartition": "None"},
    ),
    Setting(name="medians", way=ways.Median(), packing={"threadPartition": "None"}),
    Setting(name="two by memory", way=ways.Predicted(), packing={"placement": "MemoryOnly", "threadPartition": "None"}),
)
"""`medians`: as Horus books. `two by memory`: whatever is predicted of a GPU's time counts for nothing."""

_BY_NAME: Final = {setting.name: setting for setting in ALL}


def named(name: str) -> Setting:
    """One of them.

    Raises:
        KeyError: there is no such way.
    """
    return _BY_NAME[name]
