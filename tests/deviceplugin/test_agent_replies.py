"""One agent whose writes are lost, late or refused, and whose watches end."""

import pytest

from cotenant_api import errors
from cotenant_deviceplugin.kube import cluster
from cotenant_deviceplugin.simulated import gpus as simulated
from deviceplugin import fakes
from deviceplugin.simulated_agent import (
    GPUNODE,
    LEASE,
    LEASES,
    LOST,
    NODE,
    POD,
    PODS,
    STATUS,
    LateDriver,
    Started,
    looking_at,
    tenants,
)


async def test_a_create_whose_reply_was_lost_is_not_made_twice(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    api.faults.append(fakes.Fault("POST", cluster.GPUNODES, LOST, done=True))
    api.deaf.add(cluster.GPUNODES)  # No watch tells of it: the second create is answered with 409.
    async with started() as agent:
        await clock.advance(2)
        assert agent.ready.is_set()
    assert api.count("POST", cluster.GPUNODES) == 2


async def test_a_status_whose_reply_was_lost_is_written_again(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    api.faults.append(fakes.Fault("APPLY", STATUS, LOST, done=True))
    async with started() as agent:
        await clock.advance(2)
        assert agent.ready.is_set()
    assert api.count("APPLY", STATUS) == 2


async def test_a_status_that_arrives_after_a_newer_one_is_refused(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.faults.append(fakes.Fault("APPLY", STATUS, LOST, late=True))
        api.put(POD, fakes.pod(fakes.PodSpec()))
        await fakes.settled()
        api.put(f"{fakes.POD_PATH}/second", fakes.pod(fakes.PodSpec(name="second", uid="uid-second")))
        await clock.advance(2)
        assert tenants(api) == ["second", "train"]
        with pytest.raises(cluster.ConflictError):
            api.arrive()
        assert tenants(api) == ["second", "train"]


async def test_a_status_of_a_former_agent_that_arrives_after_the_first_of_this_one_is_refused(
    api: fakes.FakeCluster, started: Started
) -> None:
    async with started():
        api.faults.append(fakes.Fault("APPLY", STATUS, LOST, late=True))
        api.put(POD, fakes.pod(fakes.PodSpec()))
        await fakes.settled()
    api.delete(POD)
    async with started():
        with pytest.raises(cluster.ConflictError):
            api.arrive()
        assert tenants(api) == []


async def test_a_late_status_is_refused_also_where_the_agent_has_come_back_to_what_it_said_before(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.faults.append(fakes.Fault("APPLY", STATUS, LOST, late=True))
        api.put(POD, fakes.pod(fakes.PodSpec()))
        await fakes.settled()
        api.delete(POD)
        await clock.advance(5)
        assert tenants(api) == []
        with pytest.raises(cluster.ConflictError):
            api.arrive()
        assert tenants(api) == []


async def test_a_status_that_was_lost_and_arrives_before_the_next_try_is_written_over(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.deaf.add(cluster.GPUNODES)
        api.faults.append(fakes.Fault("APPLY", STATUS, LOST, late=True))
        api.put(POD, fakes.pod(fakes.PodSpec()))
        await fakes.settled()
        api.arrive()
        api.put(f"{fakes.POD_PATH}/second", fakes.pod(fakes.PodSpec(name="second", uid="uid-second")))
        await clock.advance(5)
        assert tenants(api) == ["second", "train"]


async def test_a_status_that_was_decided_while_the_gpunode_was_deleted_is_not_taken_by_the_next_gpunode(
    api: fakes.FakeCluster, clock: fakes.FakeClock
) -> None:
    gpus = LateDriver()
    gpus.there = True
    async with looking_at(gpus, api, clock):
        gpus.answers.clear()
        api.put(POD, fakes.pod(fakes.PodSpec()))
        await fakes.settled()
        api.delete(GPUNODE)
        await fakes.settled()
        api.faults.append(fakes.Fault("APPLY", STATUS, LOST, late=True))
        gpus.answers.set()
        await fakes.settled()
        api.delete(POD)
        await clock.advance(15)
        with pytest.raises(cluster.ConflictError):
            api.arrive()
        assert tenants(api) == []


async def test_a_status_that_the_agent_did_not_write_is_written_over_with_the_next_renewal(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        before = api.status()
        api.put(POD, fakes.pod(fakes.PodSpec()))
        await fakes.settled()
        api.put(GPUNODE, {**api.objects[GPUNODE], "status": before})
        await clock.advance(10)
        assert tenants(api) == ["train"]


async def test_a_gpunode_that_somebody_else_made_again_gets_the_status(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.put(POD, fakes.pod(fakes.PodSpec()))
        await fakes.settled()
        made = {key: value for key, value in api.objects[GPUNODE].items() if key != "status"}
        api.behind.add(cluster.GPUNODES)
        api.delete(GPUNODE)
        api.put(GPUNODE, {**made, "metadata": {"name": "n1"}})
        api.catch_up(cluster.GPUNODES)
        await clock.advance(1)
        assert tenants(api) == ["train"]


async def test_a_create_that_is_answered_late_takes_back_nothing_that_was_seen_meanwhile(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    answer = api.hold("POST", cluster.GPUNODES)
    async with started():
        api.put(GPUNODE, {**api.objects[GPUNODE], "spec": {"excludedGPUs": [simulated.gpu_uuid(fakes.NODE, 1)]}})
        await fakes.settled()
        answer.set()
        await clock.advance(60)
        assert [gpu["mode"] for gpu in api.status()["gpus"]] == ["Shared", "Excluded"]


async def test_a_node_that_was_made_again_while_the_former_one_was_read_loses_its_startup_taint(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    api.put(NODE, fakes.node(tainted=True))
    api.faults.append(fakes.Fault("PATCH", NODE, LOST, done=True))
    async with started():
        answer = api.hold("GET", NODE)
        await clock.advance(1)
        api.replace_node(fakes.node(tainted=True))
        await clock.advance(3)
        answer.set()
        await clock.advance(20)
        assert [taint["key"] for taint in api.objects[NODE]["spec"]["taints"]] == ["example.com/other"]


async def test_taints_that_were_decided_before_another_write_to_the_node_are_refused(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    api.put(NODE, fakes.node(tainted=True))
    api.faults.append(fakes.Fault("PATCH", NODE, LOST, late=True))
    async with started():
        changed = fakes.node(tainted=True)
        changed["spec"]["taints"].append({"key": "example.com/new", "effect": "NoSchedule"})
        api.put(NODE, changed)
        await clock.advance(5)
        with pytest.raises(cluster.ConflictError):
            api.arrive()
        taints = [taint["key"] for taint in api.objects[NODE]["spec"]["taints"]]
        assert taints == ["example.com/other", "example.com/new"]


async def test_somebody_elses_write_to_the_gpunode_is_read_before_the_next_status(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.deaf.add(cluster.GPUNODES)
        changed = {**api.objects[GPUNODE], "spec": {"excludedGPUs": [simulated.gpu_uuid(fakes.NODE, 1)]}}
        api.put(GPUNODE, changed)
        api.put(POD, fakes.pod(fakes.PodSpec()))
        await clock.advance(2)
        assert tenants(api) == ["train"]


async def test_a_conflict_is_tried_again(api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started) -> None:
    api.faults.append(fakes.Fault("POST", LEASES, errors.TemporaryError("409 Conflict", delay_seconds=1)))
    async with started() as agent:
        assert not agent.ready.is_set()
        await clock.advance(2)
        assert agent.ready.is_set()


async def test_a_watch_that_is_too_old_is_listed_again(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.put(POD, fakes.pod(fakes.PodSpec()))
        await fakes.settled()
        api.end_watches(PODS, cluster.ExpiredError("410"))
        await fakes.settled()
        # Deleted while nobody watched: only a new list can tell.
        api.delete(POD)
        await clock.advance(2)
        assert tenants(api) == []
    assert api.count("LIST", PODS) == 2


async def test_a_watch_that_ends_is_resumed_where_it_stood(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.put(POD, fakes.pod(fakes.PodSpec()))
        version = api.objects[POD]["metadata"]["resourceVersion"]
        await fakes.settled()
        api.end_watches(PODS)
        await clock.advance(2)
    assert api.watched_from[-1] == (PODS, version)
    assert api.count("LIST", PODS) == 1


async def test_an_api_server_that_was_away_is_followed_again(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.down = LOST
        api.end_watches(PODS, LOST)
        api.end_watches(cluster.GPUNODES, LOST)
        await clock.advance(120)
        api.down = None
        api.put(POD, fakes.pod(fakes.PodSpec()))
        await clock.advance(30)
        assert tenants(api) == ["train"]
        assert api.objects[LEASE]["spec"]["renewTime"] > "2026-03-01T12:02:00"


async def test_an_agent_that_cannot_write_its_status_does_not_look_alive(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        refused = cluster.RefusedError("403")
        api.faults.extend(fakes.Fault("APPLY", STATUS, refused) for _ in range(20))
        api.put(POD, fakes.pod(fakes.PodSpec()))
        await clock.advance(100)
        assert api.objects[LEASE]["spec"]["renewTime"] == "2026-03-01T12:00:00.000000Z"
        api.faults.clear()
        await clock.advance(60)
        assert tenants(api) == ["train"]
        assert api.objects[LEASE]["spec"]["renewTime"] > "2026-03-01T12:01:40"


async def test_a_deleted_gpunode_is_made_again_with_its_memory(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.put(POD, fakes.pod(fakes.PodSpec()))
        await fakes.settled()
        api.delete(POD)
        await fakes.settled()
        api.delete(GPUNODE)
        await clock.advance(1)
        assert [each["podUID"] for each in api.status()["gpus"][0]["ended"]] == ["uid-train"]


async def test_a_gpunode_deleted_unseen_is_made_again(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.deaf.add(cluster.GPUNODES)
        api.delete(GPUNODE)
        api.put(POD, fakes.pod(fakes.PodSpec()))
        await clock.advance(2)
        assert tenants(api) == ["train"]
