"""One agent against an API server and a clock in memory."""

import logging

import pytest

from cotenant_api import errors, gpunode
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


async def test_it_makes_the_gpunode_and_the_lease_and_is_ready(api: fakes.FakeCluster, started: Started) -> None:
    async with started() as agent:
        assert agent.ready.is_set()
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": fakes.NODE_UID}
    assert api.objects[GPUNODE]["metadata"]["ownerReferences"] == [owner]
    read = gpunode.Status.model_validate(api.status())
    assert (read.simulated, len(read.gpus), read.container_runtime) == (True, 2, "simulated://")
    assert api.objects[LEASE]["spec"] == {
        "holderIdentity": "n1",
        "leaseDurationSeconds": 40,
        "renewTime": "2026-03-01T12:00:00.000000Z",
    }


async def test_it_renews_its_lease_every_ten_seconds(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        await clock.advance(100)
    assert (api.count("POST", LEASES), api.count("APPLY", LEASE)) == (1, 10)
    assert api.objects[LEASE]["spec"]["renewTime"] == "2026-03-01T12:01:40.000000Z"


async def test_an_idle_node_writes_its_status_once(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        await clock.advance(3600)
    assert api.count("APPLY", STATUS) == 1


async def test_tenants_follow_pods_at_once(api: fakes.FakeCluster, started: Started) -> None:
    async with started():
        api.put(POD, fakes.pod(fakes.PodSpec(phase="Pending")))
        await fakes.settled()
        assert tenants(api) == ["train"]
        api.put(POD, fakes.pod(fakes.PodSpec(prediction=fakes.prediction(utilization=41, memory_mib=5000))))
        await fakes.settled()
        gpu = api.status()["gpus"][0]
        assert (gpu["utilizationPercent"], gpu["memoryUsedMiB"], gpu["tenants"][0]["memoryUsedMiB"]) == (41, 5000, 5000)
        api.put(POD, fakes.pod(fakes.PodSpec(phase="Succeeded")))
        await fakes.settled()
        assert tenants(api) == []
        assert api.status()["gpus"][0]["ended"] == [
            {"podUID": "uid-train", "memoryPeakMiB": 5000, "time": "2026-03-01T12:00:00Z"}
        ]


async def test_a_repeated_event_writes_nothing(api: fakes.FakeCluster, started: Started) -> None:
    async with started():
        api.put(POD, fakes.pod(fakes.PodSpec()))
        await fakes.settled()
        before = api.count("APPLY", STATUS)
        api.repeat_event(POD)
        await fakes.settled()
        assert api.count("APPLY", STATUS) == before


async def test_a_deleted_pod_has_ended(api: fakes.FakeCluster, started: Started) -> None:
    async with started():
        api.put(POD, fakes.pod(fakes.PodSpec()))
        await fakes.settled()
        api.delete(POD)
        await fakes.settled()
        assert tenants(api) == []


async def test_an_admin_excludes_a_gpu(api: fakes.FakeCluster, started: Started) -> None:
    async with started():
        changed = {**api.objects[GPUNODE], "spec": {"excludedGPUs": [simulated.gpu_uuid(fakes.NODE, 1)]}}
        api.put(GPUNODE, changed)
        await fakes.settled()
        assert [gpu["mode"] for gpu in api.status()["gpus"]] == ["Shared", "Excluded"]


async def test_a_restart_keeps_peaks_and_ended_tenants(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    api.put(POD, fakes.pod(fakes.PodSpec(prediction=fakes.prediction(utilization=41, memory_mib=5000))))
    api.put(f"{fakes.POD_PATH}/short", fakes.pod(fakes.PodSpec(name="short", uid="uid-short")))
    async with started():
        assert tenants(api) == ["short", "train"]
    api.put(POD, fakes.pod(fakes.PodSpec(prediction=fakes.prediction(utilization=41, memory_mib=2000))))
    api.delete(f"{fakes.POD_PATH}/short")
    await clock.advance(60)
    async with started():
        gpu = api.status()["gpus"][0]
        assert [(each["memoryUsedMiB"], each["memoryPeakMiB"]) for each in gpu["tenants"]] == [(2000, 5000)]
        assert [(each["podUID"], each["memoryPeakMiB"]) for each in gpu["ended"]] == [("uid-short", 6400)]


async def test_no_tenant_ends_while_the_pods_are_not_listed(api: fakes.FakeCluster, started: Started) -> None:
    api.put(POD, fakes.pod(fakes.PodSpec()))
    async with started():
        pass
    api.faults.append(fakes.Fault("LIST", PODS, LOST))
    async with started():
        assert (tenants(api), api.status()["gpus"][0]["ended"]) == (["train"], [])


async def test_it_waits_for_its_node(api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started) -> None:
    api.delete(NODE)
    async with started() as agent:
        await clock.advance(30)
        assert not agent.ready.is_set()
        api.put(NODE, fakes.node())
        await clock.advance(10)
        assert agent.ready.is_set()


async def test_it_removes_the_startup_taint_and_no_other(api: fakes.FakeCluster, started: Started) -> None:
    api.put(NODE, fakes.node(tainted=True))
    async with started():
        assert [taint["key"] for taint in api.objects[NODE]["spec"]["taints"]] == ["example.com/other"]


async def test_a_taint_that_cannot_be_removed_does_not_stop_the_lease(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    api.put(NODE, fakes.node(tainted=True))
    api.faults.extend(fakes.Fault("PATCH", NODE, cluster.RefusedError("422")) for _ in range(3))
    async with started():
        await clock.advance(60)
        assert api.objects[LEASE]["spec"]["renewTime"] == "2026-03-01T12:01:00.000000Z"
        await clock.advance(60)
        assert [taint["key"] for taint in api.objects[NODE]["spec"]["taints"]] == ["example.com/other"]


async def test_a_node_that_changes_meanwhile_loses_no_other_taint(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    api.put(NODE, fakes.node(tainted=True))
    api.faults.append(fakes.Fault("PATCH", NODE, errors.TemporaryError("409 Conflict", delay_seconds=1)))
    async with started():
        changed = fakes.node(tainted=True)
        changed["spec"]["taints"].append({"key": "example.com/new", "effect": "NoSchedule"})
        api.put(NODE, changed)
        await clock.advance(10)
        taints = [taint["key"] for taint in api.objects[NODE]["spec"]["taints"]]
        assert taints == ["example.com/other", "example.com/new"]


async def test_a_node_without_the_taint_is_not_patched(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        await clock.advance(60)
    assert api.count("PATCH", NODE) == 0


async def test_a_status_that_cannot_be_read_is_dropped(
    api: fakes.FakeCluster, started: Started, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = {"metadata": {"name": "n1"}, "status": {"gpus": [{"uuid": 3}]}}
    api.put(GPUNODE, manifest)
    async with started() as agent:
        assert agent.ready.is_set()
    assert "the status left by an earlier agent is dropped" in caplog.text


async def test_a_failure_is_logged_once_until_it_changes(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with started():
        api.faults.extend(fakes.Fault("APPLY", LEASE, LOST) for _ in range(5))
        await clock.advance(60)
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Lease")]
    assert lines == ["Lease: connection reset", "Lease: works again"]


async def test_it_waits_for_the_driver_and_keeps_the_taint_until_then(
    api: fakes.FakeCluster, clock: fakes.FakeClock
) -> None:
    api.put(NODE, fakes.node(tainted=True))
    late = LateDriver()
    async with looking_at(late, api, clock):
        assert [(each["status"], each["reason"]) for each in api.status()["conditions"]] == [
            ("False", "DriverMissing"),
            ("False", "WithinBounds"),
        ]
        assert len(api.objects[NODE]["spec"]["taints"]) == 3
        late.there = True
        await clock.advance(20)
        assert (api.status()["conditions"][0]["message"], api.status()["simulated"]) == ("1 GPU", False)
        assert len(api.objects[NODE]["spec"]["taints"]) == 1
