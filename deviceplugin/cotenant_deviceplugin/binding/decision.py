"""Whether the owner of some tokens may have what its placement says. Pure; every refusal says why.

TemporaryError: kubelet asks again. PermanentError: its text begins with a `pods.Refusal` and goes into the GPUNode.
"""

from collections.abc import Collection, Mapping

from cotenant_api import errors, packingpolicy, placement
from cotenant_api.names import GPUUID, HUNDREDTHS, NodeName
from cotenant_deviceplugin import pods
from cotenant_deviceplugin.binding import ledger
from cotenant_deviceplugin.binding.grants import Grant, Numbers, ServedGPU
from cotenant_deviceplugin.binding.owner import Owner
from cotenant_deviceplugin.pods import BoundPod, Refusal

DELAY_SECONDS = 2.0


def grant(owner: Owner, bound: BoundPod | None, *, tokens: int, node: NodeName, known: Collection[GPUUID]) -> Grant:
    """Return what the pod's placement gives to the owner.

    Args:
        owner: who holds the tokens by kubelet.
        bound: the pod of the owner's name, read just now.
        tokens: how many there are.
        node: this node.
        known: this node's GPUs; empty: nobody knows them yet.

    Raises:
        TemporaryError: kubelet and the API server tell of different pods, or the pod ends.
        PermanentError: the placement gives the owner nothing.
    """
    return proven(owner, _living(owner, bound), tokens=tokens, node=node, known=known)


def proven(owner: Owner, bound: BoundPod, *, tokens: int, node: NodeName, known: Collection[GPUUID]) -> Grant:
    """As `grant`, of a pod that is known to be the owner's, and may be ending."""
    reason = pods.refusal(bound, node=node, known=known or None)
    if reason is not None or bound.booked is None:
        raise errors.PermanentError(reason or str(Refusal.PLACEMENT_MISSING))
    booked = bound.booked
    if owner.container != booked.container:
        other = errors.shortened(booked.container)
        raise errors.PermanentError(
            f"{Refusal.PLACEMENT_FOR_ANOTHER_CONTAINER}: it is for {other}, and {owner.container!r} has the tokens"
        )
    _check_backend(booked)
    _check_tokens(booked, tokens)
    return Grant(
        pod_uid=owner.pod_uid, namespace=owner.namespace, pod=owner.pod, container=owner.container, booked=booked
    )


def check_unchanged(granted: Grant, owner: Owner, bound: BoundPod | None) -> None:
    """Raise TemporaryError unless the pod, read once more, still is what the grant was made from."""
    if _living(owner, bound).booked != granted.booked:
        raise _not_now("the pod's placement has changed meanwhile")


def check_user(
    granted: Grant, owner: Owner, bound: BoundPod | None, tenant_user: packingpolicy.TenantUser | None
) -> None:
    """Raise unless the user that the pod runs as may have the socket of an MPS control daemon, which obeys root.

    Args:
        granted: what the pod is to be given.
        owner: as of `grant`.
        bound: as of `grant`.
        tenant_user: whom pods on shared GPUs may run as; None: nobody knows it yet.
    """
    shared, fault = granted.booked.backend is placement.Backend.MPS, _living(owner, bound).may_be_root
    if not shared or fault is None or tenant_user is packingpolicy.TenantUser.ANY:
        return
    if tenant_user is None:
        raise _not_now("the PackingPolicy has not been seen yet, and the pod may run as root")
    raise errors.PermanentError(f"{Refusal.MAY_BE_ROOT}: {fault}")


def has_room(granted: Grant, others: Collection[Grant]) -> bool:
    """Return whether at most 100 hundredths of each GPU are given away, this grant included."""
    return not _crowded(granted, others)


def check_room(granted: Grant, others: Collection[Grant]) -> None:
    """Raise TemporaryError unless there is room."""
    for uuid, left in _crowded(granted, others).items():
        raise _not_now(f"GPU {uuid} has {left} hundredths left until the end of another tenant is proven")


def check_open(granted: Grant, gpus: Mapping[GPUUID, ServedGPU]) -> None:
    """Raise TemporaryError where a GPU of the grant takes no new tenant."""
    for uuid in numbers(granted, gpus):
        closed = gpus[uuid].closed
        if closed is not None:
            raise _not_now(f"GPU {uuid} is closed: {closed}")


def numbers(granted: Grant, gpus: Mapping[GPUUID, ServedGPU]) -> Mapping[GPUUID, Numbers]:
    """Return the GPUs of the grant and their numbers. Raises TemporaryError unless all are there."""
    for booking in granted.booked.gpus:
        if booking.uuid not in gpus:
            raise _not_now(f"GPU {booking.uuid} is not there: see the GPUNode {granted.booked.node}")
    return {booking.uuid: gpus[booking.uuid].numbers for booking in granted.booked.gpus}


def minors(granted: Grant | None, gpus: Mapping[GPUUID, Numbers]) -> frozenset[int]:
    """Return the minor numbers of a grant's GPUs; none where there is no grant, or not every number is known."""
    booked = [] if granted is None else [booking.uuid for booking in granted.booked.gpus]
    known = {gpu: gpus[gpu].minor for gpu in booked if gpu in gpus}
    found = frozenset(minor for minor in known.values() if minor is not None)
    return found if len(found) == len(booked) else frozenset()


def reason_of(error: errors.PermanentError) -> str:
    """Return the text for the GPUNode: it begins with a `pods.Refusal`, whoever raised the error."""
    text = str(error)
    known = text.split(":", 1)[0] in frozenset(Refusal)
    return text if known else f"{Refusal.GPU_NOT_SERVED}: {text}"


def _living(owner: Owner, bound: BoundPod | None) -> BoundPod:
    if bound is None:
        raise _not_now(f"the API server knows no pod {owner.namespace}/{owner.pod}")
    if bound.uid != owner.pod_uid:
        raise _not_now(f"kubelet starts the pod with UID {owner.pod_uid}, the API server has {bound.uid} of that name")
    if bound.finished or bound.ends_at is not None:
        raise _not_now("the pod has ended or is being deleted")
    return bound


def _crowded(granted: Grant, others: Collection[Grant]) -> Mapping[GPUUID, int]:
    """GPUs that have less than is booked, and what they have."""
    taken = ledger.shares([other for other in others if other.pod_uid != granted.pod_uid])
    left = {booking.uuid: HUNDREDTHS - taken.get(booking.uuid, 0) for booking in granted.booked.gpus}
    return {booking.uuid: left[booking.uuid] for booking in granted.booked.gpus if booking.share > left[booking.uuid]}


def _check_backend(booked: placement.Placement) -> None:
    whole = booked.backend is placement.Backend.WHOLE
    if whole and any(gpu.share != HUNDREDTHS for gpu in booked.gpus):
        raise errors.PermanentError(f"{Refusal.UNUSABLE_BACKEND}: {booked.backend} with less than a whole GPU")
    if not whole and len(booked.gpus) > 1:
        # One MPS pipe serves one GPU: a fault would else spread over all that share a client.
        raise errors.PermanentError(f"{Refusal.UNUSABLE_BACKEND}: {booked.backend} with {len(booked.gpus)} GPUs")


def _check_tokens(booked: placement.Placement, tokens: int) -> None:
    share = sum(gpu.share for gpu in booked.gpus)
    if tokens > share:
        raise errors.PermanentError(
            f"{Refusal.SHARE_BELOW_REQUEST}: {share} hundredths are booked, kubelet gave {tokens} tokens"
        )


def _not_now(why: str) -> errors.TemporaryError:
    return errors.TemporaryError(why, delay_seconds=DELAY_SECONDS)
