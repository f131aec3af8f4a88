"""Whether a GPU may take work: Healthy, Suspect, Unhealthy, Probation. Pure.

    Healthy --something is unmet--> Suspect --all met--> Healthy
    Suspect --hard, or for too long--> Unhealthy --all met--> Probation --long enough--> Healthy
                                       Unhealthy <--something is unmet-- Probation

What has to be met: `evidence.unmet`. Only what is Healthy takes placements. Who flaps waits twice as long each time.
What is not known is never taken for good: a GPU that nobody has examined is Suspect, and so is one whose record
cannot be read.
"""

from collections.abc import Iterable, Mapping, Sequence

from cotenant_api import documents, gpunode
from cotenant_api.gpunode import Health
from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin.gpus import xids
from cotenant_deviceplugin.gpus.evidence import (
    DEFAULT_POLICY,
    Evidence,
    Kind,
    Policy,
    Record,
    Unmet,
    moment,
    probation_seconds,
    proven,
    quiet_seconds,
    unmet,
)

MAX_REASON = 1024
"""Of GPUNode.status.gpus[].reason."""
UNREADABLE = "what was known of this GPU could not be read"
UNEXAMINED = "not examined yet"

_OPEN = (Health.HEALTHY, Health.PROBATION)
"""Trouble in these counts, and so does the first; what follows while the GPU is closed for it is the same trouble."""
_SEVERITY = (xids.Class.DRAIN, xids.Class.RESET, xids.Class.REBOOT)


class Records(documents.Document):
    """What is remembered of all GPUs of a node, as it is stored."""

    gpus: dict[GPUUID, Record]


class Machine:
    """The rules. Holds nothing but them.

    Args:
        table: what XIDs mean.
        policy: how long is long enough.
    """

    def __init__(self, table: xids.Table, policy: Policy = DEFAULT_POLICY) -> None:
        self._table, self._policy = table, policy

    def step(self, gpu: GPUUID, record: Record, evidence: Evidence, *, now: float) -> Record:
        """Return what is known of a GPU after `evidence`; `now` in seconds since 1970.

        A clock that went back stays safe.
        """
        record = _rebooted(_clamped(record, now), evidence.boot)
        record = self._with_fault(gpu, record, evidence, now)
        troubled = self._with_trouble(record, evidence, now)
        troubled = self._counted(troubled, evidence, now)
        found = self._unmet(troubled, evidence, now)
        waiting = _with_stall(troubled, found, now)
        return self._moved(waiting, found, now)

    def wants_canary(self, record: Record, evidence: Evidence, *, now: float) -> bool:
        """Return whether a canary is what the GPU waits for, and its server, where it has one, is there to take it."""
        ready = evidence.mps in {gpunode.MPS.ACTIVE, gpunode.MPS.NOT_USED}
        if not self._policy.canary or proven(record) or not ready:
            return False
        return not any(each.kind in {Kind.HARD, Kind.MISSING} for each in self._unmet(record, evidence, now))

    def _unmet(self, record: Record, evidence: Evidence, now: float) -> tuple[Unmet, ...]:
        return unmet(record, evidence, now=now, policy=self._policy, table=self._table)

    def _classes(self, evidence: Evidence) -> tuple[xids.Class, ...]:
        action = evidence.readings.recovery_action if evidence.readings else None
        return tuple(xids.meant(self._table, xid, action) for xid in evidence.xids)

    def _with_trouble(self, record: Record, evidence: Evidence, now: float) -> Record:
        """Return what happened, remembered: when, and what it demands."""
        # It lasts until the server is seen well: after a restart of the agent it is not seen at all for a moment.
        lasts = record.mps_fault and evidence.mps is not gpunode.MPS.ACTIVE
        changes: dict[str, object] = {"mps_fault": lasts or evidence.mps is gpunode.MPS.FAULT}
        classes = self._classes(evidence)
        canary = evidence.canary
        if canary is not None and canary.began > now:
            canary = None  # the clock went back: it may have begun before the trouble that it should disprove
        if canary is not None:
            changes["canary_fault"] = canary.fault
        if canary is not None and canary.fault is None and canary.began > (record.canary_at or 0):
            changes["canary_at"] = canary.began
        if _happened(evidence, classes) or evidence.readings is None:
            changes["troubled_at"] = now
        elif canary is not None and canary.fault is not None and canary.began > (record.troubled_at or 0):
            changes["troubled_at"] = canary.began
        changes |= self._demanded(record, evidence, classes, now)
        return record.model_copy(update=changes)

    def _counted(self, record: Record, evidence: Evidence, now: float) -> Record:
        """Whose trouble it was: the GPU's own counts longer than its tenants'."""
        classes = self._classes(evidence)
        if not _happened(evidence, classes):
            return record
        if _of_hardware(evidence, classes):
            return _flapped(record, now) if record.health in _OPEN or not record.flaps else record
        purposely = evidence.mps is not gpunode.MPS.FAULT and all(self._follows(xid) for xid in evidence.xids)
        if purposely or (record.health not in _OPEN and record.faults):
            return record
        return record.model_copy(update={"faults": record.faults + 1})

    def _demanded(
        self, record: Record, evidence: Evidence, classes: Sequence[xids.Class], now: float
    ) -> Mapping[str, object]:
        """Return the strongest demand so far; it ends by quiet alone, and quiet begins with the last event."""
        demand, xid = record.demand, record.demand_xid
        if record.demand_at is not None and now >= record.demand_at + quiet_seconds(evidence, self._policy):
            demand, xid = None, None
        new = [(class_, told) for class_, told in zip(classes, evidence.xids, strict=True) if class_ in _SEVERITY]
        for class_, told in new:
            if demand is None or _SEVERITY.index(class_) >= _SEVERITY.index(demand):
                demand, xid = class_, told
        at = now if new else (record.demand_at if demand is not None else None)
        return {"demand": demand, "demand_xid": xid, "demand_at": at}

    def _with_fault(self, gpu: GPUUID, record: Record, evidence: Evidence, now: float) -> Record:
        """Return the fault to publish: once for all that is told of one incident, and then never changed."""
        told = [xid for xid in evidence.xids if xids.tells_of_fault(self._table, xid)]
        faulted = evidence.mps is gpunode.MPS.FAULT and not record.mps_fault
        if not told and not faulted:
            return record
        if _known(record, evidence, now):
            return record
        xid = told[0] if told else None
        culprit = self._culprit(evidence, xid)
        victims = tuple(sorted(pod for pod in set(evidence.tenants) if pod != culprit))[:64]
        fault = gpunode.Fault(
            id=f"{gpu}-{int(now * 1000)}-{record.published + 1}",
            time=moment(now),
            xid=xid,
            culprit_pod_uid=culprit,
            victim_pod_uids=victims,
            # Also where a process that no tenant explains may be the cause as well.
            suspect_pod_uids=victims if not culprit and self._may_be_by_a_tenant(xid) else (),
        )
        until = now + self._policy.incident
        return record.model_copy(update={"fault": fault, "incident_until": until, "published": record.published + 1})

    def _culprit(self, evidence: Evidence, xid: int | None) -> PodUID | None:
        """Return the pod that was alone on the GPU; hardware has no culprit.

        Among several nobody can be named: the daemon's output repeats what any of them makes it say.
        """
        if not self._by_a_tenant(xid):
            return None
        tenants = set(evidence.tenants)
        return tenants.pop() if len(tenants) == 1 and not evidence.strangers else None

    def _by_a_tenant(self, xid: int | None) -> bool:
        """Return whether a tenant caused a fault, and not the hardware; None: no XID was told with it."""
        return xid is None or (xid in self._table and self._may_be_by_a_tenant(xid))

    def _may_be_by_a_tenant(self, xid: int | None) -> bool:
        """Return whether nothing says that the hardware caused a fault: an XID that nobody knows does not."""
        row = None if xid is None else self._table.get(xid)
        return row is None or xids.Class.APPLICATION in {row.class_, row.untold}

    def _follows(self, xid: int) -> bool:
        row = self._table.get(xid)
        return row is not None and row.follows

    def _moved(self, record: Record, found: tuple[Unmet, ...], now: float) -> Record:
        """Return the next state."""
        health = record.health
        if health in _OPEN and record.flapped_at != now and any(each.kind is Kind.HARD for each in found):
            record = _flapped(record, now)
        if health is Health.HEALTHY and found:
            left = record.model_copy(update={"cause": _texts(found)})
            # What is hard, or lasts already, need not wait for the next step.
            return self._moved(_to(left, Health.SUSPECT, now), found, now)
        if health is Health.SUSPECT and self._condemned(record, found, now):
            return _explained(_to(record, Health.UNHEALTHY, now), found)
        if health is Health.PROBATION and found:
            return _explained(_to(record, Health.UNHEALTHY, now), found)
        if found:
            return _explained(record, found)
        return self._recovered(record, now)

    def _recovered(self, record: Record, now: float) -> Record:
        """Nothing is unmet."""
        if record.health is Health.HEALTHY:
            return self._forgiven(record, now).model_copy(update={"reason": None})
        end = record.since + probation_seconds(record.flaps, self._policy)
        if record.health is Health.UNHEALTHY:
            end = now + probation_seconds(record.flaps, self._policy)
            record = _to(record, Health.PROBATION, now)
        if record.health is Health.PROBATION and now < end:
            return record.model_copy(update={"reason": _cut(f"on probation until {moment(end)} after: {record.cause}")})
        return _to(record, Health.HEALTHY, now).model_copy(update={"reason": None, "cause": None, "mps_fault": False})

    def _forgiven(self, record: Record, now: float) -> Record:
        changes: dict[str, object] = {}
        if record.flapped_at is not None and now >= record.flapped_at + self._policy.forgiven:
            changes |= {"flaps": 0, "flapped_at": None}
        if record.troubled_at is not None and now >= record.troubled_at + self._policy.forgiven_faults:
            changes |= {"faults": 0}
        return record.model_copy(update=changes)

    def _condemned(self, record: Record, found: tuple[Unmet, ...], now: float) -> bool:
        kinds = {each.kind for each in found}
        if Kind.HARD in kinds:
            return True
        waited = 0.0 if record.stalled_at is None else now - record.stalled_at
        return (Kind.MISSING in kinds and waited >= self._policy.missing) or (
            Kind.STALLED in kinds and waited >= self._policy.stalled
        )


def unexamined(*, now: float) -> Record:
    """Of a GPU that is new to the node."""
    return Record(since=now, reason=UNEXAMINED)


def doubtful(*, now: float) -> Record:
    """Of a GPU whose record could not be read: it must prove itself as after a fault."""
    return Record(since=now, reason=UNREADABLE, cause=UNREADABLE, troubled_at=now)


def read(text: str) -> Mapping[GPUUID, Record]:
    """Return what was stored. Raises InvalidInputError where it is no such document."""
    return Records.from_json(text, source="health records").gpus


def stored(records: Mapping[GPUUID, Record]) -> str:
    """Return the text to store."""
    return Records(gpus=dict(records)).to_json()


def _happened(evidence: Evidence, classes: Iterable[xids.Class]) -> bool:
    """Return whether this is trouble, and not only something that is not there (yet)."""
    shared = evidence.mps is not gpunode.MPS.NOT_USED
    harmless = {xids.Class.IGNORE} if shared else {xids.Class.IGNORE, xids.Class.APPLICATION}
    broken = evidence.readings is not None and evidence.readings.fault is not None
    return broken or evidence.mps is gpunode.MPS.FAULT or any(class_ not in harmless for class_ in classes)


def _known(record: Record, evidence: Evidence, now: float) -> bool:
    """Return whether what is told belongs to the fault that has been published."""
    if record.fault is None or record.incident_until is None or now >= record.incident_until:
        return False
    return set(evidence.tenants) <= {record.fault.culprit_pod_uid, *record.fault.victim_pod_uids}


def _clamped(record: Record, now: float) -> Record:
    """Return the record with no time in the future: a clock that went back must not keep a GPU closed for as long."""
    times = ("since", "troubled_at", "canary_at", "stalled_at", "demand_at", "flapped_at")
    ahead = {name: now for name in times if (getattr(record, name) or 0) > now}
    until = record.incident_until
    if until is not None and ahead:
        ahead["incident_until"] = min(until, now)
    return record.model_copy(update=ahead) if ahead else record


def _rebooted(record: Record, boot: str | None) -> Record:
    """Return a restart of the machine resets its GPUs: what demanded that is done."""
    if boot is None or boot == record.boot:
        return record
    done = {"demand": None, "demand_xid": None, "demand_at": None} if record.boot is not None else {}
    return record.model_copy(update={"boot": boot, **done})


def _with_stall(record: Record, found: tuple[Unmet, ...], now: float) -> Record:
    waiting = any(each.kind in {Kind.STALLED, Kind.MISSING} for each in found)
    at = (now if record.stalled_at is None else record.stalled_at) if waiting else None
    return record.model_copy(update={"stalled_at": at})


def _to(record: Record, health: Health, now: float) -> Record:
    return record.model_copy(update={"health": health, "since": now})


def _flapped(record: Record, now: float) -> Record:
    return record.model_copy(update={"flaps": record.flaps + 1, "flapped_at": now})


def _of_hardware(evidence: Evidence, classes: Iterable[xids.Class]) -> bool:
    broken = evidence.readings is not None and evidence.readings.fault is not None
    return broken or any(class_ in _SEVERITY for class_ in classes)


def _explained(record: Record, found: tuple[Unmet, ...]) -> Record:
    now = _texts(found)
    cause = record.cause or now
    return record.model_copy(update={"cause": cause, "reason": _cut(now if cause == now else f"{now}; after: {cause}")})


def _texts(found: tuple[Unmet, ...]) -> str:
    return "; ".join(each.text for each in found)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_REASON else f"{text[: MAX_REASON - 3]}..."
