"""Takes the clients of pods that are being deleted off their GPU, shortly before kubelet kills them.

When that is, `mps.endings` decides; nothing is ended earlier, and a pod without MPS is left to kubelet.
"""

import logging
from collections.abc import Callable, Iterable
from datetime import datetime

from cotenant_api import errors, placement
from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin import pods
from cotenant_deviceplugin.binding.grants import Grant
from cotenant_deviceplugin.mps import endings
from cotenant_deviceplugin.node.machines import Machines
from cotenant_deviceplugin.node.usage import Sampled

log = logging.getLogger("cotenant.agent")


class Ending:
    """Ends what is left of pods.

    Args:
        watched: the node's pods, as they are remembered.
        grants: all that stand.
        machines: whose clients are ended.
        owners: of processes.
        monotonic: a clock that never goes back, in seconds.
    """

    def __init__(
        self,
        watched: Callable[[], Iterable[pods.BoundPod]],
        grants: Callable[[], Iterable[Grant]],
        *,
        machines: Machines,
        owners: Sampled,
        monotonic: Callable[[], float],
    ) -> None:
        self._watched, self._grants, self._machines, self._owners = watched, grants, machines, owners
        self._monotonic = monotonic
        self._seen: dict[PodUID, tuple[datetime | None, float]] = {}
        """Of pods that are being deleted: until when they have, and since when that is known."""
        self._ended: dict[GPUUID, frozenset[int]] = {}
        """Clients that were ended: each stays in its server's list as long as its process lives."""

    def near(self, now: datetime) -> tuple[GPUUID, ...]:
        """Return the GPUs of pods whose end is near."""
        return tuple(
            sorted(
                {
                    gpu.uuid
                    for grant, bound in self._coming()
                    for gpu in grant.booked.gpus
                    if endings.is_due(self._of(grant, bound, gpu.uuid, frozenset()), now)
                }
            )
        )

    async def end_on(self, gpu: GPUUID, clock: Callable[[], datetime]) -> None:
        """End what is due on one GPU when its daemon has answered. Raises TemporaryError."""
        clients = await self._machines.clients(gpu)
        ended = self._ended.get(gpu, frozenset()) & clients
        owners = await self._owners.pods_of(clients)
        here = [
            self._of(grant, bound, gpu, frozenset(pid for pid, owner in owners.items() if owner == grant.pod_uid))
            for grant, bound in self._coming()
            if any(booking.uuid == gpu for booking in grant.booked.gpus)
        ]
        now = clock()
        for due in endings.due(here, clients={gpu: clients - ended}, now=now):
            log.info("%s: ending client %d of pod %s before its grace period ends", gpu, due.pid, due.pod)
            try:
                await self._machines.terminate(gpu, due.pid)
            except errors.TemporaryError as error:
                # It is asked again a second later, for as long as it is a client.
                log.warning("%s: client %d: %s", gpu, due.pid, error)
            else:
                ended |= {due.pid}
        self._ended[gpu] = ended

    def _coming(self) -> list[tuple[Grant, pods.BoundPod]]:
        """Return the grants of MPS of pods that are being deleted."""
        deleted = {bound.uid: bound for bound in self._watched() if bound.ends_at is not None and not bound.finished}
        now = self._monotonic()
        self._seen = {
            uid: known if (known := self._seen.get(uid)) and known[0] == bound.ends_at else (bound.ends_at, now)
            for uid, bound in deleted.items()
        }
        if not deleted:
            return []
        ending = [(grant, deleted[grant.pod_uid]) for grant in self._grants() if grant.pod_uid in deleted]
        return [(grant, bound) for grant, bound in ending if grant.booked.backend is placement.Backend.MPS]

    def _of(self, grant: Grant, bound: pods.BoundPod, gpu: GPUUID, processes: frozenset[int]) -> endings.Ending:
        if bound.ends_at is None:
            raise errors.PermanentError(f"pod {bound.uid} is not being deleted")
        return endings.Ending(
            pod=grant.pod_uid,
            gpu=gpu,
            deletion=bound.ends_at,
            grace_seconds=bound.grace_seconds,
            seen_seconds=self._monotonic() - self._seen[bound.uid][1],
            processes=processes,
        )
