"""What the conditions of a pod report: how kube-scheduler's last try ended, and what the queue told. Pure."""

from collections.abc import Mapping
from typing import Any

from cotenant_api.pod import PackedReason
from cotenant_extender import sharing, tenures

Object = Mapping[str, Any]

UNSCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "SchedulerError"
"""A try in vain: no node was found; or it ended by an error, at a Binding or a volume for example."""
IN_VAIN = (UNSCHEDULABLE, SCHEDULER_ERROR)
NOT_PROMISED = "the queue has not promised it one yet"
GANG_NOT_PROMISED = "the queue places a gang as a whole"
"""What filter says of a pod without an earmark that a GPU would take, and of a gang's; kube-scheduler reports it."""
TAKEN_BACK = "kube-scheduler found no node when it tried last; it has yet to say which nodes it refuses now"
"""What stands in the place of a report that is taken back: kube-scheduler writes the next one, whatever it says."""


def unschedulable(report: Object | None) -> str | None:
    """Return time and message of `PodScheduled`, where it says that a try was in vain; None if that is taken back."""
    if report is None or report.get("status") != "False" or report.get("reason") not in IN_VAIN:
        return None
    if report.get("message") == TAKEN_BACK:
        return None
    return f"{report.get('lastTransitionTime')} {report.get('message')}"


_REFUSALS = tuple(f" {reason}: " for reason in PackedReason)


def from_filter(report: str) -> bool:
    """Return whether filter refused nodes in the try that this is of: then kube-scheduler counts filter's reasons."""
    return any(words in report for words in _REFUSALS)


def is_early(report: str) -> bool:
    """Return whether a report is of a try in which the pod had no earmark yet."""
    return NOT_PROMISED in report or GANG_NOT_PROMISED in report


def errored(report: Object | None) -> bool:
    """Return whether `PodScheduled` is of an error, and tells of no node."""
    return report is not None and report.get("reason") == SCHEDULER_ERROR


def scheduled(report: Object | None) -> float | None:
    """Return when `PodScheduled` became true, in seconds since the epoch."""
    if report is None or report.get("status") != "True":
        return None
    return tenures.seconds(report.get("lastTransitionTime")) or None


def packed(report: Object | None) -> tuple[str, str] | None:
    """Return reason and message of the condition `cotenant.dev/Packed`."""
    return None if report is None else sharing.one((report.get("reason", ""), report.get("message", "")))


def waiting_since(report: Object | None) -> float | None:
    """Return since when the condition `cotenant.dev/Packed` says that the pod waits, in seconds since the epoch."""
    if report is None or report.get("status") != "False":
        return None
    return tenures.seconds(report.get("lastTransitionTime")) or None
