"""A campaign: carries out what is left of a plan, within a budget of time, and can be continued by the next call.

A run that does not end within the budget is not begun; what is measured is on disk before the next run begins.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from . import measured, plan, progress
from .behaviour import questions
from .executor import Executor, Settings
from .mechanisms import Mechanism
from .mps import ControlDaemon, MpsUnavailableError
from .plan import Run
from .pool import Pool
from .sets import JobSet
from .store import Store, StoreError

PREFETCHED_RUNS = 8
"""Processes for this many runs ahead are started."""
_START_SECONDS = 25.0
"""What a run may take beside its window, with processes to start."""


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is the same for every result of a campaign."""

    gpu_model: str
    gpu_uuid: str
    simulated: bool
    environment: Mapping[str, str]
    jobs: JobSet
    settings: Settings


@dataclasses.dataclass(frozen=True)
class Summary:
    """How a call ended. `blocked`: why some runs cannot be done here, with how many."""

    done: int
    left: int
    blocked: Mapping[str, int]


class Campaign:
    """Carries out a plan on one GPU."""

    def __init__(self, facts: Facts, store: Store, *, screen: progress.Screen, deadline: float) -> None:
        self._facts, self._store, self._screen, self._deadline = facts, store, screen, deadline
        self._alone: dict[str, measured.Alone] = {}
        self._blocked: dict[str, str] = {}

    def carry_out(
        self, planned: Sequence[Run], *, pool: Pool, executor: Executor, start_mps: Callable[[], ControlDaemon]
    ) -> Summary:
        """Do what is left until the budget ends. The caller ends what was started: the pool's processes, the daemon.

        Raises:
            StoreError: results that are there are of another GPU, or damaged.
        """
        done = self._known(planned)
        for run in plan.left(planned, done):
            if self._can_begin(run, pool=pool, executor=executor, start_mps=start_mps):
                self._prefetch(run, plan.left(planned, done), pool=pool, executor=executor)
                if self._do(run, executor):
                    done.add(run.id)
                    self._show(run, planned, done)
        left = [run.id for run in plan.left(planned, done)]
        return Summary(len(done), len(left), _counted(self._blocked, left))

    def _known(self, planned: Sequence[Run]) -> set[str]:
        ids, results = {run.id for run in planned}, list(self._store.results())
        for result in results:
            if (result["gpuModel"], result["simulated"]) != (self._facts.gpu_model, self._facts.simulated):
                found = f"{result['gpuModel']}{' (simulated)' if result['simulated'] else ''}"
                raise StoreError(f"{self._store.folder}: holds results of {found}: measure into another folder")
        self._alone = measured.alone_of(results)
        return {result["id"] for result in results} & ids

    def _can_begin(self, run: Run, *, pool: Pool, executor: Executor, start_mps: Callable[[], ControlDaemon]) -> bool:
        reason = executor.cannot(run)
        if reason is None and not plan.ready(run, self._alone):
            reason = "waits for a result alone of " + ", ".join(set(run.waits_for) - set(self._alone))
        if reason is None and run.mechanism is Mechanism.MPS and not (run.experiment or executor.daemon):
            reason = self._without_mps(executor, start_mps)
        if reason is None and time.monotonic() + self._longest(run, pool, executor) > self._deadline:
            reason = "the budget of time is used up"
        if reason is not None:
            self._blocked[run.id] = reason
        return reason is None

    def _without_mps(self, executor: Executor, start_mps: Callable[[], ControlDaemon]) -> str | None:
        """Start the daemon once; return why not, if it cannot."""
        known = next((reason for reason in self._blocked.values() if reason.startswith("no MPS")), None)
        if known is not None:
            return known
        try:
            executor.daemon = start_mps()
        except MpsUnavailableError as error:
            return f"no MPS: {error}"
        return None

    def _do(self, run: Run, executor: Executor) -> bool:
        try:
            found = executor.execute(run, self._alone)
        except MpsUnavailableError as error:
            self._blocked[run.id] = f"no MPS for this run: {error}"
            return False
        result = self._result(run, found)
        self._store.write(result)
        if run.stage == "alone":
            self._alone.update(measured.alone_of([result]))
        return True

    def _result(self, run: Run, found: Mapping[str, Any]) -> dict[str, Any]:
        known = {job.name: job.to_object() for job in self._facts.jobs.jobs}
        return {
            "v": 1,
            "id": run.id,
            "run": run.to_object(),
            "jobs": {tenant.job: known[tenant.job] for tenant in run.tenants},
            "gpuModel": self._facts.gpu_model,
            "gpuUUID": self._facts.gpu_uuid,
            "simulated": self._facts.simulated,
            "environment": dict(self._facts.environment),
            "settings": self._facts.settings.to_object(),
            "time": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            **found,
        }

    def _longest(self, run: Run, pool: Pool, executor: Executor) -> float:
        """Return what a run may take; less where its processes are up, and no longer once one hangs than its grace."""
        window = self._usual(run)
        if run.experiment:
            return window
        return window + (0.0 if pool.has(executor.seats(run, self._alone)) else min(_START_SECONDS, 5 * window))

    def _usual(self, run: Run) -> float:
        settings = self._facts.settings
        if run.experiment:
            return questions.named(run.experiment).seconds
        window = settings.window_seconds + settings.ramp_seconds + settings.tail_seconds
        return 3 * measured.request_seconds(run, self._alone, settings.requests) or window

    def _prefetch(self, run: Run, left: Sequence[Run], *, pool: Pool, executor: Executor) -> None:
        """Start what the next runs of the same stage need, all at once; before a daemon is up none can be under MPS."""
        if pool.has(executor.seats(run, self._alone)):
            return
        ahead = [other for other in left[left.index(run) :] if other.stage == run.stage][:PREFETCHED_RUNS]
        pool.prefetch(
            [
                seat
                for other in ahead
                if plan.ready(other, self._alone) and (executor.daemon or other.mechanism is not Mechanism.MPS)
                for seat in executor.seats(other, self._alone)
            ]
        )

    def _show(self, run: Run, planned: Sequence[Run], done: Collection[str]) -> None:
        rest = plan.left(planned, done)
        seconds = sum(self._usual(other) for other in rest)
        stage = (run.stage, *plan.counts(planned, done)[run.stage])
        self._screen.show(
            progress.line(done=len(done), total=len(planned), stage=stage, left_seconds=seconds, last=run.title)
        )


def _counted(blocked: Mapping[str, str], left: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in left:
        reason = blocked.get(name, "not begun")
        found[reason] = found.get(reason, 0) + 1
    return found
