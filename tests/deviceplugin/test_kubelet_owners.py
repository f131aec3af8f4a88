"""Who holds tokens: kubelet's PodResources and its checkpoint, as kubelet writes them."""

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_api.names import Namespace, PodUID
from cotenant_deviceplugin.kubelet import checkpoint, paths, pod_resources
from cotenant_deviceplugin.kubelet.local import LocalKubelet
from cotenant_deviceplugin.kubelet.owners import Listed, Recorded
from cotenant_deviceplugin.kubelet.plugin import CDIName, Token
from cotenant_deviceplugin.kubelet.protos import podresources_v1_pb2 as messages
from node_kit import kubelet_direct, quick, shares
from node_kit.kubelet_devices import Container, Pod
from node_kit.kubelet_sockets import SocketKubelet

REAL = Path(__file__).parent / "data" / "kubelet_internal_checkpoint"
"""Written by `checkpoint.New(...).MarshalCheckpoint()` of Kubernetes 1.36.4 itself, from Go."""

UID = "6f2e8a34-5c17-4cd1-9b0e-3d1d8f6a4b21"


@asynccontextmanager
async def both() -> AsyncGenerator[tuple[SocketKubelet, LocalKubelet], None]:
    """A kubelet of 8 tokens, and what the agent reads of it."""
    with quick.folder() as folder:
        clock = quick.QuickClock()
        kubelet = SocketKubelet(folder, random.Random(3), clock)  # noqa: S311
        await kubelet.begin()
        async with pod_resources.Client(folder, clock) as client:
            following = await kubelet_direct.register(kubelet, shares.PlainShares(shares.tokens(8)))
            yield kubelet, LocalKubelet(folder, client)
            following.cancel()
            await kubelet.end()


def pod(name: str, request: int = 3) -> Pod:
    return Pod(uid=f"uid-{name}", name=name, containers=(Container("main", request), Container("sidecar")))


async def test_the_checkpoint_that_kubelet_wrote_is_read() -> None:
    expected = Recorded(
        pod_uid=PodUID(UID),
        container="main",
        tokens=frozenset({Token("t0003"), Token("t0007")}),
        cdi_names=(CDIName("cotenant.dev/share=5f0c1d"),),
    )
    assert await checkpoint.read(REAL) == (expected,)


def test_a_checkpoint_without_pods_is_empty() -> None:
    assert checkpoint.recorded(b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":3467439661}') == ()


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"[]",
        b"null",
        b"\xff",
        REAL.read_bytes()[:-40],
        REAL.read_bytes().replace(b'"PodUID":"6f2e', b'"PodUID":6,"x":"'),
        REAL.read_bytes().replace(b"KhsKGWNv", b"K"),
        REAL.read_bytes().replace(b"KhsKGWNv", b"////////"),
        REAL.read_bytes().replace(b'{"-1":["t0007","t0003"]}', b"null"),
        REAL.read_bytes().replace(b'"t0007","t0003"]', b"7]", 1),
    ],
)
def test_a_checkpoint_that_is_not_kubelets_is_a_temporary_error(broken: bytes) -> None:
    with pytest.raises(errors.TemporaryError, match="checkpoint is not readable"):
        checkpoint.recorded(broken)


async def test_a_missing_checkpoint_is_a_temporary_error(tmp_path: Path) -> None:
    with pytest.raises(errors.TemporaryError, match="kubelet writes it when"):
        await checkpoint.read(paths.checkpoint(tmp_path))


async def test_a_checkpoint_that_cannot_be_read_is_a_temporary_error(tmp_path: Path) -> None:
    with pytest.raises(errors.TemporaryError, match="cannot be read"):
        await checkpoint.read(tmp_path)


async def test_both_sources_name_the_same_holders() -> None:
    async with both() as (kubelet, local):
        assert await kubelet.admit(pod("a"))
        assert await kubelet.admit(pod("b", 5))
        listed = {each.pod: each for each in await local.listed()}
        recorded = {each.pod_uid: each for each in await local.recorded()}
        assert listed["a"] == Listed(
            namespace=Namespace("team"), pod="a", container="main", tokens=recorded[PodUID("uid-a")].tokens
        )
        assert len(listed["b"].tokens) == 5
        assert recorded[PodUID("uid-b")].cdi_names == ("cotenant.dev/share=n2",)
        assert listed["a"].tokens.isdisjoint(listed["b"].tokens)


async def test_a_rate_limit_is_waited_out() -> None:
    async with both() as (kubelet, local):
        kubelet.busy = 3
        assert await local.listed() == ()
        assert kubelet.busy == 0


async def test_a_kubelet_that_is_not_there_is_a_temporary_error() -> None:
    async with both() as (kubelet, local):
        await kubelet.end()
        with pytest.raises(errors.TemporaryError, match="PodResources cannot be read: UNAVAILABLE"):
            await local.listed()


async def test_a_kubelet_that_restarts_is_asked_again_soon() -> None:
    async with both() as (kubelet, local):
        await kubelet.admit(pod("a"))
        assert len(await local.listed()) == 1
        await kubelet.begin_again()

        async def answers() -> bool:
            try:
                return len(await local.listed()) == 1
            except errors.TemporaryError:
                return False

        for _ in range(200):
            if await answers():
                break
            await quick.QuickClock().sleep(1)
        assert await answers()


async def test_a_kubelet_that_does_not_answer_is_a_temporary_error() -> None:
    with quick.folder() as folder:
        clock = quick.QuickClock()
        kubelet = SocketKubelet(folder, random.Random(3), clock)  # noqa: S311
        kubelet.busy = 10**9
        await kubelet.begin()
        async with pod_resources.Client(folder, clock, deadline_seconds=0.05) as client:
            with pytest.raises(errors.TemporaryError, match=r"did not answer within 0\.05 s"):
                await client.listed()
        await kubelet.end()


def test_entries_of_one_container_are_put_together_and_others_left_out() -> None:
    def devices(*pairs: tuple[str, str]) -> list[messages.ContainerDevices]:
        return [messages.ContainerDevices(resource_name=resource, device_ids=[each]) for resource, each in pairs]

    ours, other = "cotenant.dev/gpu-share", "example.com/other"
    main = messages.ContainerResources(name="main", devices=devices((ours, "t0001"), (other, "x"), (ours, "t0000")))
    answer = messages.ListPodResourcesResponse(
        pod_resources=[
            messages.PodResources(
                name="a", namespace="team", containers=[messages.ContainerResources(name="sidecar"), main]
            ),
            messages.PodResources(
                name="b", namespace="team", containers=[messages.ContainerResources(devices=devices((other, "y")))]
            ),
        ]
    )
    tokens = frozenset({Token("t0000"), Token("t0001")})
    assert pod_resources.holders(answer) == (
        Listed(namespace=Namespace("team"), pod="a", container="main", tokens=tokens),
    )
