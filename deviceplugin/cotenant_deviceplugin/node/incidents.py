"""What the agent tells about pods and does to them: events, and evictions of those who are in the way.

It evicts in two cases alone: a pod uses more GPU memory than was booked and the policy says so, or its processes keep a
GPU from recovering after a fault.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cotenant_api import errors, gpunode, names
from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin.kube import actions, manifests
from cotenant_deviceplugin.node.watchdog import Overuse
from cotenant_deviceplugin.retry import Log, Retry

OVERUSE, FAULT, BLOCKS, REFUSED = names.GPU_MEMORY_OVERUSE, "GPUFault", "BlocksGPURecovery", "GPURefused"
"""Reasons of events and, of the first and third, of evictions."""
ATTEMPTS = 5
MAX_WAITING = 1024

Find = Callable[[PodUID], manifests.Subject | None]


@dataclass(frozen=True)
class Deed:
    """Something to be told about a pod, and whether it is to be evicted for it."""

    about: manifests.Subject
    reason: str
    message: str
    evict: bool = False


class Incidents:
    """Tells and evicts, in the order in which it was asked to; what cannot be done is given up after a while.

    Args:
        find: namespace and name of a pod that lives; None: nobody knows it.
        events, evictions: by way of the API server.
        retry: for what the API server does not take at once.
        evicted: is told of each eviction's reason.
    """

    def __init__(
        self,
        find: Find,
        *,
        events: actions.PodEvents,
        evictions: actions.Evictions,
        retry: Retry,
        evicted: Callable[[str], None],
    ) -> None:
        self._find, self._events, self._evictions = find, events, evictions
        self._retry, self._evicted = retry, evicted
        self._waiting: asyncio.Queue[Deed] = asyncio.Queue(MAX_WAITING)
        self._under_way: set[tuple[PodUID, str]] = set()
        self._refused: dict[PodUID, str] = {}

    def overused(self, found: Iterable[Overuse]) -> None:
        """Pods use more memory than was booked."""
        for each in found:
            subject = manifests.Subject(each.pod_uid, each.namespace, each.pod)
            self._put(Deed(subject, OVERUSE, each.message, evict=each.evict))

    def blocking(self, gpu: GPUUID, uids: Iterable[PodUID]) -> None:
        """Pods keep a GPU from recovering."""
        message = f"its processes keep {gpu} from recovering after a fault: it is evicted"
        self._about(uids, BLOCKS, message, evict=True)

    def faulted(self, gpu: GPUUID, fault: gpunode.Fault) -> None:
        """A GPU had a fatal fault."""
        xid = "" if fault.xid is None else f" (XID {fault.xid})"
        if fault.culprit_pod_uid is not None:
            self._about((fault.culprit_pod_uid,), FAULT, f"caused a fatal fault of {gpu}{xid}", evict=False)
        message = f"was hit by a fatal fault of {gpu}{xid} that it did not cause"
        self._about(fault.victim_pod_uids, FAULT, message, evict=False)

    def published(self, status: gpunode.Status) -> None:
        """Refusals that are new in a status."""
        now = {each.pod_uid: each.reason for each in status.refused}
        for uid, reason in now.items():
            if self._refused.get(uid) != reason:
                self._about((uid,), REFUSED, reason, evict=False)
        self._refused = now

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            deed = await self._waiting.get()
            try:
                await self._done(deed)
            finally:
                self._under_way.discard((deed.about.uid, deed.reason))

    async def _done(self, deed: Deed) -> None:
        """Both are safe to repeat. A pod that stays is seen again by whoever asked."""
        for _ in range(ATTEMPTS):
            try:
                await self._told(deed)
                if deed.evict:
                    await self._evictions.evict(deed.about)
                    self._evicted(deed.reason)
                    self._log.warning("pod %s/%s: %s", deed.about.namespace, deed.about.name, deed.message)
            except errors.CotenantError as error:
                self._log.warning("%s of pod %s/%s: %s", deed.reason, deed.about.namespace, deed.about.name, error)
                delay = error.delay_seconds if isinstance(error, errors.TemporaryError) else 0
                await self._retry.clock.sleep(max(delay, 1.0))
            else:
                return

    async def _told(self, deed: Deed) -> None:
        """An event that the API server will not have keeps no GPU from recovering."""
        try:
            await self._events.tell(deed.about, reason=deed.reason, message=deed.message)
        except errors.PermanentError as error:
            if not deed.evict:
                raise
            self._log.warning("%s of pod %s/%s: %s", deed.reason, deed.about.namespace, deed.about.name, error)

    @property
    def _log(self) -> Log:
        return self._retry.log

    def _about(self, uids: Iterable[PodUID], reason: str, message: str, *, evict: bool) -> None:
        for uid in uids:
            subject = self._find(uid)
            if subject is not None:
                self._put(Deed(subject, reason, message, evict))

    def _put(self, deed: Deed) -> None:
        if (deed.about.uid, deed.reason) in self._under_way:
            return
        if self._waiting.full():
            self._log.warning("too much to tell: %s of pod %s is left out", deed.reason, deed.about.uid)
            return
        self._under_way.add((deed.about.uid, deed.reason))
        self._waiting.put_nowait(deed)
