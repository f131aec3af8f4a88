"""Registration over real sockets: with a kubelet that restarts, refuses, forgets and mixes up its connections."""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cotenant_deviceplugin.kubelet import paths, sockets
from cotenant_deviceplugin.kubelet.plugin import Tokens
from cotenant_deviceplugin.kubelet.registration import PATIENCE_POLLS, Registration, Seen, Step, step
from cotenant_deviceplugin.kubelet.service import Service
from node_kit import quick, shares
from node_kit.kubelet_devices import Container, Pod
from node_kit.kubelet_sockets import SocketKubelet

LOG = logging.getLogger("node-agent")
LIMIT_SECONDS = 20


def ignored(name: str, *, seconds: float, result: str) -> None:
    """Observe nothing."""


@pytest.fixture(name="folder")
def folder_fixture() -> Iterator[Path]:
    with quick.folder() as path:
        yield path


class Node:
    """A kubelet, and an agent that registers with it."""

    def __init__(self, folder: Path, count: int = 4) -> None:
        self.clock = quick.QuickClock()
        self.kubelet = SocketKubelet(folder, random.Random(1), self.clock)  # noqa: S311
        self.shares = shares.PlainShares(shares.tokens(count))
        self.service = Service(self.shares, observe=ignored, log=LOG)
        self.registration = Registration(folder, self.service, clock=self.clock, log=LOG)

    async def agrees(self, healthy: int = 4) -> None:
        """Wait until kubelet has so many tokens."""
        async with asyncio.timeout(LIMIT_SECONDS):
            await self.kubelet.has_tokens(healthy)


@asynccontextmanager
async def running(folder: Path, *, kubelet: bool = True) -> AsyncGenerator[Node, None]:
    """Both at work; both ended afterwards."""
    node = Node(folder)
    if kubelet:
        await node.kubelet.begin()
    task = asyncio.create_task(node.registration.run())
    try:
        yield node
    finally:
        await node.kubelet.end()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_kubelet_gets_all_tokens_and_knows_that_starts_must_be_announced(folder: Path) -> None:
    async with running(folder) as node:
        await node.agrees()
        assert node.kubelet.devices.pre_start_required
        assert node.registration.connected
        assert node.kubelet.registrations == 1


async def test_each_change_of_the_offers_reaches_kubelet(folder: Path) -> None:
    async with running(folder) as node:
        await node.agrees()
        node.shares.offer(shares.tokens(4) | dict.fromkeys(list(shares.tokens(4))[:3], False))
        await node.agrees(1)
        assert len(node.kubelet.devices.unhealthy) == 3


async def test_an_agent_that_is_there_first_waits_for_kubelet(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running(folder, kubelet=False) as node:
        await quick.until(lambda: "waiting for kubelet" in caplog.text)
        assert not node.registration.connected
        await node.kubelet.begin()
        await node.agrees()
    assert caplog.text.count("waiting for kubelet") == 1


async def test_a_kubelet_that_restarts_is_registered_with_again(folder: Path) -> None:
    async with running(folder) as node:
        for _ in range(3):
            await node.agrees()
            before = sockets.identity(paths.endpoint(folder))
            await node.kubelet.begin_again()
            assert node.kubelet.devices.pre_start_required is None
            await node.agrees()
            assert sockets.identity(paths.endpoint(folder)) not in {None, before}


async def test_a_kubelet_that_ends_and_starts_much_later_is_registered_with_again(folder: Path) -> None:
    async with running(folder) as node:
        await node.agrees()
        await node.kubelet.end()
        changed = asyncio.Event()
        node.registration.changed = changed.set
        while node.registration.connected:
            await changed.wait()
            changed.clear()
        await node.kubelet.begin_again()
        await node.agrees()


async def test_our_socket_is_made_again_where_somebody_removed_it(folder: Path) -> None:
    async with running(folder) as node:
        await node.agrees()
        paths.endpoint(folder).unlink()
        await quick.until(lambda: node.kubelet.registrations == 2)
        await node.agrees()
        assert node.service.streams == 1


async def test_a_lost_stream_leads_to_a_new_registration(folder: Path) -> None:
    async with running(folder) as node:
        await node.agrees()
        node.service.end_streams()
        await quick.until(lambda: node.kubelet.registrations == 2)
        await node.agrees()


async def test_a_kubelet_that_disconnects_the_new_registration_with_the_old_stream_is_registered_with_again(
    folder: Path,
) -> None:
    async with running(folder) as node:
        await node.agrees()
        # Another agent registers; when its stream ends kubelet drops ours, whoever's it was (k8s#127803).
        other = Service(shares.PlainShares(shares.tokens(2)), observe=ignored, log=LOG)
        second = Registration(folder, other, clock=node.clock, log=LOG)
        task = asyncio.create_task(second.run())
        await quick.until(lambda: node.kubelet.registrations == 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await node.agrees()


async def test_a_kubelet_that_refuses_is_asked_again_and_told_of_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    node = Node(folder)
    node.kubelet.refuse = ["not today", "not today"]
    await node.kubelet.begin()
    task = asyncio.create_task(node.registration.run())
    await node.agrees()
    await node.kubelet.end()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert caplog.text.count("kubelet did not register us: UNKNOWN: not today") == 1


async def test_without_its_folder_the_agent_waits(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running(folder / "later", kubelet=False) as node:
        await quick.until(lambda: "waiting for kubelet" in caplog.text)
        (folder / "later").mkdir()
        await node.kubelet.begin()
        await node.agrees()


async def test_an_agent_that_ends_leaves_no_socket(folder: Path) -> None:
    async with running(folder) as node:
        await node.agrees()
        assert paths.endpoint(folder).is_socket()
    assert not paths.endpoint(folder).exists()


async def test_a_start_that_is_under_way_when_kubelet_restarts_is_cancelled_and_made_again(folder: Path) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def hang(_tokens: Tokens) -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with running(folder) as node:
        await node.agrees()
        job = Pod(uid="u", name="a", containers=(Container(request=2),))
        assert await node.kubelet.admit(job)
        node.shares.before = hang
        starting = asyncio.create_task(node.kubelet.start(job))
        await begun.wait()
        await node.kubelet.begin_again()
        await cancelled.wait()
        await asyncio.gather(starting, return_exceptions=True)
        node.shares.before = shares.nothing
        await node.agrees()
        assert await node.kubelet.start(job) == ("cotenant.dev/share=n1",)
        assert node.shares.started == node.shares.allocated


async def test_many_pods_start_at_once_each_with_its_own_tokens(folder: Path) -> None:
    async with running(folder) as node:
        node.shares.offer(shares.tokens(800))
        await node.agrees(800)
        pods = [Pod(uid=f"u{number}", name=f"p{number}", containers=(Container(request=7),)) for number in range(110)]
        assert all(await asyncio.gather(*map(node.kubelet.admit, pods)))
        names = await asyncio.gather(*map(node.kubelet.start, pods))
        assert len(set(names)) == 110
        assert len(frozenset().union(*node.shares.started)) == 770


HERE = sockets.Identity(1, 2, 3)
AFTER_RESTART = sockets.Identity(1, 2, 4)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param({"kubelet": None, "reachable": False}, Step.NOTHING, id="kubelet is not there"),
        pytest.param({"reachable": False}, Step.SERVE, id="our socket is gone"),
        pytest.param({"asked": None}, Step.REGISTER, id="never registered"),
        pytest.param({"kubelet": AFTER_RESTART}, Step.REGISTER, id="another kubelet, the inode used again"),
        pytest.param({"streams": 0, "polls": PATIENCE_POLLS - 1}, Step.NOTHING, id="the stream may still come"),
        pytest.param({"streams": 0, "polls": PATIENCE_POLLS}, Step.REGISTER, id="no stream has come"),
        pytest.param({}, Step.NOTHING, id="all is well"),
    ],
)
def test_what_is_done_follows_from_what_is_there(seen: dict[str, object], expected: Step) -> None:
    usual: dict[str, object] = {"kubelet": HERE, "asked": HERE, "reachable": True, "streams": 1, "polls": 0}
    assert step(Seen(**(usual | seen))) is expected  # type: ignore[arg-type]
