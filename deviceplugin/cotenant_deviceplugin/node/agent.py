"""The agent of a real node: what it is made of. What each part does when is in `tasks`."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cotenant_api import conditions, errors, gpunode
from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin.agent import Agent, GPUs, Identity
from cotenant_deviceplugin.binding import bases, grants, toolkit
from cotenant_deviceplugin.binding.disk import LedgerFile
from cotenant_deviceplugin.binding.late_binding import LateBinding, Surroundings
from cotenant_deviceplugin.binding.ledger import Nonce
from cotenant_deviceplugin.binding.specifications import SpecificationFiles
from cotenant_deviceplugin.gpus import evidence, hardware, health, xids
from cotenant_deviceplugin.gpus.host import HostProcesses
from cotenant_deviceplugin.gpus.processes import Processes
from cotenant_deviceplugin.kube import actions, cluster, manifests, stores, surroundings
from cotenant_deviceplugin.kubelet import pod_resources
from cotenant_deviceplugin.kubelet.local import LocalKubelet
from cotenant_deviceplugin.kubelet.registration import Registration
from cotenant_deviceplugin.kubelet.service import Service
from cotenant_deviceplugin.mps import clearing, steps, supervision, v2
from cotenant_deviceplugin.mps.backend import Edits
from cotenant_deviceplugin.node import around, looks, machines, metrics, proving
from cotenant_deviceplugin.node.ending import Ending
from cotenant_deviceplugin.node.gate import Gate
from cotenant_deviceplugin.node.giving_back import GivingBack
from cotenant_deviceplugin.node.health import Keeper, boot_id
from cotenant_deviceplugin.node.incidents import Incidents
from cotenant_deviceplugin.node.neighbours import Neighbours
from cotenant_deviceplugin.node.publisher import Publisher
from cotenant_deviceplugin.node.settings import Settings
from cotenant_deviceplugin.node.strangers import Strangers
from cotenant_deviceplugin.node.usage import Sampled
from cotenant_deviceplugin.node.witnesses import Witnesses
from cotenant_deviceplugin.publishing import status
from cotenant_deviceplugin.retry import Retry

LOG = logging.getLogger("cotenant.agent")
NO_DRIVER = "the NVIDIA driver has not been seen yet"
NODE_SECONDS = 2.0
"""How long the API server may take, at the end, to say what the Node is now."""
UNPROVEN = (
    "%s: its MPS daemon's output tells of a fatal error, and nothing else shows one, so it does not count: a tenant "
    "may have written %s. Further ones are counted in cotenant_mps_unproven_faults_total alone"
)
LEAVING = "the node agent has ended, and the next one has not registered with kubelet yet"


@dataclass(frozen=True)
class Outside:
    """What the agent reaches: API server, GPUs, PodResources, the host's processes, MPS under a driver, canaries."""

    api: cluster.Cluster
    gpus: hardware.ManagedHardware
    resources: pod_resources.Client
    processes: Processes
    mps: Callable[[hardware.Driver], looks.Stirring]
    canaries: proving.Canaries
    proc: Path = Path("/proc")


class NodeAgent:
    """All parts of one node's agent, put together.

    Args:
        settings: of the admin.
        outside: what it reaches.
        retry: clock, log and backoff.
        version: of the agent.
    """

    def __init__(self, settings: Settings, outside: Outside, *, retry: Retry, version: str) -> None:
        self.settings, self.api, self.gpus, self.retry = settings, outside.api, outside.gpus, retry
        self._mps, self._canaries = outside.mps, outside.canaries
        self.devices: dict[GPUUID, hardware.Device] = {}
        self.driver_fault: str | None = NO_DRIVER
        self.unserved: Mapping[GPUUID, str] = {}
        self.machines: machines.Machines | None = None
        self.daemons: looks.Remembering | None = None
        self.gate: Gate | None = None
        self.ending: Ending | None = None
        self.proving: proving.Proving | None = None
        self.serious: dict[GPUUID, list[supervision.Decision]] = {}
        self.alarm = asyncio.Event()
        self._doubts: set[GPUUID] = set()
        self.pods = stores.Pods()
        self.stores = around.Stores(surroundings.Node(), surroundings.Slices(), surroundings.Policy(retry.log))
        self.processes = outside.processes
        self.sampled = Sampled(
            outside.gpus, self.processes, ours=self._own_pids, clients=self._clients, monotonic=time.monotonic
        )
        self.publisher = Publisher(retry.clock)
        self.binding = self._late_binding(outside.resources, outside.proc)
        self.strangers = Strangers(self.sampled, self.binding.tenants)
        self.witnesses = Witnesses(
            self.binding.granted,
            strange=lambda gpu: self.strangers.closing(gpu) is not None,
            canaries=self._canaries,
        )
        self._offered: tuple[Mapping[GPUUID, grants.ServedGPU], str | None] | None = None
        self._leaving, self._left = False, asyncio.Event()
        self.agent = Agent(
            Identity(settings.node, settings.namespace, version),
            outside.api,
            gpus=GPUs(self.sampled, self.sampled, self.view),
            pods=self.pods,
            retry=retry,
        )
        self.metrics = metrics.Metrics(settings.node, version, lambda: self.agent.current)
        self.service = Service(self.binding, observe=self.metrics.called, log=LOG)
        self.registration = Registration(settings.kubelet_dir, self.service, clock=retry.clock, log=LOG)
        said = around.Said(settings.runtime_has_cdi, settings.node_selector)
        self.neighbours = Neighbours(settings.kubelet_dir, outside.resources)
        self.around = around.Around(
            self.stores, said, kubelet_fault=self._kubelet_fault, registered=lambda: self.neighbours.registered
        )
        self.giving_back = GivingBack(
            settings.mps_root,
            driver=outside.gpus,
            specifications=self.specifications,
            grants=self.binding.grants,
            log=LOG,
        )
        self.xids = xids.load()
        self.health = Keeper(
            health.Machine(self.xids, evidence.Policy(canary=settings.canary)),
            settings.state_dir,
            clock=retry.clock,
            log=retry.log,
            boot=boot_id(),
        )
        self.incidents = Incidents(
            self.find,
            events=actions.PodEvents(outside.api, settings.node, retry.clock),
            retry=retry,
            asked=self.metrics.asked_eviction,
        )
        self.looks = looks.Looks(outside.gpus, clearing.Modes(settings.mps_root), own=lambda: self._canaries.pids)
        self._connect()

    def equip(self, driver: hardware.Driver) -> None:
        """Take the driver that is there now: its GPUs can be managed from now on."""
        settings, retry = self.settings, self.retry
        self.daemons = remembering = looks.Remembering(self._mps(driver))
        doors = machines.Doors(
            tenants=self.binding.tenants,
            unfit=lambda: self.around.driver_fault is not None,
            reserved=self.reserved,
            given_back=self.given_back,
            took=self._took,
        )
        self.machines = machines.Machines(
            remembering,
            self.looks,
            doors=doors,
            monotonic=time.monotonic,
            policy=supervision.Policy(manage_compute_mode=settings.manage_compute_mode),
        )
        self.gate = Gate(
            device=self.devices.get,
            unhealthy=self.unhealthy,
            machines=self.machines,
            mps=remembering,
            strangers=self.strangers,
        )
        self.proving = proving.Proving(self._canaries, self.health, self.machines, clock=retry.clock)
        self.ending = Ending(
            self.pods.all,
            self.binding.grants,
            machines=self.machines,
            owners=self.sampled,
            monotonic=time.monotonic,
        )

    async def admit(self, grant: grants.Grant, *, new: bool) -> Edits:
        """Late binding's gate, which is closed while there is no driver."""
        if self.gate is None:
            raise errors.TemporaryError(NO_DRIVER, delay_seconds=2)
        if new:
            await self.neighbours.check(booking.uuid for booking in grant.booked.gpus)
        return await self.gate.admit(grant, new=new)

    async def leave(self) -> None:
        """Return once the GPUNode says that this agent ends.

        A Node's allocatable is several seconds old: who places pods must hear it before kubelet loses the shares, and
        fails every pod that it has to admit then.
        """
        self._leaving = True
        self.agent.publish_soon()
        await self._left.wait()

    async def give_back(self) -> None:
        """Once nothing of this agent acts any more: on a node that is given back, leave what tenants need alone."""
        try:
            async with asyncio.timeout(NODE_SECONDS):
                self.stores.node.apply("MODIFIED", await self.api.get(cluster.node_path(self.settings.node)))
        except (errors.CotenantError, TimeoutError) as error:
            LOG.debug("the Node cannot be asked, what was seen last of it counts: %s", error)
        if self.around.given_back():
            await self.giving_back.last(self.daemons)

    def view(self) -> status.View:
        """Return what the agent publishes beside what hardware and pods say."""
        living = {bound.uid for bound in self.pods.all() if not bound.finished}
        return status.View(
            gpus={gpu: self._state(gpu) for gpu in self.health.records},
            granted=self.publisher.granted(self.binding.grants()),
            refused=self.publisher.refused(living),
            evict=self.incidents.evict(living),
            let_go=self.incidents.let_go,
            own_pids=self._own_pids(),
            around=self.around.read(),
        )

    def offer(self) -> None:
        """Tell late binding what may be handed out, when that has changed."""
        served = {
            gpu: grants.ServedGPU(numbers=grants.Numbers.of(device), closed=self.closed(gpu))
            for gpu, device in self.devices.items()
        }
        offered = (served, self.suspended())
        if offered != self._offered:
            self._offered = offered
            self.binding.serve(served, suspended=offered[1])

    def suspended(self) -> str | None:
        """Why no share of the node may be handed out; None: they may."""
        if self.driver_fault is not None:
            return self.driver_fault
        # Until the GPUNode has been seen, a GPU that the admin has excluded looks like any other.
        return self.around.closed() if self.agent.synced else around.UNSEEN

    def closed(self, gpu: GPUUID) -> str | None:
        """Why a GPU takes no new tenant; None: it does."""
        if gpu in self.agent.excluded_gpus:
            return status.EXCLUDED_REASON
        if self.devices[gpu].mig:
            return status.MIG_REASON
        return (
            self.unserved.get(gpu) or self.unhealthy(gpu) or self.neighbours.closing(gpu) or self.strangers.closing(gpu)
        )

    def unhealthy(self, gpu: GPUUID) -> str | None:
        """Why no container may start on a GPU, not even one that had it before; None: it may."""
        record = self.health.records.get(gpu)
        if record is None:
            return health.UNEXAMINED
        if record.health is gpunode.Health.HEALTHY:
            return None
        return f"the GPU is {record.health}: {record.reason or record.cause or 'no reason is known'}"

    def reserved(self, gpu: GPUUID) -> gpunode.Mode | None:
        """Return the mode of a GPU that is not this agent's to manage now; None: it is."""
        device = self.devices.get(gpu)
        if device is not None and device.mig:
            return gpunode.Mode.MIG
        incapable = device is not None and not v2.limits_threads(device)
        excluded = gpu in self.agent.excluded_gpus or incapable
        untouched = excluded or not self.agent.synced or self.around.closed() is not None
        return gpunode.Mode.EXCLUDED if untouched else None

    def given_back(self, gpu: GPUUID) -> bool:
        """Return whether a GPU is to be what it was before Cotenant, once no tenant holds it."""
        return self.agent.synced and (gpu in self.agent.excluded_gpus or self.around.given_back())

    def find(self, uid: PodUID) -> manifests.Subject | None:
        """Return a pod of this node, by what is remembered."""
        for bound in self.pods.all():
            if bound.uid == uid:
                return manifests.Subject(uid, bound.namespace, bound.name)
        return None

    def _late_binding(self, resources: pod_resources.Client, proc: Path) -> LateBinding:
        settings = self.settings
        self.bases = bases.Bases(settings.base_cdi_dirs, maker=toolkit.Toolkit(settings.driver))
        self.specifications = SpecificationFiles(settings.cdi_dir, self.bases)
        made = Surroundings(
            disk=LedgerFile(settings.state_dir),
            kubelet=LocalKubelet(settings.kubelet_dir, resources),
            pods=actions.FreshPods(self.api, settings.node),
            processes=HostProcesses(self.processes, proc=proc),
            gate=self,
            publisher=self.publisher,
            specifications=self.specifications,
            clock=self.retry.clock,
            nonces=_nonce,
            tenant_user=self.stores.policy.tenant_user,
        )
        return LateBinding(settings.node, made)

    def _connect(self) -> None:
        """Who tells whom of a change."""
        for source in (self.publisher, self.registration, self.incidents):
            source.changed = self.agent.publish_soon
        for store in (self.health, self.stores.node, self.stores.slices, self.stores.policy):
            store.changed = self._changed
        self.agent.heard = self._heard

    def _changed(self) -> None:
        """Offer anew: what may be handed out may have changed, and kubelet must not wait for the next round."""
        self.offer()
        self.agent.publish_soon()

    def _heard(self, published: gpunode.Status) -> None:
        if self._leaving and not conditions.is_true(published.conditions, gpunode.READY):
            self._left.set()
        self.offer()
        self.publisher.heard(published)
        self.incidents.published(published)

    def _state(self, gpu: GPUUID) -> status.GPUState:
        record = self.health.records[gpu]
        decision = self.machines.decision(gpu) if self.machines else None
        whole = self.machines is not None and self.machines.wanted(gpu) is gpunode.Mode.WHOLE
        # Only what is not Healthy is left out by who places pods.
        unserved = self.unserved.get(gpu) if record.health is gpunode.Health.HEALTHY else None
        return status.GPUState(
            mode=gpunode.Mode.WHOLE if whole else gpunode.Mode.SHARED,
            health=gpunode.Health.SUSPECT if unserved else record.health,
            reason=unserved or record.reason,
            mps=decision.published if decision else gpunode.MPS.STARTING,
            last_fault=record.fault,
        )

    def _took(self, gpu: GPUUID, before: supervision.Decision | None, decision: supervision.Decision) -> None:
        """Take in what a supervisor has decided; what it does not do itself is left to a task."""
        if decision.fault is not None:
            self.witnesses.saw(gpu)
        self.witnesses.looked(gpu, well=decision.ready and decision.fault is None)
        if decision.fault is not None or any(isinstance(each, steps.EvictStayers) for each in decision.actions):
            self.serious.setdefault(gpu, []).append(decision)
            self.alarm.set()
        if before is None or before.published is not decision.published:
            self.agent.publish_soon()
        for line in decision.unproven:
            self._doubted(gpu, line)

    def _doubted(self, gpu: GPUUID, line: str) -> None:
        """Count a fault that was told of and not proven; whoever can have a line written must not fill the log."""
        if gpu not in self._doubts:
            self._doubts.add(gpu)
            LOG.warning(UNPROVEN, gpu, errors.shortened(line))
        self.metrics.unproven_fault(gpu)

    def _clients(self) -> Mapping[GPUUID, tuple[int, ...]]:
        return self.machines.seen_clients() if self.machines else {}

    def _own_pids(self) -> frozenset[int]:
        servers = self.machines.server_pids() if self.machines else frozenset()
        return servers | self._canaries.pids

    def _kubelet_fault(self) -> str | None:
        if self._leaving:
            return LEAVING
        return None if self.registration.connected else "kubelet does not listen to the device plugin"


def _nonce() -> Nonce:
    """128 bits that nobody can guess."""
    return Nonce(os.urandom(16).hex())
