"""A node's GPUs change while its agent works: one is new, or has other numbers than before."""

from collections.abc import Iterator
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
        file.unlink()
        file.mkdir()
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
