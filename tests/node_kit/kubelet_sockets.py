"""The kubelet for tests on kubelet's real sockets, with kubelet's messages: registry, PodResources and checkpoint file.

Connections are kept and mixed up as in pkg/kubelet/cm/devicemanager/plugin/v1beta1 of Kubernetes 1.36.4 (k8s#127803).
"""

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc

from cotenant_api import names
from cotenant_deviceplugin.clock import Clock
from cotenant_deviceplugin.kubelet import paths
from cotenant_deviceplugin.kubelet.plugin import Token
from cotenant_deviceplugin.kubelet.protos import deviceplugin_v1beta1_pb2 as messages
from cotenant_deviceplugin.kubelet.protos import podresources_v1_pb2 as pod_messages
from node_kit.kubelet import Kubelet
from node_kit.kubelet_devices import KubeletError

DIAL_SECONDS = 10.0


class Connection:
    """One connection to a plugin's socket [client]."""

    def __init__(self, path: Path) -> None:
        # Without a pool of its own, gRPC would answer for a new socket what it knows of an old one at that path.
        options = (("grpc.use_local_subchannel_pool", 1), ("grpc.default_authority", "localhost"))
        self.channel = grpc.aio.insecure_channel(paths.target(path), options=options)
        self.options = self._unary("GetDevicePluginOptions", messages.Empty, messages.DevicePluginOptions)
        self.allocation = self._unary("Allocate", messages.AllocateRequest, messages.AllocateResponse)
        self.start = self._unary(
            "PreStartContainer", messages.PreStartContainerRequest, messages.PreStartContainerResponse
        )
        self.watch = self.channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            messages.Empty.SerializeToString,
            messages.ListAndWatchResponse.FromString,
        )

    def _unary(self, method: str, request: Any, response: Any) -> Any:
        return self.channel.unary_unary(
            f"/v1beta1.DevicePlugin/{method}", request.SerializeToString, response.FromString
        )

    async def allocate(self, ids: list[str]) -> bytes:
        """Without a deadline."""
        request = messages.AllocateRequest(container_requests=[messages.ContainerAllocateRequest(devices_ids=ids)])
        try:
            answer = await self.allocation(request)
        except grpc.aio.AioRpcError as error:
            raise _refused("Allocate", error) from error
        return bytes(answer.container_responses[0].SerializeToString())

    async def pre_start(self, ids: list[str]) -> None:
        """Its deadline is the caller's."""
        try:
            await self.start(messages.PreStartContainerRequest(devices_ids=ids))
        except grpc.aio.AioRpcError as error:
            raise _refused("PreStartContainer", error) from error


class SocketKubelet(Kubelet):
    """Serves and dials. Everything is in a folder that stands for /var/lib/kubelet.

    Attributes:
        registrations: how many were accepted.
        refuse: the next registrations fail with these words.
        busy: so many answers of PodResources are refused as too many.
    """

    def __init__(self, kubelet_dir: Path, rng: random.Random, clock: Clock) -> None:
        super().__init__(rng, clock)
        self.registrations = 0
        self.refuse: list[str] = []
        self.busy = 0
        self._dir = kubelet_dir
        self._client: Connection | None = None
        self._servers: list[grpc.aio.Server] = []
        self._watching: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()

    async def begin(self) -> None:
        """[Start] Remove every socket of the folder, then serve."""
        folder = paths.plugins(self._dir)
        folder.mkdir(parents=True, exist_ok=True)
        paths.pod_resources(self._dir).parent.mkdir(exist_ok=True)
        for socket in (*folder.glob("*"), paths.pod_resources(self._dir)):
            if socket.is_socket():
                socket.unlink()
        # Served first: who sees kubelet.sock may ask both.
        self._servers = [
            await _serve(paths.pod_resources(self._dir), "v1.PodResourcesLister", self._pod_resources()),
            await _serve(paths.registry(self._dir), "v1beta1.Registration", self._registry()),
        ]

    async def _patience(self, seconds: float) -> None:
        """Real seconds, as the calls are real ones: a busy machine is not a plugin that hangs."""
        await asyncio.sleep(seconds)

    async def end(self) -> None:
        """Close every connection and stop serving."""
        for server in self._servers:
            await server.stop(None)
        self._servers = []
        for watching in list(self._watching):
            watching.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        self._client = None

    async def begin_again(self, *, checkpoint_lost: bool = False) -> None:
        """Restart: the checkpoint is read from the disk."""
        await self.end()
        file = paths.checkpoint(self._dir)
        if checkpoint_lost:
            file.unlink(missing_ok=True)
        self.file = file.read_bytes() if file.exists() else None
        self.restart(checkpoint_lost=checkpoint_lost)
        await self.begin()

    async def has_tokens(self, healthy: int) -> None:
        """Wait until so many tokens may be handed out."""
        while len(self.devices.healthy) != healthy or self.devices.stopped:
            self._news.clear()
            await self._news.wait()

    def write_checkpoint(self) -> None:
        """As kubelet's file store: a temporary file, renamed."""
        super().write_checkpoint()
        file = paths.checkpoint(self._dir)
        temporary = file.with_name(".checkpoint-new")
        temporary.write_bytes(self.file or b"")
        temporary.rename(file)

    def offered(self, offers: Mapping[Token, bool]) -> None:
        """It has sent a list."""
        super().offered(offers)
        self._news.set()

    def disconnected(self) -> None:
        """Its stream has ended."""
        super().disconnected()
        self._news.set()

    async def _register(self, request: messages.RegisterRequest, context: Any) -> messages.Empty:
        if request.version != "v1beta1" or request.resource_name != names.GPU_SHARE or self.refuse:
            await context.abort(grpc.StatusCode.UNKNOWN, self.refuse.pop(0) if self.refuse else "invalid")
        connection = Connection(paths.plugins(self._dir) / request.endpoint)
        self._client = connection  # before it is connected [connectClient]
        try:
            options = await connection.options(messages.Empty(), timeout=DIAL_SECONDS, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            self._client = None
            await connection.channel.close()
            await context.abort(grpc.StatusCode.UNKNOWN, f"failed to dial device plugin: {error.details()}")
        self.connected(connection, pre_start_required=options.pre_start_required)
        self.registrations += 1
        watching = asyncio.create_task(self._watch(connection))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        return messages.Empty()

    async def _watch(self, connection: Connection) -> None:
        """[runClient] Whose stream has ended disconnects whoever is registered by then."""
        try:
            async for answer in connection.watch(messages.Empty()):
                self.offered({Token(device.ID): device.health == "Healthy" for device in answer.devices})
        except grpc.aio.AioRpcError:
            self._news.set()
        finally:
            # When kubelet itself ends, each connection closes with it; otherwise only the newest is.
            newest, self._client = self._client, None
            for each in {connection, newest} if not self._servers else {newest}:
                if each is not None:
                    await each.channel.close()
            if newest is not None:
                self.disconnected()

    def _registry(self) -> dict[str, Any]:
        register = grpc.unary_unary_rpc_method_handler(
            self._register, messages.RegisterRequest.FromString, messages.Empty.SerializeToString
        )
        return {"Register": register}

    def _pod_resources(self) -> dict[str, Any]:
        listing = grpc.unary_unary_rpc_method_handler(
            self._list,
            pod_messages.ListPodResourcesRequest.FromString,
            pod_messages.ListPodResourcesResponse.SerializeToString,
        )
        return {"List": listing}

    async def _list(self, _request: object, context: Any) -> pod_messages.ListPodResourcesResponse:
        if self.busy:
            self.busy -= 1
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        self.collect()
        return self.devices.listing(self.active())


async def _serve(path: Path, service: str, methods: dict[str, Any]) -> Any:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    server.add_insecure_port(paths.target(path))
    await server.start()
    return server


def _refused(method: str, error: grpc.aio.AioRpcError) -> KubeletError:
    return KubeletError(f"{method}: {error.code().name}: {error.details()}")
