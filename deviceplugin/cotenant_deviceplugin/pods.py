"""Pods of this node that ask for a GPU share, as the agent reads them, and why one is refused. Pure."""

import enum
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from cotenant_api import errors, names, placement, pod, rootless
from cotenant_api.names import GPUUID, Namespace, NodeName, PodUID

FINISHED_PHASES = frozenset({"Succeeded", "Failed"})


class Refusal(enum.StrEnum):
    """Why a bound pod may not have the GPUs: the first word of `GPUNode.status.refused[].reason`."""

    REQUEST_UNREADABLE = "RequestUnreadable"
    PLACEMENT_MISSING = "PlacementMissing"
    PLACEMENT_UNREADABLE = "PlacementUnreadable"
    PLACEMENT_FOR_ANOTHER_POD = "PlacementForAnotherPod"
    PLACEMENT_FOR_ANOTHER_NODE = "PlacementForAnotherNode"
    PLACEMENT_FOR_ANOTHER_CONTAINER = "PlacementForAnotherContainer"
    SHARE_BELOW_REQUEST = "ShareBelowRequest"
    UNKNOWN_GPU = "UnknownGPU"
    UNUSABLE_BACKEND = "UnusableBackend"
    GPU_NOT_SERVED = "GPUNotServed"
    MAY_BE_ROOT = "MayBeRoot"


@dataclass(frozen=True, kw_only=True)
class BoundPod:
    """A pod that is bound here and asks for `cotenant.dev/gpu-share`.

    Attributes:
        node: where it is bound; None: nowhere yet.
        running: its containers have started.
        finished: it succeeded or failed; it holds no GPU any more.
        ends_at: it is being deleted, and kubelet kills then what still runs of it.
        grace_seconds: how long before that it was told to end; 0 where nobody has.
        container: the one that asks; empty where that cannot be read.
        requested_share: in hundredths of a GPU.
        booked: its placement; None where it is missing or cannot be read; `fault` then says which.
        prediction: the annotation as it stands, unread.
        may_be_root: why one of its containers may run as root, and what to add; None: none may.
    """

    uid: PodUID
    namespace: Namespace
    name: str
    running: bool
    finished: bool
    node: NodeName | None = None
    ends_at: datetime | None = None
    grace_seconds: int = 0
    container: str = ""
    requested_share: int = 0
    booked: placement.Placement | None = None
    fault: str | None = None
    prediction: str | None = None
    may_be_root: str | None = None


def has_ended(manifest: pod.Object) -> bool:
    """Return whether a pod succeeded or failed."""
    return _phase(manifest) in FINISHED_PHASES


def _phase(manifest: pod.Object) -> str | None:
    phase: str | None = (manifest.get("status") or {}).get("phase")
    return phase


def read(manifest: pod.Object) -> BoundPod | None:
    """Return a pod as the API server tells it; None where it asks for no share."""
    if not pod.asks_for_share(manifest):
        return None
    metadata: pod.Object = manifest.get("metadata") or {}
    notes: pod.Object = metadata.get("annotations") or {}
    phase = _phase(manifest)
    container, share, booked, fault = _contract(manifest, notes)
    return BoundPod(
        uid=PodUID(metadata.get("uid", "")),
        namespace=Namespace(metadata.get("namespace", "")),
        name=metadata.get("name", ""),
        running=phase == "Running",
        finished=phase in FINISHED_PHASES,
        node=(manifest.get("spec") or {}).get("nodeName") or None,
        ends_at=_time(metadata.get("deletionTimestamp")),
        grace_seconds=metadata.get("deletionGracePeriodSeconds") or 0,
        container=container,
        requested_share=share,
        booked=booked,
        fault=fault,
        prediction=notes.get(names.PREDICTION),
        may_be_root=rootless.fault(manifest.get("spec") or {}),
    )


def refusal(bound: BoundPod, *, node: NodeName, known: Collection[GPUUID] | None) -> str | None:
    """Why a pod that is not finished may not have its GPUs; None: it may.

    Args:
        bound: the pod.
        node: this node.
        known: the GPUs of this node; None while nobody knows them, so that none is called unknown.
    """
    booked = bound.booked
    if booked is None or bound.fault is not None:
        return bound.fault
    if booked.pod_uid != bound.uid:
        return f"{Refusal.PLACEMENT_FOR_ANOTHER_POD}: it is for the pod with UID {errors.shortened(booked.pod_uid)}"
    if booked.node != node:
        return f"{Refusal.PLACEMENT_FOR_ANOTHER_NODE}: it is for node {errors.shortened(booked.node)}"
    if booked.container != bound.container:
        other = errors.shortened(booked.container)
        return f"{Refusal.PLACEMENT_FOR_ANOTHER_CONTAINER}: it is for {other}, and {bound.container!r} asks"
    return _too_little(bound, booked) or _unknown(booked, known)


def _too_little(bound: BoundPod, booked: placement.Placement) -> str | None:
    share = sum(gpu.share for gpu in booked.gpus)
    if share >= bound.requested_share:
        return None
    return f"{Refusal.SHARE_BELOW_REQUEST}: {share} hundredths are booked, {bound.requested_share} are asked for"


def _unknown(booked: placement.Placement, known: Collection[GPUUID] | None) -> str | None:
    missing = [] if known is None else [gpu.uuid for gpu in booked.gpus if gpu.uuid not in known]
    return f"{Refusal.UNKNOWN_GPU}: this node has no {errors.shortened(missing[0])}" if missing else None


def _contract(manifest: pod.Object, notes: pod.Object) -> tuple[str, int, placement.Placement | None, str | None]:
    """Container, share, placement, and what is wrong with them."""
    try:
        container, share = pod.requested_share(manifest)
    except errors.InvalidInputError as error:
        return "", 0, None, f"{Refusal.REQUEST_UNREADABLE}: {error}"
    text = notes.get(names.PLACEMENT)
    if text is None:
        return container, share, None, f"{Refusal.PLACEMENT_MISSING}: it was bound without the extender"
    try:
        booked = placement.Placement.from_json(text, source=names.PLACEMENT)
    except errors.InvalidInputError as error:
        return container, share, None, f"{Refusal.PLACEMENT_UNREADABLE}: {error}"
    if len({gpu.uuid for gpu in booked.gpus}) < len(booked.gpus):
        return container, share, None, f"{Refusal.PLACEMENT_UNREADABLE}: it names one GPU twice"
    return container, share, booked, None


def _time(text: str | None) -> datetime | None:
    """Return the time; the API server writes `deletionTimestamp` itself.

    When it was asked, and the grace period on top.
    """
    return None if text is None else datetime.fromisoformat(text)
