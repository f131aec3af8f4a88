"""One node's agent: follows the node's pods, publishes its GPUNode and renews its Lease.

It decides nothing about where pods go. What it knows beside the hardware is rebuilt from the API server, or is told
to it as a view.
"""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from cotenant_api import conditions, errors, gpunode
from cotenant_api.names import GPUUID, Namespace, NodeName
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.kube import cluster, leases, manifests, stores
from cotenant_deviceplugin.kube.reflector import Reflector
from cotenant_deviceplugin.publishing import alone, changes, observing, status
from cotenant_deviceplugin.retry import Retry

MISSING_NODE_SECONDS = 5.0
DELETED = "the GPUNode was deleted"

# What can fail, as the log names it.
PODS, GPUNODE, STATUS, LEASE, TAINT = "pods", "GPUNode", "status", "Lease", "startup taint"


@dataclass(frozen=True)
class Identity:
    """Whose agent it is. `namespace`: where its Lease is."""

    node: NodeName
    namespace: Namespace
    agent_version: str


@dataclass(frozen=True)
class GPUs:
    """The node's GPUs, whose processes are on them, and what else is known of them at the moment."""

    devices: hardware.Hardware
    owners: hardware.ProcessOwners
    view: Callable[[], status.View] = status.View


@dataclass(frozen=True)
class Registration:
    """What the agent needs of its Node, as read when it met this GPUNode."""

    node_uid: str
    container_runtime: str | None
    gpunode_uid: str


@dataclass(frozen=True)
class Written:
    """A status that the API server has taken, and the nonce by which the agent knows it again."""

    status: gpunode.Status
    nonce: str
    at: datetime


class Agent:
    """The agent of one node.

    Attributes:
        ready: set once the GPUNode's status and the Lease are written.
        heard: is called with the status that stands at the API server, after each view that went into it.
    """

    def __init__(
        self, identity: Identity, api: cluster.Cluster, *, gpus: GPUs, pods: stores.Pods, retry: Retry
    ) -> None:
        self.ready = asyncio.Event()
        self.heard: Callable[[gpunode.Status], None] = _nobody
        self._identity = identity
        self._api = api
        self._gpus = gpus
        self._pods = pods
        self._retry = retry
        self._gpunode = stores.GPUNode(retry.log)
        self._wake = asyncio.Event()
        self._published = asyncio.Event()
        self._lease = leases.AgentLease(api, identity.node, identity.namespace)
        self._registration: Registration | None = None
        self._untainted: str | None = None
        """UID of the Node that is known to have no startup taint."""
        self._current: gpunode.Status | None = None
        self._written: Written | None = None
        self._alone = alone.Sums()
        pods.changed = self._gpunode.changed = self._wake.set

    @property
    def excluded_gpus(self) -> frozenset[GPUUID]:
        """The GPUs that the admin has excluded, as far as the GPUNode has been seen."""
        return frozenset(self._gpunode.spec.excluded_gpus)

    @property
    def synced(self) -> bool:
        """Whether the GPUNode has been seen, or seen to be missing."""
        return self._gpunode.synced

    @property
    def current(self) -> gpunode.Status | None:
        """The newest status, written or not; None: there is none yet."""
        return self._current

    def publish_soon(self) -> None:
        """Have the view published soon: it has changed."""
        self._wake.set()

    async def run(self) -> None:
        """Go on until cancelled."""
        node = self._identity.node
        following = (
            Reflector(PODS, cluster.pods_of(node), self._pods),
            Reflector(GPUNODE, cluster.gpunode_of(node), self._gpunode),
        )
        async with asyncio.TaskGroup() as group:
            for reflector in following:
                group.create_task(reflector.follow(self._api, self._retry))
            group.create_task(self._publish_forever())
            group.create_task(self._measure_forever())
            group.create_task(self._renew_forever())
            group.create_task(self._untaint_forever())

    async def _publish_forever(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            # Before both are listed, every tenant would look as if it had ended.
            if self._pods.synced and self._gpunode.synced:
                await self._retry.until_done(STATUS, self._publish)

    async def _measure_forever(self) -> None:
        """Look every few seconds while a tenant may be alone on its GPU; an idle or a shared node is not asked."""
        while True:
            await self._retry.clock.sleep(alone.SAMPLE_SECONDS)
            if alone.candidates(self._current):
                self._wake.set()

    async def _renew_forever(self) -> None:
        await self._published.wait()
        while True:
            # Who cannot see its pods or write its status must not look alive for long.
            if not self._retry.failing(PODS, GPUNODE, STATUS):
                await self._retry.until_done(LEASE, self._renew)
                self.ready.set()
            self._wake.set()
            await self._retry.clock.sleep(gpunode.LEASE_RENEW_SECONDS)

    async def _untaint_forever(self) -> None:
        await self.ready.wait()
        while True:
            await self._retry.until_done(TAINT, self._untaint)
            await self._retry.clock.sleep(gpunode.LEASE_RENEW_SECONDS)

    async def _publish(self) -> None:
        """Write the status, if it is worth it."""
        registration = await self._registered()
        observed = await self._observe(registration)
        # Nothing is awaited between what the status is made of and this.
        on = self._gpunode.preconditions
        if on is None:
            raise errors.TemporaryError(DELETED, delay_seconds=0)
        now = self._retry.clock.now()
        new = status.of(observed, previous=self._current, now=now)
        for line in changes.between(self._current, new):
            self._retry.log.info("%s", line)
        self._current = new
        standing = self._standing()
        if standing is None or status.worth_writing(standing.status, new, last_written=standing.at, now=now):
            # Until it is answered, what stands may be this one or another: the next is written, whatever it says.
            self._written = None
            self._written = await self._write(new, on, now=now)
        self._published.set()
        # Where the watch has shown another status meanwhile, it is written over with the next renewal of the Lease:
        # not at once, as who else writes may do the same.
        if (standing := self._standing()) is not None:
            self.heard(standing.status)

    def _standing(self) -> Written | None:
        """Return what was written last, if it is what stands at the API server; somebody may have written over it."""
        written = self._written
        return written if written is not None and written.nonce == self._gpunode.nonce else None

    async def _write(self, new: gpunode.Status, on: manifests.Preconditions, *, now: datetime) -> Written:
        node, path = self._identity.node, cluster.gpunode_path(self._identity.node)
        nonce = secrets.token_hex(16)
        manifest = manifests.gpu_node_status(node, new.model_copy(update={"nonce": nonce}), on=on)
        try:
            try:
                self._gpunode.take(await self._api.apply(f"{path}/status", manifest))
            except cluster.ConflictError:
                # Somebody else wrote to it; or a status of ours did, whose reply was lost.
                self._gpunode.read(await self._api.get(path))
                raise
        except cluster.NotFoundError as error:
            self._gpunode.forget()
            raise errors.TemporaryError(DELETED, delay_seconds=0) from error
        return Written(new, nonce, now)

    async def _observe(self, registration: Registration) -> status.Observed:
        machine = await observing.machine(self._gpus.devices, self._gpus.owners)
        view = self._gpus.view()
        if self._current is not None:
            sole = alone.sole(self._current.gpus, machine.usage, machine.owners, own=view.own_pids)
            self._alone = alone.grown(self._alone, alone.Sample(self._retry.clock.now(), sole), self._current)
        return status.Observed(
            node=self._identity.node,
            agent_version=self._identity.agent_version,
            machine=machine,
            pods=self._pods.all(),
            view=view,
            alone=self._alone.totals,
            container_runtime=view.around.container_runtime if view.around else registration.container_runtime,
            generation=self._gpunode.generation,
            excluded_gpus=self.excluded_gpus,
        )

    async def _registered(self) -> Registration:
        """Return the registration; read the Node when the agent starts, and whenever the GPUNode is another."""
        if self._registration is not None and self._registration.gpunode_uid == self._gpunode.uid:
            return self._registration
        node = await self._read_node()
        node_uid = node["metadata"]["uid"]
        if self._gpunode.uid is None:
            await self._create_gpunode(node_uid)
        if (gpunode_uid := self._gpunode.uid) is None:
            raise errors.TemporaryError(DELETED, delay_seconds=0)
        if self._current is None:
            self._current = self._gpunode.left_status()
        runtime = ((node.get("status") or {}).get("nodeInfo") or {}).get("containerRuntimeVersion")
        self._registration = Registration(node_uid, runtime or None, gpunode_uid)
        return self._registration

    async def _read_node(self) -> cluster.Object:
        try:
            return await self._api.get(cluster.node_path(self._identity.node))
        except cluster.NotFoundError as error:
            message = f"there is no Node {self._identity.node}"
            raise errors.TemporaryError(message, delay_seconds=MISSING_NODE_SECONDS) from error

    async def _create_gpunode(self, node_uid: str) -> None:
        manifest = manifests.gpu_node(self._identity.node, node_uid=node_uid)
        try:
            self._gpunode.take(await self._api.create(cluster.GPUNODES, manifest))
        except cluster.AlreadyExistsError:
            # Ours, from a create whose reply was lost, or one that the watch has yet to tell of.
            self._gpunode.read(await self._api.get(cluster.gpunode_path(self._identity.node)))

    async def _renew(self) -> None:
        uid = self._registration.node_uid if self._registration else ""
        await self._lease.renew(node_uid=uid, now=self._retry.clock.now())

    async def _untaint(self) -> None:
        """Let pods in once there is something that serves them."""
        registration = self._registration
        serves = self._current is not None and conditions.is_true(self._current.conditions, gpunode.READY)
        if registration is None or registration.node_uid == self._untainted or not serves:
            return
        path = cluster.node_path(self._identity.node)
        node = await self._api.get(path)
        uid = node["metadata"]["uid"]
        if uid != registration.node_uid:
            # Made again: its pods are served once its GPUNode has been made again, too.
            return
        if manifests.has_startup_taint(node):
            await self._api.patch(path, manifests.without_startup_taint(node))
            self._retry.log.info("startup taint removed")
        self._untainted = uid


def _nobody(_: gpunode.Status) -> None:
    """Nobody listens yet."""
