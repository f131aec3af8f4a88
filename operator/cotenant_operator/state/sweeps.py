"""Where a sweep stands: its runs, by name and index, and what each came to. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cotenant_api import dljob
from cotenant_operator.state import indexes, views
from cotenant_operator.state.observed import Observed

NAMED: Final = 200
"""Characters of a list of indexes in a message."""
_NAME: Final = re.compile(r"(.+)-(0|[1-9][0-9]{0,3})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """Where a sweep stands.

    Attributes:
        total: number of its runs.
        completed, failed: indexes of the runs that have ended.
        active: runs that have not, by index.
        left: runs that are there and have to go: their index has ended before, or is none of the sweep.
    """

    total: int
    completed: frozenset[int]
    failed: frozenset[int]
    active: dict[int, views.DLJob]
    left: tuple[views.DLJob, ...]

    @property
    def done(self) -> int:
        """How many runs have ended."""
        return len(self.completed) + len(self.failed)

    @property
    def is_over(self) -> bool:
        """Whether all runs have ended."""
        return self.done >= self.total


def run_name(sweep: str, index: int) -> str:
    """Return the name of a run; the same whoever computes it."""
    return f"{sweep}-{index}"


def parsed(name: str) -> tuple[str, int] | None:
    """Return the sweep and the index that a name of a run says; None: no run is called so."""
    match = _NAME.fullmatch(name)
    return None if match is None else (match[1], int(match[2]))


def indexed(observed: Observed) -> Iterator[tuple[int, views.DLJob]]:
    """Return the runs of a sweep by their indexes; what only claims to be one is left out."""
    for run in observed.runs:
        found = parsed(run.meta.key.name)
        if found is not None and found[0] == observed.job.meta.key.name:
            yield found[1], run


def look(observed: Observed, spec: dljob.Spec) -> Sweep:
    """Return where a sweep stands, by its runs and by what its status has kept of those that are gone."""
    total, status = spec.completions or 0, observed.job.status
    wanted = frozenset(range(total))
    completed = set(indexes.read(status.completed_indexes) & wanted)
    failed = set(indexes.read(status.failed_indexes) & wanted) - completed
    active: dict[int, views.DLJob] = {}
    left = []
    for index, run in indexed(observed):
        known = index in completed or index in failed
        if run.finished is None and index in wanted and not known:
            active[index] = run
        elif run.finished is None:
            left.append(run)
        elif index in wanted and not known:
            (completed if run.finished.type == dljob.COMPLETE else failed).add(index)
    return Sweep(
        total=total,
        completed=frozenset(completed),
        failed=frozenset(failed),
        active=dict(sorted(active.items())),
        left=tuple(left),
    )


def shortened(found: frozenset[int]) -> str:
    """Return indexes as text, cut where there are many ranges."""
    text = indexes.text(found)
    return text if len(text) <= NAMED else f"{text[:NAMED].rpartition(',')[0]}, .."
