"""The Service in front of an inference job's replicas, where `spec.service` asks for one. Pure.

The operator owns the ports and the selector, and puts them right where others have changed them: that costs no pod. All
else of the Service stays as whoever wrote it: its address, its type and its annotations among them.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cotenant_api import dljob, names
from cotenant_operator import reasons
from cotenant_operator.plans import actions as todo
from cotenant_operator.plans.stages import Blocked
from cotenant_operator.state import fronts
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import Observed, Part
from cotenant_operator.workloads import builders


@dataclass(frozen=True, kw_only=True, slots=True)
class Front:
    """What becomes of the Service.

    Attributes:
        actions: to be done, after those of the workload.
        missing: why it is not there, or not as asked; None: it is, or is by `actions`, or nobody asks for it.
    """

    actions: tuple[todo.Action, ...] = ()
    missing: Blocked | None = None


def look(observed: Observed, spec: dljob.Spec, now: datetime) -> Front:
    """Return what is to be done about the Service of an inference job."""
    manifest = None if spec.service is None else builders.service(observed.job, spec.service)
    name = None if manifest is None else manifest["metadata"]["name"]
    current = next((one for one in observed.services if one.meta.key.name == name), None)
    if current is not None and current.meta.deleting:
        message = f"Service {name} is being deleted, and is made again when it is gone"
        return Front(missing=Blocked(reason=reasons.SERVICE_FAILED, message=message))
    found = _wanted(observed, manifest, current)
    refusal = observed.standing_refusal(now, Part.SERVICE)
    if found and refusal is not None:
        return Front(missing=Blocked(reason=refusal.reason, message=refusal.message))
    return Front(actions=found)


def next_look(observed: Observed, now: datetime) -> datetime | None:
    """Return when to try again to write a Service that was refused."""
    refusal = observed.standing_refusal(now, Part.SERVICE)
    return None if refusal is None else refusal.retry_at


def _wanted(
    observed: Observed, manifest: todo.Manifest | None, current: fronts.Service | None
) -> tuple[todo.Action, ...]:
    """Return what brings about the Service of a manifest, and no other one."""
    if manifest is None:
        return _former(observed, but=None)
    if current is None:
        # The former one goes when this one is there.
        return (todo.Create(kind=Kind.SERVICE, manifest=manifest, beside=True),)
    return (*_mended(current, manifest), *_former(observed, but=current.meta.key.name))


def _former(observed: Observed, *, but: str | None) -> tuple[todo.Delete, ...]:
    """Return the deletion of the Services that the operator made, and that nobody asks for any more."""
    return tuple(
        todo.Delete(kind=Kind.SERVICE, name=one.meta.key.name, uid=one.meta.uid, version=one.meta.version)
        for one in observed.services
        if one.made and one.meta.key.name != but and not one.meta.deleting
    )


def _mended(current: fronts.Service, manifest: todo.Manifest) -> tuple[todo.Change, ...]:
    """Return the change of a Service that is not as the DLJob says.

    One without our label is written to as well: no watch tells of it, and what is written carries the label.
    """
    wanted: dict[str, Any] = manifest["spec"]
    as_asked = current.ports == tuple(map(fronts.port, wanted["ports"])) and current.selector == wanted["selector"]
    if as_asked and names.DLJOB_LABEL in current.meta.labels:
        return ()
    others = dict.fromkeys(current.selector.keys() - wanted["selector"].keys())
    patch = {"spec": {"ports": wanted["ports"], "selector": {**others, **wanted["selector"]}}}
    return (todo.Change.of(Kind.SERVICE, current.meta, patch),)
