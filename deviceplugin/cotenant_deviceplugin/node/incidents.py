"""What the agent tells about pods: events, and in its GPUNode who is in the way and should be evicted.

It asks for that in two cases alone: a pod uses more GPU memory than was booked and the policy says so, or its processes
keep a GPU from recovering after a fault. It evicts nobody itself: nothing could hold it to the pods of its own node.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from cotenant_api import errors, gpunode
from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin.kube import actions, manifests
from cotenant_deviceplugin.node.watchdog import Overuse
from cotenant_deviceplugin.retry import Log, Retry

OVERUSE, FAULT, BLOCKS, REFUSED = (
    gpunode.EvictionReason.MEMORY_OVERUSE.value,
    "GPUFault",
    gpunode.EvictionReason.BLOCKS_RECOVERY.value,
    "GPURefused",
)
"""Reasons of events."""
ATTEMPTS = 5
MAX_WAITING = 1024

Find = Callable[[PodUID], manifests.Subject | None]


@dataclass(frozen=True)
class Deed:
    """Something to be told about a pod."""

    about: manifests.Subject
    reason: str
    message: str


class Incidents:
    """Tells, in the order in which it was asked to; what cannot be told is given up after a while.

    Args:
        find: namespace and name of a pod that lives; None: nobody knows it.
        events: by way of the API server.
        retry: for what the API server does not take at once.
        asked: is told of the reason each time that another pod should be evicted.

    Attributes:
        changed: is called when there is another pod to be evicted, or one less.
        let_go: pods that keep no GPU from recovering, whoever asked for their eviction because of that.
    """

    def __init__(
        self, find: Find, *, events: actions.PodEvents, retry: Retry, asked: Callable[[gpunode.EvictionReason], None]
    ) -> None:
        self.changed: Callable[[], None] = _nobody
        self._find, self._events = find, events
        self._retry, self._asked = retry, asked
        self._waiting: asyncio.Queue[Deed] = asyncio.Queue(MAX_WAITING)
        self._under_way: set[tuple[PodUID, str]] = set()
        self._refused: dict[PodUID, str] = {}
        self._evict: dict[PodUID, gpunode.EvictionReason] = {}
        self._blocking: dict[GPUUID, frozenset[PodUID]] = {}
        self.let_go: frozenset[PodUID] = frozenset()

    def evict(self, living: Collection[PodUID]) -> dict[PodUID, gpunode.EvictionReason]:
        """Who should be evicted and why, of those that live."""
        self._evict = {uid: reason for uid, reason in self._evict.items() if uid in living}
        self._blocking = {gpu: uids.intersection(living) for gpu, uids in self._blocking.items()}
        self.let_go = self.let_go.intersection(living)
        return dict(self._evict)

    def overused(self, found: Iterable[Overuse]) -> None:
        """Pods use more memory than was booked."""
        for each in found:
            self._put(Deed(manifests.Subject(each.pod_uid, each.namespace, each.pod), OVERUSE, each.message))
            if each.evict:
                self._ask(each.pod_uid, gpunode.EvictionReason.MEMORY_OVERUSE, each.message)

    def blocking(self, gpu: GPUUID, uids: Collection[PodUID], *, free: Collection[PodUID] = frozenset()) -> None:
        """Ask for the eviction of pods that keep a GPU from recovering. What was asked of other pods stands.

        Args:
            gpu: the GPU.
            uids: the pods that should be evicted.
            free: tenants of the GPU that do not hold it: what was asked of them, also by an earlier agent, is taken
                back.
        """
        message = f"its processes hold {gpu} and keep its MPS server from serving: it is evicted"
        self._blocking[gpu] = self._blocking.get(gpu, frozenset()).difference(free).union(uids)
        for uid in uids:
            self._about((uid,), BLOCKS, message)
            self._ask(uid, gpunode.EvictionReason.BLOCKS_RECOVERY, message)
        self._take_back(free, f"it holds {gpu} no longer")

    def recovered(self, gpu: GPUUID) -> None:
        """Take back what was asked because of a GPU that has recovered by itself: nobody is to go for nothing."""
        self._take_back(self._blocking.pop(gpu, frozenset()), f"{gpu} has recovered")

    def faulted(self, gpu: GPUUID, fault: gpunode.Fault) -> None:
        """Tell the pods that it concerns of a fatal fault of a GPU."""
        xid = "" if fault.xid is None else f" (XID {fault.xid})"
        if fault.culprit_pod_uid is not None:
            self._about((fault.culprit_pod_uid,), FAULT, f"caused a fatal fault of {gpu}{xid}")
        message = f"was hit by a fatal fault of {gpu}{xid} that it did not cause"
        if fault.suspect_pod_uids:
            message = f"was on {gpu} when a fatal fault hit it{xid}; which of its tenants caused it is not known"
        self._about(fault.victim_pod_uids, FAULT, message)

    def published(self, status: gpunode.Status) -> None:
        """Refusals that are new in a status."""
        now = {each.pod_uid: each.reason for each in status.refused}
        for uid, reason in now.items():
            if self._refused.get(uid) != reason:
                self._about((uid,), REFUSED, reason)
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
        """Do a deed, which is safe to repeat; give it up after a few attempts."""
        for _ in range(ATTEMPTS):
            try:
                await self._events.tell(deed.about, reason=deed.reason, message=deed.message)
            except errors.CotenantError as error:
                self._log.warning("%s of pod %s/%s: %s", deed.reason, deed.about.namespace, deed.about.name, error)
                delay = error.delay_seconds if isinstance(error, errors.TemporaryError) else 0
                await self._retry.clock.sleep(max(delay, 1.0))
            else:
                return

    @property
    def _log(self) -> Log:
        return self._retry.log

    def _ask(self, uid: PodUID, reason: gpunode.EvictionReason, message: str) -> None:
        """Have a pod evicted; what was asked first stands."""
        if uid in self._evict or self._find(uid) is None:
            return
        self._evict[uid] = reason
        self.let_go -= {uid}
        self._log.warning("pod %s: %s", uid, message)
        self._asked(reason)
        self.changed()

    def _take_back(self, uids: Iterable[PodUID], why: str) -> None:
        """Have pods stay, unless another GPU waits for them, or they are to go for another reason."""
        elsewhere = frozenset[PodUID]().union(*self._blocking.values())
        for uid in frozenset(uids) - elsewhere - self.let_go:
            if self._evict.get(uid) is gpunode.EvictionReason.BLOCKS_RECOVERY:
                del self._evict[uid]
                self._log.warning("pod %s: %s, and it may stay", uid, why)
            self.let_go |= {uid}
            self.changed()

    def _about(self, uids: Iterable[PodUID], reason: str, message: str) -> None:
        for uid in uids:
            subject = self._find(uid)
            if subject is not None:
                self._put(Deed(subject, reason, message))

    def _put(self, deed: Deed) -> None:
        if (deed.about.uid, deed.reason) in self._under_way:
            return
        if self._waiting.full():
            self._log.warning("too much to tell: %s of pod %s is left out", deed.reason, deed.about.uid)
            return
        self._under_way.add((deed.about.uid, deed.reason))
        self._waiting.put_nowait(deed)


def _nobody() -> None:
    """Nobody listens yet."""
