"""Why a job that waits is not even tried. Pure.

Its gang is too large, of several priorities or not complete, it may be root on a shared GPU, kube-scheduler left a pod
alone or refused it just now, or its promise could not be written just now.
"""

from collections.abc import Iterator

from cotenant_api import names
from cotenant_api.pod import PackedReason
from cotenant_extender import records
from cotenant_extender.ledger import earmarks, ledger
from cotenant_extender.queue import order

MAX_FOREIGN_TEXT = 256


def obstacle(source: ledger.Ledger, entry: order.Entry, *, now: float) -> tuple[PackedReason, str] | None:
    """Return why an entry is not even tried, if so.

    It is a gang that is too large, of several priorities or not complete, it may be root on a shared GPU,
    kube-scheduler left a pod alone or refused it just now, or its promise could not be written just now.
    """
    found = _lasting(source, entry)
    if found is not None:
        return found
    member = next((one for one, _ in _set_back(source, entry, now=now)), None)
    if member is None:
        return None
    if member.unschedulable is None:
        return PackedReason.WAITING_FOR_TURN, _UNWRITTEN
    report = member.unschedulable.partition(" ")[2][:MAX_FOREIGN_TEXT]
    why = "could not place it" if member.errored else "found no node"
    return PackedReason.INSUFFICIENT_HOST_RESOURCES, f"kube-scheduler {why}: {report}"


def pauses(source: ledger.Ledger, entry: order.Entry, *, now: float) -> bool:
    """Return whether an entry will be tried again in a moment, so that GPUs are held for it meanwhile."""
    setbacks = [setback for _, setback in _set_back(source, entry, now=now)]
    return bool(setbacks) and all(setback.short for setback in setbacks) and _lasting(source, entry) is None


def _lasting(source: ledger.Ledger, entry: order.Entry) -> tuple[PackedReason, str] | None:
    """Why an entry is not tried, however long it waits."""
    refused = _too_large(source, entry) or _of_several_priorities(source, entry) or _may_be_root(source, entry)
    if refused is not None:
        return PackedReason.INVALID_REQUEST, refused
    if entry.gang is not None and not entry.complete:
        size, there = entry.gang
        return PackedReason.WAITING_FOR_GANG, f"{there} of the gang's {size} pods are here"
    if any(member.uid in source.earmarks.untried for member in entry.members):
        return PackedReason.INSUFFICIENT_HOST_RESOURCES, _UNTRIED
    return None


_UNTRIED = (
    "kube-scheduler did not try the pod when it was promised a GPU, and it is promised none before that: look at its "
    "resource claims"
)
_UNWRITTEN = (
    "the API server did not carry out the write that promises the pod a GPU, which is tried again: look at the "
    "admission webhooks and policies that see pods of its namespace"
)


def _set_back(
    source: ledger.Ledger, entry: order.Entry, *, now: float
) -> Iterator[tuple[records.Pod, earmarks.Setback]]:
    """Yield the pods that kube-scheduler refused just now, or whose promise could not be written."""
    for member in entry.members:
        setback = source.earmarks.setback(member.uid)
        if setback is not None and setback.until > now:
            yield member, setback


def _too_large(source: ledger.Ledger, entry: order.Entry) -> str | None:
    most = None if source.policy is None else source.policy.spec.queue.max_gang_size
    # No more pods count for a gang than its size.
    if entry.gang is None or most is None or entry.gang[0] <= most:
        return None
    field, size = f"metadata.annotations[{names.GANG}]", entry.gang[0]
    return f"{field}: size {size} is above queue.maxGangSize of the PackingPolicy; set at most {most}"


def _of_several_priorities(source: ledger.Ledger, entry: order.Entry) -> str | None:
    """Say which pods an incomplete gang misses because their priority is another; None: it misses none so."""
    key = entry.members[0].gang
    if entry.gang is None or entry.complete or key is None:
        return None
    others, (size, there) = source.index.of_other_priorities(key), entry.gang
    if not others:
        return None
    return (
        f"{there} of the gang's {size} pods are here, and {others} of another priority: the pods of a gang have one "
        "priority; create all with the same spec.priorityClassName"
    )


def _may_be_root(source: ledger.Ledger, entry: order.Entry) -> str | None:
    if source.policy is None:
        return None
    refused, asked = source.policy.spec.refuses_root, (order.request_of(member).demand for member in entry.members)
    return next((one.may_be_root for one in asked if one.may_be_root and refused(one.share)), None)
