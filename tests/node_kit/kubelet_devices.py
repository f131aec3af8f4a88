"""What kubelet's device manager remembers, after pkg/kubelet/cm/devicemanager of Kubernetes 1.36.4. No I/O.

One resource, no NUMA nodes, no preferred allocation. Names in brackets are the functions that are followed here.
"""

import base64
import json
import random
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from cotenant_api import names
from cotenant_deviceplugin.kubelet.plugin import Token
from cotenant_deviceplugin.kubelet.protos import deviceplugin_v1beta1_pb2 as plugin_messages
from cotenant_deviceplugin.kubelet.protos import podresources_v1_pb2 as pod_messages


class KubeletError(Exception):
    """What kubelet says when a pod cannot be admitted or a container cannot be started."""


@dataclass(frozen=True)
class Container:
    """`request`: tokens; `init`: it runs before the others and lends them its tokens."""

    name: str = "main"
    request: int = 0
    init: bool = False


@dataclass
class Pod:
    """A pod as kubelet knows it.

    Attributes:
        active: it was not deleted and has not ended: kubelet keeps its tokens.
        admitted: its tokens are allocated; a pod that was not admitted has failed for good.
        running: containers that were started.
    """

    uid: str
    name: str
    containers: tuple[Container, ...]
    namespace: str = "team"
    active: bool = True
    admitted: bool = False
    failure: str = ""
    running: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Held:
    """What one container has: its tokens, and the answer to Allocate, serialized."""

    ids: frozenset[str]
    response: bytes

    @property
    def cdi_names(self) -> tuple[str, ...]:
        """The CDI devices of the answer."""
        answer = plugin_messages.ContainerAllocateResponse.FromString(self.response)
        return tuple(device.name for device in answer.cdi_devices)


class Devices:
    """The device manager's memory of our resource.

    Attributes:
        held: by pod UID and container [podDevices].
        pre_start_required: None after a restart, until the plugin has registered: PreStart is then silently skipped.
        stopped: the endpoint's connection has ended [isStopped]; calls fail without being made.
    """

    def __init__(self, rng: random.Random) -> None:
        self.held: dict[tuple[str, str], Held] = {}
        self.pre_start_required: bool | None = None
        self.stopped = True
        self.known = False
        self.healthy: set[str] = set()
        self.unhealthy: set[str] = set()
        self._allocated: set[str] = set()
        self._reusable: tuple[str, set[str]] = ("", set())
        self._random = rng

    def connected(self, *, pre_start_required: bool) -> None:
        """[PluginConnected] The plugin has answered GetDevicePluginOptions."""
        self.pre_start_required = pre_start_required
        self.stopped = False

    def disconnected(self) -> None:
        """[PluginDisconnected] All devices are unhealthy from now on."""
        self.stopped = True
        self.unhealthy |= self.healthy
        self.healthy = set()

    def listed(self, offers: Mapping[Token, bool]) -> None:
        """[genericDeviceUpdateCallback] A message replaces the whole list, even that of a stopped endpoint."""
        self.known = True
        self.healthy = {str(each) for each, healthy in offers.items() if healthy}
        self.unhealthy = {str(each) for each, healthy in offers.items() if not healthy}

    def collect(self, active: Collection[str]) -> None:
        """[UpdateAllocatedDevices] Forget pods that are not active, and what is just being allocated with them."""
        gone = [key for key in self.held if key[0] not in active]
        if gone:
            for key in gone:
                del self.held[key]
            self.restore()

    def restore(self) -> None:
        """Take back what was chosen and never recorded, as kubelet does after a failed Allocate."""
        self._allocated = {each for held in self.held.values() for each in held.ids}

    def choose(self, pod: Pod, container: Container) -> frozenset[str] | None:
        """[devicesToAllocate] The tokens to allocate, in any order; None: this container has its tokens already."""
        mine = self.held.get((pod.uid, container.name))
        if not self.known:
            raise KubeletError(f"cannot allocate unregistered device {names.GPU_SHARE}")
        if not self.healthy:
            raise KubeletError(f"no healthy devices present; cannot allocate unhealthy devices {names.GPU_SHARE}")
        if mine is not None:
            if not self.healthy >= mine.ids:
                raise KubeletError("previously allocated devices are no longer healthy")
            return None
        chosen = set(self._sample(self._lent(pod), container.request))
        missing = container.request - len(chosen)
        available = self.healthy - self._allocated
        if len(available) < missing:
            text = f"requested number of devices unavailable. Requested: {missing}, Available: {len(available)}"
            raise KubeletError(text)
        chosen |= set(self._sample(available, missing))
        self._allocated |= chosen
        return frozenset(chosen)

    def record(self, pod: Pod, container: Container, held: Held) -> None:
        """Keep an answer [podDevices.insert]; tokens of init containers are lent to the containers after them."""
        self.held[pod.uid, container.name] = held
        lent = self._lent(pod)
        self._reusable = (pod.uid, lent | held.ids if container.init else lent - held.ids)

    def _lent(self, pod: Pod) -> set[str]:
        """[devicesToReuse] Only those of the pod that was looked at last."""
        return self._reusable[1] if self._reusable[0] == pod.uid else set()

    def _sample(self, ids: Collection[str], count: int) -> list[str]:
        # Go's maps have no order; a seed must.
        return self._random.sample(sorted(ids), min(count, len(ids)))

    def checkpoint(self) -> bytes:
        """[MarshalCheckpoint] The file. The checksum is none of kubelet's (only kubelet looks at it)."""
        entries = [
            {
                "PodUID": uid,
                "ContainerName": container,
                "ResourceName": names.GPU_SHARE,
                "DeviceIDs": {"-1": sorted(held.ids)},
                "AllocResp": base64.b64encode(held.response).decode(),
            }
            for (uid, container), held in self.held.items()
        ]
        data = {
            "PodDeviceEntries": entries or None,
            "RegisteredDevices": {names.GPU_SHARE: sorted(self.healthy)} if self.known else {},
        }
        return json.dumps({"Data": data, "Checksum": zlib.crc32(json.dumps(data).encode())}).encode()

    def restarted(self, checkpoint: bytes | None) -> "Devices":
        """[readCheckpoint] What the next kubelet knows; None: its checkpoint is lost."""
        after = Devices(self._random)
        data = json.loads(checkpoint)["Data"] if checkpoint else {"PodDeviceEntries": None, "RegisteredDevices": {}}
        for entry in data["PodDeviceEntries"] or []:
            ids = frozenset(each for listed in entry["DeviceIDs"].values() for each in listed)
            after.held[entry["PodUID"], entry["ContainerName"]] = Held(ids, base64.b64decode(entry["AllocResp"]))
        after.known = names.GPU_SHARE in data["RegisteredDevices"]
        after.restore()
        return after

    def listing(self, pods: Iterator[Pod]) -> pod_messages.ListPodResourcesResponse:
        """[List] Active pods, one entry of each device; init containers are left out."""
        return pod_messages.ListPodResourcesResponse(
            pod_resources=[
                pod_messages.PodResources(
                    name=pod.name,
                    namespace=pod.namespace,
                    containers=[
                        pod_messages.ContainerResources(name=container.name, devices=self._entries(pod, container))
                        for container in pod.containers
                        if not container.init
                    ],
                )
                for pod in pods
            ]
        )

    def _entries(self, pod: Pod, container: Container) -> list[pod_messages.ContainerDevices]:
        held = self.held.get((pod.uid, container.name))
        return [_device(each) for each in sorted(held.ids)] if held else []


def _device(token: str) -> pod_messages.ContainerDevices:
    return pod_messages.ContainerDevices(resource_name=names.GPU_SHARE, device_ids=[token])
