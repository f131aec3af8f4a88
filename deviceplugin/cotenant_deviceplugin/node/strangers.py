"""Processes on a GPU that no tenant explains: nobody knows what they hold, so the GPU takes no new tenant.

A tenant that stands is not touched by them, and none of them is ended.
"""

from collections.abc import Callable, Iterable

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.binding.grants import Grant
from cotenant_deviceplugin.node.usage import Sampled
from cotenant_deviceplugin.publishing import tenants

DELAY_SECONDS = 5.0
NAMED = 8
"""So many PIDs are named at most."""


class Strangers:
    """Who is on the GPUs and should not be.

    Args:
        sampled: the processes.
        holders: the grants that stand on a GPU, and those that are being made ready for it.
    """

    def __init__(self, sampled: Sampled, holders: Callable[[GPUUID], Iterable[Grant]]) -> None:
        self._sampled, self._holders = sampled, holders
        self._found: dict[GPUUID, str] = {}

    def closing(self, gpu: GPUUID) -> str | None:
        """Why a GPU takes no new tenant, by the last `look`; None: no stranger was there."""
        return self._found.get(gpu)

    def doubted(self, gpus: Iterable[GPUUID]) -> tuple[GPUUID, ...]:
        """Return the GPUs on which the last sample shows one; the others are open."""
        found = tuple(gpu for gpu in gpus if self._among(gpu, self._sampled.seen(gpu)))
        self._found = {gpu: text for gpu, text in self._found.items() if gpu in found}
        return found

    async def look(self, gpu: GPUUID) -> None:
        """See who is on a GPU now: what a sample shows may be of a tenant that has ended since."""
        try:
            text = await self._now(gpu)
        except errors.TemporaryError as error:
            text = str(error)
        if text is None:
            self._found.pop(gpu, None)
        else:
            self._found[gpu] = text

    async def check(self, gpu: GPUUID) -> None:
        """Raise TemporaryError while there is one, by what the driver and MPS say now."""
        text = await self._now(gpu)
        if text is not None:
            raise errors.TemporaryError(f"{gpu}: {text}", delay_seconds=DELAY_SECONDS)

    async def _now(self, gpu: GPUUID) -> str | None:
        found = self._among(gpu, await self._sampled.now(gpu))
        if not found:
            return None
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        named = ", ".join(map(str, found[:NAMED]))
        return f"no tenant explains its processes {named}{more}: it takes no new tenant until they have ended"

    def _among(self, gpu: GPUUID, owners: tenants.Owners) -> tuple[int, ...]:
        return tenants.unexplained(owners, uids={grant.pod_uid for grant in self._holders(gpu)})
