"""What speaks for and against a GPU, and which conditions of being Healthy it does not meet. Pure.

Times are seconds since 1970 (a wall clock: they outlive a reboot); what the clock says is passed in.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import Field

from cotenant_api import documents, gpunode
from cotenant_api.names import PodUID
from cotenant_deviceplugin.gpus import hardware, xids


@dataclass(frozen=True, kw_only=True)
class Canary:
    """A small program that used the GPU as a tenant would.

    Attributes:
        began: when; it proves nothing about trouble that came later, and nothing at all in the future.
        fault: why it did not pass, or could not be run; None: it passed.
    """

    began: float
    fault: str | None = None


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known of one GPU at one moment.

    Attributes:
        readings: None: the driver does not list it, or is away.
        mps: of its server; NOT_USED where none is wanted now (a whole GPU, a mode that changes).
        xids: told since the last step, oldest first.
        canary: the last one that ended.
        tenants: pods that held the GPU when what is told was seen.
        strangers: whether processes were on the GPU that no tenant explains, or a canary.
        boot: the kernel's boot ID; another one: the machine has been restarted.
    """

    readings: hardware.Readings | None
    mps: gpunode.MPS = gpunode.MPS.NOT_USED
    xids: tuple[int, ...] = ()
    canary: Canary | None = None
    tenants: tuple[PodUID, ...] = ()
    strangers: bool = False
    boot: str | None = None


@dataclass(frozen=True, kw_only=True)
class Policy:
    """How long is long enough. All in seconds.

    Attributes:
        canary: whether somebody runs canaries; where nobody does, none is waited for.
        settle: after the first trouble; twice as long after each further one, up to `settle_most`. A process that was
            ended on purpose is none.
        quiet: without an XID that demands to drain or to reset, where the driver tells that no action is needed.
        quiet_untold: the same where it does not tell: nothing shows that the reset has happened.
        missing: how long the driver may not answer for the GPU before it is Unhealthy.
        stalled: how long the MPS server or the canary may take before it is.
        probation: after the first trouble of the GPU itself; doubled as `settle`, up to `probation_most`.
        forgiven: so long after the last trouble of the GPU itself nothing of it counts any more.
        forgiven_faults: so long after the last trouble those that tenants made count no more.
        incident: what is told within so long of a fault, of no other pods, belongs to it.
    """

    canary: bool = True
    settle: float = 5
    settle_most: float = 300
    quiet: float = 300
    quiet_untold: float = 3600
    missing: float = 30
    stalled: float = 600
    probation: float = 300
    probation_most: float = 6 * 3600
    forgiven: float = 24 * 3600
    forgiven_faults: float = 3600
    incident: float = 60


DEFAULT_POLICY = Policy()


class Record(documents.Model):
    """What is remembered of one GPU. Everything that health follows from, so that a restart changes nothing."""

    health: gpunode.Health = gpunode.Health.SUSPECT
    since: float
    reason: str | None = None
    cause: str | None = None
    """What it was that ended its being Healthy."""
    troubled_at: float | None = None
    """When something last happened that a canary has to disprove."""
    canary_at: float | None = None
    """When the last canary began that passed."""
    canary_fault: str | None = None
    """Why none has passed since that was tried."""
    stalled_at: float | None = None
    """Since when it waits for a driver, a server or a canary."""
    demand: xids.Class | None = None
    demand_xid: int | None = None
    demand_at: float | None = None
    flaps: int = Field(default=0, ge=0)
    """How often the GPU itself made trouble."""
    flapped_at: float | None = None
    faults: int = Field(default=0, ge=0)
    """How often its tenants did."""
    boot: str | None = None
    mps_fault: bool = False
    """Whether the server's last fault is not over yet: then it is not told anew."""
    fault: gpunode.Fault | None = None
    published: int = Field(default=0, ge=0)
    """How many faults there were: two of one moment have different IDs, and two of one number different moments."""
    incident_until: float | None = None


class Kind(enum.Enum):
    """What an unmet condition leads to."""

    SOFT = enum.auto()
    """Suspect, as long as it lasts."""
    STALLED = enum.auto()
    """Unhealthy after `Policy.stalled`."""
    MISSING = enum.auto()
    """Unhealthy after `Policy.missing`."""
    HARD = enum.auto()
    """Unhealthy."""


@dataclass(frozen=True)
class Unmet:
    """A condition of being Healthy that is not met; `text` changes only with what happens, never with time."""

    kind: Kind
    text: str


def unmet(record: Record, evidence: Evidence, *, now: float, policy: Policy, table: xids.Table) -> tuple[Unmet, ...]:
    """All of them; none: the GPU may be used."""
    return (
        *_of_readings(evidence.readings),
        *_of_demand(record, evidence, policy=policy, table=table),
        *_of_server(evidence),
        *_of_canary(record, evidence, policy),
        *_of_settling(record, now, policy),
    )


def settle_seconds(record: Record, policy: Policy) -> float:
    """Return how long after trouble the GPU stays Suspect at least."""
    return _doubled(policy.settle, max(record.flaps, record.faults), policy.settle_most)


def probation_seconds(flaps: int, policy: Policy) -> float:
    """Return how long probation lasts."""
    return _doubled(policy.probation, flaps, policy.probation_most)


def quiet_seconds(evidence: Evidence, policy: Policy) -> float:
    """Return how long after an XID that demands something the demand ends by itself."""
    told = evidence.readings is not None and evidence.readings.recovery_action is not None
    return policy.quiet if told else policy.quiet_untold


def moment(seconds: float) -> str:
    """For a person, and for the API."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _of_readings(readings: hardware.Readings | None) -> Iterator[Unmet]:
    if readings is None:
        yield Unmet(Kind.MISSING, "the driver does not list it")
        return
    if readings.fault is not None:
        yield Unmet(Kind.MISSING, readings.fault)
        return
    if readings.recovery_action not in {None, hardware.RecoveryAction.NONE}:
        yield Unmet(Kind.HARD, f"the driver asks for {readings.recovery_action}")
    if readings.remap_failed:
        yield Unmet(Kind.HARD, "a memory row could not be remapped")
    if readings.remap_pending:
        yield Unmet(Kind.SOFT, "a memory row waits to be remapped: reset the GPU when it is idle")


def _of_demand(record: Record, evidence: Evidence, *, policy: Policy, table: xids.Table) -> Iterator[Unmet]:
    """Yield the demand, unless its time is over: then it is not in the record any more."""
    if record.demand is None or record.demand_at is None or record.demand_xid is None:
        return
    end = record.demand_at + quiet_seconds(evidence, policy)
    kind = Kind.SOFT if record.demand is xids.Class.DRAIN else Kind.HARD
    yield Unmet(kind, f"{xids.described(table, record.demand_xid)} demands: {record.demand}; at least {moment(end)}")


def _of_server(evidence: Evidence) -> Iterator[Unmet]:
    if evidence.mps not in {gpunode.MPS.NOT_USED, gpunode.MPS.ACTIVE}:
        yield Unmet(Kind.STALLED, f"its MPS server is {evidence.mps}")


def _of_canary(record: Record, evidence: Evidence, policy: Policy) -> Iterator[Unmet]:
    """While no server is used, a canary may have to wait for a tenant: that alone does not make a GPU Unhealthy."""
    if not policy.canary or proven(record):
        return
    waits = evidence.mps is gpunode.MPS.NOT_USED and record.canary_fault is None
    because = "" if record.canary_fault is None else f": {record.canary_fault}"
    yield Unmet(Kind.SOFT if waits else Kind.STALLED, f"no canary has proved it since{because}")


def proven(record: Record) -> bool:
    """Return whether a canary passed that began after the last trouble."""
    return record.troubled_at is None or (record.canary_at is not None and record.canary_at > record.troubled_at)


def _of_settling(record: Record, now: float, policy: Policy) -> Iterator[Unmet]:
    if record.troubled_at is None:
        return
    end = record.troubled_at + settle_seconds(record, policy)
    if now < end:
        how = "" if policy.canary else ", and no canary is run"
        yield Unmet(Kind.SOFT, f"watched until {moment(end)}{how}")


def _doubled(first: float, flaps: int, most: float) -> float:
    return min(first * 2.0 ** min(max(flaps - 1, 0), 32), most)
