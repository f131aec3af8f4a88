"""The device-plugin service, called as kubelet calls it: over its socket, with messages of kubelet's making."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from cotenant_api import errors
from cotenant_deviceplugin.kubelet import paths, service, sockets, statuses
from cotenant_deviceplugin.kubelet.plugin import Token, Tokens
from cotenant_deviceplugin.kubelet.protos import deviceplugin_v1beta1_pb2 as messages
from node_kit import quick, shares
from node_kit.kubelet_sockets import Connection

LOG = logging.getLogger("node-agent")


def ignored(name: str, *, seconds: float, result: str) -> None:
    """Observe nothing."""


@asynccontextmanager
async def served(offered: shares.PlainShares) -> AsyncGenerator[tuple[Connection, service.Service, list[str]], None]:
    """The connection, the service, and what its observer was told."""
    told: list[str] = []

    def observe(name: str, *, seconds: float, result: str) -> None:
        assert seconds >= 0
        told.append(f"{name} {result}")

    with quick.folder() as folder:
        plugin = service.Service(offered, observe=observe, log=LOG)
        server = await sockets.serve(folder / paths.ENDPOINT, plugin.handler())
        connection = Connection(folder / paths.ENDPOINT)
        try:
            yield connection, plugin, told
        finally:
            plugin.end_streams()
            await connection.channel.close()
            await server.stop()


def allocation(*containers: list[str]) -> messages.AllocateRequest:
    requests = [messages.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
    return messages.AllocateRequest(container_requests=requests)


async def refused(call: Any) -> tuple[str, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code().name, str(caught.value.details())


def raising(error: Exception) -> Any:
    async def before(_tokens: Tokens) -> None:
        raise error

    return before


async def test_kubelet_must_announce_starts_and_need_not_ask_which_tokens_are_preferred() -> None:
    async with served(shares.PlainShares({})) as (connection, _, told):
        options = await connection.options(messages.Empty())
        assert options.pre_start_required
        assert not options.get_preferred_allocation_available
        assert told == ["GetDevicePluginOptions OK"]


async def test_an_allocation_is_answered_with_a_cdi_name_and_nothing_else() -> None:
    plain = shares.PlainShares({})
    async with served(plain) as (connection, _, told):
        answer = await connection.allocation(allocation(["t0002", "t0001"]))
        (response,) = answer.container_responses
        expected = messages.ContainerAllocateResponse(cdi_devices=[messages.CDIDevice(name="cotenant.dev/share=n1")])
        assert response == expected
        assert plain.allocated == [frozenset({Token("t0001"), Token("t0002")})]
        assert told == ["Allocate OK"]


async def test_a_start_is_answered_once_the_shares_agree() -> None:
    plain = shares.PlainShares({})
    async with served(plain) as (connection, _, told):
        await connection.pre_start(["t0002"])
        assert plain.started == [frozenset({Token("t0002")})]
        assert told == ["PreStartContainer OK"]


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (allocation(), "one container can be served at a time, not 0"),
        (allocation(["t0001"], ["t0002"]), "one container can be served at a time, not 2"),
        (allocation([]), "no token is named"),
        (allocation(["t0001", "GPU-1"]), "not a token of this agent: 'GPU-1'"),
        (allocation(["t0001", "t0001"]), "a token is named twice"),
    ],
)
async def test_an_allocation_that_is_none_of_ours_is_refused(request_: messages.AllocateRequest, reason: str) -> None:
    plain = shares.PlainShares({})
    async with served(plain) as (connection, _, told):
        assert await refused(connection.allocation(request_)) == ("FAILED_PRECONDITION", reason)
        assert plain.allocated == []
        assert told == ["Allocate FAILED_PRECONDITION"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.TemporaryError("GPU 3 is not\nhealthy", delay_seconds=1), "UNAVAILABLE"),
        (errors.PermanentError("GPU 3 is not\nhealthy"), "FAILED_PRECONDITION"),
    ],
)
async def test_a_refusal_reaches_kubelet_in_one_line(error: Exception, code: str) -> None:
    plain = shares.PlainShares({})
    plain.before = raising(error)
    async with served(plain) as (connection, _, told):
        start = connection.start(messages.PreStartContainerRequest(devices_ids=["t0001"]))
        assert await refused(start) == (code, "GPU 3 is not healthy")
        assert told == [f"PreStartContainer {code}"]


async def test_an_error_that_nobody_expected_is_told_to_kubelet_and_traced_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plain = shares.PlainShares({})
    plain.before = raising(ZeroDivisionError("oh"))
    async with served(plain) as (connection, _, told):
        expected = ("INTERNAL", "the node agent failed: ZeroDivisionError: oh")
        assert await refused(connection.allocation(allocation(["t0001"]))) == expected
        assert told == ["Allocate INTERNAL"]
    assert "Allocate failed" in caplog.text
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("own", [False, True], ids=["the bound", "an error of the shares"])
async def test_a_call_never_hangs(own: bool) -> None:
    release = asyncio.Event()

    async def hang(_tokens: Tokens) -> None:
        if own:
            raise TimeoutError("of its own")
        await release.wait()

    async def bounded() -> None:
        await service.bounded("Allocate", 0.01, hang(frozenset()))

    if own:
        with pytest.raises(TimeoutError, match="of its own"):
            await bounded()
    else:
        with pytest.raises(errors.TemporaryError, match=r"Allocate was not done within 0\.01 s"):
            await bounded()


async def test_a_start_that_kubelet_gives_up_is_cancelled() -> None:
    plain = shares.PlainShares({})
    cancelled, begun = asyncio.Event(), asyncio.Event()

    async def hang(_tokens: Tokens) -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    plain.before = hang
    async with served(plain) as (connection, _, told):
        call = connection.start(messages.PreStartContainerRequest(devices_ids=["t0001"]))
        await begun.wait()
        call.cancel()
        await cancelled.wait()
    assert told == ["PreStartContainer CANCELLED"]


async def test_the_whole_list_is_sent_first_and_after_each_change_but_not_twice() -> None:
    plain = shares.PlainShares(shares.tokens(2))
    async with served(plain) as (connection, _, _):
        stream = aiter(connection.watch(messages.Empty()))

        async def listed() -> dict[str, str]:
            return {device.ID: device.health for device in (await anext(stream)).devices}

        assert await listed() == {"t0000": "Healthy", "t0001": "Healthy"}
        plain.offer(shares.tokens(2))
        plain.offer({Token("t0000"): True, Token("t0001"): False})
        assert await listed() == {"t0000": "Healthy", "t0001": "Unhealthy"}
        plain.offer({})
        assert await listed() == {}


async def test_a_stream_that_kubelet_drops_is_seen() -> None:
    plain = shares.PlainShares(shares.tokens(2))
    async with served(plain) as (connection, plugin, told):
        changed = asyncio.Event()
        plugin.changed = changed.set
        call = connection.watch(messages.Empty())
        await anext(aiter(call))
        assert plugin.streams == 1
        changed.clear()
        call.cancel()
        await changed.wait()
        await quick.until(lambda: plugin.streams == 0)
        await quick.until(lambda: told)
        assert told == ["ListAndWatch CANCELLED"]
        assert plain.listeners == 0


async def test_a_stream_that_we_end_ends_without_an_error_at_kubelet() -> None:
    plain = shares.PlainShares(shares.tokens(2))
    async with served(plain) as (connection, plugin, told):
        stream = aiter(connection.watch(messages.Empty()))
        await anext(stream)
        plugin.end_streams()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert told == ["ListAndWatch OK"]


async def test_offers_that_fail_end_the_stream_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(shares.PlainShares):
        async def offers(self) -> AsyncIterator[Mapping[Token, bool]]:
            for reason in ("no ledger",):
                raise errors.PermanentError(reason)
            yield {}

    async with served(Broken({})) as (connection, plugin, told):
        assert await refused(anext(aiter(connection.watch(messages.Empty())))) == ("FAILED_PRECONDITION", "no ledger")
        await quick.until(lambda: plugin.streams == 0)
        assert told == ["ListAndWatch FAILED_PRECONDITION"]


async def test_offers_that_end_end_the_stream() -> None:
    class Short(shares.PlainShares):
        async def offers(self) -> AsyncIterator[Mapping[Token, bool]]:
            yield shares.tokens(1)

    async with served(Short({})) as (connection, plugin, told):
        assert [len(answer.devices) async for answer in connection.watch(messages.Empty())] == [1]
        await quick.until(lambda: plugin.streams == 0)
        assert told == ["ListAndWatch OK"]


async def test_a_socket_in_no_folder_cannot_be_served() -> None:
    with quick.folder() as folder, pytest.raises(errors.TemporaryError, match="cannot be served"):
        await sockets.serve(
            folder / "missing" / "a.sock",
            service.Service(shares.PlainShares({}), observe=ignored, log=LOG).handler(),
        )


def test_a_message_is_cut_to_what_an_event_can_hold() -> None:
    code, text = statuses.of(errors.PermanentError("x" * 5000))
    assert (code, len(text)) == (grpc.StatusCode.FAILED_PRECONDITION, statuses.MAX_CHARACTERS)
    assert text.endswith("...")
