"""What a soak must hold, and which of it was missed. Pure."""

from collections.abc import Iterator
from typing import Final

from cotenant_e2e import installation
from cotenant_e2e.hostile.measured import Soaked

MOST_RATIO: Final = 2.0
"""How many times as long the median DLJob of the honest namespace may wait beside the hostile one."""
OPERATOR_MIB: Final = 400.0
"""The most that the operator may hold, below its limit in the chart."""


def missed(found: Soaked) -> list[str]:
    """Return one sentence for each bar that was missed, with what was measured; none: all were held."""
    return [*_memory(found), *_ends(found), *_waits(found)]


def _memory(found: Soaked) -> Iterator[str]:
    for name, limit in sorted(found.limits_mib.items()):
        peak = found.peaks_mib[name]
        if peak == 0:
            yield f"{name}: was never weighed: see its log"
        if peak > limit:
            yield f"{name}: held {peak:.0f} MiB; the limit of the chart is {limit:.0f} MiB"
    peak = found.peaks_mib[installation.OPERATOR]
    if peak > OPERATOR_MIB:
        yield f"{installation.OPERATOR}: held {peak:.0f} MiB; at most {OPERATOR_MIB:.0f} MiB are allowed"


def _ends(found: Soaked) -> Iterator[str]:
    for name, count in sorted(found.ends.items()):
        if count and name in found.limits_mib:
            yield f"{name}: ended {count} times; it must not end"


def _waits(found: Soaked) -> Iterator[str]:
    failed = found.alone.failed + found.beside.failed
    if failed:
        yield f"honest DLJobs: {failed} were not bound within two minutes; all must be"
    if found.ratio > MOST_RATIO:
        told = f"waited {found.ratio:.2f} times as long; at most {MOST_RATIO:g} times is allowed"
        yield f"honest DLJobs: the median {told}"
