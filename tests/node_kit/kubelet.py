"""A kubelet for tests: it admits pods, starts their containers, forgets, restarts and loses calls, by a seed.

It is driven, not running: each method is something that kubelet does, and the test says when. Over sockets it is
`kubelet_sockets.SocketKubelet`; without any transport it is this class with `kubelet_direct.connect`.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from cotenant_deviceplugin.clock import Clock
from cotenant_deviceplugin.kubelet import checkpoint, pod_resources
from cotenant_deviceplugin.kubelet.owners import Listed, Recorded
from cotenant_deviceplugin.kubelet.plugin import Token
from node_kit.kubelet_devices import Container, Devices, Held, KubeletError, Pod

PRE_START_SECONDS = 30.0
"""`KubeletPreStartContainerRPCTimeoutInSecs`. Allocate has no deadline."""
RETRY_SECONDS = 2.0


class RestartedError(KubeletError):
    """kubelet ended during the call; the next one looks at the pod again (`readmit`)."""


class Endpoint(Protocol):
    """The plugin as kubelet reaches it. Its errors are KubeletErrors."""

    async def allocate(self, ids: list[str]) -> bytes:
        """The one ContainerAllocateResponse, serialized."""

    async def pre_start(self, ids: list[str]) -> None:
        """PreStartContainer."""


@dataclass(frozen=True, kw_only=True)
class Faults:
    """How often, of 1, a call is lost before or after it was carried out or made twice; how late it may be."""

    lost_request: float = 0.0
    lost_reply: float = 0.0
    duplicate: float = 0.0
    late_seconds: float = 0.0


NO_FAULTS = Faults()


class Kubelet:
    """One node's kubelet. It is an `owners.Kubelet` too, with answers as they are on the wire and on the disk.

    Args:
        rng: chooses tokens and faults.
        clock: the time, for deadlines, delays and retries.
        faults: of the calls to the plugin; may be changed at any time.

    Attributes:
        pods: by UID, whatever became of them.
        calls: the calls that reached the plugin: method and tokens.
        file: the checkpoint as it was last written; None: there is none.
    """

    def __init__(self, rng: random.Random, clock: Clock, *, faults: Faults = NO_FAULTS) -> None:
        self.pods: dict[str, Pod] = {}
        self.calls: list[tuple[str, frozenset[str]]] = []
        self.faults = faults
        self.file: bytes | None = None
        self.devices = Devices(rng)
        self.endpoint: Endpoint | None = None
        self._random = rng
        self._clock = clock
        self._admission = asyncio.Lock()

    # What the plugin does.

    def connected(self, endpoint: Endpoint, *, pre_start_required: bool = True) -> None:
        """The plugin has registered and has answered."""
        self.endpoint = endpoint
        self.devices.connected(pre_start_required=pre_start_required)

    def disconnected(self) -> None:
        """Its ListAndWatch stream has ended. Calls fail; its devices are unhealthy."""
        self.devices.disconnected()

    def offered(self, offers: Mapping[Token, bool]) -> None:
        """It has sent a list."""
        self.devices.listed(offers)
        self.write_checkpoint()

    # What happens to pods.

    async def admit(self, pod: Pod) -> bool:
        """A pod was bound here: allocate for its containers, one pod at a time. False: it has failed for good."""
        self.pods[pod.uid] = pod
        async with self._admission:
            try:
                for container in sorted(pod.containers, key=lambda each: not each.init):
                    await self._allocate(pod, container)
            except RestartedError:
                return False
            except KubeletError as error:
                pod.failure, pod.active = f"UnexpectedAdmissionError: {error}", False
            else:
                pod.admitted = True
        return pod.admitted

    async def start(self, pod: Pod, container: str = "main") -> tuple[str, ...]:
        """[GetDeviceRunContainerOptions] One attempt to start a container: the CDI names for the runtime to resolve.

        The caller is the runtime, and calls `started` when it has created the container.
        Raises KubeletError; kubelet then tries again.
        """
        spec = _container(pod, container)
        if spec.request:
            await self._pre_start(pod, container)
            if pod.active and (pod.uid, container) not in self.devices.held:
                # Without the lock, as in kubelet; PreStart is not called again before this start.
                await self._allocate(pod, spec)
        held = self.devices.held.get((pod.uid, container))
        return held.cdi_names if held else ()

    async def start_until_done(
        self,
        pod: Pod,
        create: Callable[[Pod, tuple[str, ...]], Awaitable[None]],
        *,
        container: str = "main",
        attempts: int = 10,
    ) -> bool:
        """Start and create a container, again after each KubeletError while its pod is active; whether it runs."""
        for _ in range(attempts):
            if not pod.active:
                break
            try:
                await create(pod, await self.start(pod, container))
            except KubeletError as error:
                pod.failure = str(error)
                await self._clock.sleep(RETRY_SECONDS)
            else:
                self.started(pod, container)
                break
        return container in pod.running

    def started(self, pod: Pod, container: str = "main") -> None:
        """The runtime has created it."""
        pod.running.add(container)
        pod.failure = ""

    def ended(self, pod: Pod) -> None:
        """All its containers have ended. Its tokens are free from the next collection on."""
        pod.active = False
        pod.running.clear()

    def force_deleted(self, pod: Pod) -> None:
        """Deleted with no grace: kubelet frees its tokens while its processes may still run (k8s#104824)."""
        pod.active = False

    # What happens to kubelet.

    def restart(self, *, checkpoint_lost: bool = False) -> None:
        """A new kubelet: it knows its checkpoint, and no plugin. It has not looked at its pods again (`readmit`)."""
        if checkpoint_lost:
            self.file = None
        self.endpoint = None
        self.devices = self.devices.restarted(self.file)
        self._admission = asyncio.Lock()

    async def readmit(self) -> None:
        """A new kubelet looks at its pods: who is not running and has no healthy tokens fails for good."""
        for pod in [each for each in self.pods.values() if each.active and not each.running]:
            await self.admit(pod)

    def reboot(self) -> None:
        """Every container is gone, every pod stays; the checkpoint was on disk."""
        for pod in self.pods.values():
            pod.running.clear()
        self.restart()

    # What kubelet says.

    def active(self) -> Iterator[Pod]:
        """The pods that are not finished."""
        return (pod for pod in self.pods.values() if pod.active)

    async def listed(self) -> tuple[Listed, ...]:
        """By PodResources: asking collects garbage."""
        self.collect()
        return pod_resources.holders(self.devices.listing(self.active()))

    async def recorded(self) -> tuple[Recorded, ...]:
        """By the checkpoint, which is as old as the last change of what is allocated."""
        return checkpoint.recorded(self.file or b"")

    def collect(self) -> None:
        """Forget the devices of pods that are not active."""
        self.devices.collect({pod.uid for pod in self.active()})

    def write_checkpoint(self) -> None:
        """Write the file."""
        self.file = self.devices.checkpoint()

    # How the plugin is called.

    async def _allocate(self, pod: Pod, container: Container) -> None:
        if not container.request:
            return
        self.collect()
        devices = self.devices
        ids = devices.choose(pod, container)
        if ids is None:
            return
        try:
            response = await self._call("Allocate", ids, lambda plugin, order: plugin.allocate(order))
        except KubeletError:
            devices.restore()
            raise
        if devices is not self.devices:
            raise RestartedError("this kubelet has ended")
        devices.record(pod, container, Held(ids, response))
        self.write_checkpoint()

    async def _pre_start(self, pod: Pod, container: str) -> None:
        """[callPreStartContainerIfNeeded]."""
        if not self.devices.pre_start_required:
            return
        held = self.devices.held.get((pod.uid, container))
        if held is None:
            raise KubeletError("no devices found allocated in local cache")
        call = self._call("PreStartContainer", held.ids, lambda plugin, order: plugin.pre_start(order))
        await self._within(PRE_START_SECONDS, call)

    async def _call(
        self, method: str, ids: frozenset[str], call: Callable[[Endpoint, list[str]], Awaitable[bytes | None]]
    ) -> bytes:
        """One call with this kubelet's faults, its tokens in any order."""
        if self.endpoint is None or self.devices.stopped:
            raise KubeletError("endpoint has been stopped")
        endpoint, faults = self.endpoint, self.faults
        order = self._random.sample(sorted(ids), len(ids))
        if faults.late_seconds:
            await self._clock.sleep(self._random.random() * faults.late_seconds)
        if self._random.random() < faults.lost_request:
            raise KubeletError(f"{method}: UNAVAILABLE: connection lost")
        self.calls.append((method, ids))
        answer = await call(endpoint, order)
        if self._random.random() < faults.duplicate:
            self.calls.append((method, ids))
            answer = await call(endpoint, order)
        if self._random.random() < faults.lost_reply:
            raise KubeletError(f"{method}: UNAVAILABLE: reply lost")
        return answer or b""

    async def _within(self, seconds: float, call: Awaitable[object]) -> None:
        """By the clock of the test. Who is too late is cancelled, as a gRPC call is."""
        working = asyncio.ensure_future(call)
        waiting = asyncio.ensure_future(self._patience(seconds))
        try:
            await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise KubeletError("PreStartContainer: DEADLINE_EXCEEDED: context deadline exceeded")
            await working
        finally:
            waiting.cancel()
            working.cancel()

    async def _patience(self, seconds: float) -> None:
        """Wait until a call has taken too long."""
        await self._clock.sleep(seconds)


def _container(pod: Pod, name: str) -> Container:
    return next(each for each in pod.containers if each.name == name)
