"""What the GPUs do, sampled at most every few seconds for all who ask, with the owner of each process.

A PID outlives its process in the driver's answer for a moment, and may by then be another's: a process of no pod is
counted only when two samples in a row show it, and one that is gone never. Whose an ended process was is remembered
until its PID is that of a process of no pod.
"""

import asyncio
import collections
import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.gpus.processes import Owned, Processes
from cotenant_deviceplugin.publishing.tenants import Owners
from cotenant_deviceplugin.sharing import Shared

SAMPLE_SECONDS = 5.0
REMEMBERED_PROCESSES = 4096


class Sampled:
    """Hardware whose usage is sampled; also a hardware.ProcessOwners.

    Args:
        gpus: the hardware.
        processes: of the host.
        ours: PIDs that belong to the agent's doing.
        clients: PIDs of the clients of each GPU's MPS server: a driver may list the server alone.
        monotonic: a clock that never goes back, in seconds.
    """

    def __init__(
        self,
        gpus: hardware.ManagedHardware,
        processes: Processes,
        *,
        ours: Callable[[], Collection[int]],
        clients: Callable[[], Mapping[GPUUID, Collection[int]]],
        monotonic: Callable[[], float],
    ) -> None:
        self._gpus, self._processes, self._monotonic = gpus, processes, monotonic
        self._ours, self._clients = ours, clients
        self._fresh: dict[GPUUID, Shared[tuple[hardware.Usage, Owned]]] = {}
        self._sampled_at: float | None = None
        self._sample: Mapping[GPUUID, hardware.Usage] = {}
        self._foreign: frozenset[int] = frozenset()
        self._owners: Mapping[int, PodUID] = {}
        self._remembered: collections.OrderedDict[int, PodUID] = collections.OrderedDict()
        self._one_at_a_time = asyncio.Lock()

    @property
    def simulated(self) -> bool:
        """As the hardware says."""
        return self._gpus.simulated

    async def driver(self) -> hardware.Driver:
        """As the hardware says."""
        return await self._gpus.driver()

    async def devices(self) -> tuple[hardware.Device, ...]:
        """As the hardware says."""
        return await self._gpus.devices()

    async def usage(self) -> Mapping[GPUUID, hardware.Usage]:
        """Return what each GPU does, and did at most `SAMPLE_SECONDS` ago."""
        async with self._one_at_a_time:
            now = self._monotonic()
            if self._sampled_at is None or now - self._sampled_at >= SAMPLE_SECONDS:
                self._sample, self._sampled_at = await self._take(), now
        return self._sample

    def forget(self) -> None:
        """Forget the last sample: what is asked for next is measured anew."""
        self._sampled_at = None

    def pod_of(self, pid: int) -> PodUID | None:
        """Return the pod of a process of the last sample."""
        return self._owners.get(pid)

    def seen(self, gpu: GPUUID) -> Owners:
        """Who was on a GPU by the last sample, besides the agent's doing."""
        usage = self._sample.get(gpu)
        ours = self._ours()
        return {
            each.pid: self._owners.get(each.pid) for each in (usage.processes if usage else ()) if each.pid not in ours
        }

    async def now(self, gpu: GPUUID) -> Owners:
        """Who is on a GPU now, besides the agent's doing. Raises TemporaryError where that cannot be told."""
        if gpu not in self._fresh:
            self._fresh[gpu] = Shared(functools.partial(self._measured_of, gpu))
        usage, owned = await self._fresh[gpu]()
        here = {each.pid for each in usage.processes}
        return {pid: owned.pods.get(pid) for pid in here & (owned.pods.keys() | owned.foreign)}

    async def pods_of(self, pids: Iterable[int]) -> Mapping[int, PodUID]:
        """Return the pods of processes that may have ended: as they are, else as they were."""
        return (await self.owned(pids)).pods

    async def owned(self, pids: Iterable[int]) -> Owned:
        """Return the owners of processes. One that has ended is still its pod's, as far as that is remembered."""
        wanted = frozenset(pids)
        if not wanted:
            return Owned({}, frozenset(), frozenset())
        now = await asyncio.to_thread(self._processes.owned, wanted, ours=self._ours())
        self._remember(now)
        ended = {pid: owner for pid in now.gone if (owner := self._remembered.get(pid)) is not None}
        return Owned({**now.pods, **ended}, now.foreign, now.gone - ended.keys())

    async def _take(self) -> Mapping[GPUUID, hardware.Usage]:
        measured, owned = await self._measured(await self._gpus.usage())
        # What the agent itself does is left out with what has ended: afterwards nobody could tell whose it was.
        shown = owned.pods.keys() | (owned.foreign & self._foreign)
        self._owners, self._foreign = owned.pods, owned.foreign
        self._remember(owned)
        return {gpu: _only(each, shown) for gpu, each in measured.items()}

    async def _measured_of(self, gpu: GPUUID) -> tuple[hardware.Usage, Owned]:
        measured, owned = await self._measured({gpu: await self._gpus.usage_of(gpu)})
        return measured[gpu], owned

    async def _measured(self, raw: Mapping[GPUUID, hardware.Usage]) -> tuple[Mapping[GPUUID, hardware.Usage], Owned]:
        """Return what GPUs do, clients of MPS included, and whose the processes are."""
        clients = self._clients()
        measured = {gpu: _with(each, clients.get(gpu, ())) for gpu, each in raw.items()}
        pids = {process.pid for each in measured.values() for process in each.processes}
        return measured, await asyncio.to_thread(self._processes.owned, pids, ours=self._ours())

    def _remember(self, owned: Owned) -> None:
        """Remember the pods of processes, and forget PIDs that are now those of processes of no pod."""
        for pid in (*owned.foreign, *self._ours()):
            self._remembered.pop(pid, None)
        for pid, owner in owned.pods.items():
            self._remembered[pid] = owner
            self._remembered.move_to_end(pid)
        while len(self._remembered) > REMEMBERED_PROCESSES:
            self._remembered.popitem(last=False)


def _only(usage: hardware.Usage, pids: Collection[int]) -> hardware.Usage:
    return replace(usage, processes=tuple(process for process in usage.processes if process.pid in pids))


def _with(usage: hardware.Usage, clients: Iterable[int]) -> hardware.Usage:
    """With clients that the driver does not list; it then counts their memory as the server's."""
    listed = {process.pid for process in usage.processes}
    more = (hardware.Process(pid=pid, memory_mib=0) for pid in clients if pid not in listed)
    return replace(usage, processes=(*usage.processes, *more))
