"""The kubelet of this machine, as `owners.Kubelet`."""

from pathlib import Path

from cotenant_deviceplugin.kubelet import checkpoint, paths, pod_resources
from cotenant_deviceplugin.kubelet.owners import Listed, Recorded


class LocalKubelet:
    """Asks PodResources and reads the checkpoint."""

    def __init__(self, kubelet_dir: Path, client: pod_resources.Client) -> None:
        self._checkpoint = paths.checkpoint(kubelet_dir)
        self._client = client

    async def listed(self) -> tuple[Listed, ...]:
        """By PodResources."""
        return await self._client.listed()

    async def recorded(self) -> tuple[Recorded, ...]:
        """By the checkpoint."""
        return await checkpoint.read(self._checkpoint)
