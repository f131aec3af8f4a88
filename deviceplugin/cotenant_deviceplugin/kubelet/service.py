"""The device-plugin service: kubelet's calls given to `Shares`, answered within bounds and with reasons for users.

It decides nothing about pods and GPUs, and no error of it takes the agent down.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import grpc

from cotenant_api import errors
from cotenant_deviceplugin.kubelet import statuses
from cotenant_deviceplugin.kubelet.plugin import Shares, Token, Tokens
from cotenant_deviceplugin.kubelet.protos import deviceplugin_v1beta1_pb2 as messages

SERVICE = "v1beta1.DevicePlugin"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"

ALLOCATE_SECONDS = 10.0
"""kubelet sets no deadline, and admits no other pod meanwhile."""
PRE_START_SECONDS = 28.0
"""kubelet gives up after 30 s (`KubeletPreStartContainerRPCTimeoutInSecs`), and then tells the user nothing of ours."""

_TOKEN = re.compile(r"t\d{4,}")
_Context = Any  # grpc.aio.ServicerContext: gRPC has no types
R = TypeVar("R")


class Observer(Protocol):
    """Is told of each call that has ended."""

    def __call__(self, name: str, *, seconds: float, result: str) -> None:
        """`name`: the method; `result`: the name of its gRPC status."""


class Service:
    """Serves kubelet.

    Args:
        shares: what the calls are about.
        observe: is told of each call.
        log: gets errors that nobody expected, with their traces.
        timer: seconds, from any start, that only grow.

    Attributes:
        changed: called when the number of open streams has changed.
    """

    def __init__(
        self,
        shares: Shares,
        *,
        observe: Observer,
        log: logging.Logger,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self.changed: Callable[[], None] = lambda: None
        self._shares = shares
        self._observe = observe
        self._log = log
        self._timer = timer
        self._streams: set[asyncio.Task[None]] = set()

    @property
    def streams(self) -> int:
        """How many ListAndWatch streams are open; without one kubelet believes that the node has no token."""
        return len(self._streams)

    def handler(self) -> grpc.GenericRpcHandler:
        """All methods. GetPreferredAllocation is not among them: tokens are all alike."""
        empty = messages.Empty.FromString
        methods = {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(
                self._options, empty, messages.DevicePluginOptions.SerializeToString
            ),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                self._list_and_watch, empty, messages.ListAndWatchResponse.SerializeToString
            ),
            "Allocate": grpc.unary_unary_rpc_method_handler(
                self._allocate, messages.AllocateRequest.FromString, messages.AllocateResponse.SerializeToString
            ),
            "PreStartContainer": grpc.unary_unary_rpc_method_handler(
                self._pre_start,
                messages.PreStartContainerRequest.FromString,
                messages.PreStartContainerResponse.SerializeToString,
            ),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def end_streams(self) -> None:
        """End the open streams, as a server does that goes away."""
        for sending in self._streams:
            sending.cancel()

    async def _options(self, _request: messages.Empty, context: _Context) -> messages.DevicePluginOptions:
        async def answer() -> messages.DevicePluginOptions:
            return messages.DevicePluginOptions(pre_start_required=True)

        return await self._answered("GetDevicePluginOptions", context, answer())

    async def _allocate(self, request: messages.AllocateRequest, context: _Context) -> messages.AllocateResponse:
        async def answer() -> messages.AllocateResponse:
            if len(request.container_requests) != 1:
                text = f"one container can be served at a time, not {len(request.container_requests)}"
                raise errors.PermanentError(text)
            tokens = _tokens(request.container_requests[0].devices_ids)
            name = await bounded("Allocate", ALLOCATE_SECONDS, self._shares.allocate(tokens))
            response = messages.ContainerAllocateResponse(cdi_devices=[messages.CDIDevice(name=name)])
            return messages.AllocateResponse(container_responses=[response])

        return await self._answered("Allocate", context, answer())

    async def _pre_start(
        self, request: messages.PreStartContainerRequest, context: _Context
    ) -> messages.PreStartContainerResponse:
        async def answer() -> messages.PreStartContainerResponse:
            tokens = _tokens(request.devices_ids)
            await bounded("PreStartContainer", PRE_START_SECONDS, self._shares.pre_start(tokens))
            return messages.PreStartContainerResponse()

        return await self._answered("PreStartContainer", context, answer())

    async def _list_and_watch(self, _request: messages.Empty, context: _Context) -> None:
        # A task of its own: it ends when we end it, or with the call, which gRPC cancels when kubelet is gone.
        sending = asyncio.create_task(self._send_offers(context))
        self._streams.add(sending)
        self.changed()
        try:
            await self._answered("ListAndWatch", context, _until_ended(sending))
        finally:
            sending.cancel()
            self._streams.discard(sending)
            self.changed()

    async def _send_offers(self, context: _Context) -> None:
        sent: Mapping[Token, bool] | None = None
        async for offers in self._shares.offers():
            if offers != sent:
                sent = dict(offers)
                await context.write(_listing(sent))

    async def _answered(self, name: str, context: _Context, answer: Awaitable[R]) -> R:
        """The answer of one call, or its status; observed in any case."""
        began, result = self._timer(), grpc.StatusCode.CANCELLED
        try:
            response = await answer
            result = grpc.StatusCode.OK
        except Exception as error:
            result, text = statuses.of(error)
            if result is grpc.StatusCode.INTERNAL:
                self._log.exception("%s failed", name)
            await context.abort(result, text)
            raise
        else:
            return response
        finally:
            self._observe(name, seconds=self._timer() - began, result=result.name)


async def _until_ended(sending: "asyncio.Task[None]") -> None:
    """Wait for a stream; that we have ended it ourselves is no error."""
    await asyncio.wait({sending})
    if not sending.cancelled():
        sending.result()


async def bounded(name: str, seconds: float, work: Awaitable[R]) -> R:
    """The result of `work`. Raises TemporaryError after so many seconds, and cancels it then."""
    try:
        async with asyncio.timeout(seconds) as bound:
            return await work
    except TimeoutError as error:
        if not bound.expired():
            raise
        text = f"{name} was not done within {seconds:g} s"
        raise errors.TemporaryError(text, delay_seconds=1) from error


def _tokens(ids: Iterable[str]) -> Tokens:
    listed = list(ids)
    strange = [each for each in listed if not _TOKEN.fullmatch(each)]
    if strange or not listed:
        text = (
            f"not a token of this agent: {errors.shortened(strange[0], limit=80)}" if strange else "no token is named"
        )
        raise errors.PermanentError(text)
    tokens = frozenset(Token(each) for each in listed)
    if len(tokens) < len(listed):
        raise errors.PermanentError("a token is named twice")
    return tokens


def _listing(offers: Mapping[Token, bool]) -> messages.ListAndWatchResponse:
    devices = [
        messages.Device(ID=token, health=HEALTHY if healthy else UNHEALTHY) for token, healthy in sorted(offers.items())
    ]
    return messages.ListAndWatchResponse(devices=devices)
