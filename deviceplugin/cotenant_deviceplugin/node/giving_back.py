"""A node that is not Cotenant's any more is left as it was found, but for what its tenants still need.

While it is so, GPUs without tenants are cleared one by one; at the agent's end its CDI specifications go, too: kubelet
has nobody left to ask for a container that starts. What tenants still use is left to the MPS daemons, which end after
them.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from cotenant_api.names import GPUUID
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
        driver: sets compute modes.
        specifications: ours.
        log: what is done is told here.
    """

    def __init__(
        self, root: Path, *, driver: clearing.Driver, specifications: Specifications, log: logging.Logger
    ) -> None:
        self._root, self._driver, self._specifications, self._log = root, driver, specifications, log

    async def step(self, daemons: Daemons, *, given_back: bool, busy: Callable[[GPUUID], bool]) -> None:
        """Mark the node, or not, and clear the GPUs whose daemons have ended. Raises TemporaryError.

        Args:
            daemons: of MPS.
            given_back: whether the node is.
            busy: whether a GPU has tenants.
        """
        if not given_back:
            await clearing.unmark(self._root)
            return
        await clearing.mark(self._root)
        for gpu in await clearing.left(self._root):
            if not busy(gpu) and not await daemons.answers(gpu):
                await clearing.clear(self._root, gpu, self._driver)

    async def last(self, daemons: Daemons | None) -> None:
        """Do the agent's last act on such a node. `daemons`: None without a driver. Raises TemporaryError."""
        nonces = await self._specifications.names()
        await self._specifications.remove(nonces)
        self._log.info("the node is given back: %d CDI specifications removed", len(nonces))
        if daemons is None:
            return
        # Marked first: a daemon that ends while this one looks finds the mark and clears up itself.
        await self.step(daemons, given_back=True, busy=lambda _: False)
        await clearing.finish(self._root)
