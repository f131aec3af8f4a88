"""A node that is not Cotenant's any more is left as it was found, but for what its tenants still need.

While it is so, GPUs without tenants are cleared one by one; at the agent's end its CDI specifications go, too: kubelet
has nobody left to ask for a container that starts. What tenants still use is left to the MPS daemons, which end after
them.
"""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin.binding.grants import Grant
from cotenant_deviceplugin.binding.specifications import Specifications
from cotenant_deviceplugin.mps import clearing


class Daemons(Protocol):
    """Knows the MPS control daemons (`mps.backend.Backend`)."""

    async def answers(self, gpu: GPUUID) -> bool:
        """Return whether the GPU has one."""


class GivingBack:
    """What an agent does of it.

    Args:
        root: of the MPS daemons; see `mps.layout`.
        driver: sets compute modes, and knows who uses GPUs.
        specifications: ours.
        grants: all that stand.
        log: what is done is told here.
    """

    def __init__(
        self,
        root: Path,
        *,
        driver: clearing.Driver,
        specifications: Specifications,
        grants: Callable[[], Iterable[Grant]],
        log: logging.Logger,
    ) -> None:
        self._root, self._driver, self._specifications = root, driver, specifications
        self._grants, self._log = grants, log

    async def step(self, daemons: Daemons, *, given_back: bool) -> None:
        """Mark the node, or not, and clear the GPUs whose daemons have ended. Raises TemporaryError.

        Args:
            daemons: of MPS.
            given_back: whether the node is.
        """
        if not given_back:
            await clearing.unmark(self._root)
            return
        holders: dict[GPUUID, set[PodUID]] = {}
        for grant in self._grants():
            for booking in grant.booked.gpus:
                holders.setdefault(booking.uuid, set()).add(grant.pod_uid)
        await clearing.mark(self._root, holders)
        for gpu in await clearing.left(self._root):
            if gpu not in holders and not await daemons.answers(gpu):
                await clearing.clear(self._root, gpu, self._driver)

    async def last(self, daemons: Daemons | None) -> None:
        """Do the agent's last act on such a node. `daemons`: None without a driver. Raises TemporaryError."""
        nonces = await self._specifications.names()
        await self._specifications.remove(nonces)
        self._log.info("the node is given back: %d CDI specifications removed", len(nonces))
        if daemons is None:
            return
        # Marked first: a daemon that ends while this one looks finds the mark and clears up itself.
        await self.step(daemons, given_back=True)
        await clearing.finish(self._root)
