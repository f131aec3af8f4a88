"""The whole agent of one node, from kubelet's socket to the CDI specification and the GPUNode."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cotenant_api import gpunode
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.kube import cluster
from cotenant_deviceplugin.mps import proof
from cotenant_deviceplugin.mps.backend import Server
from cotenant_deviceplugin.node import around
from deviceplugin import fakes
from node_kit import quick
from node_kit.kubelet_devices import KubeletError
from node_kit.whole_node import CONTAINER_UID, NODE, SERVER_PID, WholeNode, started, wanted

UID = CONTAINER_UID.format(1)


@pytest.fixture(name="folder")
def folder_fixture() -> Iterator[Path]:
    with quick.folder() as path:
        yield path


async def rounds(node: WholeNode, count: int = 2) -> None:
    """Let the agent go through everything that it does so often."""
    lease = cluster.lease_path(fakes.NODE, node.settings.namespace)
    end = node.api.count("APPLY", lease) + count
    await quick.until(lambda: node.api.count("APPLY", lease) >= end)


async def test_it_becomes_ready_and_lets_pods_in(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering():
        await quick.until(lambda: node.condition() == ("True", "AgentReady"))
        await quick.until(lambda: len(node.api.objects[NODE]["spec"]["taints"]) == 1)
        assert (node.gpu()["health"], node.gpu()["mps"], node.gpu()["mode"]) == ("Healthy", "Active", "Shared")
        assert node.gpus.states[node.first].compute_mode is hardware.ComputeMode.EXCLUSIVE_PROCESS


async def test_a_pod_gets_the_gpu_and_the_limits_of_its_placement(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering():
        environment = await started(node, node.bind(gpus=(1,), memory_mib=5000))
        assert environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=5000M"
        assert environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"
        assert environment["NVIDIA_VISIBLE_DEVICES"] == "void"
        assert [tenant["podUID"] for tenant in node.gpu(1)["tenants"]] == [UID]
        assert node.gpu(0)["tenants"] == []


async def test_a_whole_gpu_has_no_server_and_becomes_shared_again_afterwards(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering():
        pod = node.bind(share=100, booked=100, backend="Whole")
        assert "CUDA_MPS_PIPE_DIRECTORY" not in await started(node, pod)
        assert node.gpus.states[node.first].compute_mode is hardware.ComputeMode.DEFAULT
        assert node.mps.pid(node.first) is None
        node.kubelet.ended(pod)
        node.api.delete(f"{fakes.POD_PATH}/p1")
        node.kubelet.collect()
        node.kubelet.write_checkpoint()
        await quick.until(lambda: node.mps.pid(node.first) is not None)
        assert node.gpus.states[node.first].compute_mode is hardware.ComputeMode.EXCLUSIVE_PROCESS


async def test_a_pod_that_is_refused_reads_why_in_its_events(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering():
        pod = node.bind(booked=20, share=30)
        assert await node.kubelet.admit(pod)
        with pytest.raises(KubeletError, match="ShareBelowRequest"):
            await node.kubelet.start(pod)
        events = "/api/v1/namespaces/team/events/"
        await quick.until(lambda: any(path.startswith(events) for path in node.api.objects))
        assert node.api.status()["refused"][0]["podUID"] == UID


async def test_a_pod_that_may_be_root_gets_no_share_until_the_policy_lets_anybody_in(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering():
        pod = node.bind(security={})
        assert await node.kubelet.admit(pod)
        with pytest.raises(
            KubeletError, match=r"MayBeRoot: spec\.containers\[main\]\.securityContext: may run as root"
        ):
            await node.kubelet.start(pod)
        await quick.until(lambda: node.api.status()["refused"][0]["reason"].startswith("MayBeRoot: "))
        assert node.gpu()["tenants"] == []
        node.put_policy(tenantUser="Any")
        await rounds(node)
        await node.kubelet.start(pod)
        await quick.until(lambda: [tenant["podUID"] for tenant in node.gpu()["tenants"]] == [UID])


async def test_a_tenant_that_may_be_root_goes_on_when_the_policy_becomes_strict(folder: Path) -> None:
    node = WholeNode(folder)
    node.put_policy(tenantUser="Any")
    async with node.offering():
        pod = node.bind(security={})
        await started(node, pod)
        node.put_policy(tenantUser="NonRoot")
        await rounds(node)
        await node.kubelet.start(pod)
        assert [tenant["podUID"] for tenant in node.gpu()["tenants"]] == [UID]


async def test_a_tenant_is_listed_until_nothing_of_it_is_left(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering():
        pod = node.bind()
        await started(node, pod)
        node.run_process(50, UID)
        node.api.delete(f"{fakes.POD_PATH}/p1")
        node.kubelet.ended(pod)
        node.kubelet.collect()
        node.kubelet.write_checkpoint()
        await rounds(node)
        assert [tenant["podUID"] for tenant in node.gpu()["tenants"]] == [UID]
        node.end_process(50)
        await quick.until(lambda: node.gpu()["tenants"] == [])


async def test_an_agent_that_is_killed_comes_back_with_the_tenants_it_had(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering():
        pod = node.bind()
        await started(node, pod)
    async with node.offering():
        environment = await started(node, node.bind(2))
        assert environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=8000M"
        assert {tenant["podUID"] for tenant in node.gpu()["tenants"]} == {UID, CONTAINER_UID.format(2)}


async def test_without_a_driver_it_waits_and_says_so(folder: Path) -> None:
    node = WholeNode(folder)
    node.gpus.there = False
    await node.kubelet.begin()
    async with node.agent():
        await quick.until(lambda: node.condition() == ("False", "DriverMissing"))
        assert node.kubelet.registrations == 0
        node.gpus.there = True
        async with asyncio.timeout(20):
            await node.kubelet.has_tokens(200)
    await node.kubelet.end()


@pytest.mark.parametrize(
    ("runtime", "allocatable", "reason"),
    [
        ("containerd://1.6.20", {}, "NoCDI"),
        ("containerd://1.7.20", {}, "NoCDI"),
        ("containerd://2.3.7", {"nvidia.com/gpu": "2"}, "ForeignDevicePlugin"),
    ],
)
async def test_a_node_that_cannot_be_served_offers_nothing_and_is_left_alone(
    folder: Path, runtime: str, allocatable: dict[str, str], reason: str
) -> None:
    node = WholeNode(folder)
    node.put_node(runtime, **allocatable)
    await node.kubelet.begin()
    async with node.agent():
        await quick.until(lambda: node.condition() == ("False", reason))
        async with asyncio.timeout(20):
            await node.kubelet.has_tokens(0)
        assert node.mps.pid(node.first) is None
        assert node.gpus.states[node.first].compute_mode is hardware.ComputeMode.DEFAULT
    await node.kubelet.end()


async def test_without_nvidias_specification_there_are_no_shares(folder: Path) -> None:
    node = WholeNode(folder)
    (folder / "cdi" / "nvidia.json").unlink()
    await node.kubelet.begin()
    async with node.agent():
        await quick.until(lambda: node.condition() == ("False", "NoCDI"))
        node.write_base_specification()
        async with asyncio.timeout(20):
            await node.kubelet.has_tokens(200)
    await node.kubelet.end()


async def test_a_gpu_that_nvidias_specification_does_not_know_is_closed_and_says_so(folder: Path) -> None:
    node = WholeNode(folder)
    value = json.loads((folder / "cdi" / "nvidia.json").read_text())
    del value["devices"][0]
    (folder / "cdi" / "nvidia.json").write_text(json.dumps(value))
    await node.kubelet.begin()
    async with node.agent():
        async with asyncio.timeout(20):
            await node.kubelet.has_tokens(100)
        said = "nvidia.json (nvidia.com/gpu) does not know the GPU"
        await quick.until(lambda: node.gpu()["health"] == "Suspect" and said in node.gpu()["reason"])
        assert node.gpu(1)["health"] == "Healthy"
    await node.kubelet.end()


async def test_a_gpu_whose_specification_gives_another_gpus_node_says_so(folder: Path) -> None:
    node = WholeNode(folder)
    value = json.loads((folder / "cdi" / "nvidia.json").read_text())
    value["devices"][0]["containerEdits"] = value["devices"][1]["containerEdits"]
    (folder / "cdi" / "nvidia.json").write_text(json.dumps(value))
    await node.kubelet.begin()
    async with node.agent():
        async with asyncio.timeout(20):
            await node.kubelet.has_tokens(100)
        said = "gives /dev/nvidia1, and the GPU is /dev/nvidia0"
        await quick.until(lambda: node.gpu()["health"] == "Suspect" and said in node.gpu()["reason"])
    await node.kubelet.end()


async def test_a_gpu_on_which_no_limit_of_threads_holds_is_closed_and_says_so(folder: Path) -> None:
    node = WholeNode(folder)
    older, other = node.gpus.listed
    node.gpus.listed = (replace(older, compute_capability="6.1"), other)
    await node.kubelet.begin()
    async with node.agent():
        async with asyncio.timeout(20):
            await node.kubelet.has_tokens(100)
        await quick.until(lambda: node.gpu()["health"] == "Suspect" and "capability 6.1" in node.gpu()["reason"])
    await node.kubelet.end()


async def test_a_driver_that_goes_withdraws_all_free_shares_until_it_is_back(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering():
        node.gpus.there = False
        await node.kubelet.has_tokens(0)
        await quick.until(lambda: node.condition() == ("False", "DriverMissing"))
        node.gpus.there = True
        await node.kubelet.has_tokens(200)


@pytest.mark.parametrize("version", ["550.163.01", "unknown"])
async def test_a_driver_that_may_be_too_old_gives_no_shares_and_its_gpus_are_left_as_they_are(
    folder: Path, version: str
) -> None:
    node = WholeNode(folder)
    node.gpus.version = version
    await node.kubelet.begin()
    try:
        async with node.agent(), asyncio.timeout(20):
            await quick.until(lambda: node.condition() == ("False", "DriverTooOld"))
            await quick.until(lambda: node.gpu()["mps"] == "NotUsed")
            assert node.gpus.states[node.first].compute_mode is hardware.ComputeMode.DEFAULT
            assert node.mps.pid(node.first) is None
            node.gpus.version = "570.133.07"
            await node.kubelet.has_tokens(200)
    finally:
        await node.kubelet.end()


async def test_a_policy_that_only_observes_withdraws_all_shares(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering():
        node.put_policy(mode="Observe")
        await node.kubelet.has_tokens(0)
        await quick.until(lambda: node.condition() == ("True", "AgentReady"))


async def test_an_excluded_gpu_gives_no_shares(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering():
        path = f"/apis/cotenant.dev/v1alpha1/gpunodes/{fakes.NODE}"
        node.api.put(path, {**node.api.objects[path], "spec": {"excludedGPUs": [node.first]}})
        await node.kubelet.has_tokens(100)
        await quick.until(lambda: node.gpu()["mode"] == "Excluded")
        # Given back: MPS and the compute mode are as they were before.
        await quick.until(lambda: (node.mps.pid(node.first), node.gpu()["mps"]) == (None, "NotUsed"))
        assert node.gpus.states[node.first].compute_mode is hardware.ComputeMode.DEFAULT


async def test_a_gpu_that_is_lost_closes_and_its_tenant_stays_listed(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering():
        await started(node, node.bind())
        node.gpus.states[node.first] = hardware.Readings(fault="GPU is lost")
        await quick.until(lambda: node.gpu()["health"] != "Healthy")
        assert [tenant["podUID"] for tenant in node.gpu()["tenants"]] == [UID]
        await node.kubelet.has_tokens(130)


def occupied(*, state: gpunode.MPS = gpunode.MPS.ACTIVE, said: tuple[str, ...] = ()) -> Server:
    """The server with a client of each of two tenants; `said`: by its daemon."""
    return Server(state=state, pid=SERVER_PID, clients=(51, 52), faults=said)


async def two_tenants(node: WholeNode) -> None:
    """Two pods on one GPU, each with a client."""
    for number in (1, 2):
        await started(node, node.bind(number))
        node.run_process(50 + number, CONTAINER_UID.format(number))
    node.mps.put(node.first, occupied())
    await rounds(node)


async def test_a_fault_that_a_tenant_has_made_up_is_counted_and_does_nothing_to_its_neighbour(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = WholeNode(folder)
    async with node.offering() as agent:
        await two_tenants(node)
        for _ in range(10):
            node.mps.put(node.first, occupied(said=("fatal error of 52",)))
            await quick.until(lambda: not node.mps.stirred(node.first))
        counter, labels = "cotenant_mps_unproven_faults_total", {"gpu_uuid": str(node.first)}
        value = agent.metrics.registry.get_sample_value
        await quick.until(lambda: (value(counter, labels) or 0) >= 10 - proof.LOOKS)
        await rounds(node)
        assert (node.gpu()["health"], node.gpu()["mps"], node.gpu().get("lastFault")) == ("Healthy", "Active", None)
        assert (node.mps.terminated, wanted(node), node.mps.pid(node.first)) == ([], set(), SERVER_PID)
        assert caplog.text.count("a tenant may have written 'fatal error of 52'") == 1


async def test_a_fault_that_was_over_before_it_was_looked_at_is_proven_by_its_xid(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = WholeNode(folder)
    async with node.offering():
        await two_tenants(node)
        await node.gpus.happened.put(hardware.XIDEvent(uuid=node.first, xid=31))
        node.mps.put(node.first, occupied(said=("fatal error of 51",)))
        await quick.until(lambda: f"{node.first}: fatal error of 51" in caplog.text)
        await quick.until(lambda: node.gpu().get("lastFault"))
        assert node.gpu()["lastFault"]["victimPodUIDs"] == [UID, CONTAINER_UID.format(2)]


@pytest.mark.parametrize("late", [True, False])
async def test_who_is_alone_when_a_late_event_is_told_is_no_culprit(folder: Path, *, late: bool) -> None:
    node = WholeNode(folder)
    async with node.offering():
        await started(node, node.bind())
        await node.gpus.happened.put(hardware.XIDEvent(uuid=node.first, xid=31, late=late))
        await quick.until(lambda: node.gpu().get("lastFault"))
        assert node.gpu()["lastFault"].get("culpritPodUID") == (None if late else UID)


async def test_who_a_fault_hit_is_published_once(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering():
        await two_tenants(node)
        node.mps.put(node.first, occupied(state=gpunode.MPS.FAULT, said=("fatal error of 51",)))
        await node.gpus.happened.put(hardware.XIDEvent(uuid=node.first, xid=31))
        await quick.until(lambda: node.gpu().get("lastFault"))
        told = node.gpu()["lastFault"]
        assert (told.get("culpritPodUID"), told["victimPodUIDs"]) == (None, [UID, CONTAINER_UID.format(2)])
        assert node.gpu()["health"] == "Suspect"
        await rounds(node)
        assert node.gpu()["lastFault"] == told


async def test_a_client_is_ended_shortly_before_kubelet_would_kill_it(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering():
        await started(node, node.bind())
        node.run_process(51, UID)
        node.mps.put(node.first, Server(state=gpunode.MPS.ACTIVE, pid=SERVER_PID, clients=(51,)))
        path = f"{fakes.POD_PATH}/p1"
        manifest = node.api.objects[path]
        ends = datetime.now(UTC) + timedelta(seconds=7)
        manifest["metadata"] |= {"deletionTimestamp": ends.isoformat(), "deletionGracePeriodSeconds": 30}
        node.api.put(path, manifest)
        await rounds(node)
        assert node.mps.terminated == []
        await quick.until(lambda: node.mps.terminated == [51])
        assert datetime.now(UTC) < ends


async def test_a_pod_over_its_memory_is_told_and_to_be_evicted_where_the_policy_says_so(folder: Path) -> None:
    node = WholeNode(folder)
    node.put_policy(memoryOveruse="Evict")
    async with node.offering() as agent:
        await started(node, node.bind(memory_mib=1000))
        node.run_process(51, UID)
        node.gpus.processes[node.first] = {51: 1500}
        agent.sampled.forget()
        await quick.until(lambda: wanted(node) == {gpunode.EvictionReason.MEMORY_OVERUSE})
        assert any("events" in path for path in node.api.objects)


async def test_a_foreign_process_is_published_and_the_server_is_none(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering() as agent:
        node.run_process(SERVER_PID, None)
        node.run_process(77, None)
        node.gpus.processes[node.first] = {SERVER_PID: 30, 77: 100}
        for _ in range(2):
            agent.sampled.forget()
            await rounds(node)
        await quick.until(lambda: node.gpu()["foreignProcesses"] == 1)


async def test_a_process_that_nobody_explains_withdraws_the_gpus_free_tokens_and_keeps_its_tenant(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering() as agent:
        pod = node.bind()
        await started(node, pod)
        node.run_process(77, CONTAINER_UID.format(9))
        node.gpus.processes[node.first] = {77: 100}
        agent.sampled.forget()
        await node.kubelet.has_tokens(130)
        assert (node.gpu()["health"], node.gpu()["foreignProcesses"]) == ("Healthy", 1)
        # Its container may start again.
        await started(node, pod)
        node.end_process(77)
        await node.kubelet.has_tokens(200)


async def test_a_gpu_that_was_excluded_is_never_offered_before_the_gpunode_is_seen(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.agent() as agent:
        assert agent.suspended() is not None
        agent.driver_fault = None
        for store in (agent.stores.node, agent.stores.slices, agent.stores.policy):
            store.replace(())
        assert agent.suspended() == around.UNSEEN
