"""What a pod's object says of when it ends: its deadline, its owner, and whether it ends by itself at all. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from cotenant_api.names import Namespace
from cotenant_extender import sharing

Object = Mapping[str, Any]

ENDLESS_OWNERS: Final = frozenset({"DaemonSet", "Node", "ReplicaSet", "ReplicationController", "StatefulSet"})
"""Controllers whose pods run until somebody deletes them; a Node's are kubelet's own (mirror pods)."""
_LONGEST_KIND: Final = 63
"""Kubernetes has no longer ones; anybody may write one into an owner reference."""
_ALWAYS: Final = "Always"
_GRACE_SECONDS: Final = 30
"""The API server's default of `terminationGracePeriodSeconds`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """Times are in seconds since the epoch.

    Attributes:
        owner: kind of the controller that made it; empty: none.
        endless: whether it runs until somebody deletes it: its containers are restarted whenever they end.
        deadline_seconds: `activeDeadlineSeconds` and the grace period after it, from its start; None: it has none.
        grace_seconds: how long it may take to end when it is deleted.
        ended: when the last of its containers ended for good; None: not known.
        leaves: `deletionTimestamp`, by which it is to be gone; None: it is not being deleted.
    """

    owner: str = ""
    endless: bool = False
    deadline_seconds: float | None = None
    grace_seconds: float = _GRACE_SECONDS
    ended: float | None = None
    leaves: float | None = None


UNKNOWN: Final = Tenure()
ENDLESS: Final = Tenure(endless=True)


class Likeness(NamedTuple):
    """Pods that run about as long: of one namespace and graph, else of owners of one kind and the same share."""

    namespace: Namespace
    work: str | tuple[str, int]


def of_pod(raw: Object) -> Tenure:
    """Return what a pod's object says. That it is inference says nothing: anybody may write that on a pod that ends."""
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    return sharing.one(
        Tenure(
            owner=sharing.text(_owner(metadata)),
            endless=_endless(raw),
            deadline_seconds=_deadline(spec),
            grace_seconds=_grace(spec),
            ended=_ended(status.get("containerStatuses") or ()),
            leaves=seconds(metadata.get("deletionTimestamp")) or None,
        )
    )


def of_other(raw: Object) -> Tenure:
    """Return what counts of a pod without a share: whether it ends by itself. Of its run time nothing is learned."""
    return ENDLESS if _endless(raw) and _deadline(raw.get("spec") or {}) is None else UNKNOWN


def _owner(metadata: Object) -> str:
    found: str = next(
        (one.get("kind", "")[:_LONGEST_KIND] for one in metadata.get("ownerReferences") or () if one.get("controller")),
        "",
    )
    return found


def _endless(raw: Object) -> bool:
    return (raw.get("spec") or {}).get("restartPolicy") == _ALWAYS or _owner(raw["metadata"]) in ENDLESS_OWNERS


def _deadline(spec: Object) -> float | None:
    """Return how long it may run and then take to end, in seconds."""
    deadline = spec.get("activeDeadlineSeconds")
    return None if deadline is None else deadline + _grace(spec)


def _grace(spec: Object) -> float:
    """Return how long it may take to end, in seconds."""
    grace = spec.get("terminationGracePeriodSeconds")
    return _GRACE_SECONDS if grace is None else float(grace)


@lru_cache(maxsize=4096)
def seconds(text: str | None) -> float:
    """Return a time of the API server's in seconds since the epoch; 0 where there is none."""
    if not text:
        return 0.0
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def minute(time: float) -> str:
    """Return a time in seconds since the epoch, for people."""
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"


def _ended(containers: Any) -> float | None:
    """When the last container ended; None as long as one has not, or none says when."""
    states = [(one.get("state") or {}).get("terminated") or {} for one in containers]
    times = [seconds(state.get("finishedAt")) for state in states]
    return max(times) if times and all(times) else None
