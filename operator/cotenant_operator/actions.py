"""What reconciliation wants done. Values only; `executor` does them, in order, and stops at the first that fails."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cotenant_api.names import Namespace

Manifest: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateJob:
    """Create a Job of a name that tells owner and attempt; one that is there already is taken as it is."""

    manifest: Manifest


@dataclass(frozen=True, kw_only=True, slots=True)
class ApplyDeployment:
    """Apply the Deployment; `uid` of the one that is there, None to make it."""

    manifest: Manifest
    uid: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeJob:
    """Set fields of a Job's spec; nothing happens to another Job of the same name."""

    namespace: Namespace
    name: str
    uid: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteDLJob:
    """Delete the DLJob: its time after the end is over."""

    uid: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PatchStatus:
    """Write the status.

    Attributes:
        uid, version: of the DLJob that it was derived from; another one is left alone.
        status: the whole status; null for what is to be removed.
        urgent: whether somebody may be waiting for it.
    """

    uid: str
    version: int
    status: Mapping[str, Any]
    urgent: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class EmitEvent:
    """Tell it with `kubectl describe`. The same `identity` is told once."""

    uid: str
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    identity: str


Action: TypeAlias = CreateJob | ApplyDeployment | ChangeJob | DeleteDLJob | PatchStatus | EmitEvent
