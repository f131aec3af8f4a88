"""What must hold when everything has come to rest: the ledger equals the truth, and nothing is left over."""

from collections.abc import Mapping
from typing import Any

from api_server import pods
from cotenant_api import names
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_extender.ledger import claims, ledger
from simulation import hosts, kubelets
from simulation.world import World

Object = dict[str, Any]
Booked = Mapping[PodUID, tuple[NodeName, dict[GPUUID, int]]]


def at_the_end(world: World) -> None:
    """All of it."""
    if not any(host.extender is not None and host.extender.serving() for host in world.hosts):
        world.fail("no extender serves")
    for host in world.hosts:
        # Who only stands by reads no GPUNode again to find out whether pods that are gone have ended.
        if host.extender is not None and host.extender.serving():
            _ledger(world, host, host.extender.ledger)
    for value in world.objects.objects[pods.PODS].values():
        if value["metadata"]["namespace"] != kubelets.SYSTEM:
            _left_over(world, value)


def _ledger(world: World, host: hosts.Host, source: ledger.Ledger) -> None:
    stored = {value["metadata"]["uid"]: value for value in world.objects.objects[pods.PODS].values()}
    if set(source.pods) != set(stored):
        world.fail(f"{host.name}: knows pods {sorted({*source.pods} ^ {*stored})} differently")
    truth = {
        uid: (placed.document.node, {gpu.uuid: gpu.share for gpu in placed.document.gpus})
        for uid, placed in world.truth.placed.items()
    }
    counted = {
        uid: (claim.node, {entry.uuid: entry.share for entry in claim.bookings})
        for uid, claim in source.claims.items()
        if claim.kind is claims.Kind.BOUND
    }
    if truth != counted:
        world.fail(f"{host.name}: counts {counted}, the truth is {truth}")
    known = {*counted, *(uid for uid, claim in source.claims.items() if claim.namespace == kubelets.SYSTEM)}
    others = sorted(f"{uid}: {claim.kind.value}" for uid, claim in source.claims.items() if uid not in known)
    if others:
        world.fail(f"{host.name}: counts what is not there: {others}")
    if source.reserved or source.graves.pods:
        world.fail(f"{host.name}: holds {sorted({*source.reserved, *source.graves.pods})} for pods that are not there")


def _left_over(world: World, value: Object) -> None:
    """A pod that is there at the end: finished, or one that fits nowhere and has been told why."""
    metadata, status = value["metadata"], value["status"]
    if status.get("phase") in pods.FINISHED:
        return
    job = world.jobs.job_of(metadata["uid"])
    packed = next((item for item in status.get("conditions") or () if item["type"] == names.PACKED), None)
    if job is None or job.feasible:
        world.fail(f"{metadata['name']} is left over")
    elif value["spec"].get("nodeName") or packed is None or packed["status"] != "False":
        world.fail(f"{metadata['name']} fits nowhere, and waits without being told: {packed}")
