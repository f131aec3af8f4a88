"""What a call of the experiment asks for, from the words of its arguments. Pure."""

import itertools
import re
from collections.abc import Sequence
from typing import Final

from cotenant_api import errors, packingpolicy
from cotenant_simulator.openb import cluster, experiment

ALL: Final = "all"

_NOT_OF_ALL: Final = packingpolicy.Placement.INTERFERENCE
"""Without predictions, which the trace has not, it is FirstFit again."""
_MOST_SEEDS: Final = 1000
_RANGE: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


def seeds(text: str) -> tuple[int, ...]:
    """Seeds of a list such as `42-51` or `42,44,50-51`, each once.

    Raises:
        InvalidInputError: it is no such list.
    """
    found = [_RANGE.fullmatch(part.strip()) for part in text.split(",")]
    ranges = [(int(one[1]), int(one[2] or one[1])) for one in found if one]
    if len(ranges) < len(found) or any(last < first or last - first >= _MOST_SEEDS for first, last in ranges):
        remedy = f"must be seeds such as 42-51 or 42,44,50-51, at most {_MOST_SEEDS} in a range"
        raise errors.InvalidInputError("--seeds", text, remedy)
    return tuple(dict.fromkeys(itertools.chain.from_iterable(range(first, last + 1) for first, last in ranges)))


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
    every = [name for name in names if name != _NOT_OF_ALL]
    chosen = every if ALL in placements else placements or [shipped]
    pairs = itertools.product(limits or [cluster.MOST_TENANTS], chosen)
    return tuple(dict.fromkeys(experiment.Setting(placement, limit) for limit, placement in pairs))
