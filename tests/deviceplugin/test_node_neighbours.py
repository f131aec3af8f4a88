"""What another device plugin hands out of a node's GPUs, the agent does not, by what kubelet knows before the Node."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from cotenant_api import errors
from cotenant_deviceplugin.kube.surroundings import NVIDIA_RESOURCES
from cotenant_deviceplugin.kubelet import neighbours
from cotenant_deviceplugin.kubelet.protos import podresources_v1_pb2 as messages
from cotenant_deviceplugin.node.neighbours import Neighbours
from node_kit.bookings import A, B

CHECKPOINT = Path("device-plugins") / "kubelet_internal_checkpoint"
REAL = Path(__file__).parent / "data" / "kubelet_internal_checkpoint"


def checkpoint(*devices: str, resource: str = "nvidia.com/gpu", registered: dict[str, Any] | None = None) -> str:
    entry = {"PodUID": "u", "ContainerName": "main", "ResourceName": resource, "DeviceIDs": {"-1": devices}}
    data = {"PodDeviceEntries": [entry] if devices else None, "RegisteredDevices": registered}
    return json.dumps({"Data": data, "Checksum": 1})


class Node:
    """A node's kubelet: its checkpoint, and who holds what by PodResources."""

    def __init__(self, root: Path) -> None:
        self.path = root / CHECKPOINT
        self.path.parent.mkdir()
        self.pods: dict[str, str] = {}
        self.asked = 0
        self.called = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()
        self.neighbours = Neighbours(root, self)

    async def held(self, _resources: neighbours.Resources) -> neighbours.Held:
        """Return the pods."""
        self.asked += 1
        held = neighbours.Held(dict(self.pods))
        if self.asked == 1:
            self.called.set()
            await self.answers.wait()
        return held


@pytest.fixture(name="node")
def alone(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_without_another_plugin_nothing_is_closed_and_kubelet_is_not_asked(node: Node) -> None:
    await node.neighbours.check([A])
    node.path.write_text(REAL.read_text())
    await node.neighbours.check([A, B])
    assert (node.neighbours.registered, node.asked) == ((), 0)


@pytest.mark.parametrize("devices", [["GPU-x"], []])
async def test_a_plugin_that_is_there_or_was_until_lately_keeps_all_gpus(node: Node, devices: list[str]) -> None:
    node.path.write_text(checkpoint(registered={"cotenant.dev/gpu-share": ["t1"], "nvidia.com/gpu.shared": devices}))
    with pytest.raises(errors.TemporaryError, match=r"hands out nvidia\.com/gpu\.shared on this node"):
        await node.neighbours.check([A])
    assert node.neighbours.registered == ("nvidia.com/gpu.shared",)


@pytest.mark.parametrize("device", [A, f"{A}::3"])
async def test_a_gpu_that_a_pod_of_a_plugin_that_has_gone_still_holds_is_closed(node: Node, device: str) -> None:
    node.path.write_text(checkpoint(device))
    node.pods = {device: "team/theirs"}
    await node.neighbours.look()
    assert node.neighbours.closing(A) == "pod team/theirs holds it by another device plugin"
    assert node.neighbours.closing(B) is None
    await node.neighbours.check([B])
    with pytest.raises(errors.TemporaryError, match="GPU-a: pod team/theirs holds it"):
        await node.neighbours.check([B, A])


async def test_what_a_look_saw_that_began_earlier_and_ends_later_does_not_stand(node: Node) -> None:
    node.path.write_text(checkpoint(A))
    node.answers.clear()
    async with asyncio.TaskGroup() as group:
        group.create_task(node.neighbours.look())
        await node.called.wait()
        node.pods = {A: "team/theirs"}
        later = group.create_task(node.neighbours.look())
        await asyncio.wait({later}, timeout=0.05)
        node.answers.set()
    assert node.neighbours.closing(A) is not None


async def test_a_gpu_is_free_again_once_its_pod_has_ended_though_the_checkpoint_still_names_it(node: Node) -> None:
    node.path.write_text(checkpoint(A))
    await node.neighbours.check([A])
    assert node.asked == 1


@pytest.mark.parametrize("text", ["", "[]", '{"Data":{}}', checkpoint(A).replace('{"-1": ', '{"-1": 7, "x": ')])
async def test_a_checkpoint_that_is_not_kubelets_lets_nothing_new_start(node: Node, text: str) -> None:
    node.path.write_text(text)
    with pytest.raises(errors.TemporaryError, match="checkpoint is not readable"):
        await node.neighbours.check([A])


def test_pods_with_other_plugins_devices_are_read_of_kubelets_answer() -> None:
    theirs = messages.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=[A])
    ours = messages.ContainerDevices(resource_name="cotenant.dev/gpu-share", device_ids=["t1"])
    container = messages.ContainerResources(name="main", devices=[theirs, ours])
    answer = messages.ListPodResourcesResponse(
        pod_resources=[messages.PodResources(name="theirs", namespace="team", containers=[container])]
    )
    assert neighbours.holders(answer, NVIDIA_RESOURCES).pods == {A: "team/theirs"}
