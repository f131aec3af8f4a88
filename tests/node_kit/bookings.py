"""Placements, grants and pods for tests of late binding."""

from datetime import UTC, datetime
from typing import Any

from cotenant_api import placement
from cotenant_api.names import GPUUID, Namespace, NodeName, PodUID
from cotenant_deviceplugin.binding.grants import Grant
from cotenant_deviceplugin.binding.ledger import Allocation, Nonce
from cotenant_deviceplugin.binding.owner import Owner
from cotenant_deviceplugin.kubelet.plugin import Token, Tokens
from cotenant_deviceplugin.pods import BoundPod

NODE = NodeName("n1")
TEAM = Namespace("team")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
A, B = GPUUID("GPU-a"), GPUUID("GPU-b")


def tokens(*numbers: int) -> Tokens:
    """Some tokens."""
    return frozenset(Token(f"t{number:04d}") for number in numbers)


def booked(uid: str = "u1", *shares: tuple[GPUUID, int], **changes: Any) -> placement.Placement:
    """A placement of 30 hundredths of GPU A, if nothing else is said."""
    gpus = [
        {"uuid": uuid, "share": share, "activeThreadPercentage": share, "memoryMiB": 1024}
        for uuid, share in shares or ((A, 30),)
    ]
    value = {"podUID": uid, "node": NODE, "container": "main", "policyGeneration": 1, "backend": "MPS", "gpus": gpus}
    return placement.Placement.from_object(value | changes, source="test")


def grant(uid: str = "u1", *shares: tuple[GPUUID, int], **changes: Any) -> Grant:
    """A grant of pod `p-UID`."""
    return Grant(
        pod_uid=PodUID(uid), namespace=TEAM, pod=f"p-{uid}", container="main", booked=booked(uid, *shares, **changes)
    )


def allocation(nonce: str = "n1", held: Tokens | None = None, granted: Grant | None = None) -> Allocation:
    """An allocation of two tokens."""
    return Allocation(nonce=Nonce(nonce), tokens=held or tokens(1, 2), minted_at=NOW, grant=granted)


def owner(uid: str = "u1", nonce: str = "n1") -> Owner:
    """The owner of `allocation`."""
    return Owner(pod_uid=PodUID(uid), namespace=TEAM, pod=f"p-{uid}", container="main", nonce=Nonce(nonce))


def pod(uid: str = "u1", placed: placement.Placement | None = None, **changes: Any) -> BoundPod:
    """A pod that asks for two hundredths and is placed."""
    values: dict[str, Any] = {
        "uid": PodUID(uid),
        "namespace": TEAM,
        "name": f"p-{uid}",
        "running": False,
        "finished": False,
        "node": NODE,
        "container": "main",
        "requested_share": 2,
        "booked": placed or booked(uid),
    }
    return BoundPod(**(values | changes))
