"""A node's GPUs change while its agent works: one is new, or has other numbers than before."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant_api.names import GPUModel
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.node.health import FILE
from cotenant_deviceplugin.simulated import gpus as simulated
from cotenant_deviceplugin.simulated import models
from deviceplugin import fakes
from node_kit import quick
from node_kit.whole_node import WholeNode, started


@pytest.fixture(name="folder")
def folder_fixture() -> Iterator[Path]:
    with quick.folder() as path:
        yield path


def add_gpu(node: WholeNode) -> None:
    """One more GPU is there than before."""
    count = len(node.gpus.listed) + 1
    node.gpus.listed = simulated.devices(fakes.NODE, model=models.MODELS[GPUModel("Tesla-T4")], count=count)
    new = node.gpus.listed[-1].uuid
    node.gpus.states[new], node.gpus.processes[new] = hardware.Readings(), {}
    node.write_base_specification()


async def test_a_new_gpu_whose_health_cannot_be_read_takes_nothing_from_the_others(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = WholeNode(folder)
    async with node.offering() as agent:
        file = folder / "state" / FILE
        kept = file.read_text()
        make_a_folder_of(file)
        add_gpu(node)
        await quick.until(lambda: f"driver: {file}: Is a directory" in caplog.text)
        await started(node, node.bind(gpus=(0,)))
        assert node.condition() == ("True", "AgentReady")
        assert agent.suspended() is None
        assert len(agent.devices) == 2
        file.rmdir()
        file.write_text(kept)
        await node.kubelet.has_tokens(300)
        assert "a fault of the agent" not in caplog.text


def make_a_folder_of(file: Path) -> None:
    """Put a folder where a file was, which the agent may be writing meanwhile."""
    while not file.is_dir():
        file.unlink(missing_ok=True)
        with contextlib.suppress(FileExistsError):
            file.mkdir()


async def names_of(node: WholeNode, number: int, gpu: int) -> tuple[str, ...]:
    """What kubelet has the container of a pod started with, whose GPU is given by its place in the list."""
    pod = node.bind(number, gpus=(gpu,))
    await started(node, pod)
    return await node.kubelet.start(pod)


def resolves(node: WholeNode, names: tuple[str, ...]) -> bool:
    """Return whether the runtime can start a container with these names, whatever kubelet asks before."""
    try:
        node.specification(names)
    except KeyError:
        return False
    return True


async def test_a_container_cannot_start_with_the_number_that_its_gpu_had(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering():
        names = await names_of(node, 1, 0)
        first, second = node.gpus.listed
        node.gpus.listed = (replace(second, index=0, minor=0), replace(first, index=1, minor=1))
        node.write_base_specification()
        await quick.until(lambda: not resolves(node, names))
        (pod,) = node.kubelet.pods.values()
        await started(node, pod)
        assert node.specification(names)["deviceNodes"] == [{"path": "/dev/nvidia1"}]


async def test_an_agent_that_starts_takes_back_what_may_give_another_gpu_before_kubelet_is_there(folder: Path) -> None:
    node = WholeNode(folder, gpus=3)
    async with node.offering():
        moved, lost, same = [await names_of(node, number, number) for number in range(3)]
    first, _, third = node.gpus.listed
    node.gpus.listed = (replace(first, minor=1), third)
    async with node.agent():
        await quick.until(lambda: not resolves(node, moved) and not resolves(node, lost))
        assert resolves(node, same)
