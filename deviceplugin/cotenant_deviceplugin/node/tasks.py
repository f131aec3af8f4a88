"""What the parts of a real node's agent do, and when. Each task goes on for ever; what fails is tried again.

A period that is not a second long is chosen for what it costs: asking the driver takes milliseconds, asking MPS a
process.
"""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta

from cotenant_api import errors, gpunode
from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin.binding.grants import Numbers
from cotenant_deviceplugin.gpus import hardware, xids
from cotenant_deviceplugin.kube import cluster
from cotenant_deviceplugin.kube.reflector import Reflector
from cotenant_deviceplugin.mps import steps, supervision, v2, versions
from cotenant_deviceplugin.node import holding, watchdog
from cotenant_deviceplugin.node.agent import NodeAgent
from cotenant_deviceplugin.node.machines import Machines
from cotenant_deviceplugin.node.proving import Proving

DRIVER_SECONDS = 10.0
SUPERVISE_SECONDS = 1.0
HEALTH_SECONDS = 5.0
PROVE_SECONDS = 2.0
ENDINGS_SECONDS = 1.0
WATCH_SECONDS = 10.0
SERVE_SECONDS = 2.0
COLLECT_SECONDS = 5.0
SWEEP_SECONDS = 600.0
GIVE_BACK_SECONDS = 10.0
WITNESS_SECONDS = 1.0
"""After an XID: until MPS has said what it knows of it, so that both count as one fault. MPS is asked for as long."""

DRIVER, LEDGER, MPS, HEALTH, CANARIES, ENDINGS, WATCHDOG, SERVING, STRANGERS, COLLECTING, GIVING_BACK = (
    "driver",
    "ledger",
    "MPS",
    "health",
    "canaries",
    "endings",
    "watchdog",
    "shares",
    "processes",
    "collecting",
    "giving back",
)
"""What can fail, as the log names it."""
NO_GPU = "the driver lists no GPU"


def _unlimited(devices: Mapping[GPUUID, hardware.Device]) -> dict[GPUUID, str]:
    """Return the GPUs on which no limit of threads would hold, and why."""
    return {gpu: v2.unlimited(device) for gpu, device in devices.items() if not v2.limits_threads(device)}


def _stayers(decision: supervision.Decision) -> frozenset[int]:
    """Return the processes that a decision wants to go."""
    named = (action.pids for action in decision.actions if isinstance(action, steps.EvictStayers))
    return frozenset[int]().union(*named)


class Tasks:
    """The tasks of one agent."""

    def __init__(self, agent: NodeAgent) -> None:
        self._of = agent
        self._retry = agent.retry
        self._measured: gpunode.Status | None = None
        self._counts: watchdog.Counts = {}
        self._swept: datetime | None = None
        self._held: dict[GPUUID, holding.Held] = {}
        self._group = asyncio.TaskGroup()
        self._apart: dict[tuple[str, GPUUID], asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Go on until cancelled."""
        of = self._of
        # Grants must be known before the first status: a tenant that it left out would look as if it had ended.
        await self._retry.until_done(LEDGER, of.binding.open)
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors():
                group.create_task(reflector.follow(of.api, self._retry))
            group.create_task(of.agent.run())
            group.create_task(of.incidents.run())
            group.create_task(self._with_driver())

    async def _with_driver(self) -> None:
        """Begin what needs the driver when it is there; until then the agent waits, and does not crash."""
        of = self._of
        await self._retry.until_done(DRIVER, self._meet_driver)
        async with self._group as group:
            for seconds, what, action in (
                (DRIVER_SECONDS, DRIVER, self._look_at_driver),
                (SUPERVISE_SECONDS, MPS, self._supervise),
                (HEALTH_SECONDS, HEALTH, self._examine),
                (PROVE_SECONDS, CANARIES, self._prove),
                (ENDINGS_SECONDS, ENDINGS, self._end),
                (WATCH_SECONDS, WATCHDOG, self._watch),
                (SERVE_SECONDS, SERVING, self._serve),
                (GIVE_BACK_SECONDS, GIVING_BACK, self._give_back),
            ):
                group.create_task(self._every(seconds, what, action))
            group.create_task(self._hear())
            group.create_task(self._answer_alarms())
            group.create_task(self._recover_and_collect())
            group.create_task(of.registration.run())

    async def _every(self, seconds: float, what: str, action: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._retry.until_done(what, action)
            await self._retry.clock.sleep(seconds)

    def _reflectors(self) -> tuple[Reflector, ...]:
        node, stores = self._of.settings.node, self._of.stores
        return (
            Reflector("Node", cluster.node_of(node), stores.node),
            Reflector("PackingPolicy", cluster.policy(), stores.policy),
            Reflector("ResourceSlices", cluster.nvidia_slices_of(node), stores.slices, may_be_absent=True),
        )

    # --- the driver and its GPUs

    async def _meet_driver(self) -> None:
        of = self._of
        driver = await of.gpus.driver()
        await self._know(await of.gpus.devices())
        if not of.devices:
            raise errors.TemporaryError(NO_GPU, delay_seconds=DRIVER_SECONDS)
        if of.machines is None:
            of.equip(driver)
        await self._look_at_driver()

    async def _look_at_driver(self) -> None:
        """Look which GPUs there are, and which of them a CDI specification knows."""
        of = self._of
        try:
            # Before anything of a GPU is changed: with an older driver none is to be.
            of.around.driver_fault = versions.unfit((await of.gpus.driver()).driver_version)
            listed = await of.gpus.devices()
            driver = await of.gpus.driver()
        except errors.TemporaryError as error:
            of.driver_fault = str(error)
            of.bases.renew()
            of.offer()
            raise
        of.driver_fault = None
        try:
            await self._know(listed)
        finally:
            # What keeps a new GPU out is no fault of the others.
            await self._look_for_specifications(driver)

    async def _look_for_specifications(self, driver: hardware.Driver) -> None:
        of = self._of
        # Before anything that takes long: kubelet may start a container with what stands there.
        of.offer()
        await of.binding.revise()
        wanted = {gpu: Numbers.of(each) for gpu, each in of.devices.items() if not each.mig}
        look = await of.bases.look(wanted, driver.driver_version)
        of.around.specification_fault = look.reason if wanted and len(look.missing) == len(wanted) else None
        of.unserved = _unlimited(of.devices) | dict(look.reasons)
        if of.machines is not None:
            of.machines.know(of.devices)
        of.offer()

    async def _know(self, listed: Iterable[hardware.Device]) -> None:
        """Get to know devices; a GPU that was known stays known: lost is not gone.

        Raises TemporaryError while what was stored of a new GPU's health cannot be read: it is not taken in then.
        """
        of, found = self._of, {device.uuid: device for device in listed}
        of.devices |= hardware.updated(of.devices, found)
        await of.health.know(found)
        of.devices |= found

    async def _serve(self) -> None:
        of = self._of
        try:
            for gpu in of.strangers.doubted(of.devices):
                self._begin(STRANGERS, gpu, functools.partial(self._look_at_strangers, gpu))
            await of.neighbours.look()
        finally:
            of.offer()

    async def _look_at_strangers(self, gpu: GPUUID) -> None:
        await self._of.strangers.look(gpu)
        self._of.offer()

    async def _give_back(self) -> None:
        of = self._of
        if of.daemons is not None and of.stores.synced:
            await of.giving_back.step(of.daemons, given_back=of.around.given_back())

    # --- MPS and health

    async def _supervise(self) -> None:
        machines = self._of.machines
        due = [] if machines is None else [gpu for gpu in machines.due() if (MPS, gpu) not in self._apart]
        if machines is not None:
            for gpu in due:
                self._begin(MPS, gpu, functools.partial(self._step, machines, gpu))

    def _begin(self, what: str, gpu: GPUUID, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Do something of one GPU, unless it is under way: a daemon that does not answer keeps no other one waiting."""
        if (what, gpu) not in self._apart:
            self._apart[what, gpu] = self._group.create_task(self._alone(what, gpu, work))
        return self._apart[what, gpu]

    async def _alone(self, what: str, gpu: GPUUID, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await self._retry.until_done(what, work)
        finally:
            del self._apart[what, gpu]

    async def _step(self, machines: Machines, gpu: GPUUID) -> None:
        """One GPU's trouble is no other's: it shows in its health."""
        try:
            decision = await machines.step(gpu)
        except errors.TemporaryError as error:
            self._retry.log.debug("MPS of %s: %s", gpu, error)
        else:
            await self._look_at_holders(gpu, decision)

    async def _look_at_holders(self, gpu: GPUUID, decision: supervision.Decision) -> None:
        """Have those evicted that have held a GPU without a server for long, in one go or again and again."""
        of = self._of
        if decision.ready or decision.published is gpunode.MPS.NOT_USED:
            self._held.pop(gpu, None)
            return
        holders = await of.sampled.owned(decision.blocking)
        pods = holding.without_server(holders, self._tenants_of(gpu), answered=decision.answered)
        self._held[gpu] = self._held.get(gpu, holding.NOBODY).looked(pods, time.monotonic())
        if pods:
            self._in_the_way(gpu, self._held[gpu].in_the_way(), holders=pods)

    def _tenants_of(self, gpu: GPUUID) -> frozenset[PodUID]:
        return frozenset(grant.pod_uid for grant in self._of.binding.tenants(gpu))

    def _in_the_way(self, gpu: GPUUID, named: frozenset[PodUID], *, holders: frozenset[PodUID]) -> None:
        """Have pods evicted. Of a pod that is deleted already, what was asked stands: its end is told with it."""
        leaving = self._leaving()
        self._of.incidents.blocking(gpu, named - leaving, free=self._tenants_of(gpu) - holders - leaving)

    async def _hear(self) -> None:
        """Take up critical events."""
        of = self._of
        async for event in of.gpus.events():
            late = ", which may have happened some time ago" if event.late else ""
            self._retry.log.warning("XID %d of %s%s", event.xid, event.uuid or "all GPUs", late)
            of.metrics.xid(event.uuid, event.xid)
            of.health.told(event)
            for gpu in of.devices if event.uuid is None else (event.uuid,):
                of.witnesses.saw(gpu, late=event.late)
            if of.machines is not None and xids.tells_of_fault(of.xids, event.xid):
                of.machines.heard(event.uuid)
            of.alarm.set()

    async def _answer_alarms(self) -> None:
        while True:
            await self._of.alarm.wait()
            if self._of.health.waiting():
                await self._retry.clock.sleep(WITNESS_SECONDS)
            self._of.alarm.clear()
            await self._examine()

    async def _examine(self) -> None:
        """Have each GPU weighed: one that is late keeps no other one waiting."""
        for gpu in self._of.devices:
            self._begin(HEALTH, gpu, functools.partial(self._examine_one, gpu))

    async def _examine_one(self, gpu: GPUUID) -> None:
        """Weigh what the driver and MPS say of a GPU; what a supervisor has found comes first."""
        of = self._of
        if of.machines is not None and gpu in of.health.waiting():
            # A daemon that does not answer keeps no GPU from being weighed.
            look = self._begin(MPS, gpu, functools.partial(self._step, of.machines, gpu))
            await asyncio.wait({look}, timeout=WITNESS_SECONDS)
        try:
            readings = await of.gpus.readings_of(gpu)
        except errors.TemporaryError:
            readings = None
        serious = of.serious.pop(gpu, [])
        for decision in serious:
            await self._act(gpu, decision)
        self._weigh(gpu, readings, faulted=any(decision.fault is not None for decision in serious))
        await of.health.store()
        if gpu in of.health.waiting() or gpu in of.serious:
            # It came while this one was under way, and then none was begun for it.
            of.alarm.set()

    def _weigh(self, gpu: GPUUID, readings: hardware.Readings | None, *, faulted: bool) -> None:
        of = self._of
        before = of.health.records[gpu].fault
        mps = of.machines.evidence(gpu) if of.machines else gpunode.MPS.NOT_USED
        if mps is gpunode.MPS.ACTIVE:
            of.incidents.recovered(gpu)
        held = of.witnesses.taken(gpu)
        of.health.weigh(
            gpu,
            readings,
            mps=gpunode.MPS.FAULT if faulted else mps,
            tenants=tuple(sorted(held.tenants)),
            strangers=held.others,
        )
        fault = of.health.records[gpu].fault
        if fault is not None and fault != before:
            of.incidents.faulted(gpu, fault)

    async def _prove(self) -> None:
        """Run canaries where they are waited for."""
        proving = self._of.proving
        if proving is not None:
            for gpu in proving.due():
                self._begin(CANARIES, gpu, functools.partial(self._prove_one, proving, gpu))

    async def _prove_one(self, proving: Proving, gpu: GPUUID) -> None:
        if await proving.prove(gpu):
            self._of.alarm.set()

    async def _act(self, gpu: GPUUID, decision: supervision.Decision) -> None:
        """Have those evicted that keep a GPU from recovering, and log a fault that began."""
        of = self._of
        if _stayers(decision):
            # As others were waited for since, what it was decided by may have changed.
            owners = await of.sampled.pods_of(self._stayers(gpu))
            if stayers := self._stayers(gpu):
                pods = self._tenants_of(gpu) & {owners[pid] for pid in stayers & owners.keys()}
                self._in_the_way(gpu, pods, holders=pods)
        if decision.fault is not None:
            self._retry.log.error("%s: %s", gpu, decision.fault.reason)

    def _stayers(self, gpu: GPUUID) -> frozenset[int]:
        """Return the processes that are to go by what is known now."""
        latest = self._of.machines.decision(gpu) if self._of.machines else None
        return frozenset() if latest is None else _stayers(latest)

    # --- tenants

    async def _end(self) -> None:
        ending, clock = self._of.ending, self._retry.clock
        if ending is None:
            return
        for gpu in ending.near(clock.now()):
            self._begin(ENDINGS, gpu, functools.partial(ending.end_on, gpu, clock.now))

    async def _watch(self) -> None:
        """Weigh memory, once for each new status."""
        of, current = self._of, self._of.agent.current
        if current is None or current is self._measured:
            return
        self._measured = current
        self._counts, over = watchdog.watch(self._counts, current.gpus, of.stores.policy.spec)
        leaving = self._leaving()
        of.incidents.overused(each for each in over if each.pod_uid not in leaving)

    def _leaving(self) -> frozenset[PodUID]:
        """Those whose end somebody has asked for, or that have finished."""
        return frozenset(bound.uid for bound in self._of.pods.all() if bound.ends_at is not None or bound.finished)

    async def _recover_and_collect(self) -> None:
        """Recover what the ledger has lost, and only then collect: until it is known again, no end of it can be."""
        await self._retry.until_done(LEDGER, self._of.binding.recover)
        await self._every(COLLECT_SECONDS, COLLECTING, self._collect)

    async def _collect(self) -> None:
        """Let grants end whose pods have; and look for what nobody knows, now and then."""
        of, now = self._of, self._retry.clock.now()
        if not of.pods.synced:
            return
        living = {bound.uid for bound in of.pods.all() if not bound.finished}
        doubtful = any(grant.pod_uid not in living for grant in of.binding.grants())
        # A clock that was set back ends the pause, too.
        swept = self._swept is not None and timedelta() <= now - self._swept < timedelta(seconds=SWEEP_SECONDS)
        if swept and not doubtful:
            return
        for grant in await of.binding.collect():
            self._retry.log.info("the grant of pod %s/%s has ended", grant.namespace, grant.pod)
            # Its processes are gone, and the last sample may not know that.
            of.sampled.forget()
            of.agent.publish_soon()
        self._swept = now
