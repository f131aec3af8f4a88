"""GPUs that another device plugin hands out, or has handed out: no tenant is added to those."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.kube.surroundings import NVIDIA_RESOURCES
from cotenant_deviceplugin.kubelet import neighbours, paths

DELAY_SECONDS = 5.0


class PodResources(Protocol):
    """Which pods hold devices now: `pod_resources.Client`."""

    async def held(self, resources: neighbours.Resources) -> neighbours.Held:
        """Return who holds devices of these resources. Raises TemporaryError."""


class Neighbours:
    """What kubelet knows of the other device plugins of this node.

    Args:
        kubelet_dir: where kubelet's checkpoint is.
        resources: tells which pods hold devices now.

    Attributes:
        registered: resources of the others, by the last look.
    """

    def __init__(self, kubelet_dir: Path, resources: PodResources) -> None:
        self.registered: tuple[str, ...] = ()
        self._path = paths.checkpoint(kubelet_dir)
        self._resources = resources
        self._held = neighbours.Held()
        self._looking = asyncio.Lock()

    def closing(self, gpu: GPUUID) -> str | None:
        """Return why a GPU takes no new tenant, by the last look; None: no other plugin's pod has it."""
        pod = self._held.holder(gpu)
        return None if pod is None else f"pod {pod} holds it by another device plugin"

    async def look(self) -> None:
        """Ask kubelet. Raises TemporaryError where it cannot be asked; what was seen last stands then."""
        # Of two looks at a time, the one that began first could end last, and what it saw would stand.
        async with self._looking:
            known = await asyncio.to_thread(neighbours.read, self._path, NVIDIA_RESOURCES)
            # The checkpoint keeps what pods held that have ended, and costs no call.
            held = await self._resources.held(NVIDIA_RESOURCES) if known.devices else neighbours.Held()
            self.registered, self._held = tuple(sorted(known.registered)), held

    async def check(self, gpus: Iterable[GPUUID]) -> None:
        """Raise TemporaryError while another plugin is there, or one of its pods has one of the GPUs."""
        await self.look()
        if self.registered:
            message = f"another device plugin hands out {' and '.join(self.registered)} on this node"
            raise errors.TemporaryError(message, delay_seconds=DELAY_SECONDS)
        for gpu in gpus:
            if (closing := self.closing(gpu)) is not None:
                raise errors.TemporaryError(f"{gpu}: {closing}", delay_seconds=DELAY_SECONDS)
