"""What other device plugins hand out of this machine's GPUs, as kubelet knows it.

The Node says that only later, and not always: while a plugin restarts its GPUs are not allocatable, and after a
restart of kubelet the Node counts none of them. kubelet's checkpoint names a plugin's resource until the plugin has
been away for five minutes, and remembers which pod got which device.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cotenant_api import errors
from cotenant_deviceplugin import files
from cotenant_deviceplugin.kubelet.protos import podresources_v1_pb2 as messages

Resources = tuple[str, ...]
"""How the names of the other plugins' resources begin."""


@dataclass(frozen=True)
class Known:
    """What the checkpoint says of the other plugins.

    Attributes:
        registered: resources of plugins that are there, or were until lately.
        devices: devices that pods got, of pods that may have ended.
    """

    registered: frozenset[str] = frozenset()
    devices: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Held:
    """Who holds the other plugins' devices. `pods`: namespace and name of a pod, by device ID."""

    pods: Mapping[str, str] = field(default_factory=dict)

    def holder(self, gpu: str) -> str | None:
        """Return the pod that holds a GPU; plugins that share a GPU in time name its devices `UUID::N`."""
        return next((pod for device, pod in self.pods.items() if device.partition("::")[0] == gpu), None)


def read(path: Path, resources: Resources) -> Known:
    """Read the checkpoint; one that is not there names nobody. Blocks for as long as the disk does.

    Raises:
        TemporaryError: it is not what kubelet writes.
    """
    text = files.read(path)
    return Known() if text is None else known(text, resources)


def known(text: str, resources: Resources) -> Known:
    """Return what a checkpoint says. Pure. Raises TemporaryError, as `read` does."""
    try:
        data = json.loads(text)["Data"]
        entries = [each for each in data["PodDeviceEntries"] or () if each["ResourceName"].startswith(resources)]
        return Known(
            frozenset(name for name in data["RegisteredDevices"] or () if name.startswith(resources)),
            frozenset(device for entry in entries for devices in entry["DeviceIDs"].values() for device in devices),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"kubelet's checkpoint is not readable: {type(error).__name__}: {errors.shortened(str(error))}"
        raise errors.TemporaryError(message, delay_seconds=1) from error


def holders(answer: messages.ListPodResourcesResponse, resources: Resources) -> Held:
    """Return who holds the devices, by an answer of PodResources. Pure."""
    return Held(
        {
            device: f"{pod.namespace}/{pod.name}"
            for pod in answer.pod_resources
            for container in pod.containers
            for device in _devices(container.devices, resources)
        }
    )


def _devices(devices: Iterable[messages.ContainerDevices], resources: Resources) -> Iterable[str]:
    for entry in devices:
        if entry.resource_name.startswith(resources):
            yield from entry.device_ids
