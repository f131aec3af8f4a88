"""The Lease of one agent: renewals that come late, and Leases of Nodes that are gone."""

import pytest

from cotenant_deviceplugin.kube import cluster
from deviceplugin import fakes
from deviceplugin.simulated_agent import GPUNODE, LEASE, LEASES, LOST, Started


def owner(api: fakes.FakeCluster) -> str:
    """The UID of the Node to which the Lease belongs."""
    (reference,) = api.objects[LEASE]["metadata"]["ownerReferences"]
    return str(reference["uid"])


def renewed(api: fakes.FakeCluster) -> str:
    """The renewal time in the Lease."""
    return str(api.objects[LEASE]["spec"]["renewTime"])


async def test_a_renewal_of_a_former_node_that_arrives_late_is_refused(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.faults.append(fakes.Fault("APPLY", LEASE, LOST, late=True))
        await clock.advance(10)
        uid = api.replace_node(fakes.node())
        await clock.advance(20)
        assert owner(api) == uid
        with pytest.raises(cluster.ConflictError):
            api.arrive()
        assert owner(api) == uid


async def test_a_renewal_that_arrives_late_brings_back_no_older_time(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.faults.append(fakes.Fault("APPLY", LEASE, LOST, late=True))
        await clock.advance(11)
        before = renewed(api)
        with pytest.raises(cluster.ConflictError):
            api.arrive()
        assert renewed(api) == before > "2026-03-01T12:00:10"


async def test_a_renewal_whose_reply_was_lost_is_followed_by_another(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.faults.append(fakes.Fault("APPLY", LEASE, LOST, done=True))
        await clock.advance(12)
        assert renewed(api) > "2026-03-01T12:00:10"
        await clock.advance(60)
        assert renewed(api) > "2026-03-01T12:01:00"


async def test_a_lease_that_was_created_late_is_refused_while_there_is_one(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    api.faults.append(fakes.Fault("POST", LEASES, LOST, late=True))
    async with started():
        await clock.advance(20)
        before = renewed(api)
        with pytest.raises(cluster.AlreadyExistsError):
            api.arrive()
        assert renewed(api) == before


async def test_a_lease_that_arrives_before_the_agent_creates_it_again_is_renewed(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    api.faults.append(fakes.Fault("POST", LEASES, LOST, late=True))
    async with started() as agent:
        api.arrive()
        await clock.advance(20)
        assert agent.ready.is_set()
        assert renewed(api) > "2026-03-01T12:00:09"


async def test_a_lease_that_somebody_deleted_is_back_with_the_next_renewal(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.delete(LEASE)
        await clock.advance(11)
        assert owner(api) == fakes.NODE_UID


async def test_an_agent_takes_over_the_lease_that_a_former_node_left(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        pass
    left = api.objects[LEASE]
    uid = api.replace_node(fakes.node())
    api.put(LEASE, left)
    await clock.advance(60)
    async with started():
        assert (owner(api), renewed(api)) == (uid, "2026-03-01T12:01:00.000000Z")


async def test_the_lease_belongs_to_the_new_node_also_where_somebody_else_made_its_gpunode(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.behind.add(cluster.GPUNODES)
        uid = api.replace_node(fakes.node())
        api.put(GPUNODE, {"metadata": {"name": "n1"}})
        api.catch_up(cluster.GPUNODES)
        await clock.advance(20)
        assert owner(api) == uid
