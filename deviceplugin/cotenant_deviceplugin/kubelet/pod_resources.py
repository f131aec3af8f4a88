"""What kubelet says on its PodResources socket. It is asked every time; nothing is remembered."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import grpc

from cotenant_api import errors, names
from cotenant_api.names import Namespace
from cotenant_deviceplugin.clock import Clock
from cotenant_deviceplugin.kubelet import neighbours, paths, statuses
from cotenant_deviceplugin.kubelet.owners import Listed
from cotenant_deviceplugin.kubelet.plugin import Token, Tokens
from cotenant_deviceplugin.kubelet.protos import podresources_v1_pb2 as messages

DEADLINE_SECONDS = 5.0
RATE_LIMIT_SECONDS = 0.1
"""kubelet answers 100 calls a second, and 10 at once (pkg/kubelet/apis/podresources/constants.go), whoever asks."""

_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),
    # The answer names every device of every pod; gRPC's own limit is 4 MiB.
    ("grpc.max_receive_message_length", 16 << 20),
    # After a restart of kubelet it is asked again soon: gRPC would wait up to 2 minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class Client:
    """Asks kubelet. Close it with `async with`."""

    def __init__(self, kubelet_dir: Path, clock: Clock, *, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._clock = clock
        self._deadline_seconds = deadline_seconds
        self._channel = grpc.aio.insecure_channel(paths.target(paths.pod_resources(kubelet_dir)), options=_OPTIONS)
        self._list = self._channel.unary_unary(
            "/v1.PodResourcesLister/List",
            messages.ListPodResourcesRequest.SerializeToString,
            messages.ListPodResourcesResponse.FromString,
        )

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        await self._channel.close()

    async def listed(self) -> tuple[Listed, ...]:
        """Return the containers that hold tokens. Raises TemporaryError where kubelet does not answer in time."""
        return holders(await self._answer_in_time())

    async def held(self, resources: neighbours.Resources) -> neighbours.Held:
        """Who holds devices of other plugins. Raises TemporaryError, as `listed` does."""
        return neighbours.holders(await self._answer_in_time(), resources)

    async def _answer_in_time(self) -> messages.ListPodResourcesResponse:
        try:
            async with asyncio.timeout(self._deadline_seconds):
                return await self._answer()
        except TimeoutError as error:
            text = f"kubelet's PodResources did not answer within {self._deadline_seconds:g} s"
            raise errors.TemporaryError(text, delay_seconds=1) from error
        except grpc.aio.AioRpcError as error:
            raise statuses.temporary("kubelet's PodResources cannot be read", error, delay_seconds=1) from error

    async def _answer(self) -> messages.ListPodResourcesResponse:
        while True:
            try:
                # kubelet's deadline is ours: a call that nobody waits for must not count against the rate.
                answer: messages.ListPodResourcesResponse = await self._list(
                    messages.ListPodResourcesRequest(), timeout=self._deadline_seconds
                )
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
                await self._clock.sleep(RATE_LIMIT_SECONDS)
            else:
                return answer


def holders(answer: messages.ListPodResourcesResponse) -> tuple[Listed, ...]:
    """Return the containers with tokens in an answer.

    Pure. kubelet makes one entry of each device: they are put together.
    """
    found = []
    for pod in answer.pod_resources:
        for container in pod.containers:
            if tokens := _tokens(container.devices):
                listed = Listed(
                    namespace=Namespace(pod.namespace), pod=pod.name, container=container.name, tokens=tokens
                )
                found.append(listed)
    return tuple(found)


def _tokens(devices: Iterable[messages.ContainerDevices]) -> Tokens:
    ours = (entry for entry in devices if entry.resource_name == names.GPU_SHARE)
    return frozenset(Token(token) for entry in ours for token in entry.device_ids)
