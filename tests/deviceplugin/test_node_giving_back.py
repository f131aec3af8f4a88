"""A node whose GPUs are not Cotenant's any more: what of it goes when, and what tenants keep."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.mps import clearing, layout
from deviceplugin import fakes
from node_kit import quick
from node_kit.whole_node import WholeNode, started


@pytest.fixture(name="folder")
def folder_fixture() -> Iterator[Path]:
    with quick.folder() as path:
        yield path


async def until_as_it_was(node: WholeNode, gpu: int) -> None:
    """Wait until nothing of Cotenant is on a GPU."""
    uuid = node.gpus.listed[gpu].uuid
    await quick.until(lambda: node.gpus.states[uuid].compute_mode is hardware.ComputeMode.DEFAULT)
    await quick.until(lambda: (node.mps.pid(uuid), node.gpu(gpu)["mps"]) == (None, "NotUsed"))


async def test_where_nothing_is_shared_any_more_gpus_are_given_back_as_their_tenants_end(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering():
        pod = node.bind()
        await started(node, pod)
        node.put_policy(mode="Observe")
        await until_as_it_was(node, 1)
        assert node.mps.pid(node.first) is not None
        assert node.gpus.states[node.first].compute_mode is hardware.ComputeMode.EXCLUSIVE_PROCESS
        node.kubelet.ended(pod)
        node.api.delete(f"{fakes.POD_PATH}/p1")
        node.kubelet.collect()
        node.kubelet.write_checkpoint()
        await until_as_it_was(node, 0)
        node.put_policy(mode="Pack")
        await node.kubelet.has_tokens(200)
        await quick.until(lambda: node.gpu()["mps"] == "Active")


async def test_an_agent_that_ends_on_a_node_that_is_given_back_leaves_what_tenants_need_alone(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering() as agent:
        await started(node, node.bind())
        for gpu in node.gpus.listed:
            (folder / "mps" / gpu.uuid / "pipe").mkdir(parents=True, exist_ok=True)
        node.put_policy(mode="Observe")
        await quick.until(agent.around.given_back)
    # Its tenant's MPS daemon outlives it, and clears up itself.
    await agent.give_back()
    assert [path.name for path in (folder / "cdi").iterdir()] == ["nvidia.json"]
    assert layout.given_back(node.settings.mps_root).exists()
    assert (folder / "mps" / node.first / "pipe").is_dir()
    # Nor does the end of the daemon end the tenant, which may be no client at the moment.
    node.mps.daemons = False
    await agent.give_back()
    assert [path.name for path in (folder / "mps").iterdir() if path.is_dir()] == [node.first]
    assert node.gpus.states[node.first].compute_mode is hardware.ComputeMode.EXCLUSIVE_PROCESS
    assert await clearing.holders(folder / "mps", node.first) == {grant.pod_uid for grant in agent.binding.grants()}


async def test_an_agent_that_ends_on_a_node_that_is_given_back_leaves_nothing_where_no_tenant_is(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering() as agent:
        for gpu in node.gpus.listed:
            (folder / "mps" / gpu.uuid / "pipe").mkdir(parents=True, exist_ok=True)
        node.put_policy(mode="Observe")
        await quick.until(agent.around.given_back)
        await until_as_it_was(node, 0)
    node.mps.daemons = False
    await agent.give_back()
    assert list((folder / "mps").iterdir()) == []


async def test_an_agent_that_ends_to_be_replaced_leaves_everything(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering() as agent:
        await started(node, node.bind())
    await agent.give_back()
    assert len(list((folder / "cdi").iterdir())) == 2
    assert node.gpus.states[node.first].compute_mode is hardware.ComputeMode.EXCLUSIVE_PROCESS


async def test_a_node_without_its_label_is_given_back(folder: Path) -> None:
    node = WholeNode(folder)
    node.settings = replace(node.settings, node_selector={"cotenant.dev/gpu": "true"})
    node.put_labels(**{"cotenant.dev/gpu": "true"})
    async with node.offering() as agent:
        await quick.until(lambda: node.gpu()["mps"] == "Active")
        node.put_labels()
        await node.kubelet.has_tokens(0)
        await until_as_it_was(node, 0)
    node.mps.daemons = False
    await agent.give_back()
    assert list((folder / "mps").iterdir()) == []


async def test_an_agent_that_hears_nothing_at_its_end_goes_by_what_it_saw_last(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering() as agent:
        await started(node, node.bind())
        node.put_policy(mode="Observe")
        await quick.until(agent.around.given_back)
    node.api.down = errors.TemporaryError("down", delay_seconds=0)
    await agent.give_back()
    assert [path.name for path in (folder / "cdi").iterdir()] == ["nvidia.json"]
