"""Carries out one run: seats the tenants, starts them together, reads the GPU while all run, writes down what they did.

All tenants start at one moment of the machine's monotonic clock; the first second is left out, and each runs on until
behind the window, so that all overlap throughout it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import arrivals, measured
from .mechanisms import Mechanism
from .mps import ControlDaemon, MpsUnavailableError
from .nvml import Gpu, Readings
from .plan import Run, Tenant
from .pool import Pool, Worker
from .seats import Seat, TenantError

LEAD_SECONDS = 0.2
"""From the command to the common start."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """How long is measured."""

    window_seconds: float = 3.0
    ramp_seconds: float = 1.0
    requests: int = 5000
    grace_seconds: float = 30.0
    """How long an answer may take beyond its time before the tenant counts as hung."""
    kills: int = 2
    """In one run of an experiment that ends tenants."""

    @property
    def tail_seconds(self) -> float:
        """How long tenants run on behind the window."""
        return self.ramp_seconds / 2

    def to_object(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "windowSeconds": self.window_seconds,
            "rampSeconds": self.ramp_seconds,
            "requests": self.requests,
            "kills": self.kills,
        }


@dataclasses.dataclass(frozen=True)
class Moments:
    """Of one run, on the monotonic clock; a run with requests has no end of its own."""

    start: float
    begin: float
    end: float | None


@dataclasses.dataclass
class Party:
    """A process of a run with the tenants in it, and what came of it."""

    tenants: Sequence[Tenant]
    worker: Worker | None = None
    failure: TenantError | None = None
    reports: Sequence[Mapping[str, Any]] = ()

    @property
    def answers_requests(self) -> bool:
        """Whether it ends by itself in a run without an end."""
        return any(tenant.load != "Steps" for tenant in self.tenants)

    def receive(self, deadline: float) -> None:
        """Take the reports, or note why there are none."""
        if self.worker is None:
            return
        try:
            self.reports = self.worker.receive(deadline)["tenants"]
        except TenantError as error:
            self.failure = error


class Executor:
    """Carries out runs on one GPU."""

    def __init__(
        self, gpu: Gpu, pool: Pool, settings: Settings, *, conduct: Callable[[str], dict[str, Any]] | None = None
    ) -> None:
        """`conduct`: carries out an experiment by name; it starts daemons and tenants of its own."""
        self._gpu, self._pool, self._settings, self._conduct = gpu, pool, settings, conduct
        self.daemon: ControlDaemon | None = None

    def execute(self, run: Run, alone: Mapping[str, measured.Alone]) -> dict[str, Any]:
        """Return the result, without what is the same for every run of a campaign. A tenant's failure is a result, too.

        Raises:
            MpsUnavailableError: the run needs MPS, and a tenant did not come under it.
        """
        if run.experiment and self._conduct is not None:
            self._pool.close()
            self.end_daemon()
            begun = time.monotonic()
            found = self._conduct(run.experiment)
            seconds = round(time.monotonic() - begun, 3)
            return {"durationSeconds": seconds, "tenants": [], "gpu": _unread().to_object(), **found}
        parties = self._seated(run, alone)
        moments = self._moments(run)
        for party in parties:
            if party.worker is not None:
                commands = [self._command(tenant, run, moments, alone) for tenant in party.tenants]
                party.worker.send({"do": "run", "tenants": commands})
        readings = None
        if moments.end is not None and any(party.worker for party in parties):
            readings = self._gpu.watch(begin=moments.begin, end=moments.end)
        self._collect(parties, moments, measured.request_seconds(run, alone, self._settings.requests))
        result = self._result(parties, moments, readings, alone)
        if run.stage == "alone" and run.repeat == 0 and parties[0].reports and parties[0].worker:
            result["profile"] = self._profiled(parties[0].worker)
        for party in parties:
            if party.failure is not None:
                self._end(party.failure.seat)
        return result

    def end_daemon(self) -> None:
        """End the campaign's daemon; the next run that needs one gets another."""
        if self.daemon is not None:
            self.daemon.stop()
            self.daemon = None

    def cannot(self, run: Run) -> str | None:
        """Why the GPU's settings, which are left as they are, do not allow this run, or why a stand-in cannot do it."""
        if run.experiment and self._conduct is None:
            return "experiments need a GPU, or what stands for one"
        if not run.experiment and self._gpu.is_stand_in:
            return "the driver is a stand-in: it runs no model"
        if run.mechanism is Mechanism.TIME_SLICING and not self._gpu.takes_several_processes():
            return "the GPU's compute mode lets one process in: time slicing needs the mode Default"
        return None

    def seats(self, run: Run, alone: Mapping[str, measured.Alone]) -> list[Seat]:
        """Return a process for each tenant; streams of different priority exist within one process only."""
        if run.mechanism is Mechanism.PRIORITY_STREAMS:
            return [Seat(tuple(tenant.job for tenant in run.tenants))]
        if run.mechanism is not Mechanism.MPS:
            return [Seat((tenant.job,)) for tenant in run.tenants]
        limits = [measured.memory_limit_mib(tenant, alone) for tenant in run.tenants]
        return [
            Seat((tenant.job,), True, tenant.thread_percentage, tenant.client_priority, limit)
            for tenant, limit in zip(run.tenants, limits, strict=True)
        ]

    def _seated(self, run: Run, alone: Mapping[str, measured.Alone]) -> list[Party]:
        """Tenants that wait stay only beside tenants under MPS: they hold memory there, and no share of time."""
        needed = sum(alone[tenant.job].memory_mib for tenant in run.tenants if tenant.job in alone)
        under_mps, several = run.mechanism is Mechanism.MPS, len(run.tenants) > 1
        found = self._pool.seated(
            self.seats(run, alone), needed_mib=needed, keep=lambda seat: under_mps and seat.under_mps and several
        )
        if under_mps:
            self._require_clients([worker.pid for worker in found if isinstance(worker, Worker)])
        shares = [run.tenants] if len(found) < len(run.tenants) else [(tenant,) for tenant in run.tenants]
        return [
            Party(tenants, failure=one) if isinstance(one, TenantError) else Party(tenants, worker=one)
            for tenants, one in zip(shares, found, strict=True)
        ]

    def _require_clients(self, pids: Sequence[int]) -> None:
        """By their number where the daemon sees other process numbers than we do."""
        found = self.daemon.clients() if self.daemon else ()
        missing, expected = set(pids) - set(found), self._pool.count(lambda seat: seat.under_mps)
        if missing and (len(missing) < len(pids) or len(found) < expected):
            raise MpsUnavailableError(f"the daemon has {len(found)} clients: a tenant runs without MPS")

    def _moments(self, run: Run) -> Moments:
        start = time.monotonic() + LEAD_SECONDS
        begin = start + self._settings.ramp_seconds
        endless = any(tenant.load != "Steps" for tenant in run.tenants)
        return Moments(start, begin, None if endless else begin + self._settings.window_seconds)

    def _command(
        self, tenant: Tenant, run: Run, moments: Moments, alone: Mapping[str, measured.Alone]
    ) -> dict[str, Any]:
        if tenant.load == "Steps":
            until = None if moments.end is None else moments.end + self._settings.tail_seconds
            return {"load": "Steps", "startAt": moments.start, "until": until}
        count: Any = self._settings.requests
        if tenant.load == "Poisson":
            rate = measured.requests_per_second(tenant, alone)
            count = arrivals.poisson(count, requests_per_second=rate, seed=run.repeat)
        return {"load": tenant.load, "startAt": moments.begin, "arrivals": count}

    def _collect(self, parties: Sequence[Party], moments: Moments, request_seconds: float) -> None:
        """Those with requests first; then the others are told to stop."""
        if moments.end is not None:
            for party in parties:
                party.receive(moments.end + self._settings.tail_seconds + self._settings.grace_seconds)
            return
        for party in (party for party in parties if party.answers_requests):
            party.receive(moments.begin + measured.SLOWEST * request_seconds + self._settings.grace_seconds)
        for party in (party for party in parties if not party.answers_requests):
            if party.worker is not None:
                party.worker.send({"do": "stop"})
            party.receive(time.monotonic() + self._settings.grace_seconds)

    def _result(
        self,
        parties: Sequence[Party],
        moments: Moments,
        readings: Readings | None,
        alone: Mapping[str, measured.Alone],
    ) -> dict[str, Any]:
        every = [report for party in parties for report in party.reports]
        window = (moments.begin, moments.end or measured.last_answer(every))
        rows = []
        for party in parties:
            reports = party.reports or [measured.NOTHING] * len(party.tenants)
            for tenant, report in zip(party.tenants, reports, strict=True):
                row = measured.tenant(tenant, report, window=window, failure=party.failure)
                row["memoryLimitMiB"] = measured.memory_limit_mib(tenant, alone)
                own = party.worker is not None and len(party.tenants) == 1 and party.failure is None
                row["memoryPeakMiB"] = party.worker.memory_mib if own and party.worker else None
                rows.append(row)
        return {
            "outcome": measured.worst(row["outcome"] for row in rows),
            "durationSeconds": round(max(0.0, window[1] - window[0]), 3) if every else 0.0,
            "tenants": rows,
            "gpu": (readings or _unread()).to_object(),
        }

    def _profiled(self, worker: Worker) -> Mapping[str, Any]:
        worker.send({"do": "profile"})
        try:
            return worker.receive(time.monotonic() + 2 * self._settings.grace_seconds)
        except TenantError as error:
            self._end(worker.seat)
            return {"kernels": [], "reasons": {"kernels": f"profiling failed: {error}"}}

    def _end(self, seat: Seat | None) -> None:
        """Under MPS a client is ended by the daemon before any signal, as a signal may hurt its neighbours."""
        if seat is None:
            return
        pid = self._pool.pid(seat)
        if pid is not None and seat.under_mps and self.daemon is not None and pid in self.daemon.clients():
            self.daemon.terminate(pid)
        self._pool.end(seat)


def _unread() -> Readings:
    names = ("utilization", "memoryUtilization", "smActivity", "dramActivity", "powerWatts")
    reason = "not read: the run had no window of fixed length, or no tenant"
    return Readings(None, None, None, None, None, dict.fromkeys(names, reason))
