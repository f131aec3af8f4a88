"""Why a job that waits is not even tried. Pure.

Its gang is too large or not complete, it may be root on a shared GPU, or kube-scheduler refused a pod just now.
"""

from cotenant_api import names
from cotenant_api.pod import PackedReason
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import order

MAX_FOREIGN_TEXT = 256


def obstacle(source: ledger.Ledger, entry: order.Entry, *, now: float) -> tuple[PackedReason, str] | None:
    """Return why an entry is not even tried, if so.

    It is a gang that is too large or not complete, it may be root on a shared GPU, or kube-scheduler refused a pod just
    now.
    """
    refused = _too_large(source, entry) or _may_be_root(source, entry)
    if refused is not None:
        return PackedReason.INVALID_REQUEST, refused
    if entry.gang is not None and not entry.complete:
        size, there = entry.gang
        return PackedReason.WAITING_FOR_GANG, f"{there} of the gang's {size} pods are here"
    for member in entry.members:
        setback = source.earmarks.setback(member.uid)
        if setback is not None and setback.until > now:
            report = (member.unschedulable or "").partition(" ")[2][:MAX_FOREIGN_TEXT]
            why = "could not place it" if member.errored else "found no node"
            return PackedReason.INSUFFICIENT_HOST_RESOURCES, f"kube-scheduler {why}: {report}"
    return None


def _too_large(source: ledger.Ledger, entry: order.Entry) -> str | None:
    most = None if source.policy is None else source.policy.spec.queue.max_gang_size
    if entry.gang is None or most is None or entry.gang[0] <= most:
        return None
    field = f"metadata.annotations[{names.GANG}]"
    return f"{field}: size {entry.gang[0]} is above queue.maxGangSize of the PackingPolicy; set at most {most}"


def _may_be_root(source: ledger.Ledger, entry: order.Entry) -> str | None:
    if source.policy is None:
        return None
    refused, asked = source.policy.spec.refuses_root, (request.demand for request in entry.requests)
    return next((one.may_be_root for one in asked if one.may_be_root and refused(one.share)), None)
