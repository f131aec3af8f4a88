"""The device-plugin service: kubelet's calls given to `Shares`, answered within bounds and with reasons for users.

It decides nothing about pods and GPUs, and no error of it takes the agent down.
"""

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import NoReturn, Protocol, TypeVar

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
R = TypeVar("R")


class Context(Protocol):
    """What is used of `grpc.aio.ServicerContext`, which has no types."""

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        """End the call with an error."""

    async def write(self, message: object) -> None:
        """Send one message. Cancelled half-way it may leave the call without an end."""


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
        self.log = log
        self._timer = timer
        self._ends: set[asyncio.Event] = set()

    @property
    def streams(self) -> int:
        """How many ListAndWatch streams are open; without one kubelet believes that the node has no token."""
        return len(self._ends)

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
        for end in self._ends:
            end.set()

    async def _options(self, _request: messages.Empty, context: Context) -> messages.DevicePluginOptions:
        async def answer() -> messages.DevicePluginOptions:
            return messages.DevicePluginOptions(pre_start_required=True)

        return await self._answered("GetDevicePluginOptions", context, answer())

    async def _allocate(self, request: messages.AllocateRequest, context: Context) -> messages.AllocateResponse:
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
        self, request: messages.PreStartContainerRequest, context: Context
    ) -> messages.PreStartContainerResponse:
        async def answer() -> messages.PreStartContainerResponse:
            tokens = _tokens(request.devices_ids)
            await bounded("PreStartContainer", PRE_START_SECONDS, self._shares.pre_start(tokens))
            return messages.PreStartContainerResponse()

        return await self._answered("PreStartContainer", context, answer())

    async def _list_and_watch(self, _request: messages.Empty, context: Context) -> None:
        end = asyncio.Event()
        self._ends.add(end)
        self.changed()
        try:
            await self._answered("ListAndWatch", context, self._send_offers(context, end))
        finally:
            self._ends.discard(end)
            self.changed()

    async def _send_offers(self, context: Context, end: asyncio.Event) -> None:
        """Send each list until we end the stream; when kubelet ends it, gRPC cancels this."""
        sent: Mapping[Token, bool] | None = None
        async with contextlib.aclosing(_until(end, self._shares.offers())) as changes:
            async for offers in changes:
                if offers != sent:
                    sent = dict(offers)
                    await context.write(_listing(sent))

    async def _answered(self, name: str, context: Context, answer: Awaitable[R]) -> R:
        """Return the answer of one call, or its status; observed in any case, and before kubelet knows."""
        began, result = self._timer(), grpc.StatusCode.CANCELLED
        try:
            response = await answer
            result = grpc.StatusCode.OK
        except errors.CotenantError as error:
            result, text = statuses.of(error)
        except Exception as error:
            self.log.exception("%s failed", name)
            result, text = statuses.of(error)
        else:
            return response
        finally:
            self._observe(name, seconds=self._timer() - began, result=result.name)
        return await context.abort(result, text)


async def _until(end: asyncio.Event, items: AsyncIterator[R]) -> AsyncGenerator[R, None]:
    """Return what comes until the event is set, even while nothing comes."""
    ending = asyncio.ensure_future(end.wait())
    try:
        while not end.is_set():
            coming = asyncio.ensure_future(_next(items))
            try:
                await asyncio.wait({coming, ending}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                coming.cancel()
            if not coming.cancelled() and coming.done():
                yield coming.result()
    except StopAsyncIteration:
        return
    finally:
        ending.cancel()


async def _next(items: AsyncIterator[R]) -> R:
    return await anext(items)


async def bounded(name: str, seconds: float, work: Awaitable[R]) -> R:
    """Return the result of `work`. Raises TemporaryError after so many seconds, and cancels it then."""
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
