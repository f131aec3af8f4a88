"""The kubelet of this machine, as `owners.Kubelet`."""

from pathlib import Path

from cotenant_deviceplugin.kubelet import checkpoint, paths, pod_resources
from cotenant_deviceplugin.kubelet.owners import Listed, Recorded
from cotenant_deviceplugin.sharing import Shared


class LocalKubelet:
    """Asks PodResources and reads the checkpoint: once for all containers that start at the same time."""

    def __init__(self, kubelet_dir: Path, client: pod_resources.Client) -> None:
        path = paths.checkpoint(kubelet_dir)
        self._listed = Shared(client.listed)
        self._recorded = Shared(lambda: checkpoint.read(path))

    async def listed(self) -> tuple[Listed, ...]:
        """By PodResources."""
        return await self._listed()

    async def recorded(self) -> tuple[Recorded, ...]:
        """By the checkpoint."""
        return await self._recorded()
