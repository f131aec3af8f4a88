"""What reconciliation wants done. Values only; `loop.executor` does it, in order, up to the first that fails."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

from cotenant_operator.state import carried
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import AnyPart, Part, RunName
from cotenant_operator.state.views import Meta

Manifest: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Create:
    """Create an object that the DLJob owns; one of that name that is ours is taken as it is.

    Attributes:
        after: why the attempt ended that this one follows.
        beside: nothing else of the plan rests on it: that is done although this one is refused.
    """

    kind: Kind
    manifest: Manifest
    after: carried.Cause | None = None
    beside: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ApplyDeployment:
    """Apply the Deployment.

    Attributes:
        uid, version: of the one that is there, as it was when this was decided.
    """

    manifest: Manifest
    uid: str
    version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """Merge a patch into an object; nothing happens to another of the same name, nor to one that has changed since.

    Attributes:
        version: of the object when this was decided: a patch that arrives late would undo what came after it.
        patch: of the whole object, without what names it.
    """

    kind: Kind
    name: str
    uid: str
    version: int
    patch: Mapping[str, Any]

    @classmethod
    def of(cls, kind: Kind, meta: Meta, patch: Mapping[str, Any]) -> Self:
        """Return the change of an object as it was read."""
        return cls(kind=kind, name=meta.key.name, uid=meta.uid, version=meta.version, patch=patch)


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateRun:
    """Bring a run of a sweep to a manifest, whatever it says now; nothing happens to one that has changed since.

    Attributes:
        manifest: the run as it would be made now.
        uid, version: of the run when this was decided.
    """

    manifest: Manifest
    uid: str
    version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Delete:
    """Delete the object of this UID, and what it owns in the background.

    Attributes:
        version: only as it was then; None: whatever became of it.
    """

    kind: Kind
    name: str
    uid: str
    version: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Discard:
    """Delete the objects of a kind that carry these labels and are controlled by this owner.

    Attributes:
        selector: of labels.
        owner_uid: of the controlling owner; what another one has is left alone.
        renew: name of the one that stays if it holds something. An empty one goes, too: a deletion of it may be under
            way that was decided on earlier, and would hit whatever has its UID. None: none stays.
    """

    kind: Kind
    selector: str
    owner_uid: str
    renew: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PatchStatus:
    """Write the status.

    Attributes:
        uid, version: of the DLJob that it was derived from; another one is left alone.
        status: the whole status; null for what is to be removed.
        urgent: whether somebody may be waiting for it.
        keeps: whether it says what may be nowhere else a moment later.
    """

    uid: str
    version: int
    status: Mapping[str, Any]
    urgent: bool
    keeps: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class EmitEvent:
    """Tell it with `kubectl describe`. The same `identity` is told once."""

    uid: str
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    identity: str


Action: TypeAlias = Create | ApplyDeployment | Change | UpdateRun | Delete | Discard | PatchStatus | EmitEvent


def part(action: Action) -> AnyPart:
    """Return to what of a DLJob an action belongs. The headless Service of a gang is part of its workload.

    Where one run of a sweep cannot be made, others of its kind cannot, either. What becomes of one that is there is its
    own affair.
    """
    if isinstance(action, UpdateRun):
        return RunName(action.manifest["metadata"]["name"])
    if isinstance(action, Change | Delete) and action.kind is Kind.DLJOB:
        return RunName(action.name)
    served = isinstance(action, Change | Delete) and action.kind is Kind.SERVICE
    return Part.SERVICE if served or (isinstance(action, Create) and action.beside) else Part.WORKLOAD


def is_beside(action: Action) -> bool:
    """Return whether the others are done although an action fails: it is about a run of a sweep, or a Service."""
    makes_run = isinstance(action, Create) and action.kind is Kind.DLJOB
    return makes_run or part(action) is not Part.WORKLOAD


def describe(action: Action) -> str:
    """Return an action in one line, for the log."""
    match action:
        case Create() | ApplyDeployment() | UpdateRun():
            return f"wrote {action.manifest['kind']} {action.manifest['metadata']['name']}"
        case Change():
            return f"changed {action.kind.value} {action.name}: {dict(action.patch)}"
        case Delete():
            return f"deleted {action.kind.value} {action.name}"
        case Discard():
            return f"deleted what is left of {action.kind.value} {action.selector}"
        case EmitEvent():
            return f"{action.reason}: {action.message}"
        case PatchStatus():
            return "wrote the status"
