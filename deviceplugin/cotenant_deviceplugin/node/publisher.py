"""Late binding's publisher: has tenants listed before they may start, and keeps why pods are refused.

It writes nothing itself: the agent does, and tells what stands at the API server.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cotenant_api import errors, gpunode
from cotenant_api.names import PodUID
from cotenant_deviceplugin.binding.grants import Grant
from cotenant_deviceplugin.clock import Clock
from cotenant_deviceplugin.publishing.tenants import Holder

LIST_SECONDS = 10.0
"""How long a PreStart waits for the API server; kubelet tries again."""
FORGET_SECONDS = 60.0
"""After which a tenant is unlisted that was to be granted and was not: kubelet waits 30 s for a PreStart."""
MAX_REFUSED = 1024


@dataclass
class _Coming:
    """A tenant that late binding is about to grant.

    Attributes:
        viewed: it has been in a view that the agent asked for; what is heard next was made of that view.
    """

    grant: Grant
    since: datetime
    viewed: bool = False
    listed: asyncio.Event = field(default_factory=asyncio.Event)


class Publisher:
    """See `binding.grants.Publisher`.

    Args:
        clock: the time.
        patience_seconds: how long `list_tenant` waits.

    Attributes:
        changed: is called when there is something new to publish.
    """

    def __init__(self, clock: Clock, *, patience_seconds: float = LIST_SECONDS) -> None:
        self.changed: Callable[[], None] = _nobody
        self._clock = clock
        self._patience_seconds = patience_seconds
        self._coming: dict[PodUID, _Coming] = {}
        self._refused: dict[PodUID, str] = {}

    async def list_tenant(self, grant: Grant) -> None:
        """Return once a GPUNode that lists this tenant has been written, in full since this call."""
        coming = _Coming(grant, self._clock.now())
        self._coming[grant.pod_uid] = coming
        self.changed()
        try:
            async with asyncio.timeout(self._patience_seconds):
                await coming.listed.wait()
        except TimeoutError as error:
            message = "the GPUNode that lists this pod could not be written yet"
            raise errors.TemporaryError(message, delay_seconds=1) from error

    def refuse(self, pod_uid: PodUID, reason: str) -> None:
        """Put a permanent refusal into the status, until that pod is gone."""
        if self._refused.get(pod_uid) != reason and (pod_uid in self._refused or len(self._refused) < MAX_REFUSED):
            self._refused[pod_uid] = reason
            self.changed()

    def granted(self, standing: Collection[Grant]) -> tuple[Holder, ...]:
        """Everybody who is to be listed: those who were granted their GPUs, and those who are about to be."""
        now = self._clock.now()
        uids = {grant.pod_uid for grant in standing}
        for uid, coming in list(self._coming.items()):
            if (coming.listed.is_set() and uid in uids) or abs(now - coming.since) > timedelta(seconds=FORGET_SECONDS):
                del self._coming[uid]
        for coming in self._coming.values():
            coming.viewed = True
        about_to_be = {uid: coming.grant for uid, coming in self._coming.items()}
        return tuple(_holder(grant) for grant in (about_to_be | {grant.pod_uid: grant for grant in standing}).values())

    def refused(self, living: Collection[PodUID]) -> dict[PodUID, str]:
        """Why pods are refused, of those that live."""
        self._refused = {uid: reason for uid, reason in self._refused.items() if uid in living}
        return dict(self._refused)

    def heard(self, status: gpunode.Status) -> None:
        """Take in the status that stands at the API server now, made of the view that was asked for last."""
        for coming in self._coming.values():
            if coming.viewed and _lists(status, coming.grant):
                coming.listed.set()


def _lists(status: gpunode.Status, grant: Grant) -> bool:
    listing = {gpu.uuid for gpu in status.gpus if any(tenant.pod_uid == grant.pod_uid for tenant in gpu.tenants)}
    return all(booking.uuid in listing for booking in grant.booked.gpus)


def _holder(grant: Grant) -> Holder:
    return Holder(uid=grant.pod_uid, namespace=grant.namespace, pod=grant.pod, booked=grant.booked)


def _nobody() -> None:
    """Nobody listens yet."""
