"""The status of a sweep, from its runs. Pure.

The conditions are those of any DLJob, of all runs together: Queued while runs wait and none has a GPU, Ready when all
have ended well.
"""

from collections import Counter
from datetime import datetime

from cotenant_api import conditions, dljob
from cotenant_operator import reasons
from cotenant_operator.plans.stages import Stage
from cotenant_operator.state import indexes, sweeps
from cotenant_operator.state.observed import Observed
from cotenant_operator.telling import status
from cotenant_operator.telling.conditions import Verdict, current, stalled, suspended

_OF_PODS = (dljob.PREDICTED, dljob.PLACED)
_PLACED = (dljob.Phase.RUNNING, dljob.Phase.STARTING)


def derive(observed: Observed, spec: dljob.Spec, stage: Stage, now: datetime) -> dljob.Status:
    """Return the status that describes this moment."""
    job, sweep = observed.job, sweeps.look(observed, spec)
    # A run that is being made may be refused, or have to wait: it counts when it is there.
    phases = Counter(run.phase or dljob.Phase.PENDING for run in sweep.active.values())
    before = {item.type: item for item in job.status.conditions}
    left = observed.unstopped
    verdicts = (
        _queued(stage, sweep, phases),
        _ready(stage, sweep, phases),
        _stalled(stage, sweep, before=before.get(dljob.STALLED)),
        suspended(
            stage,
            spec,
            left=f"{left} of its runs have not stopped yet" if left else None,
            before=before.get(dljob.SUSPENDED),
        ),
        current(stage, before=before.get(dljob.CURRENT)),
    )
    # An operator that knew no sweeps wrote of pods, after a rollback.
    found = status.updated(job, verdicts, stage, now, without=_OF_PODS)
    started = job.status.start_time or (conditions.timestamp(now) if _runs(phases) or sweep.done else None)
    return dljob.Status(
        observed_generation=job.meta.generation,
        phase=_phase(found, phases),
        conditions=found,
        start_time=started,
        completion_time=status.completion_time(job, found),
        active=len(sweep.active),
        succeeded=len(sweep.completed),
        failed=len(sweep.failed),
        completed_indexes=indexes.text(sweep.completed) or None,
        failed_indexes=indexes.text(sweep.failed) or None,
    )


def _stalled(stage: Stage, sweep: sweeps.Sweep, *, before: conditions.Condition | None) -> Verdict | None:
    """Return whether nothing goes on before somebody changes something: with the sweep, or with any of its runs."""
    stuck = [run for run in sweep.active.values() if run.stalled]
    if stage.finished is None and stage.blocked is None and stuck and len(stuck) == len(sweep.active):
        message = f"all {len(stuck)} runs under way are stalled: see {stuck[0].meta.key.name}"
        return Verdict(dljob.STALLED, True, reasons.RUNS_STALLED, message)
    return stalled(stage, before=before)


def _runs(phases: Counter[dljob.Phase]) -> int:
    return sum(phases[phase] for phase in _PLACED)


def _queued(stage: Stage, sweep: sweeps.Sweep, phases: Counter[dljob.Phase]) -> Verdict:
    if stage.finished is not None:
        return Verdict(dljob.QUEUED, False, stage.finished.reason, stage.finished.message)
    if stage.blocked is not None:
        return Verdict(dljob.QUEUED, False, stage.blocked.reason, stage.blocked.message)
    waits = not _runs(phases) and phases[dljob.Phase.QUEUED] > 0
    return Verdict(dljob.QUEUED, waits, reasons.RUNS_UNDER_WAY, _words(sweep, phases))


def _ready(stage: Stage, sweep: sweeps.Sweep, phases: Counter[dljob.Phase]) -> Verdict:
    if stage.finished is None:
        return Verdict(dljob.READY, False, reasons.RUNS_UNDER_WAY, _words(sweep, phases))
    complete = stage.finished.type == dljob.COMPLETE
    return Verdict(dljob.READY, complete, stage.finished.reason, stage.finished.message)


def _words(sweep: sweeps.Sweep, phases: Counter[dljob.Phase]) -> str:
    """Say how many runs have ended, and what the others do."""
    failed = f", {len(sweep.failed)} of them failed ({sweeps.shortened(sweep.failed)})" if sweep.failed else ""
    told = [
        (_runs(phases), "running"),
        (phases[dljob.Phase.QUEUED] + phases[dljob.Phase.PENDING], "waiting"),
        (phases[dljob.Phase.SUSPENDED], "suspended"),
    ]
    others = "".join(f"; {count} {word}" for count, word in told if count)
    return f"{sweep.done} of {sweep.total} runs have ended{failed}{others}"


def _phase(found: tuple[conditions.Condition, ...], phases: Counter[dljob.Phase]) -> dljob.Phase:
    order = (dljob.Phase.RUNNING, dljob.Phase.STARTING, dljob.Phase.QUEUED)
    return status.stopped_phase(found) or next((phase for phase in order if phases[phase]), dljob.Phase.PENDING)
