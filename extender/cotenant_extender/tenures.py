"""What a pod's object says of when it ends: its deadline, its owner, and whether it ends by itself at all. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from cotenant_api import pod
from cotenant_api.names import Namespace
from cotenant_extender import sharing

Object = Mapping[str, Any]

ENDLESS_OWNERS: Final = frozenset({"DaemonSet", "ReplicaSet", "ReplicationController", "StatefulSet"})
"""Controllers whose pods run until somebody deletes them."""
_ALWAYS: Final = "Always"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """Times are in seconds since the epoch.

    Attributes:
        owner: kind of the controller that made it; empty: none.
        endless: whether it runs until somebody deletes it: its containers are restarted whenever they end.
        deadline_seconds: `activeDeadlineSeconds`, from its start; None: it has none.
        ended: when the last of its containers ended for good; None: not known.
        leaves: `deletionTimestamp`, by which it is to be gone; None: it is not being deleted.
    """

    owner: str = ""
    endless: bool = False
    deadline_seconds: float | None = None
    ended: float | None = None
    leaves: float | None = None


UNKNOWN: Final = Tenure()


class Likeness(NamedTuple):
    """Pods that run about as long: of one namespace and graph, else of owners of one kind and the same share."""

    namespace: Namespace
    work: str | tuple[str, int]


def of_pod(raw: Object, workload_type: pod.WorkloadType) -> Tenure:
    """What a pod's object says. Inference serves for ever."""
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    owner = next((one.get("kind", "") for one in metadata.get("ownerReferences") or () if one.get("controller")), "")
    always = spec.get("restartPolicy") == _ALWAYS
    return sharing.one(
        Tenure(
            owner=sharing.text(owner),
            endless=workload_type is pod.WorkloadType.INFERENCE or always or owner in ENDLESS_OWNERS,
            deadline_seconds=spec.get("activeDeadlineSeconds"),
            ended=_ended(status.get("containerStatuses") or ()),
            leaves=seconds(metadata.get("deletionTimestamp")) or None,
        )
    )


@lru_cache(maxsize=4096)
def seconds(text: str | None) -> float:
    """A time of the API server's in seconds since the epoch; 0 where there is none."""
    if not text:
        return 0.0
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _ended(containers: Any) -> float | None:
    """When the last container ended; None as long as one has not, or none says when."""
    states = [(one.get("state") or {}).get("terminated") or {} for one in containers]
    times = [seconds(state.get("finishedAt")) for state in states]
    return max(times) if times and all(times) else None
