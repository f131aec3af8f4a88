"""Whether the replay is the published experiment: BestFit and GpuPacking must come to the published curves. Pure.

Curves are published with two decimals. The column that is compared by everyone must agree to the last of them; of the
others none may be off by more than a single decision is worth.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from cotenant_api import errors, packingpolicy
from cotenant_simulator.openb import accounts, expected, experiment, trace

POLICIES: Final = (packingpolicy.Placement.BEST_FIT.value, experiment.GPU_PACKING)
HEADLINE_TOLERANCE_PERCENT: Final = 0.01
TOLERANCE_PERCENT: Final = 0.05

Published = Mapping[expected.Run, expected.Curve]


class Difference(NamedTuple):
    """A column that is not as published."""

    column: int
    found: float | None
    published: float


def runs(published: Published, name: str, seeds: Sequence[int]) -> tuple[expected.Run, ...]:
    """Return the published runs of a trace that are compared: those of the seeds, or else of the trace's first seed."""
    there = [run for run in published if run.trace == name and run.policy in POLICIES]
    wanted = [run for run in there if run.seed in seeds]
    first = min((run.seed for run in there), default=None)
    return tuple(sorted(wanted or (run for run in there if run.seed == first)))


def differences(found: accounts.Curve, published: expected.Curve) -> tuple[Difference, ...]:
    """Columns that are off by more than may be."""
    pairs = enumerate(zip(found, published.percent, strict=True))
    return tuple(Difference(place, mine, theirs) for place, (mine, theirs) in pairs if _off(place, mine, theirs))


def _off(place: int, found: float | None, published: float) -> bool:
    tolerance = HEADLINE_TOLERANCE_PERCENT if place == accounts.HEADLINE else TOLERANCE_PERCENT
    return found is None or abs(found - published) > tolerance


def checked(task: experiment.Task, published: expected.Curve) -> experiment.Result:
    """Return a run that came to what was published.

    Raises:
        PermanentError: it did not.
    """
    result = experiment.result(task)
    require(result, published)
    return result


def require(result: experiment.Result, published: expected.Curve) -> None:
    """Nothing, if the run came to what was published.

    Raises:
        PermanentError: it did not.
    """
    off = differences(result.outcome.allocated_percent, published)
    faults = [f"column {one.column} is {_shown(one.found)}, published {one.published:.2f}" for one in off]
    if len(off) > 1:
        faults[1:] = [f"{len(off) - 1} more columns are off"]
    if result.outcome.violations:
        faults.append(f"{result.outcome.violations} placements took what was not there")
    if result.outcome.refused_though_fitting:
        faults.append(f"{result.outcome.refused_though_fitting} pods were refused though they fit")
    if faults:
        trace_name, setting, seed = result.key
        where = f"self-check: {trace_name}, {setting.policy}, seed {seed}"
        raise errors.PermanentError(f"{where}: {'; '.join(faults)}: this is not the published experiment")


def require_same_cluster(read: trace.Trace, curves: Iterable[expected.Curve]) -> None:
    """Nothing, if the published runs were of a cluster with as many GPUs.

    Raises:
        InvalidInputError: they were not.
    """
    gpus = read.capacity_milli // trace.WHOLE_MILLI
    if other := {curve.gpus for curve in curves} - {gpus}:
        remedy = f"must be {gpus}, as many as {trace.NODES_FILE} has: the two files do not belong together"
        raise errors.InvalidInputError(f"{expected.FILE}: total_gpus", sorted(other), remedy)


def _shown(percent: float | None) -> str:
    return "empty" if percent is None else f"{percent:.2f}"
