"""Registration with kubelet, and again whenever kubelet has forgotten us.

A loop over what is there now: it needs no event to arrive, so none can be missed. It never gives up and never exits.
"""

import enum
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc

from cotenant_api import errors, names
from cotenant_deviceplugin.clock import Clock
from cotenant_deviceplugin.kubelet import paths, sockets, statuses
from cotenant_deviceplugin.kubelet.protos import deviceplugin_v1beta1_pb2 as messages
from cotenant_deviceplugin.kubelet.service import Service

POLL_SECONDS = 1.0
PATIENCE_POLLS = 5
"""So long may a stream be missing, or a kubelet that refused us be left alone."""
SETTLE_SECONDS = 1.0
"""kubelet takes the end of an older stream for the end of whoever is registered then (k8s#127803): let it end first."""
REGISTER_SECONDS = 15.0
"""kubelet dials back inside the call, for at most 10 s."""

_VERSION = "v1beta1"
_METHOD = "/v1beta1.Registration/Register"


class Step(enum.Enum):
    """What is to be done now."""

    NOTHING = enum.auto()
    SERVE = enum.auto()
    REGISTER = enum.auto()


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What is there now.

    Attributes:
        kubelet: kubelet's socket; None: there is none.
        asked: the one at which we have registered, or tried to; None: none yet.
        reachable: our socket is there, and is the one that we serve.
        streams: how many ListAndWatch streams are open.
        polls: how often in a row we have looked without finding one, since we asked.
    """

    kubelet: sockets.Identity | None
    asked: sockets.Identity | None
    reachable: bool
    streams: int
    polls: int


def step(seen: Seen) -> Step:
    """Return what is to be done. Pure.

    Without kubelet's socket we wait for it. kubelet unlinks our socket when it starts, so a missing one comes first.
    """
    if seen.kubelet is None:
        return Step.NOTHING
    if not seen.reachable:
        return Step.SERVE
    if seen.asked != seen.kubelet:
        return Step.REGISTER
    return Step.REGISTER if seen.streams == 0 and seen.polls >= PATIENCE_POLLS else Step.NOTHING


class Registration:
    """Keeps the service registered.

    Attributes:
        changed: called when `connected` may have changed.
    """

    def __init__(self, kubelet_dir: Path, service: Service, *, clock: Clock, log: logging.Logger) -> None:
        self.changed: Callable[[], None] = lambda: None
        self._dir = kubelet_dir
        self._service = service
        self._clock = clock
        self._log = log
        self._server: sockets.Server | None = None
        self._asked: sockets.Identity | None = None
        self._polls = 0
        self._told = ""
        service.changed = self._streams_changed

    @property
    def connected(self) -> bool:
        """Whether kubelet listens to us: it offers our tokens."""
        return self._service.streams > 0

    async def run(self) -> None:
        """Go on until cancelled; then give up the socket."""
        try:
            while True:
                await self._poll()
                await self._clock.sleep(POLL_SECONDS)
        finally:
            await self._end_serving()

    async def _poll(self) -> None:
        self._polls = 0 if self._service.streams else self._polls + 1
        try:
            if step(self._look()) is Step.SERVE:
                await self._serve()
            if step(self._look()) is Step.REGISTER:
                await self._register()
        except errors.TemporaryError as error:
            self._tell(str(error), level=logging.WARNING)

    def _look(self) -> Seen:
        kubelet = sockets.identity(paths.registry(self._dir))
        if kubelet is None:
            self._tell(f"waiting for kubelet: there is no {paths.registry(self._dir)}")
        return Seen(
            kubelet=kubelet,
            asked=self._asked,
            reachable=self._server is not None and self._server.reachable,
            streams=self._service.streams,
            polls=self._polls,
        )

    async def _serve(self) -> None:
        """Make our socket, anew where it is gone."""
        had_streams = self._service.streams > 0
        await self._end_serving()
        if had_streams:
            await self._clock.sleep(SETTLE_SECONDS)
        self._server = await sockets.serve(paths.endpoint(self._dir), self._service.handler())
        self._asked = None

    async def _end_serving(self) -> None:
        server, self._server = self._server, None
        self._service.end_streams()
        if server is not None:
            await server.stop()

    async def _register(self) -> None:
        """Ask kubelet to dial us. What fails is tried again after a while, or at once at a new kubelet."""
        registry = paths.registry(self._dir)
        self._asked, self._polls = sockets.identity(registry), 0
        request = messages.RegisterRequest(
            version=_VERSION,
            endpoint=paths.ENDPOINT,
            resource_name=names.GPU_SHARE,
            options=messages.DevicePluginOptions(pre_start_required=True),
        )
        async with grpc.aio.insecure_channel(paths.target(registry), options=_OPTIONS) as channel:
            call = channel.unary_unary(_METHOD, messages.RegisterRequest.SerializeToString, messages.Empty.FromString)
            try:
                await call(request, timeout=REGISTER_SECONDS)
            except grpc.aio.AioRpcError as error:
                raise statuses.temporary("kubelet did not register us", error, delay_seconds=POLL_SECONDS) from error
        self._tell("registered with kubelet")

    def _streams_changed(self) -> None:
        if not self._service.streams:
            self._tell("kubelet does not listen to us any more", level=logging.WARNING)
        self.changed()

    def _tell(self, line: str, *, level: int = logging.INFO) -> None:
        if line != self._told:
            self._told = line
            self._log.log(level, "%s", line)


_OPTIONS = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1))
