"""What an edit of a sweep means for its runs that are under way. Pure.

A run that has never had a GPU is brought to the present spec: the rules of `editing` then make its Job again, which
keeps its place in the queue. A run that has had GPUs goes on as it is, and the sweep says so. What somebody has written
into a run himself stands until the next edit of the sweep, and goes with that.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from cotenant_api import dljob
from cotenant_operator import reasons
from cotenant_operator.plans import actions
from cotenant_operator.plans.stages import Note
from cotenant_operator.state import sweeps, views
from cotenant_operator.state.kinds import Kind
from cotenant_operator.workloads import runs

_RUNNING: Final = (dljob.Phase.RUNNING, dljob.Phase.STARTING)


@dataclass(frozen=True, kw_only=True, slots=True)
class Revision:
    """The runs under way that are not of the present spec, or not wholly.

    Attributes:
        sweep: name of the sweep.
        digest: of what the sweep says to its runs.
        unmarked: runs that carry no digest, by index: a build made them that wrote none. They count as of the present
            spec, so that an upgrade changes no run, and get its digest.
        changeable: runs of a former spec that may take the present one, by index.
        refused: runs that might, and whose writes the API server refuses, by index.
        kept: indexes of the runs of a former spec that have had GPUs.
        behind: indexes of the runs of the present spec whose Jobs are of a former one.
    """

    sweep: str
    digest: str
    unmarked: dict[int, views.DLJob]
    changeable: dict[int, views.DLJob]
    refused: dict[int, views.DLJob]
    kept: frozenset[int]
    behind: frozenset[int]


def look(owner: views.DLJob, spec: dljob.Spec, sweep: sweeps.Sweep, *, refused: Collection[str]) -> Revision:
    """Return which of the runs under way are of a former spec; `refused`: names of those that cannot be written."""
    digest = runs.digest(owner, spec)
    own = {index: run for index, run in sweep.active.items() if _is_own(run)}
    former = {index: run for index, run in own.items() if run.sweep_digest not in (None, digest)}
    changeable = {index: run for index, run in former.items() if _is_changeable(run)}
    stuck = {index: run for index, run in changeable.items() if run.meta.key.name in refused}
    return Revision(
        sweep=owner.meta.key.name,
        digest=digest,
        unmarked={index: run for index, run in own.items() if run.sweep_digest is None},
        changeable={index: run for index, run in changeable.items() if index not in stuck},
        refused=stuck,
        kept=frozenset(former.keys() - changeable.keys()),
        behind=frozenset(index for index, run in own.items() if index not in former and run.outdated),
    )


def todo(
    owner: views.DLJob, spec: dljob.Spec, found: Revision, *, busy: Collection[str]
) -> Iterator[actions.Change | actions.UpdateRun]:
    """Return the writes that bring runs to the present spec.

    Args:
        owner: the DLJob of the sweep.
        spec: what it says.
        found: which of its runs are of a former spec.
        busy: names of the runs that are written to in the same look, and have another version then, or that cannot be.
    """
    for run in found.unmarked.values():
        if run.meta.key.name not in busy:
            yield actions.Change.of(Kind.DLJOB, run.meta, runs.noted(found.digest))
    for index, run in found.changeable.items():
        if run.meta.key.name not in busy:
            wanted = runs.manifest(owner, spec, index)
            yield actions.UpdateRun(manifest=wanted, uid=run.meta.uid, version=run.meta.version)


def told(found: Revision) -> tuple[Note, ...]:
    """Return that runs take an edit over."""
    if not found.changeable:
        return ()
    message = f"{_count(found.changeable)} without GPUs took the changed spec over: {_listed(found.changeable)}"
    return (Note(warning=False, reason=reasons.UPDATED, message=message),)


def words(found: Revision, *, refused: Mapping[str, str]) -> str | None:
    """Say which runs are not of the present spec, and what to do; None: all are, or are about to be.

    Args:
        found: which of the runs are of a former spec.
        refused: why the API server refuses what is to be written to a run.
    """
    said = []
    if found.kept:
        example = sweeps.run_name(found.sweep, min(found.kept))
        said.append(
            f"{_count(found.kept)} got GPUs before the change, and kept the former spec: {_listed(found.kept)}; "
            f"to have the change in one of them, delete its DLJob ({example}, say): it is made again"
        )
    if found.refused:
        said.append(not_written(found.refused, refused))
    if found.behind:
        said.append(
            f"{_count(found.behind)} kept Jobs of a former spec: {_listed(found.behind)}; see their condition Current"
        )
    return "; ".join(said) or None


def not_written(found: Mapping[int, views.DLJob], refused: Mapping[str, str]) -> str:
    """Say which runs cannot be written, and why the first of them cannot."""
    first = found[min(found)].meta.key.name
    return f"{_count(found)} could not be changed: {_listed(found)}: {refused[first]}"


def _is_own(run: views.DLJob) -> bool:
    """Return whether a DLJob is a run that the operator made, by the note that each is made with, and stays."""
    return run.suspend_written is not None and not run.meta.deleting


def _is_changeable(run: views.DLJob) -> bool:
    """Return whether nothing is lost by a change: it has never had a GPU, or is stalled and has none."""
    return not run.started or (run.stalled and run.phase not in _RUNNING)


def _count(found: Collection[int]) -> str:
    """Return how many runs these are, as text."""
    return "1 run" if len(found) == 1 else f"{len(found)} runs"


def _listed(found: Collection[int]) -> str:
    """Return the indexes of runs as text."""
    return sweeps.shortened(frozenset(found))
