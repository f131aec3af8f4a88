"""What the conditions of a pod report: how kube-scheduler's last try ended, and what the queue told. Pure."""

from collections.abc import Mapping
from typing import Any

from cotenant_extender import sharing, tenures

Object = Mapping[str, Any]

UNSCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "SchedulerError"
"""A try in vain: no node was found; or it ended by an error, at a Binding or a volume for example."""
IN_VAIN = (UNSCHEDULABLE, SCHEDULER_ERROR)


def unschedulable(report: Object | None) -> str | None:
    """Return time and message of `PodScheduled`, where it says that a try was in vain."""
    if report is None or report.get("status") != "False" or report.get("reason") not in IN_VAIN:
        return None
    return f"{report.get('lastTransitionTime')} {report.get('message')}"


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
