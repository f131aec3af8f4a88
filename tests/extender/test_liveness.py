"""A node agent is alive while its Lease changes, whatever anybody's clock says."""

import asyncio

import pytest

from cotenant_api import gpunode
from cotenant_api.names import NodeName
from cotenant_extender import records, steps
from cotenant_extender.kube import pods
from cotenant_extender.ledger import ledger, lists
from cotenant_extender.packing.causes import Cause
from extender import builders, running, virtual
from extender.builders import NOW
from extender.running import until

N0 = NodeName("n0")
ALIVE_SECONDS = gpunode.LEASE_SECONDS
RENEW_SECONDS = 10


def is_open(source: ledger.Ledger, *, now: float) -> bool:
    """Whether the only node takes pods."""
    source.tick(now=now)
    (node,) = source.seen().nodes
    return node.closed is None


@pytest.mark.parametrize("skew", [-3600.0, -45.0, 0.0, 45.0, 3600.0])
def test_a_node_is_open_while_its_agent_renews_its_lease_by_whatever_clock(skew: float) -> None:
    source = builders.cluster()
    for step in range(20):
        now = NOW + step * RENEW_SECONDS
        source.lease(N0, now + skew, now=now)
        assert is_open(source, now=now)
        assert is_open(source, now=now + RENEW_SECONDS - 1)


@pytest.mark.parametrize("skew", [-3600.0, 0.0, 3600.0])
def test_a_node_is_closed_when_its_lease_has_not_changed_for_long_enough(skew: float) -> None:
    source = builders.cluster()
    source.lease(N0, NOW + skew, now=NOW)
    source.lease(N0, NOW + skew + 1, now=NOW + 5)
    assert is_open(source, now=NOW + 5 + ALIVE_SECONDS - 1)
    assert not is_open(source, now=NOW + 5 + ALIVE_SECONDS)


def test_a_lease_that_is_listed_again_unchanged_is_no_renewal() -> None:
    source = builders.cluster()
    for step in range(1, 4):
        steps.finish(lists.leases(source, {N0: NOW}, now=NOW + step * RENEW_SECONDS))
    assert not is_open(source, now=NOW + ALIVE_SECONDS)


def test_a_lease_that_is_seen_for_the_first_time_counts_as_renewed_at_that_moment() -> None:
    source = builders.cluster()
    steps.finish(lists.leases(source, {}, now=NOW))
    steps.finish(lists.leases(source, {N0: NOW - 3600}, now=NOW))
    assert is_open(source, now=NOW + ALIVE_SECONDS - 1)
    assert not is_open(source, now=NOW + ALIVE_SECONDS)
    source.lease(N0, NOW - 3500, now=NOW + 100)
    assert is_open(source, now=NOW + 100)


def test_a_renewal_that_was_set_back_is_a_renewal() -> None:
    source = builders.cluster()
    source.lease(N0, NOW - 3600, now=NOW + 30)
    assert is_open(source, now=NOW + ALIVE_SECONDS + 29)


def test_a_lease_that_cannot_be_read_closes_its_node_at_once() -> None:
    source = builders.cluster()
    source.lease(N0, 0.0, now=NOW + 1)
    assert not is_open(source, now=NOW + 1)


def test_a_lease_that_is_gone_closes_its_node_at_once_until_there_is_one_again() -> None:
    source = builders.cluster()
    source.lease_gone(N0, now=NOW + 1)
    assert not is_open(source, now=NOW + 1)
    source.lease(N0, NOW + 10, now=NOW + 10)
    assert is_open(source, now=NOW + 10)
    assert is_open(source, now=NOW + 10 + ALIVE_SECONDS - 1)
    assert not is_open(source, now=NOW + 10 + ALIVE_SECONDS)


def test_a_lease_that_was_there_before_its_gpunode_expires_all_the_same() -> None:
    source = builders.cluster(nodes=0)
    source.node(records.node_record(builders.node("n0")))
    source.lease(N0, NOW, now=NOW)
    source.tick(now=NOW + ALIVE_SECONDS - 1)
    source.gpunode(records.gpunode_record(builders.gpunode("n0")), now=NOW + ALIVE_SECONDS - 1)
    assert is_open(source, now=NOW + ALIVE_SECONDS - 1)
    assert not is_open(source, now=NOW + ALIVE_SECONDS)


def test_of_many_agents_each_falls_silent_in_its_own_time() -> None:
    source = builders.cluster(nodes=3)
    for index in range(3):
        source.lease(NodeName(f"n{index}"), NOW + 1 + index, now=NOW + 1 + index)
    found = []
    for step in range(5):
        source.tick(now=NOW + ALIVE_SECONDS + step)
        found.append([node.name for node in source.seen().nodes if node.closed is Cause.AGENT_SILENT])
    assert found == [[], ["n0"], ["n0", "n1"], ["n0", "n1", "n2"], ["n0", "n1", "n2"]]


@virtual.time
async def test_pods_are_placed_on_a_node_whose_clock_is_far_behind() -> None:
    server = running.server()
    running.renew(server, running.HOLDER, now=NOW, behind=45)
    async with running.extender(server) as rig:
        rig.behind = 45
        await rig.serving()
        await asyncio.sleep(2 * ALIVE_SECONDS)
        server.put(pods.PODS, builders.pod("a"))
        await until(lambda: "schedulingGates" not in server.pod("a")["spec"], "lifted")


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
@virtual.time
async def test_a_jump_of_our_own_wall_clock_closes_no_node(jump: float) -> None:
    offset = 0.0

    def wall() -> float:
        return running.clock() + offset

    async with running.extender(running.server(), wall=wall) as rig:
        await rig.serving()
        offset = jump
        await asyncio.sleep(2 * RENEW_SECONDS)
        assert rig.extender.ledger.nodes[N0].alive
