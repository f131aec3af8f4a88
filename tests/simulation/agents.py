"""A model of the node agent: a Lease, a GPUNode that lists tenants before they can start, and refusals.

Before it writes a tenant's specification it lists the tenant, and reads the pod once more; it drops a tenant when
nothing of it is left on the machine.
"""

import asyncio
import enum
import zlib
from typing import Any

from api_server import pods, store
from cotenant_api import errors, names, placement
from cotenant_api.names import GPUUID, PodUID
from cotenant_extender.kube import pods as paths
from cotenant_extender.kube import transport
from simulation import election, informers, machines, network, processes, requests

Object = dict[str, Any]

RENEW_SECONDS = 10.0
SKEWS_SECONDS = (0.0, -45.0, 3600.0)
"""By how much the clocks of nodes are ahead: of some, more than a Lease lasts."""
MEMORY_MIB = {"NVIDIA-H200": 143771, "Tesla-T4": 15360}


class Answer(enum.Enum):
    """What the agent says when a pod is to start."""

    START = enum.auto()
    WAIT = enum.auto()
    REFUSED = enum.auto()


class Agent:
    """One agent process.

    Attributes:
        ready: it has published what it found when it started.
    """

    def __init__(self, machine: machines.Machine, link: network.Link, process: processes.Process) -> None:
        self._machine, self._link, self._process = machine, link, process
        self._listed: dict[PodUID, tuple[str, str, tuple[GPUUID, ...]]] = {}
        self._pods: dict[PodUID, Object] = {}
        self._dirty = asyncio.Event()
        self._published = asyncio.Condition()
        self._asked = self._done = 0
        self._informer = informers.Informer(link, process, (paths.PODS,), self._heard, node=machine.name)
        self._skew = SKEWS_SECONDS[zlib.crc32(machine.name.encode()) % len(SKEWS_SECONDS)]
        self.ready = False

    async def run(self) -> None:
        """Until killed."""
        for uid, shares in self._machine.specs.items():
            self._listed[uid] = ("?", "?", tuple(shares))
        self._informer.start()
        self._process.start(self._renew())
        self._process.start(self._sweep())
        self.changed()
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            asked = self._asked
            await self._publish()
            async with self._published:
                self._done, self.ready = asked, True
                self._published.notify_all()

    def changed(self) -> None:
        """The GPUNode has to be written."""
        self._asked += 1
        self._dirty.set()

    async def prepare(self, uid: PodUID) -> Answer:
        """PreStartContainer: whether a pod may start; lists it first."""
        if not self.ready:
            return Answer.WAIT
        pod = await self._read(uid)
        if pod is None:
            return Answer.WAIT
        placed = placement_of(pod, str(self._machine.name))
        if placed is None:
            return Answer.REFUSED
        uuids = tuple(gpu.uuid for gpu in placed.gpus)
        if self._machine.sick.intersection(uuids):
            return Answer.WAIT
        metadata = pod["metadata"]
        self._listed[uid] = metadata["namespace"], metadata["name"], uuids
        self.changed()
        await self._until_published()
        if await self._read(uid) is None:
            self._drop(uid)
            return Answer.WAIT
        self._machine.specs[uid] = {gpu.uuid: gpu.share for gpu in placed.gpus}
        return Answer.START

    async def _until_published(self) -> None:
        wanted = self._asked
        async with self._published:
            await self._published.wait_for(lambda: self._done >= wanted)

    async def _read(self, uid: PodUID) -> Object | None:
        """The pod as it is, if it is there and not about to go."""
        known = self._pods.get(uid)
        if known is None:
            return None
        path = paths.pod_path(known["metadata"]["namespace"], known["metadata"]["name"])
        try:
            code, pod = await requests.once(self._link, "GET", path)
        except transport.UnansweredError:
            return None
        gone = code != 200 or pod["metadata"]["uid"] != uid or "deletionTimestamp" in pod["metadata"]
        return None if gone else pod

    def _drop(self, uid: PodUID) -> None:
        self._machine.specs.pop(uid, None)
        if self._listed.pop(uid, None) is not None:
            self.changed()

    async def _sweep(self) -> None:
        """Drop tenants of which nothing is left."""
        while True:
            await asyncio.sleep(1.0)
            for uid in [uid for uid in self._listed if self._over(uid)]:
                self._drop(uid)

    def _over(self, uid: PodUID) -> bool:
        if uid in self._machine.containers:
            return False
        pod = self._pods.get(uid)
        finished = pod is not None and (pod.get("status") or {}).get("phase") in pods.FINISHED
        return pod is None or finished or uid in self._machine.over

    async def _renew(self) -> None:
        name = f"{names.AGENT_LEASE_PREFIX}{self._machine.name}"
        collection = election.LEASES
        while True:
            if self.ready:
                spec = {
                    "holderIdentity": str(self._machine.name),
                    "leaseDurationSeconds": 40,
                    "renewTime": election.micro(self._link.network.handling.clock() + self._skew),
                }
                metadata = {"name": name, "namespace": names.RELEASE_NAMESPACE}
                code, _ = await requests.stubbornly(self._link, "PATCH", f"{collection}/{name}", {"spec": spec})
                if code == 404:
                    await requests.stubbornly(self._link, "POST", collection, {"metadata": metadata, "spec": spec})
            await asyncio.sleep(RENEW_SECONDS if self.ready else 0.1)

    async def _publish(self) -> None:
        """Write the status of the GPUNode, which is made where there is none."""
        path = f"{paths.GPUNODES}/{self._machine.name}"
        while True:
            code, now = await requests.stubbornly(self._link, "GET", path)
            if code == 404:
                metadata = {"name": str(self._machine.name), "generation": 1}
                await requests.stubbornly(self._link, "POST", paths.GPUNODES, {"metadata": metadata, "spec": {}})
                continue
            # A write of long ago may arrive late: it must not undo a newer one.
            seen = {"resourceVersion": now["metadata"]["resourceVersion"]}
            self._machine.writes += 1
            body = {"metadata": seen, "status": {"nonce": str(self._machine.writes), **self._status()}}
            code, _ = await requests.stubbornly(self._link, "PATCH", f"{path}/status", body)
            if code == 200:
                return

    def _status(self) -> Object:
        gpus = []
        for index, uuid in enumerate(self._machine.gpus):
            tenants = [
                {"podUID": uid, "namespace": namespace, "pod": name}
                for uid, (namespace, name, uuids) in self._listed.items()
                if uuid in uuids
            ]
            health = "Unhealthy" if uuid in self._machine.sick else "Healthy"
            gpus.append(
                {
                    "uuid": uuid,
                    "index": index,
                    "model": self._machine.model,
                    "memoryMiB": MEMORY_MIB[self._machine.model],
                    "health": health,
                    "tenants": tenants,
                }
            )
        ready = {"type": "Ready", "status": "True", "reason": "AgentReady"}
        return {"conditions": [ready], "gpus": gpus}

    def _heard(self, change: store.Change) -> None:
        pod = change.value
        uid = PodUID(pod["metadata"]["uid"])
        if change.kind == "DELETED":
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = pod


def placement_of(pod: Object, node: str) -> placement.Placement | None:
    """A placement that names this pod and this node."""
    text = (pod["metadata"].get("annotations") or {}).get(names.PLACEMENT)
    if text is None:
        return None
    try:
        found = placement.Placement.from_json(text, source=names.PLACEMENT)
    except errors.InvalidInputError:
        return None
    return found if (found.pod_uid, found.node) == (pod["metadata"]["uid"], node) else None
