"""The kubelet that tests use behaves as the real one where that matters."""

import asyncio
import random

import pytest

from cotenant_api import errors
from cotenant_deviceplugin.kubelet.plugin import Token, Tokens
from deviceplugin.fakes import FakeClock
from node_kit import kubelet_direct, shares
from node_kit.kubelet import Faults, Kubelet
from node_kit.kubelet_devices import Container, KubeletError, Pod


class Node:
    """A kubelet with a plain plugin, in virtual time."""

    def __init__(self, seed: int = 0, count: int = 10) -> None:
        self.clock = FakeClock()
        self.kubelet = Kubelet(random.Random(seed), self.clock)  # noqa: S311
        self.shares = shares.PlainShares(shares.tokens(count))
        self._following: list[asyncio.Task[None]] = []

    async def register(self) -> "asyncio.Task[None]":
        """Cancel the task to lose the stream."""
        self._following.append(await kubelet_direct.register(self.kubelet, self.shares))
        return self._following[-1]


def pod(name: str, request: int = 3) -> Pod:
    return Pod(uid=f"uid-{name}", name=name, containers=(Container(request=request),))


async def created(_pod: Pod, _names: tuple[str, ...]) -> None:
    """The runtime creates everything."""


@pytest.fixture(name="node")
async def registered() -> Node:
    node = Node()
    await node.register()
    return node


async def test_a_pod_gets_tokens_of_its_own_that_depend_on_the_seed() -> None:
    chosen = []
    for seed in (1, 1, 2):
        node = Node(seed)
        await node.register()
        assert await node.kubelet.admit(pod("a"))
        assert await node.kubelet.admit(pod("b"))
        assert node.shares.allocated[0].isdisjoint(node.shares.allocated[1])
        chosen.append(node.shares.allocated)
    assert chosen[0] == chosen[1] != chosen[2]


async def test_a_pod_that_does_not_fit_fails_for_good(node: Node) -> None:
    greedy = pod("a", 11)
    assert not await node.kubelet.admit(greedy)
    assert "requested number of devices unavailable" in greedy.failure
    assert not greedy.active


async def test_a_failed_allocation_fails_the_pod_and_frees_its_tokens(node: Node) -> None:
    async def refuse(_tokens: Tokens) -> None:
        raise errors.PermanentError("no")

    node.shares.before = refuse
    refused = pod("a", 10)
    assert not await node.kubelet.admit(refused)
    assert refused.failure == "UnexpectedAdmissionError: Allocate: FAILED_PRECONDITION: no"
    node.shares.before = shares.nothing
    assert await node.kubelet.admit(pod("b", 10))


async def test_a_container_starts_with_the_names_of_its_allocation_again_and_again(node: Node) -> None:
    job = pod("a")
    await node.kubelet.admit(job)
    for _ in range(3):
        assert await node.kubelet.start(job) == ("cotenant.dev/share=n1",)
    assert node.shares.started == [node.shares.allocated[0]] * 3


async def test_a_refused_start_is_tried_again_until_it_succeeds(node: Node) -> None:
    job, refusals = pod("a"), 2
    await node.kubelet.admit(job)

    async def refuse(_tokens: Tokens) -> None:
        nonlocal refusals
        refusals -= 1
        if refusals >= 0:
            raise errors.TemporaryError("not yet", delay_seconds=1)

    node.shares.before = refuse
    starting = asyncio.create_task(node.kubelet.start_until_done(job, created))
    await node.clock.advance(60)
    assert await starting
    assert [method for method, _ in node.kubelet.calls] == ["Allocate", *["PreStartContainer"] * 3]


async def test_a_start_that_takes_too_long_is_cancelled(node: Node) -> None:
    job, cancelled = pod("a"), asyncio.Event()
    await node.kubelet.admit(job)

    async def hang(_tokens: Tokens) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    node.shares.before = hang
    starting = asyncio.create_task(node.kubelet.start_until_done(job, created, attempts=1))
    await node.clock.advance(29)
    assert not cancelled.is_set()
    await node.clock.advance(10)
    assert cancelled.is_set()
    assert not await starting
    assert "DEADLINE_EXCEEDED" in job.failure


async def test_tokens_of_a_pod_that_has_ended_are_given_again_and_the_checkpoint_is_late(node: Node) -> None:
    first = pod("a", 10)
    await node.kubelet.admit(first)
    node.kubelet.ended(first)
    assert [each.pod_uid for each in await node.kubelet.recorded()] == ["uid-a"]
    assert await node.kubelet.listed() == ()
    assert await node.kubelet.admit(pod("b", 10))
    assert [each.pod_uid for each in await node.kubelet.recorded()] == ["uid-b"]
    assert node.shares.allocated[0] == node.shares.allocated[1]


async def test_a_force_deleted_pod_loses_its_tokens_while_it_runs(node: Node) -> None:
    first = pod("a", 10)
    await node.kubelet.admit(first)
    await node.kubelet.start_until_done(first, created)
    node.kubelet.force_deleted(first)
    assert first.running
    assert await node.kubelet.admit(pod("b", 10))


async def test_an_init_container_lends_its_tokens(node: Node) -> None:
    job = Pod(uid="u", name="a", containers=(Container("main", 4), Container("first", 3, init=True)))
    assert await node.kubelet.admit(job)
    first, main = node.shares.allocated
    assert first < main
    assert [each.container for each in await node.kubelet.listed()] == ["main"]
    assert {each.container for each in await node.kubelet.recorded()} == {"first", "main"}


async def test_after_a_restart_starts_are_not_announced_until_the_plugin_has_registered(node: Node) -> None:
    job = pod("a")
    await node.kubelet.admit(job)
    node.kubelet.restart()
    assert await node.kubelet.start(job) == ("cotenant.dev/share=n1",)
    assert node.shares.started == []
    await node.register()
    await node.kubelet.start(job)
    assert len(node.shares.started) == 1


@pytest.mark.parametrize(
    ("running", "early", "survives"), [(True, True, True), (False, True, False), (False, False, True)]
)
async def test_after_a_restart_a_pod_that_does_not_run_fails_where_it_is_looked_at_too_early(
    node: Node, *, running: bool, early: bool, survives: bool
) -> None:
    job = pod("a")
    await node.kubelet.admit(job)
    if running:
        node.kubelet.started(job)
    node.kubelet.restart()
    if not early:
        await node.register()
    await node.kubelet.readmit()
    assert job.active is survives
    assert len(node.shares.allocated) == 1


async def test_without_its_checkpoint_a_new_kubelet_gives_the_tokens_of_a_running_pod_again(node: Node) -> None:
    job = pod("a", 10)
    await node.kubelet.admit(job)
    node.kubelet.started(job)
    node.kubelet.restart(checkpoint_lost=True)
    await node.register()
    assert await node.kubelet.admit(pod("b", 10))
    with pytest.raises(KubeletError, match="no devices found allocated"):
        await node.kubelet.start(job)


async def test_a_pod_that_is_admitted_while_kubelet_restarts_waits_for_the_next(node: Node) -> None:
    begun, release, job = asyncio.Event(), asyncio.Event(), pod("a")

    async def wait(_tokens: Tokens) -> None:
        begun.set()
        await release.wait()

    node.shares.before = wait
    admitting = asyncio.create_task(node.kubelet.admit(job))
    await begun.wait()
    node.kubelet.restart()
    release.set()
    assert not await admitting
    assert job.active
    await node.register()
    await node.kubelet.readmit()
    assert job.admitted
    assert len(node.shares.allocated) == 2


async def test_a_reboot_ends_every_container_and_keeps_what_is_allocated(node: Node) -> None:
    job = pod("a")
    await node.kubelet.admit(job)
    node.kubelet.started(job)
    node.kubelet.reboot()
    assert not job.running
    await node.register()
    await node.kubelet.readmit()
    assert await node.kubelet.start(job) == ("cotenant.dev/share=n1",)


async def test_a_lost_stream_makes_every_token_unhealthy(node: Node) -> None:
    following = await node.register()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert not node.kubelet.devices.healthy
    job = pod("a")
    assert not await node.kubelet.admit(job)
    assert "no healthy devices present" in job.failure


@pytest.mark.parametrize(
    ("faults", "calls", "admitted"),
    [
        (Faults(lost_request=1), 0, False),
        (Faults(lost_reply=1), 1, False),
        (Faults(duplicate=1), 2, True),
        (Faults(late_seconds=5), 1, True),
    ],
)
async def test_calls_are_lost_doubled_and_late(node: Node, faults: Faults, calls: int, *, admitted: bool) -> None:
    node.kubelet.faults = faults
    admitting = asyncio.create_task(node.kubelet.admit(pod("a")))
    await node.clock.advance(10)
    assert await admitting is admitted
    assert len(node.shares.allocated) == calls


async def test_changed_offers_reach_kubelet(node: Node) -> None:
    node.shares.offer({Token("t0000"): True, Token("t0001"): False})
    await node.clock.advance(0)
    assert node.kubelet.devices.healthy == {"t0000"}
    assert node.kubelet.devices.unhealthy == {"t0001"}
