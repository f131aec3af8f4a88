"""What a call of the experiment asks for, from the words of its arguments. Pure."""

import itertools
from collections.abc import Sequence
from typing import Final

from cotenant_api import errors, packingpolicy
from cotenant_simulator.openb import cluster, experiment

ALL: Final = "all"

_NOT_OF_ALL: Final = frozenset(
    {
        packingpolicy.Placement.INTERFERENCE,
        packingpolicy.Placement.EXCLUSIVE,
        packingpolicy.Placement.REACTIVE,
        packingpolicy.Placement.MEMORY_ONLY,
        packingpolicy.Placement.SM_PERCENT,
        packingpolicy.Placement.MEM_PERCENT,
    }
)
"""What they differ by from FirstFit is predicted, or is no choice; the trace has no predictions."""


def settings(placements: Sequence[str], limits: Sequence[int]) -> tuple[experiment.Setting, ...]:
    """Every placement with every limit on tenants, each once; none named: the default placement, no limit.

    Raises:
        InvalidInputError: there is no such placement, or no policy can set such a limit.
    """
    shipped = packingpolicy.Spec().placement.value
    names = [placement.value for placement in packingpolicy.Placement]
    for placement in placements:
        if placement not in (*names, ALL):
            raise errors.InvalidInputError("--placement", placement, f"must be {ALL} or one of {', '.join(names)}")
    for limit in limits:
        if not 1 <= limit <= cluster.MOST_TENANTS:
            raise errors.InvalidInputError("--max-tenants", limit, f"must be 1 to {cluster.MOST_TENANTS}")
    every = [name for name in names if name not in _NOT_OF_ALL]
    chosen = every if ALL in placements else placements or [shipped]
    pairs = itertools.product(limits or [cluster.MOST_TENANTS], chosen)
    return tuple(dict.fromkeys(experiment.Setting(placement, limit) for limit, placement in pairs))
