"""A sweep: which runs are made, stopped, taken away, and when it is over. Pure.

Each run is a DLJob of its own, with its own attempts; the sweep says only how many are under way. What a run came to is
kept in the sweep's status: a run that was deleted afterwards is not made again. A run that was deleted before it ended
is. Of a suspended sweep all runs are suspended; one that a user has suspended or resumed himself is left as it is.
`revising` says what an edit of the sweep means for runs that are under way.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from cotenant_api import conditions, dljob
from cotenant_operator import reasons
from cotenant_operator.life import editing, revising, training
from cotenant_operator.plans import actions, stages
from cotenant_operator.plans.stages import Blocked, Note, Stage
from cotenant_operator.state import sweeps, views
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import Observed, Refusal
from cotenant_operator.workloads import builders, runs

AT_ONCE: Final = 32
"""Runs that are made, changed or deleted in one look: others are worked on in between."""


def stage(observed: Observed, spec: dljob.Spec, now: datetime) -> Stage:
    """Where the sweep stands and what is next."""
    sweep, refused = sweeps.look(observed, spec), observed.refused_runs(now)
    due = tuple(_stopped(sweep, wanted=spec.suspend))
    # An operator that knew no sweeps, after a rollback, made a Job of it.
    stopped = (*training.stale(observed, former_to=None), *(one for one in due if one.name not in refused))
    if sweep.is_over:
        return Stage(actions=stopped[:AT_ONCE], workload=True, finished=_ended(sweep))
    revision, why = revising.look(observed.job, spec, sweep, refused=refused), _messages(refused)
    outdated = revising.words(revision, refused=why)
    todo = revising.todo(observed.job, spec, revision, busy={*(action.name for action in stopped), *refused})
    changes = (*stopped, *itertools.islice(todo, AT_ONCE + 1))
    refusal = observed.standing_refusal(now)
    missing = () if spec.suspend or refusal is not None else tuple(_missing(sweep, spec))
    made = (actions.Create(kind=Kind.DLJOB, manifest=runs.manifest(observed.job, spec, index)) for index in missing)
    found = (*changes[:AT_ONCE], *itertools.islice(made, AT_ONCE))
    notes = (*_begun(observed, sweep, missing), *revising.told(revision), *editing.told(observed, outdated))
    more = len(found) < len(changes) + len(missing)
    looks = [now] if more else [one.retry_at for one in (refusal, *refused.values()) if one is not None]
    return Stage(
        actions=found,
        blocked=None if refusal is None else Blocked(reason=refusal.reason, message=refusal.message),
        held=_held(observed, [one.name for one in due if one.name in refused], why),
        workload=True,
        outdated=outdated,
        notes=notes,
        retry_at=min(looks, default=None),
    )


def halted(observed: Observed, now: datetime) -> Stage:
    """Return what suspends the runs of a sweep of which nothing can be read but that it is suspended."""
    refused = observed.refused_runs(now)
    runs_on = (run for _, run in sweeps.indexed(observed) if run.finished is None and run.suspend_written is False)
    due = [run for run in runs_on if not run.meta.deleting and run.meta.key.name not in refused]
    found = (actions.Change.of(Kind.DLJOB, run.meta, builders.suspended({}, suspend=True)) for run in due)
    retry_at = min((refusal.retry_at for refusal in refused.values()), default=None)
    changes = tuple(itertools.islice(found, AT_ONCE)) if observed.job.suspended else ()
    return Stage(actions=changes, retry_at=now if len(due) > len(changes) > 0 else retry_at)


def stale(observed: Observed, now: datetime) -> tuple[actions.Delete, ...]:
    """Return the deletions of runs that a sweep has after its end: a creation may arrive late.

    A DLJob that is no sweep may control others of such names.
    """
    if not observed.job.is_sweep:
        return ()
    refused = observed.refused_runs(now)
    living = (run for _, run in sweeps.indexed(observed) if run.finished is None and run.meta.key.name not in refused)
    return tuple(itertools.islice(_deleted(living), AT_ONCE))


def _missing(sweep: sweeps.Sweep, spec: dljob.Spec) -> Iterator[int]:
    """Return the indexes of the runs that begin now, as far as the parallelism lets them."""
    room = (spec.parallelism or sweep.total) - len(sweep.active)
    for index in range(sweep.total):
        if room <= 0:
            return
        if index not in sweep.completed and index not in sweep.failed and index not in sweep.active:
            room -= 1
            yield index


def _stopped(sweep: sweeps.Sweep, *, wanted: bool) -> Iterator[actions.Delete | actions.Change]:
    """Return the deletion of runs that have to go, and the suspension, or the resumption, of the others, once each."""
    yield from _deleted(sweep.left)
    for run in sweep.active.values():
        if (run.suspend_written or False) is not wanted and not run.meta.deleting:
            yield actions.Change.of(Kind.DLJOB, run.meta, builders.suspended({}, suspend=wanted))


def _deleted(found: Iterable[views.DLJob]) -> Iterator[actions.Delete]:
    for run in found:
        # What is no run of ours, by the note that each is made with, is left alone.
        if not run.meta.deleting and run.suspend_written is not None:
            yield actions.Delete(kind=Kind.DLJOB, name=run.meta.key.name, uid=run.meta.uid)


def _messages(refused: Mapping[str, Refusal]) -> dict[str, str]:
    return {name: refusal.message for name, refusal in refused.items()}


def _held(observed: Observed, names: Collection[str], why: Mapping[str, str]) -> Blocked | None:
    """Say which runs go on although they should not, or wait, for their writes are refused."""
    found = {index: run for index, run in sweeps.indexed(observed) if run.meta.key.name in names}
    return Blocked(reason=reasons.RECONCILE_ERROR, message=revising.not_written(found, why)) if found else None


def _begun(observed: Observed, sweep: sweeps.Sweep, made: Sequence[int]) -> tuple[Note, ...]:
    """Return that the sweep begins, once."""
    if not made or sweep.done or sweep.active or observed.job.status.phase is not None:
        return ()
    name = observed.job.meta.key.name
    message = (
        f"begins {sweep.total} runs, DLJobs {sweeps.run_name(name, 0)} to {sweeps.run_name(name, sweep.total - 1)}"
    )
    return (Note(warning=False, reason=reasons.CREATED, message=message, attempt=0),)


def _ended(sweep: sweeps.Sweep) -> conditions.Condition:
    if not sweep.failed:
        return stages.ended(dljob.COMPLETE, reasons.COMPLETED, f"all {sweep.total} runs ended well")
    message = f"{len(sweep.failed)} of {sweep.total} runs failed: {sweeps.shortened(sweep.failed)}"
    return stages.ended(dljob.FAILED, reasons.RUNS_FAILED, message)
